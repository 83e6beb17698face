"use strict";
// The live page: events from the run update the words, the grid and the curves.

const byId = (id) => document.getElementById(id);
const live = { labels: JSON.parse(byId("labels").textContent), network: null, numbers: null, grid: null, shown: "", updates: 0, moving: 0, asked: false };

const SHORT = { validation: "validation loss", loss: "loss on own rows", disagreement: "disagreement" };

// What nodes can be coloured by: name -> [text of the choice, scale]. Reductions are against alone.
function scales() {
  const found = new Map();
  const values = live.numbers && live.numbers.values;
  if (!values) return found;
  if (values.validation) found.set("gain", ["by reduction in validation loss", scaleByGain(values.validation.fall, "reduction in validation loss against alone (%)", gainText)]);
  for (const name of ["validation", "disagreement", "loss"]) {
    if (values[name]) found.set(name, [`by ${SHORT[name]}`, scaleBetween(values[name], live.labels[name])]);
  }
  found.set("fall", ["by reduction in loss on own rows", scaleByGain(values.loss.fall, "reduction in loss on own rows against alone (%)", gainText)]);
  return found;
}

// The ends stay those of the first round, or grow, so that colours can be compared over rounds.
function scaleBetween({ now, range }, text) {
  const log = isSpread(range);
  const [low, high] = log ? range.map(Math.log) : range;
  const place = (value) => (log ? Math.log(Math.max(value, range[0])) : value);
  const share = (value) => (high > low ? (place(value) - low) / (high - low) : 0.5);
  const middle = log ? Math.exp((low + high) / 2) : (low + high) / 2;
  return {
    label: text + (log ? ", log scale" : ""),
    colour: (node) => (now[node] === null ? null : sequential(share(now[node]))),
    ramp: () => [0, 0.25, 0.5, 0.75, 1].map(sequential),
    ends: [range[0], middle, range[1]].map(number),
  };
}

function chosenScale() {
  const found = scales();
  const names = [...found.keys()];
  if (names.join() !== live.shown) {
    const before = byId("grid-colour").value;
    live.shown = names.join();
    byId("colour-choice").hidden = names.length === 0;
    byId("grid-colour").replaceChildren(...names.map((name) => element("option", { text: found.get(name)[0], value: name })));
    if (found.has(before)) byId("grid-colour").value = before;
  }
  const chosen = found.get(byId("grid-colour").value);
  return chosen ? chosen[1] : { label: "no round yet", colour: () => cssColour("--neutral"), items: [] };
}

function drawGrid() {
  if (!live.network || live.network.many) return;
  const scale = chosenScale();
  const edges = { kept: true, dropped: byId("show-dropped").checked, by: "weight" };
  const options = { colour: scale.colour, ...edges };
  if (!live.grid) live.grid = createGrid(byId("grid-canvas"), live.network, { ...options, select: () => {}, hover: showTip });
  else live.grid.set(options);
  fillLegend(byId("legend"), live.network, scale, edges);
}

function takeNetwork(fresh) {
  fresh.labels = live.labels;
  const before = live.network;
  live.network = fresh;
  if (fresh.many) {
    byId("grid-section").replaceChildren(element("p", { className: "quiet", text: `${number(fresh.many)} nodes are too many to draw here; the report will show them.` }));
    return;
  }
  const { total, kept } = fresh.edges;
  byId("edge-count").textContent = `${kept.toLocaleString("en")} edges in use${total > kept ? `, ${(total - kept).toLocaleString("en")} dropped` : ""}`;
  if (live.grid && before && before.nodes.name.length === fresh.nodes.name.length) moveNodes(before.nodes, fresh);
  else if (live.grid) live.grid.update(fresh);
  drawGrid();
}

// Nodes glide to their new places, so that the eye can follow them.
function moveNodes(from, fresh) {
  cancelAnimationFrame(live.moving);
  const still = from.x.every((x, k) => x === fresh.nodes.x[k] && from.y[k] === fresh.nodes.y[k]);
  if (still || window.matchMedia("(prefers-reduced-motion: reduce)").matches) return live.grid.update(fresh);
  const start = performance.now();
  const step = (time) => {
    const share = Math.min(1, Math.max(0, (time - start) / 500));
    const eased = share * share * (3 - 2 * share);
    const between = (axis) => fresh.nodes[axis].map((value, k) => from[axis][k] + eased * (value - from[axis][k]));
    live.grid.update({ ...fresh, nodes: { ...fresh.nodes, x: between("x"), y: between("y") } });
    if (share < 1) live.moving = requestAnimationFrame(step);
  };
  live.moving = requestAnimationFrame(step);
}

function takeNumbers(fresh) {
  live.numbers = fresh;
  live.updates += 1;
  if (!fresh.stopping) live.asked = false;
  sayWhere(fresh.words);
  byId("progress").max = Math.max(fresh.total, 1);
  byId("progress").value = fresh.done;
  nameStop();
  drawGrid();
  if (fresh.curves.round.length) drawCurves(byId("curves"), fresh.curves, live.labels, fresh.over ? 0 : fresh.total);
}

function sayWhere(words, lost = false) {
  byId("words").textContent = words;
  byId("words").classList.toggle("lost", lost);
  document.title = `${words} fedrelax`;
}

function nameStop() {
  const { stoppable, stopping, over, round } = live.numbers;
  byId("stop").disabled = !stoppable || stopping || live.asked;
  byId("stop").textContent = stopping || live.asked ? "Stopping after this round" : "Stop after this round";
  let hint = "Stopping keeps the models of the last complete round. Closing this page does not affect the run.";
  if (over) hint = "The run has ended; this page stays as it is until you close it.";
  else if (!stoppable && round === null) hint = "It can be stopped once the rounds have begun; until then, Ctrl-C in the terminal ends it and keeps nothing.";
  byId("hint").textContent = hint;
}

function showTip(node, x, y) {
  placeTip(byId("tip"), byId("grid-frame"), node === null ? null : tipLines(node), x, y);
}

function tipLines(node) {
  const { nodes } = live.network;
  const lines = [nodes.name[node] || "(no name)"];
  for (const [name, value] of Object.entries((live.numbers && live.numbers.values) || {})) {
    if (value.now[node] !== null) lines.push(`${SHORT[name]} ${number(value.now[node])}`);
  }
  return lines;
}

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  nameTheme(byId("theme"), name);
  drawGrid();
}

function listenToRun() {
  const source = new EventSource(`events${location.search}`);
  source.addEventListener("network", (event) => takeNetwork(JSON.parse(event.data)));
  source.addEventListener("numbers", (event) => {
    takeNumbers(JSON.parse(event.data));
    if (live.numbers.over) source.close();
  });
  source.addEventListener("error", () => {
    byId("stop").disabled = true;
    sayWhere("No connection to the run: it has ended, or its command was stopped.", true);
  });
}

byId("stop").addEventListener("click", async () => {
  live.asked = true;
  nameStop();
  try {
    const token = new URLSearchParams(location.search).get("token");
    const answer = await fetch("stop", { method: "POST", headers: { Authorization: `Bearer ${token}` } });
    if (!answer.ok) live.asked = false;
  } catch { live.asked = false; }
  nameStop();
});
for (const id of ["grid-colour", "show-dropped"]) byId(id).addEventListener("change", drawGrid);
byId("zoom-in").addEventListener("click", () => live.grid && live.grid.zoom(1.4));
byId("zoom-out").addEventListener("click", () => live.grid && live.grid.zoom(1 / 1.4));
byId("zoom-reset").addEventListener("click", () => live.grid && live.grid.reset());
byId("theme").addEventListener("click", () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
prefersDark.addEventListener("change", () => setTheme(prefersDark.matches ? "dark" : "light"));
setTheme(document.documentElement.dataset.theme);
listenToRun();
