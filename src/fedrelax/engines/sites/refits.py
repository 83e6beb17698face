"""The fits of a round: models that can be trained in one batch are, the others go to the workers."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

from fedrelax.errors import FedRelaxError, FedRelaxWarning, NodeFitError, in_one_line
from fedrelax.models import BatchedModel, LocalModel, Rows
from fedrelax.runtime.site import Answers, Inputs
from fedrelax.runtime.workers import Run
from fedrelax.typing import Label, Model


class Refit(NamedTuple):
    """One node's part of a round: what its model is fitted to, and the rows it then predicts."""

    label: Label
    model: LocalModel
    terms: Sequence[Rows]
    inputs: Inputs
    seed: int
    continued: bool


def refit_all(run: Run, tasks: Sequence[Refit]) -> list[tuple[LocalModel, Answers]]:
    """Return the fitted models and their answers, in the order of the tasks.

    Batches stay in this process: the last digits depend on their members.
    """
    groups: dict[Hashable, list[int]] = {}
    for place, task in enumerate(tasks):
        if isinstance(task.model, BatchedModel):
            key = task.model.batch_key(task.terms)
            if key is not None:
                groups.setdefault(key, []).append(place)
    done: dict[int, tuple[LocalModel, Answers]] = {}
    for places in groups.values():
        if len(places) > 1:
            found = _refit_together([tasks[place] for place in places])
            done.update(zip(places, found, strict=False))
    rest = [place for place in range(len(tasks)) if place not in done]
    found = run(refit, [tasks[place] for place in rest])
    done.update(zip(rest, found, strict=True))
    return [done[place] for place in range(len(tasks))]


def _refit_together(tasks: Sequence[Refit]) -> list[tuple[LocalModel, Answers]]:
    """Return the fits of one batch, or nothing if it fails: one by one, the error names the node."""
    models: list[Model] = [task.model for task in tasks]
    kind = type(models[0])
    try:
        fitted = kind.fit_many(
            models,
            [task.terms for task in tasks],
            seeds=[task.seed for task in tasks],
            continued=tasks[0].continued,
        )
        answers = kind.predict_many(fitted, [list(task.inputs.values()) for task in tasks])
    except FedRelaxError:
        return []
    except Exception as error:
        warnings.warn(
            f"{len(tasks)} nodes with {models[0].name} could not be trained at once and are "
            f"trained one by one ({in_one_line(error)})",
            FedRelaxWarning,
            stacklevel=2,
        )
        return []
    return [
        (model, dict(zip(task.inputs, given, strict=True)))
        for task, model, given in zip(tasks, fitted, answers, strict=True)
    ]


def refit(
    label: Label,
    model: LocalModel,
    terms: Sequence[Rows],
    inputs: Inputs,
    seed: int,
    continued: bool,
) -> tuple[LocalModel, Answers]:
    """Fit one node's model and predict everything the node needs in one call."""
    step, count = "fit", sum(len(term) for term in terms)
    try:
        fitted = model.fit(terms, seed=seed, continued=continued)
        step, count = "predict", sum(len(rows) for rows in inputs.values())
        everything = fitted.predict(np.concatenate(list(inputs.values())))
    except Exception as error:
        text = in_one_line(error, kind=not isinstance(error, FedRelaxError))
        raise NodeFitError(
            f"node {label!r}: {step} of {model.name} failed on {count} rows ({text})"
        ) from error
    ends = np.cumsum([len(rows) for rows in inputs.values()])[:-1]
    return fitted, dict(zip(inputs, np.split(everything, ends), strict=True))
