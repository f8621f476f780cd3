"""Run adaptors: from an artifact to the next one, or to the reason for its absence."""

from __future__ import annotations

from hone_runtime.contract.adaptor import Options
from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.outcome import Outcome
from hone_runtime.values.samples import Reference
from kedro_hone.search.context import RunContext
from kedro_hone.search.plan.budget import expect_seconds
from kedro_hone.search.plan.forecast import UNKNOWN, Forecast
from kedro_hone.search.steps.step import transform


def apply_adaptor(
    *,
    context: RunContext,
    parent: Outcome,
    reference: Reference,
    forecast: Forecast = UNKNOWN,
    adaptor: str,
    options: Options,
    title: str = "",
) -> Outcome:
    """Run one adaptor of a route on the outcome of the previous step; a refusal or a failure is returned unchanged.

    Nothing is built before the reference, that is, before the source model was run and scored. ``title`` is the
    adaptor's name in the log, with the values that tell its variants apart.
    """
    if not isinstance(parent, Artifact):
        return parent
    found = read_catalogue().find_adaptor(adaptor)
    expected = expect_seconds(found, forecast.find_seconds(adaptor))
    return transform(found, options, parent, context, reference=reference, expected=expected, title=title)
