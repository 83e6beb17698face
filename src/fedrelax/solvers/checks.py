"""Checks of single settings: what was given, and what is accepted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

from fedrelax.errors import FedRelaxError, did_you_mean
from fedrelax.network import Network


def check_number(name: str, value: Any, least: float, below: float = math.inf) -> None:
    """Refuse what is not a finite number in [least, below)."""
    if isinstance(value, bool) or not isinstance(value, Real) or not least <= float(value) < below:
        upper = "" if below == math.inf else f" and less than {below:g}"
        raise FedRelaxError(
            f"{name}={value!r} must be a finite number of at least {least:g}{upper}"
        )


def check_count(name: str, value: Any, least: int) -> None:
    """Refuse what is not a whole number of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise FedRelaxError(f"{name}={value!r} must be a whole number of at least {least}")


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """Refuse what is not one of the choices."""
    if value not in choices:
        known = ", ".join(choices)
        raise FedRelaxError(
            f"{name}={value!r} must be one of {known}{did_you_mean(value, choices)}"
        )


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
