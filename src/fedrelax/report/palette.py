"""All colours: of the pages (light and dark), the charts, the pictures and the notebook's drawings.

Everything that shows data takes its colours from here. They can be told apart with any kind of colour
vision (Okabe and Ito's, and viridis).
"""

from __future__ import annotations

import json

LIGHT = {
    "page": "#f7f7f5", "panel": "#ffffff", "ink": "#1c2126", "quiet": "#5b6670",
    "line": "#d9dee2", "soft": "#eef1f3", "accent": "#005a91", "good": "#005a91", "bad": "#a84300",
    "alone": "#c47f00", "together": "#0072b2", "pooled": "#6b7680", "objective": "#007a5a",
    "edge": "#6b7a88", "dropped": "#d55e00", "neutral": "#e4e4e2",
    "gain-some": "#3f8fcb", "gain-most": "#0b4a86", "loss-some": "#d9730d", "loss-most": "#8a3a00",
    "ring": "#ffffff", "marker": "#111518",
}  # fmt: skip
DARK = {
    "page": "#14181c", "panel": "#1c2228", "ink": "#e8ecef", "quiet": "#a3afb9",
    "line": "#343d46", "soft": "#252c33", "accent": "#6cb8ea", "good": "#7cc0ee", "bad": "#f2a057",
    "alone": "#f0b23c", "together": "#56b4e9", "pooled": "#97a3ae", "objective": "#3fbf97",
    "edge": "#8a99a7", "dropped": "#f08a3c", "neutral": "#5a6168",
    "gain-some": "#4a9be0", "gain-most": "#a8dbff", "loss-some": "#dd7f22", "loss-most": "#ffd29b",
    "ring": "#14181c", "marker": "#ffffff",
}  # fmt: skip
SEQUENTIAL = (
    "#440154", "#46327e", "#365c8d", "#277f8e", "#1fa187", "#4ac16d", "#a0da39", "#fde725",
)  # fmt: skip
"""From dark to light, in even steps of lightness."""
DIVERGING = tuple(
    LIGHT[name] for name in ("loss-most", "loss-some", "neutral", "gain-some", "gain-most")
)
CATEGORIES = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442")
OTHER = "#8c8c8c"
"""For whatever is left when the categories run out."""
WAYS = {"alone": LIGHT["alone"], "pooled": LIGHT["pooled"], "together": LIGHT["together"]}
CURVES = {
    "local_loss": ("loss", "alone"),
    "gtv": ("gtv", "together"),
    "objective": ("objective", "objective"),
    "validation_loss": ("validation", "bad"),
}
"""The quantities of every round: which axis label each has, and which colour."""


def css() -> str:
    """Return the colours of both themes as CSS properties."""
    light, dark = (
        "".join(f"  --{name}: {colour};\n" for name, colour in colours.items())
        for colours in (LIGHT, DARK)
    )
    return (
        f":root {{\n  color-scheme: light;\n{light}}}\n"
        f':root[data-theme="dark"] {{\n  color-scheme: dark;\n{dark}}}\n'
    )


def script() -> str:
    """Return the colours that scripts use beyond the properties."""
    curves = [[name, label, f"--{colour}"] for name, (label, colour) in CURVES.items()]
    values = {"SEQUENTIAL": SEQUENTIAL, "CATEGORIES": CATEGORIES, "OTHER": OTHER, "CURVES": curves}
    return "".join(f"const {name} = {json.dumps(value)};\n" for name, value in values.items())
