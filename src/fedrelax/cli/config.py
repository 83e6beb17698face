"""The settings of ``fit`` and ``compare``: from flags and a TOML file, checked once."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from fedrelax.errors import FedRelaxError, did_you_mean

NEEDED = {
    "data": "the table to learn from, as the first argument or as data in the file",
    "node": "the column that names the node of each row",
    "target": "the column to predict",
    "out": "the directory to write",
}
HOW_TO_RUN = ("out", "overwrite", "live", "json", "debug")
"""Flags that do not change what is computed; they are not saved."""


class LearningConfig(BaseModel):
    """What every command that learns from a table can be told."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    command: ClassVar[str]

    data: Path
    node: str
    target: str
    features: tuple[str, ...] | None = None
    task: Literal["auto", "regression", "classification"] = "auto"
    drop_missing: bool = False
    graph: str = "complete"
    model: str | None = None
    model_for: dict[str, str] = Field(default_factory=dict)
    alpha: Literal["auto"] | Annotated[float, Field(ge=0, allow_inf_nan=False)] = "auto"
    rounds: Annotated[int, Field(ge=0)] | None = None
    wiring: Literal["fixed", "rewire", "reweight", "discover", "auto"] = "fixed"
    public: str = "blend"
    public_rows: int = Field(default=200, ge=1)
    test_share: float = Field(default=0.2, ge=0, lt=1)
    jobs: int = 1
    seed: int = Field(default=0, ge=0)
    overwrite: bool = False
    json_: bool = Field(default=False, alias="json")
    debug: bool = False

    @field_validator("features", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @field_validator("model_for", mode="before")
    @classmethod
    def _pairs(cls, value: Any) -> Any:
        """Accept NODE=MODEL texts; a node may hold '=', a model never does."""
        if not isinstance(value, list | tuple):
            return value
        found: dict[str, str] = {}
        for text in value:
            node, sign, model = str(text).rpartition("=")
            if not sign or not node or not model:
                raise ValueError(f"{text!r} is not NODE=MODEL, such as Helsinki=forest")
            found[node.strip()] = model.strip()
        return found

    @field_validator("jobs")
    @classmethod
    def _not_zero(cls, value: int) -> int:
        if value == 0:
            raise ValueError("0 workers cannot work; give 1 or more, or -1 for all cores")
        return value

    def to_file(self, **effective: Any) -> dict[str, Any]:
        """Return what ``config.toml`` holds: all that a run depends on, paths made absolute."""
        settings = {**self.model_dump(exclude={"json_", *HOW_TO_RUN}), **effective}
        settings["data"] = str(self.data.absolute())
        pairs = settings.pop("model_for")
        named = {name.replace("_", "-"): value for name, value in settings.items()}
        return {**named, "model-for": pairs} if pairs else named


class FitConfig(LearningConfig):
    """Everything that ``fedrelax fit`` can be told."""

    command: ClassVar[str] = "fit"

    out: Path
    live: bool = False


class CompareConfig(LearningConfig):
    """Everything that ``fedrelax compare`` can be told."""

    command: ClassVar[str] = "compare"

    splits: int = Field(default=5, ge=2)
    ways: tuple[str, ...] | None = None
    test_share: float = Field(default=0.2, gt=0, lt=1)
    out: Path | None = None

    @field_validator("ways", mode="before")
    @classmethod
    def _names(cls, value: Any) -> Any:
        """Accept a,b,c as well as a list."""
        if not isinstance(value, str):
            return value
        return tuple(part.strip() for part in value.split(",") if part.strip())


Config = TypeVar("Config", bound=LearningConfig)


def make_config(kind: type[Config], file: Path | None, flags: Mapping[str, Any]) -> Config:
    """Return the settings of a run: flags that were given (not None) win over the file.

    ``flags["trust"]`` holds the models that the file may name by their code. A file may come from
    anywhere, and so may a module that lies beside it; what is typed is the user's own word.
    """
    flags = dict(flags)
    trust = flags.pop("trust", None) or ()
    given = {} if file is None else read_settings(kind, file)
    if file is not None:
        _check_trusted(kind, file, given, flags, trust)
    for name, value in flags.items():
        if name == "model_for" and value:
            merged = kind._pairs(given.get(name, {})) if name in given else {}
            given[name] = {**merged, **_checked_pairs(value)}
        elif value is not None and value != []:
            given[name] = value
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        source = "" if file is None else f" (see {file})"
        sentences = dict.fromkeys(sentence(kind.command, found) for found in error.errors())
        raise FedRelaxError("; ".join(sentences) + source) from None


def _check_trusted(
    kind: type[LearningConfig],
    file: Path,
    given: Mapping[str, Any],
    flags: Mapping[str, Any],
    trust: Sequence[str],
) -> None:
    """Refuse models of the file that run code by a name which nobody has typed."""
    try:
        pairs = kind._pairs(given.get("model_for", {}))
    except ValueError:
        return  # said below, with the flag's name
    named = list(pairs.values()) if isinstance(pairs, dict) else []
    if flags.get("model") is None:
        named.append(given.get("model"))
    for name in named:
        if isinstance(name, str) and ":" in name and name not in trust:
            raise FedRelaxError(
                f"--config {file} names the model {name!r}, which runs the code of the module "
                f"{name.partition(':')[0]!r}; if you know that code and trust it, say so with "
                f"--trust {shlex.quote(name)}"
            )


def _checked_pairs(value: Any) -> Any:
    try:
        return LearningConfig._pairs(value)
    except ValueError as error:
        raise FedRelaxError(f"--model-for: {error}") from None


def read_settings(kind: type[LearningConfig], file: Path) -> dict[str, Any]:
    """Return the settings of a TOML file by their names in ``kind``."""
    try:
        found = tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise FedRelaxError(f"there is no file {file}; check --config") from None
    except (OSError, UnicodeDecodeError) as error:
        raise FedRelaxError(f"--config {file} cannot be read ({error})") from error
    except tomllib.TOMLDecodeError as error:
        raise FedRelaxError(f"--config {file} is not valid TOML: {error}") from error
    names = {field.alias or name for name, field in kind.model_fields.items()}
    settings: dict[str, Any] = {}
    for key, value in found.items():
        name = key.replace("-", "_")
        if name not in names:
            known = sorted(n.replace("_", "-") for n in names)
            hint = did_you_mean(key.replace("_", "-"), known) or f"; known: {', '.join(known)}"
            raise FedRelaxError(f"--config {file} has the unknown key {key!r}{hint}")
        if name in settings:
            raise FedRelaxError(f"--config {file} gives {key!r} twice; keep one of them")
        settings[name] = value
    return settings


def sentence(command: str, error: Any) -> str:
    """Turn one finding of pydantic into words: which flag, what was found, what is needed."""
    name = str(error["loc"][0])
    if error["type"] == "missing":
        what = NEEDED.get(name, "it")
        return f"{command} needs {'DATA' if name == 'data' else _flag(name)}: {what}"
    message = str(error["msg"]).removeprefix("Value error, ")
    if name == "alpha":
        message = "give 'auto' or a finite number of at least 0"
    elif message.startswith("Input should be"):
        message = message.replace("Input should be", "it must be", 1)
    found = error["input"]
    said = "" if error["type"] == "value_error" else f" is {found!r}"
    return f"{_flag(name)}{said}: {message}"


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
