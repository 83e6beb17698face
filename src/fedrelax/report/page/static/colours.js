"use strict";
// How values become colours; SEQUENTIAL, CATEGORIES, OTHER and CURVES come from palette.py.

function parseColour(text) {
  const hex = text.trim().replace("#", "");
  return [0, 2, 4].map((place) => parseInt(hex.slice(place, place + 2), 16));
}

function mix(from, to, share) {
  const a = parseColour(from);
  const b = parseColour(to);
  const part = a.map((value, k) => Math.round(value + (b[k] - value) * share));
  return "#" + part.map((value) => value.toString(16).padStart(2, "0")).join("");
}

function along(stops, share) {
  const place = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
  const below = Math.min(Math.floor(place), stops.length - 2);
  return mix(stops[below], stops[below + 1], place - below);
}

// The darkest colours do not show on a dark page, nor the lightest on a light one.
function sequential(share) {
  const [low, high] = document.documentElement.dataset.theme === "dark" ? [0.25, 1] : [0, 0.93];
  return along(SEQUENTIAL, low + (high - low) * share);
}

// From -1 (loss) through 0 (neutral) to 1 (gain).
function diverging(value) {
  const side = value >= 0 ? ["--gain-some", "--gain-most"] : ["--loss-some", "--loss-most"];
  return along(["--neutral", ...side].map(cssColour), Math.abs(value));
}

function cssColour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// How one value of every node becomes a colour, and the legend that explains it.
function scaleByNumber(values, label, text) {
  const known = values.filter((value) => value !== null).sort((a, b) => a - b);
  const low = quantile(known, 0.02);
  const high = quantile(known, 0.98);
  const share = (value) => (high > low ? (value - low) / (high - low) : 0.5);
  return {
    label,
    colour: (node) => (values[node] === null ? null : sequential(share(values[node]))),
    ramp: () => [0, 0.25, 0.5, 0.75, 1].map(sequential),
    ends: [text(low), text((low + high) / 2), text(high)],
  };
}

function scaleByGain(values, label, text) {
  const sizes = values.filter((value) => value !== null).map(Math.abs).sort((a, b) => a - b);
  const most = Math.min(Math.max(quantile(sizes, 0.9), 1), 100);
  const beyond = (sign) => values.some((value) => value !== null && sign * value > most * 1.0001);
  return {
    label,
    colour: (node) => (values[node] === null ? null : diverging(values[node] / most)),
    ramp: () => [-1, -0.5, 0, 0.5, 1].map(diverging),
    ends: [text(-most) + (beyond(-1) ? " or less" : ""), "0 %", text(most) + (beyond(1) ? " or more" : "")],
  };
}

function scaleByCategory(values, label, name) {
  const counts = new Map();
  for (const value of values) if (value !== null) counts.set(value, (counts.get(value) || 0) + 1);
  const ranked = [...counts].sort((a, b) => b[1] - a[1] || (String(a[0]) < String(b[0]) ? -1 : 1));
  const found = new Map(ranked.slice(0, CATEGORIES.length).map(([value], k) => [value, CATEGORIES[k]]));
  const items = ranked.slice(0, CATEGORIES.length).map(([value, count]) => [found.get(value), `${name(value)} (${count})`]);
  const rest = ranked.slice(CATEGORIES.length);
  const left = rest.reduce((sum, [, count]) => sum + count, 0);
  if (left) items.push([OTHER, `${rest.length} others (${left})`]);
  return {
    label,
    colour: (node) => (values[node] === null ? null : found.get(values[node]) || OTHER),
    items,
  };
}

function quantile(sorted, share) {
  if (!sorted.length) return 0;
  return sorted[Math.round(share * (sorted.length - 1))];
}
