"use strict";
// What the grid's colours, sizes and strokes mean.

function fillLegend(place, data, scale, edges) {
  place.replaceChildren(colourPart(scale), sizePart(data), edgePart(data, edges));
}

function colourPart(scale) {
  const part = element("span", { className: "part" }, element("b", { text: scale.label }));
  if (scale.items) {
    for (const [colour, text] of scale.items) part.append(swatch(colour, text));
    return part;
  }
  part.append(ramp(scale.ramp(), scale.ends));
  return part;
}

function ramp(colours, ends) {
  const strip = element("div", { className: "ramp" });
  strip.style.background = `linear-gradient(to right, ${colours.join(", ")})`;
  return element("span", { className: "ramp-box" }, strip, ...ends.map((text) => element("span", { text })));
}

function swatch(colour, text) {
  const dot = element("span", { className: "swatch" });
  dot.style.background = colour;
  return element("span", { className: "item" }, dot, element("span", { text }));
}

function sizePart(data) {
  const rows = (data.nodes.rows || []).filter((value) => value !== null);
  const part = element("span", { className: "part" });
  if (!rows.length) return part;
  const low = rows.reduce((found, value) => Math.min(found, value), Infinity);
  const high = rows.reduce((found, value) => Math.max(found, value), 0);
  part.append(element("b", { text: `size: ${data.labels.rows}` }));
  for (const value of low === high ? [high] : [low, high]) {
    const wide = `${20 * (0.45 + 0.55 * Math.sqrt(value / high))}px`;
    const dot = element("span", { className: "dot" });
    Object.assign(dot.style, { width: wide, height: wide });
    part.append(element("span", { className: "item" }, dot, element("span", { text: number(value) })));
  }
  return part;
}

function edgePart(data, edges) {
  const part = element("span", { className: "part" });
  if (edges.kept && edges.by === "discrepancy") {
    const { low, high } = discrepancyScale(data.edges);
    const colours = [0, 0.25, 0.5, 0.75, 1].map(sequential);
    part.append(element("b", { text: `edges: ${data.labels.discrepancy}, log scale` }), ramp(colours, [number(low), number(Math.sqrt(low * high)), number(high)]));
  } else if (edges.kept) {
    const most = data.edges.used.reduce((found, value) => Math.max(found, value), 0);
    part.append(element("b", { text: `edges: ${data.labels.weight}` }), stroke("", `darker is larger, up to ${number(most)}`));
  }
  if (edges.dropped) part.append(stroke("dropped", "dropped"));
  return part;
}

function stroke(kind, text) {
  return element("span", { className: "item" }, element("span", { className: `stroke ${kind}`.trim() }), element("span", { text }));
}
