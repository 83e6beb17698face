"""What somebody can do who may write any file of a result, checksums included."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path


def resign(directory: Path) -> None:
    """Give all files of a result checksums that fit, as a hostile author would."""
    lines = json.loads((directory / "models.json").read_text())
    if isinstance(lines, list):
        for line in lines:
            if isinstance(line, dict) and (directory / str(line.get("file"))).is_file():
                line["sha256"] = _known_by((directory / line["file"]).read_bytes())
        (directory / "models.json").write_text(json.dumps(lines))
    about = json.loads((directory / "result.json").read_text())
    for name in about.get("files", {}):
        if (directory / name).is_file():
            about["files"][name] = _known_by((directory / name).read_bytes())
    (directory / "result.json").write_text(json.dumps(about))


def _known_by(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
