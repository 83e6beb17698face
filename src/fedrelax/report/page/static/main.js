"use strict";
// Puts the parts of the page together. Charts come later, when their library is loaded.

const page = { data: JSON.parse(document.getElementById("data").textContent), node: null };
const byId = (id) => document.getElementById(id);

// An error that grew from 0 has no percentage: it counts as the largest loss.
function completeGains({ nodes }) {
  if (nodes.gain) nodes.gain = nodes.gain.map((gain, node) => gain ?? (nodes.together[node] > nodes.alone[node] ? -Infinity : null));
}

// The columns of the table of nodes as data.table lists them: [key, title, kind].
function tableColumns(data, go) {
  const { nodes } = data;
  const text = { name: (value) => value || "(no name)", text: (value) => value ?? "–", count: number, error: (value) => errorText(data, value), gain: gainText };
  const tone = (row) => (nodes.gain[row] > 0 ? "good-text" : nodes.gain[row] < 0 ? "bad-text" : "");
  return data.table.map(([key, title, kind]) => {
    const words = kind === "name" || kind === "text";
    const column = { title, numeric: !words, searched: words, value: (row) => nodes[key][row], text: (row) => text[kind](nodes[key][row]) };
    return { ...column, key, ...(kind === "name" ? { action: go } : {}), ...(kind === "gain" ? { tone } : {}) };
  });
}

function makeTables(data) {
  const rows = data.nodes.name.map((_, row) => row).filter((row) => data.nodes.model[row] !== null);
  const counted = (place) => (found, all) => { byId(place).textContent = found === all ? `${all.toLocaleString("en")} nodes` : `${found.toLocaleString("en")} of ${all.toLocaleString("en")} nodes`; };
  const start = data.nodes.gain ? { by: data.table.findIndex(([key]) => key === "gain"), down: true } : { by: 0 };
  connectSearch(byId("node-search"), createTable(byId("node-table"), tableColumns(data, goToNode), rows, { ...start, counted: counted("node-count") }));
}

function colourScales(data) {
  const { nodes, labels } = data;
  const found = new Map();
  if (nodes.gain) {
    found.set("gain", scaleByGain(nodes.gain, labels.gain, gainText));
    found.set("error", scaleByNumber(nodes.together, `together: ${labels.error}`, (value) => errorText(data, value)));
  }
  if (nodes.cluster) found.set("group", scaleByCategory(nodes.cluster, "group found by the wiring (nodes)", (value) => `group ${value}`));
  found.set("model", scaleByCategory(nodes.model, "kind of model (nodes)", shortName));
  return found;
}

function makeGrid(data) {
  const scales = colourScales(data);
  byId("grid-colour").replaceChildren(...[...scales.keys()].map((name) => element("option", { text: `by ${name}`, value: name })));
  const chosen = () => scales.get(byId("grid-colour").value);
  const edges = () => ({ kept: byId("show-kept").checked, dropped: byId("show-dropped").checked, by: byId("grid-edges").value });
  const options = () => ({ colour: (node) => chosen().colour(node), ...edges() });
  const grid = createGrid(byId("grid-canvas"), data, { ...options(), select: chooseNode, hover: showTip });
  const redraw = () => { grid.set(options()); fillLegend(byId("legend"), data, chosen(), edges()); };
  for (const id of ["grid-colour", "grid-edges", "show-kept", "show-dropped"]) byId(id).addEventListener("change", redraw);
  byId("zoom-in").addEventListener("click", () => grid.zoom(1.4));
  byId("zoom-out").addEventListener("click", () => grid.zoom(1 / 1.4));
  byId("zoom-reset").addEventListener("click", () => grid.reset());
  fillLegend(byId("legend"), data, chosen(), edges());
  return { ...grid, redraw };
}

function nameEdges(data) {
  const { used, total, kept } = data.edges;
  const shown = used.length < total ? `, ${used.length.toLocaleString("en")} drawn` : "";
  byId("kept-name").textContent = `${data.wired ? "kept edges" : "edges"} (${kept.toLocaleString("en")}${shown})`;
  byId("dropped-name").textContent = `dropped edges (${(total - kept).toLocaleString("en")})`;
  byId("dropped-choice").hidden = total === kept;
}

function makeFinder(data) {
  const known = new Map(data.nodes.name.map((name, node) => [name, node]));
  byId("node-names").replaceChildren(...data.nodes.name.map((name) => element("option", { value: name })));
  const box = byId("grid-search");
  box.addEventListener("change", () => {
    const text = box.value.trim().toLowerCase();
    const exact = known.get(box.value);
    const near = data.nodes.name.findIndex((name) => name.toLowerCase().includes(text));
    const found = exact ?? near;
    if (text && found >= 0) goToNode(found, false);
  });
}

function chooseNode(node) {
  page.node = node;
  page.grid.choose(node);
  fillCard(byId("card"), page.data, node, {
    go: (other) => goToNode(other, false),
    close: () => chooseNode(null),
    curves: (place, which) => { if (typeof drawNodeCurves === "function") drawNodeCurves(place, page.data, which); },
  });
}

function goToNode(node, scroll = true) {
  if (scroll) byId("grid").scrollIntoView();
  chooseNode(node);
  page.grid.show(node);
}

function showTip(node, x, y) {
  const { nodes } = page.data;
  const lines = node === null ? null : [nodes.name[node] || "(no name)", nodes.model[node] ?? "no model"];
  if (lines && nodes.rows && nodes.rows[node] !== null) lines.push(`${number(nodes.rows[node])} training rows`);
  if (lines && nodes.gain && nodes.alone[node] !== null) lines.push(`error ${errorText(page.data, nodes.alone[node])} alone, ${errorText(page.data, nodes.together[node])} together`, `gain ${gainText(nodes.gain[node])}`);
  placeTip(byId("tip"), byId("grid-frame"), lines, x, y);
}

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  nameTheme(byId("theme"), name);
  page.grid.redraw();
  if (typeof redrawCharts === "function") redrawCharts();
}

function makeTheme() {
  const present = () => document.documentElement.dataset.theme;
  byId("theme").addEventListener("click", () => setTheme(present() === "dark" ? "light" : "dark"));
  prefersDark.addEventListener("change", () => setTheme(prefersDark.matches ? "dark" : "light"));
  nameTheme(byId("theme"), present());
}

// Paper is light and has a width of its own.
function makePrinting() {
  let before = "light";
  const lay = (theme) => {
    page.grid.resize();
    setTheme(theme);
  };
  window.addEventListener("beforeprint", () => {
    before = document.documentElement.dataset.theme;
    document.documentElement.classList.add("printing");
    lay("light");
  });
  window.addEventListener("afterprint", () => {
    document.documentElement.classList.remove("printing");
    lay(before);
  });
}

completeGains(page.data);
nameEdges(page.data);
page.grid = makeGrid(page.data);
makeFinder(page.data);
makeTables(page.data);
makeTheme();
makePrinting();
chooseNode(null);
