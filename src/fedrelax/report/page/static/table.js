"use strict";
// A table that is sorted by clicking its headers and filtered by a search box.
//
// columns: [{key, title, value(row), text(row), numeric, action(row), tone(row)}]; rows: numbers. Narrow screens
// show each row as a block of several lines, for which the roles say that it is still a table.
// Returns {search(text)}; only the first rows are shown until a button shows all.

const FIRST_ROWS = 20;

function createTable(place, columns, rows, options = {}) {
  const state = { by: options.by ?? 0, down: options.down ?? false, text: "", all: false };
  const head = element("tr", { role: "row" });
  const body = element("tbody", { role: "rowgroup" });
  const more = button("", () => { state.all = true; draw(); }, "control more");
  const table = element("table", { className: "folding", role: "table" }, element("thead", { role: "rowgroup" }, head), body);
  if (options.caption) table.setAttribute("aria-label", options.caption);
  columns.forEach((column, k) => head.append(headerCell(column, () => sortBy(k))));
  place.replaceChildren(table, more);

  function sortBy(k) {
    state.down = state.by === k ? !state.down : Boolean(columns[k].numeric);
    state.by = k;
    draw();
  }

  function draw() {
    const found = sorted(rows.filter(matches), columns[state.by], state.down);
    const shown = state.all ? found : found.slice(0, FIRST_ROWS);
    body.replaceChildren(...shown.map((row) => bodyRow(columns, row)));
    [...head.children].forEach((cell, k) => markSorted(cell, k === state.by, state.down));
    more.hidden = shown.length === found.length;
    more.textContent = `Show all ${found.length.toLocaleString("en")}`;
    if (options.counted) options.counted(found.length, rows.length);
  }

  function matches(row) {
    return !state.text || columns.some((column) => column.searched && column.text(row).toLowerCase().includes(state.text));
  }

  draw();
  return {
    search(text) {
      state.text = text.trim().toLowerCase();
      draw();
    },
  };
}

function headerCell(column, action) {
  return element("th", { className: `of-${column.key} ${column.numeric ? "number" : ""}`.trim(), scope: "col", role: "columnheader" }, button(column.title, action));
}

function markSorted(cell, chosen, down) {
  if (!chosen) cell.removeAttribute("aria-sort");
  else cell.setAttribute("aria-sort", down ? "descending" : "ascending");
}

function bodyRow(columns, row) {
  return element("tr", { role: "row" }, ...columns.map((column) => {
    const tone = column.tone ? column.tone(row) : "";
    const cell = element("td", { className: [`of-${column.key}`, column.numeric ? "number" : "name", tone].join(" ").trim(), role: "cell" });
    if (column.action) cell.append(button(column.text(row), () => column.action(row)));
    else cell.textContent = column.text(row);
    return cell;
  }));
}

// Rows without a value come last, whichever way the rest is sorted; ties keep their order.
function sorted(rows, column, down) {
  const sign = down ? -1 : 1;
  return [...rows].sort((a, b) => {
    const one = column.value(a);
    const other = column.value(b);
    if (one === null || other === null) return (one === null) - (other === null);
    if (typeof one === "string") return sign * one.localeCompare(other, "en", { numeric: true });
    return sign * (one - other);
  });
}

function connectSearch(box, table) {
  box.addEventListener("input", () => table.search(box.value));
}
