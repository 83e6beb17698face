"use strict";
// Charts, drawn by Plotly. Each is described once and redrawn when the page's colours change.

const FEW_NODES = 40;
const NARROW = 480;
const LETTER = 6.4; // pixels of a letter of an axis' title, on average
const charts = [];

// Plotly interprets some tags in text; a name must not be taken for one.
function plotText(text) {
  return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
}

// title: the label of the y axis, above the chart where it is easy to read; describe(narrow): traces and layout.
function addChart(place, title, summary, describe, height = 270) {
  const box = element("div", { className: "chart", role: "img", "aria-label": summary });
  place.append(element("div", { className: "chart-box" }, element("p", { className: "chart-title", text: title }), box));
  keepChart(box, describe, height);
}

function keepChart(box, describe, height) {
  const chart = { box, describe, height };
  charts.push(chart);
  // Not before the charts beside it are in place: alone in a row, it would take the width of two.
  queueMicrotask(() => {
    drawChart(chart);
    if (chart.nodes) box.on("plotly_click", (event) => goToNode(chart.nodes[event.points[0].pointIndex]));
  });
}

function drawChart({ box, describe, height }) {
  const { traces, layout } = describe(isNarrow(box));
  Plotly.react(box, traces, withTheme(layout, height, box), { responsive: true, displayModeBar: false, doubleClick: "reset" });
}

function redrawCharts() {
  charts.forEach(drawChart);
  const open = byId("card").querySelector(".chart");
  if (open && page.node !== null) drawNodeCurves(open, page.data, page.node);
}

function withTheme(layout, height, box) {
  // A printer does not wait for a chart to notice its new width.
  const width = document.documentElement.classList.contains("printing") ? box.clientWidth : undefined;
  const axis = (given = {}) => ({ gridcolor: cssColour("--line"), zerolinecolor: cssColour("--line"), linecolor: cssColour("--line"), automargin: true, exponentformat: "power", ...given });
  return {
    height,
    width,
    margin: { l: 48, r: 16, t: 10, b: 44 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: cssColour("--ink"), size: 12, family: "system-ui, sans-serif" },
    hoverlabel: { bgcolor: cssColour("--panel"), bordercolor: cssColour("--line"), font: { color: cssColour("--ink") } },
    showlegend: false,
    legend: { orientation: "h", y: -0.28, x: 0 },
    ...layout,
    xaxis: { ...axis(layout.xaxis), title: wrapped(layout.xaxis.title, box) },
    yaxis: axis(layout.yaxis),
  };
}

// names: the pixels that the labels of the other axis take.
function titled(text, names = 40) {
  return { text, names };
}

// The title of an axis, on as many lines as the chart's width asks for.
function wrapped({ text, names }, box) {
  const width = box.clientWidth - names - 40;
  const lines = [""];
  for (const word of text.split(" ")) {
    const last = lines[lines.length - 1];
    if (last && LETTER * (last.length + word.length + 1) > width) lines.push(word);
    else lines[lines.length - 1] = last ? `${last} ${word}` : word;
  }
  return { text: lines.map(plotText).join("<br>"), standoff: 8 };
}

const isNarrow = (box) => box.clientWidth < NARROW;

// A logarithmic axis where values span more than a factor of 50.
function axisFor(values) {
  const known = values.filter((value) => value !== null);
  const [low, high] = ends(known);
  if (known.length && low > 0 && high / low > 50) return { type: "log", dtick: Math.ceil(Math.log10(high / low) / 5) };
  return { rangemode: low >= 0 ? "tozero" : "normal" };
}

function drawIntervals(data) {
  const found = data.intervals.filter((one) => one.low !== null);
  if (!found.length) return byId("intervals-figure").remove();
  const scale = data.measure.scale;
  const at = (k) => found.length - k;
  const name = (one, k) => ({ x: 0, xref: "paper", xanchor: "left", y: at(k), yshift: 20, text: one.name, showarrow: false, bgcolor: cssColour("--panel") });
  const describe = (narrow) => ({
    traces: found.map((one, k) => ({
      x: [scale * one.mean],
      y: [at(k)],
      error_x: { type: "data", symmetric: false, array: [scale * (one.high - one.mean)], arrayminus: [scale * (one.mean - one.low)], thickness: 3, width: 7 },
      mode: "markers",
      marker: { size: 11, symbol: "diamond", color: cssColour(k ? "--pooled" : "--together") },
      hoverinfo: "text",
      hovertext: `${number(scale * one.mean)} (${number(scale * one.low)} to ${number(scale * one.high)})`,
    })),
    layout: {
      margin: { l: 10, r: 16, t: narrow ? 18 : 4, b: 44 },
      annotations: narrow ? found.map(name) : [],
      xaxis: { title: titled(data.labels.saved, narrow ? 0 : 170), zeroline: true, zerolinecolor: cssColour("--ink"), zerolinewidth: 1.5, rangemode: "tozero" },
      yaxis: { tickvals: found.map((_, k) => at(k)), ticktext: found.map((one) => one.name), showticklabels: !narrow, range: [0.4, found.length + 0.6], showgrid: false, fixedrange: true },
    },
  });
  keepChart(byId("intervals-chart"), describe, 78 + 44 * found.length);
}

function drawGains(data) {
  const { nodes } = data;
  const place = byId("gains-charts");
  if (!nodes.gain) return place.remove();
  const tested = nodes.name.map((_, node) => node).filter((node) => nodes.gain[node] !== null);
  if (!tested.length) return place.remove();
  tested.sort((a, b) => nodes.gain[a] - nodes.gain[b]);
  if (tested.length <= FEW_NODES) return drawDumbbells(data, place, tested);
  drawScatter(data, place, tested);
  drawRanked(data, place, tested);
}

// A click on a point of the last chart goes to its node.
function clickable(nodesShown) {
  charts[charts.length - 1].nodes = nodesShown;
}

function nodeText(data, node) {
  const { nodes } = data;
  const pooled = nodes.pooled ? `, pooled ${errorText(data, nodes.pooled[node])}` : "";  // a federation has none
  return `${plotText(shortName(nodes.name[node]))}<br>${plotText(nodes.model[node])}<br>alone ${errorText(data, nodes.alone[node])}${pooled}<br>together ${errorText(data, nodes.together[node])} (${gainText(nodes.gain[node])})`;
}

function drawDumbbells(data, place, tested) {
  const { nodes } = data;
  const scale = data.measure.scale;
  const at = tested.map((_, k) => k);
  const dots = (name, way, colour, symbol, size) => ({
    name, x: tested.map((node) => scale * nodes[way][node]), y: at, mode: "markers",
    marker: { color: cssColour(colour), symbol, size, line: { width: symbol === "line-ns" ? 2.5 : 0, color: cssColour(colour) } },
    hoverinfo: "text", hovertext: tested.map((node) => nodeText(data, node)),
  });
  const links = () => ({ x: tested.flatMap((node) => [scale * nodes.alone[node], scale * nodes.together[node], null]), y: at.flatMap((k) => [k, k, null]), mode: "lines", line: { color: cssColour("--line"), width: 4 }, hoverinfo: "skip", showlegend: false });
  const label = (node, narrow) => plotText(narrow ? shortName(nodes.name[node], 16) : `${shortName(nodes.name[node])} (${nodes.model[node]})`);
  const describe = (narrow) => ({
    traces: [links(), ...(nodes.pooled ? [dots("pooled", "pooled", "--pooled", "line-ns", 12)] : []), dots("alone", "alone", "--alone", "circle", 10), dots("together", "together", "--together", "diamond", 10)],
    layout: {
      showlegend: true,
      legend: { orientation: "h", y: 1, yanchor: "bottom", x: 0 },
      margin: { l: 48, r: 16, t: 34, b: 44 },
      xaxis: { title: titled(data.labels.error, narrow ? 120 : 300), rangemode: "tozero" },
      yaxis: { tickvals: at, ticktext: tested.map((node) => label(node, narrow)), range: [-0.7, tested.length - 0.3], fixedrange: true, showgrid: false, zeroline: false },
    },
  });
  addChart(place, "Each node, largest gain on top", `Error of each node alone${nodes.pooled ? ", pooled" : ""} and together; the table below has the numbers`, describe, 110 + 24 * tested.length);
  clickable(tested);
}

function drawScatter(data, place, tested) {
  const { nodes } = data;
  const scale = data.measure.scale;
  const x = tested.map((node) => scale * nodes.alone[node]);
  const y = tested.map((node) => scale * nodes.together[node]);
  const top = 1.05 * Math.max(ends(x)[1], ends(y)[1]) || 1;
  const describe = () => ({
    traces: [
      { x, y, mode: "markers", marker: { color: cssColour("--together"), size: tested.length > 500 ? 5 : 7, opacity: 0.6 }, hoverinfo: "text", hovertext: tested.map((node) => nodeText(data, node)) },
      { x: [0, top], y: [0, top], mode: "lines", line: { color: cssColour("--quiet"), width: 1, dash: "dash" }, hoverinfo: "skip" },
    ],
    layout: {
      xaxis: { title: titled(`alone: ${data.labels.error}`), range: [0, top], zeroline: false },
      yaxis: { range: [0, top], zeroline: false },
    },
  });
  addChart(place, `Together: ${data.labels.error}. Below the line: better than alone`, "Error alone against error together, one point per node; the table below has the numbers", describe, 380);
  clickable(tested);
}

function drawRanked(data, place, tested) {
  const { nodes } = data;
  const ranked = [...tested].reverse();
  const [low, high] = ends(ranked.map((node) => nodes.gain[node]));
  const least = Math.max(-100, low);
  const gains = ranked.map((node) => Math.max(nodes.gain[node], 1.1 * least));
  const side = (sign, colour) => ({
    x: ranked.map((_, k) => k + 1), y: gains.map((gain) => (sign * gain >= 0 ? gain : 0)), mode: "lines", fill: "tozeroy",
    line: { shape: "hvh", width: 1, color: cssColour(colour) }, fillcolor: cssColour(colour), hoveron: "points",
    hoverinfo: "text", hovertext: ranked.map((node, k) => (sign * gains[k] >= 0 ? nodeText(data, node) : "")),
  });
  const describe = () => ({
    traces: [side(1, "--together"), side(-1, "--bad")],
    layout: {
      hovermode: "closest",
      xaxis: { title: titled("nodes by rank, largest gain first"), range: [0.5, ranked.length + 0.5] },
      yaxis: { range: [Math.min(0, 1.1 * least), Math.max(1, 1.08 * high)], zerolinecolor: cssColour("--ink") },
    },
  });
  const clipped = low < least ? "; larger losses are cut off at −100 %" : "";
  addChart(place, data.labels.gain[0].toUpperCase() + data.labels.gain.slice(1) + clipped, "Gain of every node, largest first; the table below has the numbers", describe, 380);
  clickable(ranked);
}

function roundTraces(rounds, values, colour) {
  return [{ x: rounds, y: values, mode: rounds.length > 40 ? "lines" : "lines+markers", line: { color: colour, width: 2 }, marker: { size: 6 }, hovertemplate: "round %{x}: %{y:.4g}<extra></extra>" }];
}

function keptLine(data, rounds) {
  if (data.kept >= rounds[rounds.length - 1]) return {};
  const shapes = [{ type: "line", x0: data.kept, x1: data.kept, y0: 0, y1: 1, yref: "paper", line: { color: cssColour("--quiet"), dash: "dot", width: 1.5 } }];
  return { shapes, annotations: [{ x: data.kept, y: 1, yref: "paper", text: "kept", showarrow: false, xanchor: "left", yanchor: "top", xshift: 4 }] };
}

function drawRounds(data) {
  const { round } = data.rounds;
  const place = byId("rounds-charts");
  for (const [name, label, colour] of CURVES) {
    const values = data.rounds[name];
    if (!values.some((value) => value !== null)) continue;
    const describe = () => ({
      traces: roundTraces(round, values, cssColour(colour)),
      layout: { xaxis: { title: titled(data.labels.round), ...wholeRounds(round) }, yaxis: axisFor(values), ...keptLine(data, round) },
    });
    const log = axisFor(values).type === "log" ? ", log scale" : "";
    const title = data.labels[label];
    addChart(place, title[0].toUpperCase() + title.slice(1) + log, `${title}, by round`, describe);
  }
}

function wholeRounds(rounds) {
  const last = rounds[rounds.length - 1];
  return last <= 10 ? { dtick: 1 } : {};
}

function drawChoice(data) {
  const { candidates } = data;
  if (!candidates.length) return [byId("choice-charts"), byId("choice-table")].forEach((place) => place.remove());
  drawAlphas(data, candidates);
  if (candidates[0].round.length > 2) drawTrials(data, candidates);
  fillChoices(byId("choice-table"), candidates);
}

const ONE_MODEL = 1e9; // the alpha that stands for one model for all
const alphaText = (alpha) => (alpha >= ONE_MODEL ? "one model" : String(Number(alpha.toPrecision(3))));

function drawAlphas(data, candidates) {
  const alphas = [...new Set(candidates.map((one) => one.alpha))].sort((a, b) => a - b);
  const wirings = [...new Set(candidates.map((one) => one.wiring))];
  const place = (one) => alphas.indexOf(one.alpha);
  const colours = ["--together", "--alone", "--bad", "--quiet"];
  const describe = () => {
    const traces = wirings.map((wiring, k) => {
      const own = candidates.filter((one) => one.wiring === wiring).sort((a, b) => a.alpha - b.alpha);
      return { name: plotText(`${wiring} graph`), x: own.map(place), y: own.map((one) => one.best), mode: "lines+markers", line: { color: cssColour(colours[k % 4]), dash: k ? "dash" : "solid", width: 2 }, marker: { size: 7 }, hovertemplate: "%{y:.4g}<extra></extra>" };
    });
    const taken = candidates.filter((one) => one.chosen);
    traces.push({ name: "chosen", x: taken.map(place), y: taken.map((one) => one.best), mode: "markers", marker: { size: 17, symbol: "circle-open", color: cssColour("--ink"), line: { width: 2 } }, hoverinfo: "skip" });
    const values = candidates.map((one) => one.best);
    return { traces, layout: { showlegend: true, legend: { orientation: "h", y: 1, yanchor: "bottom", x: 0 }, margin: { l: 48, r: 16, t: 34, b: 44 }, xaxis: { title: titled(`${data.labels.alpha}; 0: each node alone`), tickvals: alphas.map((_, k) => k), ticktext: alphas.map(alphaText), range: [-0.4, alphas.length - 0.6] }, yaxis: { ...axisFor(values), rangemode: "normal" } } };
  };
  const log = axisFor(candidates.map((one) => one.best)).type === "log" ? ", log scale" : "";
  addChart(byId("choice-charts"), `Lowest ${data.labels.validation} over the rounds${log}`, "Validation loss by alpha; the table below has the numbers", describe, 320);
}

function drawTrials(data, candidates) {
  const positive = [...new Set(candidates.map((one) => one.alpha))].sort((a, b) => a - b);
  const shade = (one) => (one.chosen ? cssColour("--ink") : sequential(0.9 * (positive.indexOf(one.alpha) / Math.max(1, positive.length - 1))));
  const values = candidates.flatMap((one) => one.loss);
  const describe = () => ({
    traces: candidates.map((one) => ({ name: plotText(`${one.wiring}, alpha ${alphaText(one.alpha)}`), x: one.round, y: one.loss, mode: "lines", line: { color: shade(one), width: one.chosen ? 3.5 : 1.5, dash: one.wiring.startsWith("fixed") ? "solid" : "dash" }, hovertemplate: `${plotText(one.wiring)}, alpha ${alphaText(one.alpha)}<br>round %{x}: %{y:.4g}<extra></extra>` })),
    layout: { xaxis: { title: titled(data.labels.round), ...wholeRounds(candidates[0].round) }, yaxis: { ...axisFor(values), rangemode: "normal" }, margin: { l: 48, r: 16, t: 34, b: 44 } },
  });
  const dashes = candidates.some((one) => !one.wiring.startsWith("fixed")) ? "; dashed: rewired" : "";
  const log = axisFor(values).type === "log" ? ", log scale" : "";
  addChart(byId("choice-charts"), `Candidates by round: ${data.labels.validation}${log}. Thick: chosen; lighter: larger alpha${dashes}`, "Validation loss of every candidate by round; the table below has the numbers", describe, 320);
}

function fillChoices(place, candidates) {
  const heads = ["wiring", "alpha", "loss after the last round", "lowest loss", "in round", ""];
  const head = element("tr", {}, ...heads.map((text, k) => element("th", { text, scope: "col", className: k && k < 5 ? "number" : "" })));
  const lines = candidates.map((one) => {
    const cells = [one.wiring, alphaText(one.alpha), number(one.last), number(one.best), String(one.bestRound), one.chosen ? "chosen" : ""];
    return element("tr", { className: one.chosen ? "chosen" : "" }, ...cells.map((text, k) => element("td", { text, className: k && k < 5 ? "number" : "" })));
  });
  place.replaceChildren(element("table", {}, element("thead", {}, head), element("tbody", {}, ...lines)));
}

function drawNodeCurves(place, data, node) {
  const { round } = data.curves;
  const parts = curvesOf(data, node).map(({ label, values, colour }) => {
    const box = element("div", { className: "chart", role: "img", "aria-label": `${label}, by round` });
    const log = axisFor(values).type === "log" ? ", log scale" : "";
    const traces = roundTraces(round, values, cssColour(colour));
    const layout = { margin: { l: 40, r: 8, t: 4, b: 36 }, xaxis: { title: titled("round"), ...wholeRounds(round) }, yaxis: { ...axisFor(values), nticks: 4 } };
    return { part: element("div", {}, element("p", { className: "quiet", text: label + log }), box), box, traces, layout };
  });
  place.replaceChildren(...parts.map(({ part }) => part));
  for (const { box, traces, layout } of parts) Plotly.react(box, traces, withTheme(layout, 140, box), { responsive: true, displayModeBar: false });
}

matchMedia("(max-width: 560px)").addEventListener("change", redrawCharts);
drawIntervals(page.data);
drawGains(page.data);
drawRounds(page.data);
drawChoice(page.data);
