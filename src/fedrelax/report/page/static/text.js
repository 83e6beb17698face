"use strict";
// Numbers and names as text; names enter the page only through textContent, never as markup.

const LONGEST_NAME = 28;

function number(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1000) return Math.round(value).toLocaleString("en");
  if (size < 0.001) return value.toExponential(1);
  return String(Number(value.toPrecision(3)));
}

function errorText(data, value) {
  if (value === null || value === undefined) return "–";
  const { scale, unit, decimals } = data.measure;
  return (scale * value).toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals }) + unit;
}

function gainText(value) {
  if (value === null || value === undefined) return "–";
  if (value === -Infinity) return "from 0";
  const rounded = Math.abs(value) >= 10 ? Math.round(value) : Number(value.toFixed(1));
  return `${rounded > 0 ? "+" : rounded < 0 ? "−" : ""}${Math.abs(rounded).toLocaleString("en")} %`;
}

function shortName(name, longest = LONGEST_NAME) {
  const text = name.replace(/\s+/g, " ").trim() || "(no name)";
  const letters = Array.from(text);
  return letters.length <= longest ? text : letters.slice(0, longest - 1).join("") + "…";
}

function element(tag, options = {}, ...children) {
  const made = document.createElement(tag);
  const { text, className, ...attributes } = options;
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function button(text, action, className = "") {
  const made = element("button", { text, className, type: "button" });
  made.addEventListener("click", action);
  return made;
}

// Puts the tip next to the pointer, inside the frame.
function placeTip(tip, frame, lines, x, y) {
  tip.hidden = lines === null;
  if (lines === null) return;
  tip.textContent = lines.join("\n");
  const left = x + 16 + tip.offsetWidth > frame.clientWidth ? x - 16 - tip.offsetWidth : x + 16;
  const top = Math.min(y + 12, frame.clientHeight - tip.offsetHeight - 4);
  Object.assign(tip.style, { left: `${Math.max(4, left)}px`, top: `${Math.max(4, top)}px` });
}

// Labels the button for light and dark colours with what it will do next.
function nameTheme(button, name) {
  button.textContent = name === "dark" ? "Light" : "Dark";
  button.setAttribute("aria-label", `Switch to ${name === "dark" ? "light" : "dark"} colours`);
}
