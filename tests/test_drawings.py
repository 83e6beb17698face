"""The drawings of the documentation are what their tool draws, and can be read without a network."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"


@pytest.fixture
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("drawings", ROOT / "tools" / "drawings.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_drawings_are_up_to_date(tool, tmp_path):
    tool.main(tmp_path)
    drawn = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    kept = {name: (IMAGES / name).read_text(encoding="utf-8") for name in drawn}
    assert drawn == kept, "run make pages"


@pytest.mark.parametrize("path", sorted(IMAGES.glob("*.svg")), ids=lambda path: path.stem)
def test_a_drawing_has_a_title_and_stays_on_its_page(path):
    root = ElementTree.parse(path).getroot()
    width, height = (float(root.attrib[name]) for name in ("width", "height"))
    assert root[0].tag.endswith("title") and root[0].text
    for text in root.iter("{http://www.w3.org/2000/svg}text"):
        half = 4.5 * len(text.text or "")  # a letter of 16 px is about 9 px wide
        assert half - 2 <= float(text.attrib["x"]) <= width - half + 2
        assert 0 < float(text.attrib["y"]) < height
