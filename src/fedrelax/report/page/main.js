"use strict";
// Puts the parts of the page together. Charts come later, when their library has been read.

const page = { data: JSON.parse(document.getElementById("data").textContent), node: null };
const byId = (id) => document.getElementById(id);

function nodeColumns(data, go) {
  const { nodes } = data;
  const column = (title, name, text, more = {}) => ({ title, numeric: true, value: (row) => nodes[name][row], text: (row) => text(nodes[name][row]), ...more });
  const error = (value) => errorText(data, value);
  const tone = (row) => (nodes.gain[row] > 0 ? "good-text" : nodes.gain[row] < 0 ? "bad-text" : "");
  const found = [
    column("node", "name", (name) => name || "(no name)", { numeric: false, searched: true, action: go }),
    column("model", "model", (name) => name ?? "–", { numeric: false, searched: true }),
  ];
  if (nodes.cluster) found.push(column("group", "cluster", number));
  if (nodes.rows) found.push(column("rows", "rows", number));
  if (nodes.test) found.push(column("test rows", "test", number));
  if (!nodes.gain) return found;
  for (const way of ["alone", "pooled", "together"]) found.push(column(way, way, error));
  return [...found, column("gain", "gain", gainText, { tone })];
}

function sentColumns(data) {
  const { nodes } = data;
  const column = (title, value, text = number) => ({ title, numeric: true, value, text: (row) => text(value(row)) });
  return [
    { title: "node", value: (row) => nodes.name[row], text: (row) => nodes.name[row] || "(no name)", searched: true },
    column("rows and labels sent", () => 0),
    column("neighbours", (row) => nodes.neighbours[row]),
    column("predictions sent", (row) => nodes.sent[row] / 8),
    column("size", (row) => nodes.sent[row], sizeText),
    { title: "noise", value: () => "none", text: () => "none" },
  ];
}

function makeTables(data) {
  const rows = data.nodes.name.map((_, row) => row).filter((row) => data.nodes.model[row] !== null);
  const columns = nodeColumns(data, goToNode);
  const counted = (place) => (found, all) => { byId(place).textContent = found === all ? `${all.toLocaleString("en")} nodes` : `${found.toLocaleString("en")} of ${all.toLocaleString("en")} nodes`; };
  const last = columns.length - 1;
  const start = data.nodes.gain ? { by: last, down: true } : { by: 0 };
  connectSearch(byId("node-search"), createTable(byId("node-table"), columns, rows, { ...start, counted: counted("node-count") }));
  connectSearch(byId("sent-search"), createTable(byId("sent-table"), sentColumns(data), rows, { by: 4, down: true, counted: counted("sent-count") }));
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
  const tip = byId("tip");
  tip.hidden = node === null;
  if (node === null) return;
  const { nodes } = page.data;
  const lines = [nodes.name[node] || "(no name)", nodes.model[node] ?? "no model"];
  if (nodes.rows && nodes.rows[node] !== null) lines.push(`${number(nodes.rows[node])} training rows`);
  if (nodes.gain && nodes.alone[node] !== null) lines.push(`error ${errorText(page.data, nodes.alone[node])} alone, ${errorText(page.data, nodes.together[node])} together`, `gain ${gainText(nodes.gain[node])}`);
  tip.textContent = lines.join("\n");
  const frame = byId("grid-frame");
  const left = x + 16 + tip.offsetWidth > frame.clientWidth ? x - 16 - tip.offsetWidth : x + 16;
  const top = Math.min(y + 12, frame.clientHeight - tip.offsetHeight - 4);
  Object.assign(tip.style, { left: `${Math.max(4, left)}px`, top: `${Math.max(4, top)}px` });
}

function nameTheme(name) {
  byId("theme").textContent = name === "dark" ? "Light" : "Dark";
  byId("theme").setAttribute("aria-label", `Switch to ${name === "dark" ? "light" : "dark"} colours`);
}

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  nameTheme(name);
  page.grid.redraw();
  if (typeof redrawCharts === "function") redrawCharts();
}

function makeTheme() {
  const present = () => document.documentElement.dataset.theme;
  byId("theme").addEventListener("click", () => setTheme(present() === "dark" ? "light" : "dark"));
  prefersDark.addEventListener("change", () => setTheme(prefersDark.matches ? "dark" : "light"));
  nameTheme(present());
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

nameEdges(page.data);
page.grid = makeGrid(page.data);
makeFinder(page.data);
makeTables(page.data);
makeTheme();
makePrinting();
chooseNode(null);
