"use strict";
// Curves that grow: one small SVG per quantity, redrawn with every update.

const WIDE = 360;
const HIGH = 190;
const INNER = { left: 52, right: 10, top: 8, bottom: 26 };

function drawCurves(place, curves, labels, total) {
  const parts = CURVES.filter(([name]) => curves[name].some((value) => value !== null)).map(([name, key, colour]) => {
    const log = isSpread(curves[name]);
    const title = labels[key][0].toUpperCase() + labels[key].slice(1) + (log ? ", log scale" : "");
    return element("div", { className: "chart-box" }, element("p", { className: "chart-title", text: title }), curve(curves.round, curves[name], colour, log, total, title));
  });
  place.replaceChildren(...parts);
}

// Values that span more than a factor of 50 need a logarithmic axis.
function isSpread(values) {
  const [low, high] = ends(values.filter((value) => value !== null));
  return low > 0 && high / low > 50;
}

function curve(rounds, values, colour, log, total, title) {
  const picture = svg("svg", { class: "curve", viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": `${title}, by round` });
  const known = rounds.map((round, k) => [round, values[k]]).filter(([, value]) => value !== null);
  const scale = (value) => (log ? Math.log10(value) : value);
  let [low, high] = ends(known.map(([, value]) => scale(value)));
  if (!log) low = Math.min(low, 0);
  if (high === low) high = low + (Math.abs(low) || 1);
  const last = Math.max(total, rounds[rounds.length - 1], 1);
  const across = (round) => INNER.left + ((WIDE - INNER.left - INNER.right) * round) / last;
  const up = (value) => HIGH - INNER.bottom - ((HIGH - INNER.top - INNER.bottom) * (scale(value) - low)) / (high - low);
  const frame = `M${INNER.left},${INNER.top} V${HIGH - INNER.bottom} H${WIDE - INNER.right}`;
  picture.append(svg("path", { class: "frame", d: frame }));
  const unscaled = (value) => (log ? 10 ** value : value);
  for (const level of [low, (low + high) / 2, high]) {
    const value = unscaled(level);
    picture.append(label(number(Number(value.toPrecision(3))), INNER.left - 6, up(value) + 4, "end"));
  }
  picture.append(label("0", across(0), HIGH - 8, "middle"), label(String(last), across(last), HIGH - 8, "end"), label("round", (across(0) + across(last)) / 2, HIGH - 8, "middle"));
  const path = known.map(([round, value], k) => `${k ? "L" : "M"}${across(round).toFixed(1)},${up(value).toFixed(1)}`).join(" ");
  const line = svg("path", { class: "line", d: path });
  line.style.stroke = `var(${colour})`;
  const dot = svg("circle", { r: 3.5, cx: across(known[known.length - 1][0]), cy: up(known[known.length - 1][1]) });
  dot.style.fill = `var(${colour})`;
  picture.append(line, dot);
  return picture;
}

function label(text, x, y, anchor) {
  const made = svg("text", { x, y, "text-anchor": anchor });
  made.textContent = text;
  return made;
}

function svg(tag, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}
