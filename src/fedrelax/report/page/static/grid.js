"use strict";
// The grid on a canvas. It knows nothing about the page around it:
//
//   const grid = createGrid(canvas, data, {colour, kept, dropped, by, select, hover});
//   grid.set({colour})     other colours or edges; the view stays
//   grid.update(data)      other numbers of the same network, as in a live run; the view stays
//   grid.choose(node)      mark a node (null: none); grid.show(node) also brings it into view
//   grid.zoom(factor), grid.reset(), grid.resize(), grid.draw(), grid.positionOf(node)
//
// data.nodes: {name, x, y, rows, place, unit}, places between -1 and 1; data.edges: {source, target,
// used, there, back}. options.colour(node) is a colour or null; select(node) and hover(node, x, y) are
// called on clicks and hovering. Edges are cached as an image, which is moved and scaled while the view
// moves, and redrawn when it rests.

const MARGIN = 34;
const REST = 90;
const MOST_NAMES = 40;

function createGrid(canvas, data, options) {
  const state = { data, options: { kept: true, dropped: false, by: "weight", ...options }, chosen: null, over: null };
  const view = { scale: 1, x: 0, y: 0, whole: 1 };
  const layer = { canvas: document.createElement("canvas"), scale: 0, x: 0, y: 0, styles: [], timer: 0 };
  const size = { width: 0, height: 0, ratio: 1 };
  let waiting = false;

  const at = (node) => [view.x + view.scale * state.data.nodes.x[node], view.y - view.scale * state.data.nodes.y[node]];

  function fit() {
    const { x, y } = state.data.nodes;
    const [left, right] = ends(x);
    const [low, high] = ends(y);
    const across = (size.width - 2 * MARGIN) / Math.max(right - left, 1e-9);
    const up = (size.height - 2 * MARGIN) / Math.max(high - low, 1e-9);
    view.scale = view.whole = Math.min(across, up, 1e6);
    view.x = size.width / 2 - (view.scale * (left + right)) / 2;
    view.y = size.height / 2 + (view.scale * (low + high)) / 2;
  }

  function resize() {
    const box = canvas.getBoundingClientRect();
    if (!box.width || !box.height) return;
    const ratio = window.devicePixelRatio || 1;
    if (box.width === size.width && box.height === size.height && ratio === size.ratio) return;
    Object.assign(size, { width: box.width, height: box.height, ratio });
    for (const one of [canvas, layer.canvas]) {
      one.width = Math.round(box.width * ratio);
      one.height = Math.round(box.height * ratio);
    }
    fit();
    restyle();
  }

  function restyle() {
    state.colours = state.data.nodes.name.map((_, node) => state.options.colour(node));
    layer.styles = edgeStyles(state.data.edges, state.options);
    drawLayer();
    paint();
  }

  function drawLayer() {
    const context = layer.canvas.getContext("2d");
    context.setTransform(size.ratio, 0, 0, size.ratio, 0, 0);
    context.clearRect(0, 0, size.width, size.height);
    paintEdges(context, state.data.edges, layer.styles, at);
    Object.assign(layer, { scale: view.scale, x: view.x, y: view.y });
  }

  function moved() {
    clearTimeout(layer.timer);
    layer.timer = setTimeout(() => { drawLayer(); draw(); }, REST);
    draw();
  }

  function draw() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; paint(); });
  }

  function paint() {
    const context = canvas.getContext("2d");
    context.setTransform(size.ratio, 0, 0, size.ratio, 0, 0);
    context.clearRect(0, 0, size.width, size.height);
    const grown = view.scale / layer.scale;
    context.drawImage(layer.canvas, view.x - layer.x * grown, view.y - layer.y * grown, size.width * grown, size.height * grown);
    if (state.chosen !== null) paintChosenEdges(context);
    const places = visible();
    const ring = cssColour("--ring");
    for (const [x, y, radius, node] of places) paintNode(context, x, y, radius, state.colours[node], ring);
    for (const node of [state.over, state.chosen]) {
      if (node !== null) paintRing(context, ...at(node), radiusOf(node) + 2, node === state.chosen ? 3 : 1.5);
    }
    if (places.length <= MOST_NAMES) paintNames(context, state.data.nodes.name, places, size.width, size.height);
    const { unit, place } = state.data.nodes;
    if (unit) paintScaleBar(context, unit / view.scale, place === "map" ? "km" : "", size.height);
  }

  function paintChosenEdges(context) {
    const edges = state.data.edges;
    const own = layer.styles.flatMap((style) => style.edges).filter((k) => edges.source[k] === state.chosen || edges.target[k] === state.chosen);
    const kept = own.filter((k) => edges.used[k] > 0);
    const dropped = own.filter((k) => !(edges.used[k] > 0));
    paintEdges(context, edges, [
      { edges: dropped, colour: "--dropped", width: 1.5, opacity: 0.9, dashed: true },
      { edges: kept, colour: "--marker", width: 1.5, opacity: 0.8 },
    ], at);
  }

  function radiusOf(node) {
    const { rows } = state.data.nodes;
    const usual = Math.min(15, Math.max(2.5, 0.55 * state.gap * view.whole));
    const share = rows && rows[node] !== null ? Math.sqrt(rows[node] / state.mostRows) : 0.5;
    return usual * (0.45 + 0.55 * share) * Math.min(2.5, Math.sqrt(view.scale / view.whole));
  }

  function measure() {
    const { rows, x, y } = state.data.nodes;
    state.mostRows = (rows || []).reduce((most, value) => Math.max(most, value ?? 0), 1);
    state.gap = usualGap(x, y);
  }

  function visible() {
    const found = [];
    for (let node = 0; node < state.data.nodes.name.length; node += 1) {
      const [x, y] = at(node);
      const radius = radiusOf(node);
      const inside = x > -radius && y > -radius && x < size.width + radius && y < size.height + radius;
      if (inside) found.push([x, y, radius, node]);
    }
    return found;
  }

  function nodeAt(x, y) {
    let best = null;
    let least = Infinity;
    for (let node = 0; node < state.data.nodes.name.length; node += 1) {
      const [u, v] = at(node);
      const far = Math.hypot(u - x, v - y) - radiusOf(node);
      if (far < 5 && far < least) [best, least] = [node, far];
    }
    return best;
  }

  function zoom(factor, x = size.width / 2, y = size.height / 2) {
    const scale = Math.min(view.whole * 60, Math.max(view.whole * 0.5, view.scale * factor));
    const grown = scale / view.scale;
    view.x = x - (x - view.x) * grown;
    view.y = y - (y - view.y) * grown;
    view.scale = scale;
    moved();
  }

  function move(dx, dy) {
    view.x += dx;
    view.y += dy;
    moved();
  }

  function choose(node) {
    state.chosen = node;
    draw();
  }

  function show(node) {
    choose(node);
    const [x, y] = at(node);
    const inside = x > MARGIN && y > MARGIN && x < size.width - MARGIN && y < size.height - MARGIN;
    if (!inside) move(size.width / 2 - x, size.height / 2 - y);
  }

  function reset() {
    fit();
    moved();
  }

  function point(node, x, y) {
    if (node !== state.over) draw();
    state.over = node;
    canvas.classList.toggle("over", node !== null);
    state.options.hover(node, x, y);
  }

  listen(canvas, { nodeAt, move, zoom, reset, point, select: (node) => state.options.select(node) });
  measure();
  new ResizeObserver(resize).observe(canvas);
  resize();

  return {
    set(changes) { Object.assign(state.options, changes); restyle(); },
    update(fresh) { state.data = fresh; measure(); restyle(); },
    positionOf: at,
    choose, show, zoom, reset, resize, draw: restyle,
  };
}

// The median distance from a node to the nearest other; with very many nodes, over a part of them.
function usualGap(x, y) {
  const gaps = [];
  const step = Math.ceil(x.length / 1000);
  for (let i = 0; i < x.length; i += step) {
    let least = Infinity;
    for (let j = 0; j < x.length; j += 1) if (j !== i) least = Math.min(least, (x[i] - x[j]) ** 2 + (y[i] - y[j]) ** 2);
    gaps.push(Math.sqrt(least));
  }
  return quantile(gaps.sort((a, b) => a - b), 0.5);
}

function ends(values) {
  const low = values.reduce((found, value) => Math.min(found, value), Infinity);
  return [low, values.reduce((found, value) => Math.max(found, value), -Infinity)];
}

// Mouse, finger and keys. A press that hardly moves is a click.
function listen(canvas, grid) {
  const drag = { on: false, x: 0, y: 0, far: 0 };
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  canvas.addEventListener("pointerdown", (event) => {
    [drag.x, drag.y] = place(event);
    Object.assign(drag, { on: true, far: 0 });
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = place(event);
    if (!drag.on) return grid.point(grid.nodeAt(x, y), x, y);
    drag.far += Math.hypot(x - drag.x, y - drag.y);
    if (drag.far > 4) {
      canvas.classList.add("dragging");
      grid.point(null, x, y);
      grid.move(x - drag.x, y - drag.y);
    }
    [drag.x, drag.y] = [x, y];
  });
  canvas.addEventListener("pointerup", (event) => {
    if (drag.on && drag.far <= 4) grid.select(grid.nodeAt(...place(event)));
    drag.on = false;
    canvas.classList.remove("dragging");
  });
  canvas.addEventListener("pointercancel", () => { drag.on = false; });
  canvas.addEventListener("pointerleave", () => grid.point(null, 0, 0));
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    grid.zoom(Math.exp(-event.deltaY / 300), ...place(event));
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };
    if (event.key in moves) grid.move(...moves[event.key]);
    else if (event.key === "+" || event.key === "=") grid.zoom(1.3);
    else if (event.key === "-") grid.zoom(1 / 1.3);
    else if (event.key === "0") grid.reset();
    else if (event.key === "Escape") grid.select(null);
    else return;
    event.preventDefault();
  });
}
