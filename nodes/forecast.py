"""Forecast the time and the gain of each adaptor on the source model, for the order of the search."""

from __future__ import annotations

from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.contract.hardware import read_host
from hone_runtime.values.artifact import Artifact
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.recipe.schema import Recipe
from kedro_hone.search.plan.forecast import Forecast, make_forecast


def forecast(*, source: Artifact, adaptors: tuple[str, ...], recipe: Recipe, store: Store, run: RunFolder) -> Forecast:  # noqa: ARG001 - each node gets these
    """Return the forecast for some adaptors on this machine, from the usual figures and this model's earlier steps.

    Raises:
        HoneError: ``capabilities-invalid``.
    """
    known = read_catalogue().adaptors
    return make_forecast((known[name] for name in adaptors), source, read_host(), store.read_records())
