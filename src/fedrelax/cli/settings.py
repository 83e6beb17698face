"""The settings that ``fit`` and ``compare`` share: a flag is a field of a class in this file.

The field has the type, the default, the checks, and the :class:`Flag` with everything that the
command line says about it. ``Flag(argument=...)`` passes the value to the estimator. Settings files
and ``config.toml`` use the same names.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from fedrelax.cli.flags import ARGUMENTS, DATA, LEARNING, MODELS, OUTPUT, flag, flags_of
from fedrelax.errors import FedRelaxError, did_you_mean


def one_or_many(value: Any) -> Any:
    """Accept a name as well as a list of names."""
    return (value,) if isinstance(value, str) else value


def pairs_of(value: Any) -> Any:
    """Accept NODE=MODEL texts; a node may hold '=', a model never does."""
    if not isinstance(value, list | tuple):
        return value
    pairs: dict[str, str] = {}
    for text in value:
        node, _, model = str(text).rpartition("=")
        if not node or not model:
            raise FedRelaxError(f"--model-for: {text!r} is not NODE=MODEL, such as Helsinki=forest")
        pairs[node.strip()] = model.strip()
    return pairs


def parts_of(value: Any) -> Any:
    """Accept a,b,c as well as a list."""
    if not isinstance(value, str):
        return value
    return tuple(part.strip() for part in value.split(",") if part.strip())


def known_wiring(value: str | None) -> str | None:
    """Refuse an unknown wiring."""
    from fedrelax.wiring import WIRINGS

    names = ("fixed", *WIRINGS, "auto")
    if value is not None and value not in names:
        raise ValueError(f"{value!r} is not one of {', '.join(names)}{did_you_mean(value, names)}")
    return value


def number_of_workers(value: int) -> int:
    """Refuse zero workers, and more than this machine can start."""
    from fedrelax.runtime.workers import check_jobs

    check_jobs(value)
    return value


Alpha = Literal["auto"] | Annotated[float, Field(ge=0, allow_inf_nan=False)]


@dataclass(frozen=True, kw_only=True)
class LearningConfig:
    """The settings of every command that learns from a table.

    data : The table: .csv (separated by comma, semicolon or tab) or .parquet.
    node : Column that names the node of each row.
    target : Column to predict.
    features : Columns to predict from, as a,b,c. Default: all other columns.
    schema : JSON file that says what the columns mean (names, kinds, categories, scales), such as the
        schema.json of a result. Default: found from the table.
    task : auto, regression or classification. Default: auto.
    graph : Who learns from whom: complete (all from all), knn:lat,lon:5 (the 5 nearest by these
        columns), or edges:FILE (a table with the columns source,target,weight). Default: complete.
    model : auto (found from the rows, with all settings: linear, curves, or trees where they do
        better), ridge, linear, logistic, tree, forest, boosting, mlp, svm, knn; with an extra:
        torch-mlp, torch-linear, keras-mlp, xgboost, lightgbm; or package.module:name of a class, or of
        a function that returns a model. Default: auto.
    model_for : Another model for one node; can be repeated.
    alpha : How much neighbours count, from 0 (each alone) upwards. Default: auto, which chooses alpha
        and the rounds by cross-validation on the training rows.
    update : refit trains one model on a node's own rows and its neighbours' predictions, as in the
        paper; difference learns from own rows only what the neighbours' predictions leave open.
        Default: auto, which is difference for --model tree, forest, boosting, knn, svm, xgboost and
        lightgbm where alpha is chosen, and refit otherwise.
    level : Share of the pull that applies to a node's average prediction, from 0 (nodes learn only each
        other's shape) to 1 (as in the paper). Default: auto, chosen with alpha.
    rounds : Maximum number of rounds. Default: 20; 200 for linear models, whose rounds are cheap.
    wiring : fixed keeps the graph; rewire lets every node keep the neighbours that agree with it;
        guarded does so where some may lie; discover finds neighbours where no graph is given; auto
        chooses on the training rows. Default: auto, or fixed if alpha is given.
    quick : Try fewer settings where they are chosen, for a few seconds: no wiring, no curves, no other
        kinds of models.
    minutes : How long the choice of settings may take; what does not fit is left out, and a note says
        what. Default: 0.5, or a few seconds with --quick; no limit with --checkpoint-every.
    public : The rows on which neighbours compare predictions: a table file, or how to draw them: blend,
        gaussian, marginals, uniform, standard or bootstrap. Default: blend.
    public_rows : How many public rows to draw. Default: 200, or 2,000 where boosting is tried.
    test_share : Share of each node's rows held out for testing. Default: 0.2. 0 trains on everything
        and measures nothing.
    split_by : Column whose values are held out whole, at all nodes: days, patients, batches; none holds
        out rows at random. Default: a column of dates that nodes have in common, else none.
    overwrite : Replace an earlier result in --out.
    jobs : Workers; -1 for all cores. The result does not change. Default: 1.
    backend : Where to train nodes that are not computed all at once: threads, processes or, with an
        extra, a dask or ray cluster. The result does not change. Default: threads or processes, as
        suits the models.
    address : The cluster to join, with --backend dask or ray.
    seed : Same seed, same result. Default: 0.
    json : Print one JSON object.
    debug : Show tracebacks.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}
    command: ClassVar[str]

    data: Path = flag(
        ARGUMENTS, needed="the table to learn from, as the first argument or as data in the file"
    )
    node: str = flag(DATA, needed="the column that names the node of each row")
    target: str = flag(DATA, needed="the column to predict")
    features: Annotated[tuple[str, ...] | None, BeforeValidator(one_or_many)] = flag(DATA)
    schema: Path | None = flag(DATA)
    task: Literal["auto", "regression", "classification"] = flag(DATA, default="auto")
    graph: str = flag(LEARNING, default="complete")
    model: str = flag(MODELS, default="auto")
    model_for: Annotated[dict[str, str], BeforeValidator(pairs_of)] = flag(
        MODELS, default=dict, metavar="NODE=MODEL"
    )
    alpha: Alpha = flag(LEARNING, default="auto", argument="alpha")
    update: Literal["auto", "refit", "difference"] = flag(LEARNING, default="auto")
    level: Literal["auto"] | Annotated[float, Field(ge=0, le=1)] = flag(
        LEARNING, default="auto", argument="level"
    )
    rounds: Annotated[int | None, Field(ge=0)] = flag(LEARNING, argument="rounds")
    wiring: Annotated[str | None, AfterValidator(known_wiring)] = flag(LEARNING, argument="wiring")
    quick: bool = flag(LEARNING, default=False, argument="quick")
    minutes: Annotated[float | None, Field(ge=0, allow_inf_nan=False)] = flag(
        LEARNING, argument="minutes"
    )
    public: str = flag(LEARNING, default="blend")
    public_rows: Annotated[int, Field(ge=1)] | None = flag(LEARNING, argument="public_rows")
    test_share: Annotated[float, Field(ge=0, lt=1)] = flag(DATA, default=0.2)
    split_by: str | None = flag(DATA, metavar="COLUMN")
    overwrite: bool = flag(OUTPUT, default=False, saved=False, only_typed=True)
    jobs: Annotated[int, AfterValidator(number_of_workers)] = flag(
        OUTPUT, default=1, argument="n_jobs"
    )
    backend: Literal["threads", "processes", "dask", "ray"] | None = flag(
        OUTPUT, argument="backend", saved=False, only_typed=True
    )
    address: str | None = flag(
        OUTPUT, metavar="HOST:PORT", argument="address", saved=False, only_typed=True
    )
    seed: Annotated[int, Field(ge=0)] = flag(OUTPUT, default=0, argument="random_state")
    json: bool = flag(OUTPUT, default=False, saved=False)
    debug: bool = flag(OUTPUT, default=False, saved=False)

    def estimator_arguments(self) -> dict[str, Any]:
        """Return the estimator's arguments by name."""
        flags = flags_of(type(self)).items()
        return {flag.argument: getattr(self, name) for name, flag in flags if flag.argument}

    def absolute(self) -> dict[str, Any]:
        """Return the settings by name, with absolute paths as text."""
        from fedrelax.cli.graphs import parse_graph
        from fedrelax.public import DRAWS

        public = self.public if self.public in DRAWS else Path(self.public)
        settings = {**asdict(self), "graph": str(parse_graph(self.graph)), "public": public}
        return {k: str(v.absolute()) if isinstance(v, Path) else v for k, v in settings.items()}

    def to_file(self, **found: Any) -> dict[str, Any]:
        """Return what ``config.toml`` holds: all that a run depends on, with what was ``found``."""
        settings = {**self.absolute(), **found}
        pairs = settings.pop("model_for")  # a table, which has to come last
        flags = flags_of(type(self)).items()
        saved = [k for k, flag in flags if flag.saved and settings.get(k, False) is not False]
        named = {name.replace("_", "-"): settings[name] for name in saved}
        return {**named, "model-for": pairs} if pairs else named


FLAGS = {
    **{name: f"--{name}" for name in ("overwrite", "public", "task", "trust", "update")},
    "unknown": "--unknown-nodes",
    **{
        flag.argument: flag.named(k)
        for k, flag in flags_of(LearningConfig).items()
        if flag.argument
    },
}
"""The flag for each argument that a message may name."""

ARGUMENT = re.compile(
    rf"(?<![\w.(])({'|'.join(FLAGS)})="
    r"(True|'[^']*'|\"[^\"]*\"|\[[^\]]*\]|[\w+-]+(?:\.\d+)?)(?![\w(])"
)
QUOTES = "'\""
PLACE = re.compile(r"\b(?:choose|give) another (?:directory|file|place)\b")


def in_flags(text: str) -> str:
    """Return a message with flags in place of Python's arguments.

    >>> in_flags("x exists; choose another directory, or replace it with overwrite=True")
    'x exists; choose another --out, or replace it with --overwrite'
    >>> in_flags("give task='regression' or n_jobs=2, as with Ridge(alpha=1.0)")
    'give --task regression or --jobs 2, as with Ridge(alpha=1.0)'
    >>> in_flags("say so with trust=['a.B', 'c.D']")
    'say so with --trust a.B --trust c.D'
    """
    return PLACE.sub("choose another --out", ARGUMENT.sub(_flag, text))


def _flag(match: re.Match[str]) -> str:
    flag, text = FLAGS[match[1]], match[2]
    if text == "True":
        return flag
    values = re.findall(r"'[^']*'|\"[^\"]*\"|[\w.+-]+", text)
    return " ".join(f"{flag} {shlex.quote(value.strip(QUOTES))}" for value in values)
