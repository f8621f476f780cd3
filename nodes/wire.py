"""Measure the winner and the source through the wire, if the recipe requires it."""

from __future__ import annotations

from pathlib import Path

from hone_runtime.contract.plugins import describe_exception
from hone_runtime.contract.proof import GOLDEN
from hone_runtime.contract.registry import VersionInfo
from hone_runtime.errors import HoneError
from hone_runtime.text import open_logger
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.decision import Decision
from hone_runtime.values.outcome import Failed
from hone_runtime.values.wire import WireResult
from kedro_hone.recipe.environments import find_environment
from kedro_hone.search.context import RunContext
from kedro_hone.serving.staging import stage_artifact
from kedro_hone.serving.wire.comparison import DEFAULT, Effort, compare_through_wire
from kedro_hone.serving.wire.packages import choose_environment

logger = open_logger(__name__)

WRONG = "winner-differs"


def measure_wire(
    *, context: RunContext, decision: Decision, version: VersionInfo, effort: Effort = DEFAULT
) -> WireResult:
    """Serve the source and the winner, and measure both by turns.

    Returns:
        The figures; or why there are none: there is no winner, or a server cannot run one of the two.

    Raises:
        HoneError: ``winner-differs``: answers through the wire are wrong. Such a winner is not published.
    """
    if decision.artifact is None or decision.winner is None:
        return WireResult(reason="There is no winner to serve.")
    if decision.golden is None:
        return WireResult(reason="There are no golden rows to send: hone.golden_rows is 0, or they are too large.")
    try:
        return _compare(context, decision, decision.artifact, uri=version.uri, effort=effort)
    except HoneError as error:
        if error.slug == WRONG:
            raise
        reason = f"{error.what} {error.why}"
    except Exception as error:  # noqa: BLE001 - the figures are optional, and the gates have passed
        reason = f"The measurement failed: {describe_exception(error)}"
    logger.warning("wire      not measured: %s", reason)
    return WireResult(reason=reason)


def _compare(
    context: RunContext,
    decision: Decision,
    winner: Artifact,
    *,
    uri: str,
    effort: Effort,
) -> WireResult:
    store, trusted = context.store, "native" in context.recipe.trust
    golden = store.locate_tree(str(decision.golden)) / GOLDEN
    with store.workspace() as place:
        folder = Path(place)
        served = stage_artifact(
            winner,
            store.locate(winner),
            folder / "winner",
            uri=str(decision.winner),
            golden=golden,
            trusted=trusted,
        )
        environment = find_environment(context.recipe, choose_environment(served))
        if isinstance(environment, Failed):
            return WireResult(reason=f"The server's environment cannot be built: {environment.reason}")
        source = stage_artifact(
            context.source, store.locate(context.source), folder / "source", uri=uri, trusted=trusted
        )
        found = compare_through_wire(
            served,
            environment=environment,
            source=source,
            shapes=tuple(shape.sizes for shape in context.recipe.all_shapes),
            effort=effort,
            report=lambda line: logger.info("wire      %s", line),
        )
        return WireResult(comparison=found)
