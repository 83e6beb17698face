"""Checks of single settings: what was given, and what is accepted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fedrelax.errors import FedRelaxError, did_you_mean
from fedrelax.losses import Weighted
from fedrelax.network import Network
from fedrelax.runtime import Distillation
from fedrelax.runtime.workers import check_jobs
from fedrelax.validation import check_count, check_number
from fedrelax.wiring import Wiring

HOOKS = ("begin", "wired", "after_round", "end")
"""What a callback is asked."""


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """Refuse what is not one of the choices."""
    if value not in choices:
        known = ", ".join(choices)
        raise FedRelaxError(
            f"{name}={value!r} must be one of {known}{did_you_mean(value, choices)}"
        )


def check_flag(name: str, value: Any) -> None:
    """Refuse what is neither True nor False."""
    if not isinstance(value, bool | np.bool_):
        raise FedRelaxError(f"{name}={value!r} must be True or False")


def check_callbacks(callbacks: Any) -> None:
    """Refuse what is not a sequence of objects with the hooks of ``Callback``."""
    if isinstance(callbacks, Mapping | str | bytes) or not isinstance(callbacks, Iterable):
        raise FedRelaxError(
            f"callbacks is a {type(callbacks).__name__}; give a list of fedrelax.runtime.Callback "
            "objects"
        )
    for number, callback in enumerate(callbacks):
        if isinstance(callback, type) or not all(hasattr(callback, hook) for hook in HOOKS):
            found = callback if isinstance(callback, type) else type(callback)
            raise FedRelaxError(
                f"callbacks[{number}] is {'the class ' * isinstance(callback, type)}"
                f"{found.__name__}, not a fedrelax.runtime.Callback object"
            )


def check_alone(alone: Any) -> None:
    """Refuse what is not a sequence of nodes."""
    if isinstance(alone, Mapping | str | bytes) or not isinstance(alone, Iterable):
        raise FedRelaxError(f"alone={alone!r} must be a list of nodes")


def check_running(settings: Any) -> None:
    """Check what a solver is told beside the method itself."""
    check_jobs(settings.n_jobs)
    check_flag("continued", settings.continued)
    distillation = settings.distillation
    if distillation is not None and not isinstance(distillation, Distillation):
        raise FedRelaxError(
            f"distillation={distillation!r} must be None or a fedrelax.runtime.Distillation"
        )
    if settings.random_state is not None:
        check_count("random_state", settings.random_state, least=0)


def check_weights(discrepancy: Weighted, network: Network) -> None:
    """Ask for the weights of all public rows, so that those that are none are refused beforehand."""
    public = network.public
    if public.common is not None:
        discrepancy.weights(public.common)
        return
    for label in network.nodes:
        try:
            discrepancy.weights(public.of(label))
        except FedRelaxError as error:
            raise FedRelaxError(f"public rows of node {label!r}: {error}") from None


def check_rounds(settings: Any, network: Network) -> None:
    """Check the settings that every FedRelax solver has."""
    check_number("alpha", settings.alpha, least=0.0)
    if settings.tol is not None:
        check_number("tol", settings.tol, least=0.0)
    if settings.rounds is not None:
        check_count("rounds", settings.rounds, least=0)
    check_choice("objective", settings.objective, ("paper", "gtvmin"))
    check_choice("weighting", settings.weighting, ("mean", "rows"))
    check_choice("first_exchange", settings.first_exchange, ("models", "zeros"))
    if settings.wiring is not None:
        if not isinstance(settings.wiring, Wiring):
            raise FedRelaxError(
                f"wiring={settings.wiring!r} must be None or a fedrelax.wiring object"
            )
        settings.wiring.check()
        if settings.wiring.needs_common and network.public.common is None:
            raise FedRelaxError(
                f"wiring={settings.wiring.name!r} may join any two nodes, so it needs one common set "
                "of public rows, and here every node has its own; pass one array as public"
            )
    if settings.patience is not None:
        check_count("patience", settings.patience, least=1)
        if not any(node.validation for node in network):
            raise FedRelaxError(
                f"patience={settings.patience} needs validation rows, and no node has any"
            )
