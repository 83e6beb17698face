"use strict";
// Runs before the first paint, so that a dark page never flashes white.
const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
document.documentElement.dataset.theme = prefersDark.matches ? "dark" : "light";
