"""Gather the validations of all routes into one value, so that the race reads one dataset and not one of each route."""

from __future__ import annotations

from hone_runtime.values.measurement import Validation, Validations
from kedro_hone.search.context import RunContext


def gather(*, context: RunContext, **validations: Validation) -> Validations:  # noqa: ARG001 - so that they are of one recipe
    """Return the validations in the order of the routes."""
    return Validations(validations=tuple(validations.values()))
