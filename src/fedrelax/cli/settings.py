"""The settings that ``fit``, ``compare`` and ``stress`` share: a flag is a field of a class in this file.

The field has the type, the default, the checks, and the :class:`Flag` with everything that the
command line says about it. ``Flag(argument=...)`` passes the value to the estimator. Settings files
and ``config.toml`` use the same names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from fedrelax.cli.options import ARGUMENTS, DATA, LEARNING, MODELS, OUTPUT, Check, Flag, flags_of
from fedrelax.errors import did_you_mean


def one_or_many(value: Any) -> Any:
    """Accept a name as well as a list of names."""
    return (value,) if isinstance(value, str) else value


def pairs_of(value: Any) -> Any:
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


def two_numbers(value: Any) -> Any:
    """Accept LOW,HIGH as text."""
    return tuple(value.split(",")) if isinstance(value, str) else value


def known_wiring(value: str | None) -> str | None:
    """Refuse an unknown wiring."""
    from fedrelax.wiring import WIRINGS

    known = ("fixed", *WIRINGS, "auto")
    if value is not None and value not in known:
        raise ValueError(f"{value!r} is not one of {', '.join(known)}{did_you_mean(value, known)}")
    return value


def number_of_workers(value: int) -> int:
    """Refuse zero workers, and more than this machine can start."""
    from fedrelax.runtime.workers import check_jobs

    check_jobs(value)
    return value


Alpha = Literal["auto"] | Annotated[float, Check(ge=0, allow_inf_nan=False)]
Level = Literal["auto"] | Annotated[float, Check(ge=0, le=1)]
Rounds = Annotated[int | None, Check(ge=0)]


@dataclass(frozen=True, kw_only=True)
class FileFlags:
    """Flags about the settings file, which cannot set them itself."""

    config: Annotated[
        Path | None,
        Flag(
            OUTPUT,
            "TOML file with any of these flags but --overwrite, --backend and --address; the command line "
            "wins. Every result has a config.toml.",
            before="jobs",
        ),
    ] = None
    trust: Annotated[
        list[str],
        Flag(
            OUTPUT,
            "Model that --config may name, whose code then runs; can be repeated.",
            metavar="package.module:name",
            before="jobs",
        ),
    ] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class LearningConfig:
    """The settings of every command that learns from a table."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}
    command: ClassVar[str]
    steps: ClassVar[Mapping[str, float]]
    """The steps of the command, with the seconds that they take with a small table."""

    data: Annotated[
        Path,
        Flag(
            ARGUMENTS,
            "The table: .csv (separated by comma, semicolon or tab) or .parquet.",
            needed="the table to learn from, as the first argument or as data in the file",
        ),
    ]
    node: Annotated[
        str,
        Flag(
            DATA,
            "Column that names the node of each row.",
            needed="the column that names the node of each row",
        ),
    ]
    target: Annotated[str, Flag(DATA, "Column to predict.", needed="the column to predict")]
    features: Annotated[
        tuple[str, ...] | None,
        Check(before=one_or_many),
        Flag(DATA, "Columns to predict from, as a,b,c. Default: all other columns."),
    ] = None
    schema: Annotated[
        Path | None,
        Flag(
            DATA,
            "JSON file that says what the columns mean (names, kinds, categories, scales), such as "
            "the schema.json of a result. Default: found from the table.",
        ),
    ] = None
    task: Annotated[
        Literal["auto", "regression", "classification"],
        Flag(DATA, "auto, regression or classification. Default: auto."),
    ] = "auto"
    drop_missing: Annotated[
        bool,
        Flag(
            DATA,
            "Leave out rows with a missing feature instead of filling it in.",
            spelling="--drop-missing/--keep-missing",
        ),
    ] = False
    graph: Annotated[
        str,
        Flag(
            LEARNING,
            "Who learns from whom: complete (all from all), knn:lat,lon:5 (the 5 nearest by these "
            "columns), features:5 (the 5 with the most similar inputs), or edges:FILE (a table with "
            "the columns source,target,weight). Default: complete.",
        ),
    ] = "complete"
    model: Annotated[
        str,
        Flag(
            MODELS,
            "auto (found from the rows, with all settings: linear, curves, or trees where they do "
            "better), ridge, linear, logistic, tree, forest, boosting, mlp, svm, knn; with an extra: "
            "torch-mlp, torch-linear, keras-mlp, xgboost, lightgbm, hoeffding; or package.module:name "
            "of a class, or of a function that returns a model. Default: auto.",
        ),
    ] = "auto"
    model_for: Annotated[
        dict[str, str],
        Check(before=pairs_of),
        Flag(MODELS, "Another model for one node; can be repeated.", metavar="NODE=MODEL"),
    ] = field(default_factory=dict)
    alpha: Annotated[
        Alpha,
        Flag(
            LEARNING,
            "How much neighbours count, from 0 (each alone) upwards. Default: auto, which chooses "
            "alpha and the rounds by cross-validation on the training rows.",
            argument="alpha",
        ),
    ] = "auto"
    level: Annotated[
        Level,
        Flag(
            LEARNING,
            "Share of the pull that applies to a node's average prediction, from 0 (nodes learn only "
            "each other's shape) to 1 (as in the paper). Default: auto, chosen with alpha.",
            argument="level",
        ),
    ] = "auto"
    rounds: Annotated[
        Rounds,
        Flag(
            LEARNING,
            "Maximum number of rounds. Default: 20; 200 for linear models, whose rounds are cheap.",
            argument="rounds",
        ),
    ] = None
    wiring: Annotated[
        str | None,
        Check(after=known_wiring),
        Flag(
            LEARNING,
            "fixed keeps the graph; rewire lets every node keep the neighbours that agree with it; "
            "guarded does so where some may lie; discover finds neighbours where no graph is given; "
            "auto chooses on the training rows. Default: auto, or fixed if alpha is given.",
            argument="wiring",
        ),
    ] = None
    quick: Annotated[
        bool,
        Flag(
            LEARNING,
            "Try fewer settings where they are chosen, for a few seconds: no wiring, no curves, no other "
            "kinds of models.",
            spelling="--quick",
            argument="quick",
        ),
    ] = False
    minutes: Annotated[
        float | None,
        Check(ge=0, allow_inf_nan=False),
        Flag(
            LEARNING,
            "How long the choice of settings may take; what does not fit is left out, and a note says "
            "what. Default: 0.5, or a few seconds with --quick; no limit with --checkpoint-every.",
            argument="minutes",
        ),
    ] = None
    public: Annotated[
        str,
        Flag(
            LEARNING,
            "The rows on which neighbours compare predictions: a table file, or how to draw them: "
            "blend, gaussian, marginals, uniform, standard or bootstrap. Default: blend.",
        ),
    ] = "blend"
    public_rows: Annotated[
        int,
        Check(ge=1),
        Flag(LEARNING, "How many public rows to draw. Default: 200.", argument="public_rows"),
    ] = 200
    test_share: Annotated[
        float,
        Check(ge=0, lt=1),
        Flag(
            DATA,
            "Share of each node's rows held out for testing. Default: 0.2. 0 trains on everything "
            "and measures nothing.",
        ),
    ] = 0.2
    split_by: Annotated[
        str | None,
        Flag(
            DATA,
            "Column whose values are held out whole, at all nodes: days, patients, batches; none "
            "holds out rows at random. Default: a column of dates that nodes have in common, else none.",
            metavar="COLUMN",
        ),
    ] = None
    overwrite: Annotated[
        bool,
        Flag(
            OUTPUT,
            "Replace an earlier result in --out.",
            spelling="--overwrite/--no-overwrite",
            saved=False,
            only_typed="replaces an earlier result",
        ),
    ] = False
    jobs: Annotated[
        int,
        Check(after=number_of_workers),
        Flag(
            OUTPUT,
            "Workers; -1 for all cores. The result does not change. Default: 1.",
            argument="n_jobs",
        ),
    ] = 1
    backend: Annotated[
        Literal["threads", "processes", "dask", "ray"] | None,
        Flag(
            OUTPUT,
            "Where to train nodes that are not computed all at once: threads, processes or, with an "
            "extra, a dask or ray cluster. The result does not change. Default: threads or processes, as "
            "suits the models.",
            argument="backend",
            saved=False,
            only_typed="sends rows to a cluster and runs what comes back",
        ),
    ] = None
    address: Annotated[
        str | None,
        Flag(
            OUTPUT,
            "The cluster to use, with --backend dask or ray. Default: one with --jobs workers is "
            "started here, and stopped at the end.",
            metavar="HOST:PORT",
            argument="address",
            saved=False,
            only_typed="sends rows to that machine and runs what comes back",
        ),
    ] = None
    seed: Annotated[
        int,
        Check(ge=0),
        Flag(OUTPUT, "Same seed, same result. Default: 0.", argument="random_state"),
    ] = 0
    json: Annotated[
        bool, Flag(OUTPUT, "Print one JSON object.", spelling="--json", saved=False)
    ] = False
    debug: Annotated[bool, Flag(OUTPUT, "Show tracebacks.", spelling="--debug", saved=False)] = (
        False
    )

    def estimator_arguments(self) -> dict[str, Any]:
        """Return the estimator's arguments by name."""
        found = flags_of(type(self)).items()
        return {flag.argument: getattr(self, name) for name, flag in found if flag.argument}

    def to_file(self, **effective: Any) -> dict[str, Any]:
        """Return what ``config.toml`` holds: all that a run depends on, with absolute paths.

        On/off flags without a ``--no-`` form are left out if not given: not every command has them.
        """
        settings = {**asdict(self), **effective, "data": str(self.data.absolute())}
        pairs = settings.pop("model_for")
        saved = [
            name
            for name, flag in flags_of(type(self)).items()
            if flag.saved and (settings.get(name) is not False or "/" in flag.spelling)
        ]
        named = {name.replace("_", "-"): settings[name] for name in saved if name in settings}
        return {**named, "model-for": pairs} if pairs else named
