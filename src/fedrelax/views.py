"""How fitted objects are shown: ``plot``, and the HTML in a notebook.

Pictures and pages belong to ``report``, far above the estimators and results that are drawn. This is the
one place that imports upwards, by name, and only when something is to be shown.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


def view(module: str) -> Any:
    """Return a module of ``fedrelax.report``."""
    return import_module(f"fedrelax.report.{module}")


class Looks:
    """Gives an estimator ``plot``, and in notebooks a summary once it is fitted."""

    @property
    def plot(self) -> Any:
        """Pictures of the fitted network: ``graph``, ``curves`` and ``gains``.

        See ``fedrelax.report.plots.Plots``; needs matplotlib (the extra ``report``).
        """
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self, "result_")
        fitted: Any = self
        return view("plots").Plots(fitted.result_)

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
        from sklearn import get_config

        if not hasattr(self, "result_") or get_config()["display"] != "diagram":
            found: dict[str, Any] = super()._repr_mimebundle_(**options)  # type: ignore[misc]
            return found
        return {"text/plain": repr(self), "text/html": view("notebook").estimator_html(self)}
