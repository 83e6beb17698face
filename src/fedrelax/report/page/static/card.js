"use strict";
// The card of one node: its model, rows and errors, its neighbours, and its curves.

const FIRST_NEIGHBOURS = 12;
const MOST_GROUPS = 10;
const NO_NODE = "Click a node, or find one by name, to see its model, errors and neighbours.";

// actions: {go(node), close(), curves(place, node)}
function fillCard(place, data, node, actions) {
  place.classList.toggle("empty", node === null);
  if (node === null) return place.replaceChildren(element("p", { className: "quiet", text: NO_NODE }), ...overview(data));
  const { nodes } = data;
  const close = button("×", actions.close, "control close");
  close.setAttribute("aria-label", "Close the card");
  const parts = [close, element("h3", { text: nodes.name[node] || "(no name)" }), element("p", { className: "quiet", text: cardFacts(data, node) })];
  if (nodes.alone && nodes.alone[node] !== null) parts.push(element("h4", { text: "Error on its test rows" }), errorBars(data, node));
  const chart = element("div", { className: "chart" });
  if (curvesOf(data, node).length) parts.push(element("h4", { text: "Round by round" }), chart);
  parts.push(...neighbourPart(data, node, actions.go));
  place.replaceChildren(...parts);
  place.scrollTop = 0;
  actions.curves(chart, node);
}

// With no node chosen: the network, and how its groups and kinds of models did.
function overview(data) {
  const { nodes, edges } = data;
  const own = nodes.name.map((_, node) => node).filter((node) => nodes.model[node] !== null);
  const [least, most] = ends(own.map((node) => nodes.neighbours[node]));
  const dropped = edges.total > edges.kept ? ` (${number(edges.total - edges.kept)} dropped)` : "";
  const facts = `${number(own.length)} nodes with a model, ${number(edges.kept)} edges${dropped}, ${least === most ? least : `${least} to ${most}`} neighbours each.`;
  const parts = [element("h3", { text: "The network" }), element("p", { text: facts })];
  if (nodes.cluster) parts.push(element("h4", { text: "Groups that the wiring found" }), groupTable(data, own, nodes.cluster, (value) => `group ${value}`));
  parts.push(element("h4", { text: "Kinds of models" }), groupTable(data, own, nodes.model, shortName));
  return parts;
}

function groupTable(data, own, values, name) {
  const groups = new Map();
  for (const node of own) groups.set(values[node], [...(groups.get(values[node]) || []), node]);
  const ranked = [...groups].sort((a, b) => b[1].length - a[1].length).slice(0, MOST_GROUPS);
  const gain = (members) => {
    const known = data.nodes.gain ? members.map((node) => data.nodes.gain[node]).filter((value) => value !== null).sort((a, b) => a - b) : [];
    return known.length ? gainText(quantile(known, 0.5)) : "–";
  };
  const line = (cells, tag) => element("tr", {}, ...cells.map((text, k) => element(tag, { text, className: k ? "number" : "name" })));
  const body = ranked.map(([value, members]) => line([name(value), number(members.length), gain(members)], "td"));
  return element("table", {}, element("thead", {}, line(["", "nodes", "median gain"], "th")), element("tbody", {}, ...body));
}

function cardFacts(data, node) {
  const { nodes } = data;
  if (nodes.model[node] === null) return "In the graph, but without rows or a model of its own.";
  const facts = [nodes.model[node]];
  if (nodes.rows && nodes.rows[node] !== null) facts.push(`${number(nodes.rows[node])} training rows`);
  if (nodes.test && nodes.test[node] !== null) facts.push(`${number(nodes.test[node])} test rows`);
  if (nodes.cluster && nodes.cluster[node] !== null) facts.push(`group ${nodes.cluster[node]}`);
  return facts.join(" · ");
}

function errorBars(data, node) {
  const { nodes } = data;
  const ways = [["alone", "--alone"], ["pooled", "--pooled"], ["together", "--together"]].filter(([way]) => nodes[way]);
  const most = Math.max(...ways.map(([way]) => nodes[way][node] ?? 0)) || 1;
  const bars = element("div", { className: "bars" });
  for (const [way, colour] of ways) {
    const bar = element("i");
    bar.style.width = `${(100 * (nodes[way][node] ?? 0)) / most}%`;
    bar.style.background = `var(${colour})`;
    bars.append(element("span", { text: way }), bar, element("b", { text: errorText(data, nodes[way][node]) }));
  }
  const gain = nodes.gain[node];
  const tone = gain > 0 ? "good-text" : gain < 0 ? "bad-text" : "";
  bars.append(element("span", { text: "gain" }), element("span"), element("b", { text: gainText(gain), className: tone }));
  return bars;
}

function neighbourPart(data, node, go) {
  const found = neighboursOf(data, node);
  const total = data.nodes.neighbours[node];
  const shown = total !== null && total > found.length ? ` (${found.length} of ${total}; all are in edges.csv)` : ` (${found.length})`;
  const heading = element("h4", { text: `Neighbours${shown}` });
  if (!found.length) return [heading, element("p", { className: "quiet", text: "None." })];
  const body = element("tbody");
  const fill = (count) => body.replaceChildren(...found.slice(0, count).map((one) => neighbourRow(data, one, go)));
  fill(FIRST_NEIGHBOURS);
  const names = ["neighbour", "weight", "discrepancy"];
  const head = element("tr", {}, ...names.map((text, k) => element("th", { text, scope: "col", className: k ? "number" : "" })));
  const table = element("table", {}, element("thead", {}, head), body);
  if (found.length <= FIRST_NEIGHBOURS) return [heading, table];
  const more = button(`Show all ${found.length}`, () => { fill(found.length); more.remove(); }, "control more");
  return [heading, table, more];
}

function neighbourRow(data, one, go) {
  const weight = one.used > 0 ? number(one.used) : "dropped";
  return element("tr", {},
    element("td", { className: "name" }, button(shortName(data.nodes.name[one.node]), () => go(one.node))),
    element("td", { className: `number ${one.used > 0 ? "" : "bad-text"}`.trim(), text: weight }),
    element("td", { className: "number", text: number(one.discrepancy) }));
}

// Those that count most first, dropped ones last.
function neighboursOf(data, node) {
  const { source, target, used, there, back } = data.edges;
  const found = [];
  for (let k = 0; k < source.length; k += 1) {
    if (source[k] === node) found.push({ node: target[k], used: used[k], discrepancy: there[k] });
    else if (target[k] === node) found.push({ node: source[k], used: used[k], discrepancy: back[k] });
  }
  return found.sort((a, b) => b.used - a.used || (a.discrepancy ?? Infinity) - (b.discrepancy ?? Infinity));
}

function curvesOf(data, node) {
  const found = CURVES.filter(([name]) => data.curves[name] && data.curves[name][node]);
  return found.map(([name, label, colour]) => ({ label: data.labels[name === "gtv" ? "disagreement" : label], values: data.curves[name][node], colour }));
}
