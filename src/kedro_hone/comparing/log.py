"""What a node did, as a value beside the one that it makes, so that a later run can report it without its folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kedro_hone.core.store.workplace import Workplace
from kedro_hone.core.values.base import Json, Value


class NodeLog(Value):
    """The events of one node in one run.

    Attributes:
        run_id: The run in which the node ran; its folder holds the steps.
        node: The node's name, with its namespace.
        events: As in ``events.jsonl`` of the run, oldest first.
    """

    run_id: str
    node: str
    events: tuple[dict[str, Json], ...]


def record(function: Callable[..., Any], *, node: str, workplace: Workplace, **inputs: Any) -> tuple[Any, NodeLog]:
    """Run a node's function, and return what it makes with what it did.

    Args:
        function: Takes the workplace and the inputs.
        node: The node's name, with its namespace.
        workplace: Where the run works.
        **inputs: What else the function takes.

    Returns:
        What the function made, and its log.
    """
    own = workplace.model_copy(update={"node": node})
    made = function(workplace=own, **inputs)
    events = tuple(event for event in own.read_events() if event.get("node") == node)
    return made, NodeLog(run_id=workplace.run_id, node=node, events=events)


def list_events(logs: Iterable[NodeLog]) -> tuple[dict[str, Json], ...]:
    """Return the events of several nodes, oldest first, each with the ``run`` in which it happened."""
    events = [{**event, "run": log.run_id} for log in logs for event in log.events]
    return tuple(sorted(events, key=lambda event: float(event["at"])))
