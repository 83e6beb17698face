"use strict";
// The strokes of the grid: edges by style, nodes, labels and the scale bar.

const WEIGHT_STEPS = 6;
const COLOUR_STEPS = 10;

// Edges of one style are drawn as one path: thousands of them then take only a few strokes.
function edgeStyles(edges, options) {
  const shown = [];
  for (let k = 0; k < edges.source.length; k += 1) {
    const kept = edges.used[k] > 0;
    if (kept ? options.kept : options.dropped) shown.push(k);
  }
  const faint = Math.min(0.55, Math.max(0.08, 10 / Math.sqrt(shown.length + 1)));
  const style = options.by === "discrepancy" ? byDiscrepancy(edges, faint) : byWeight(edges, faint);
  const styles = new Map();
  for (const k of shown) {
    const look = edges.used[k] > 0 ? style(k) : { key: "dropped", colour: "--dropped", width: 0.8, opacity: 0.7 * faint, dashed: true };
    if (!styles.has(look.key)) styles.set(look.key, { ...look, edges: [] });
    styles.get(look.key).edges.push(k);
  }
  return [...styles.values()].sort((a, b) => (a.key < b.key ? -1 : 1));
}

function byWeight(edges, faint) {
  const most = edges.used.reduce((high, value) => Math.max(high, value), 0) || 1;
  return (k) => {
    const step = Math.ceil((WEIGHT_STEPS * edges.used[k]) / most);
    const share = step / WEIGHT_STEPS;
    return { key: `weight ${step}`, colour: "--edge", width: 0.5 + 1.3 * share, opacity: faint * (0.35 + 0.65 * share) };
  };
}

function byDiscrepancy(edges, faint) {
  const rank = discrepancyScale(edges);
  return (k) => {
    const share = rank.share(k);
    if (share === null) return { key: "unknown", colour: "--edge", width: 0.8, opacity: faint };
    const step = Math.round(COLOUR_STEPS * share);
    return { key: `colour ${String(step).padStart(2, "0")}`, paint: sequential(step / COLOUR_STEPS), width: 1.2, opacity: Math.min(0.9, 1.6 * faint) };
  };
}

// Discrepancies span powers of ten, so colours follow their logarithm.
function discrepancyScale(edges) {
  const value = (k) => {
    const both = [edges.there[k], edges.back[k]].filter((part) => part !== null);
    return both.length ? both.reduce((sum, part) => sum + part, 0) / both.length : null;
  };
  const known = [];
  edges.source.forEach((_, k) => { if (value(k) > 0) known.push(value(k)); });
  known.sort((a, b) => a - b);
  const low = quantile(known, 0.02) || 1e-12;
  const high = Math.max(quantile(known, 0.98), low);
  const share = (k) => {
    const found = value(k);
    if (found === null) return null;
    if (high === low) return 0.5;
    return Math.min(1, Math.max(0, Math.log(Math.max(found, low) / low) / Math.log(high / low)));
  };
  return { share, low, high };
}

function paintEdges(context, edges, styles, at) {
  for (const style of styles) {
    context.beginPath();
    for (const k of style.edges) {
      const [x, y] = at(edges.source[k]);
      const [u, v] = at(edges.target[k]);
      context.moveTo(x, y);
      context.lineTo(u, v);
    }
    context.setLineDash(style.dashed ? [4, 4] : []);
    context.globalAlpha = style.opacity;
    context.lineWidth = style.width;
    context.strokeStyle = style.paint || cssColour(style.colour);
    context.stroke();
  }
  context.setLineDash([]);
  context.globalAlpha = 1;
}

function paintNode(context, x, y, radius, colour, ring) {
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  if (colour === null) {
    context.fillStyle = cssColour("--page");
    context.strokeStyle = cssColour("--quiet");
  } else {
    context.fillStyle = colour;
    context.strokeStyle = ring;
  }
  context.lineWidth = 1;
  context.fill();
  context.stroke();
}

function paintRing(context, x, y, radius, width) {
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.lineWidth = width;
  context.strokeStyle = cssColour("--marker");
  context.stroke();
}

// Names next to nodes, as many as fit without touching each other.
function paintNames(context, names, places, width, height) {
  context.font = "12px system-ui, sans-serif";
  context.textBaseline = "middle";
  const taken = places.map(([x, y, radius]) => [x - radius, y - radius, x + radius, y + radius]);
  for (const [x, y, radius, node] of places) {
    const text = shortName(names[node]);
    const wide = context.measureText(text).width;
    const box = freeBox(taken, x, y, radius, wide, width, height);
    if (!box) continue;
    taken.push(box);
    context.lineWidth = 3;
    context.strokeStyle = cssColour("--page");
    context.strokeText(text, box[0] + 2, (box[1] + box[3]) / 2);
    context.fillStyle = cssColour("--ink");
    context.fillText(text, box[0] + 2, (box[1] + box[3]) / 2);
  }
}

function freeBox(taken, x, y, radius, wide, width, height) {
  const right = x + radius + 2;
  const left = x - radius - 6 - wide;
  const centred = x - wide / 2 - 2;
  const corners = [[right, y - 8], [left, y - 8], [centred, y + radius + 2], [centred, y - radius - 18]];
  for (const [a, b] of corners) {
    const box = [a, b, a + wide + 4, b + 16];
    const inside = a >= 2 && b >= 2 && box[2] <= width - 2 && box[3] <= height - 2;
    if (inside && !taken.some((other) => box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3])) return box;
  }
  return null;
}

// A bar of a round length; perPixel is how many km, or units, one pixel is.
function paintScaleBar(context, perPixel, unit, height) {
  const wanted = 110 * perPixel;
  const power = 10 ** Math.floor(Math.log10(wanted));
  const size = power * [5, 2, 1].find((step) => step * power <= wanted);
  const wide = size / perPixel;
  context.strokeStyle = cssColour("--quiet");
  context.fillStyle = cssColour("--quiet");
  context.lineWidth = 2;
  context.beginPath();
  context.moveTo(14, height - 20);
  context.lineTo(14, height - 14);
  context.lineTo(14 + wide, height - 14);
  context.lineTo(14 + wide, height - 20);
  context.stroke();
  context.font = "12px system-ui, sans-serif";
  context.textBaseline = "alphabetic";
  context.fillText(`${number(size)} ${unit}`.trim(), 20 + wide, height - 13);
}
