"""The league's table: every way's error relative to the best usual way of the table, by hindsight."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.league.ours import AUTO
from benchmarks.league.tables import Table
from benchmarks.league.usual import CLASSES, REGRESSION


def ratios(paths: Iterable[Path], tables: Iterable[Table], unequal: bool) -> pd.DataFrame:
    """Return one row per table: mean errors over the splits that all usual ways have, as ratios."""
    results = pd.concat([pd.read_csv(path) for path in paths if path.exists()])
    results = results[results["split"] == ("unequal" if unequal else "equal")]
    lines = []
    for table in tables:
        own = results[results["table"] == table.name].pivot_table("error", "seed", "way")
        usual = [*(REGRESSION if table.kind == "regression" else CLASSES)]
        if not set(usual) <= set(own.columns):
            continue
        own = own.dropna(subset=usual).dropna(axis="columns")
        means = own.mean()
        line = means / means[usual].min()
        line["of mixed slopes"] = np.nan
        if AUTO in means:
            line["of alone or pooled"] = means[AUTO] / means[["local", "pooled"]].min()
            if "mixed slopes" in means:
                line["of mixed slopes"] = means[AUTO] / means["mixed slopes"]
        line["splits"] = len(own)
        lines.append(line.rename(table.name))
    return pd.DataFrame(lines)


def tell(paths: Iterable[Path], tables: list[Table], unequal: bool) -> str:
    """Return the tables of each league as text, regression and classes, each with its means."""
    parts = []
    paths = list(paths)
    for kind in ("regression", "classes"):
        for league in ("development", "fresh", "newer", "last", "final"):
            chosen = [t for t in tables if t.kind == kind and t.league == league]
            found = ratios(paths, chosen, unequal)
            if found.empty:
                continue
            means = np.exp(np.log(found.drop(columns="splits")).mean())
            found.loc["geometric mean"] = means
            name = f"{kind}, {league} tables"
            name += ", unequal nodes" if unequal else ""
            parts.append(f"{name}\n{found.round(3).to_string(na_rep='')}")
    parts.append(_times_and_words(paths, tables, unequal))
    return "\n\n".join(parts)


def _times_and_words(paths: Iterable[Path], tables: list[Table], unequal: bool) -> str:
    """Return how long fedrelax took, and where it says that something else would be better."""
    results = pd.concat([pd.read_csv(path) for path in paths if path.exists()])
    results = results[results["split"] == ("unequal" if unequal else "equal")]
    own = results[results["way"] == AUTO]
    lines = []
    for kind in ("regression", "classes"):
        names = [table.name for table in tables if table.kind == kind]
        part = own[own["table"].isin(names)]
        if part.empty:
            continue
        seconds = part.groupby("table")["seconds"].mean()
        lines.append(
            f"{kind}: processor seconds of {AUTO} per table: median {seconds.median():.2f}, "
            f"at most {seconds.max():.2f} ({seconds.idxmax()})"
        )
        told = part[part["said"].fillna("") != ""].groupby("table").size()
        splits = part.groupby("table").size()
        words = [f"{name} {count}/{splits[name]}" for name, count in told.items()]
        lines.append(f"  splits in which it says that something else is better: {', '.join(words)}")
    return "\n".join(lines)
