"""Load: the share of the cores that other processes may use while the finalists are confirmed.

A ratio that was measured under load is valid for that load only. Pairing does not remove different effects of load on
two programs: a program with threads that wait for each other loses most. ``docs/concepts/measuring.md`` has figures.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from pydantic import Field

from hone_runtime.values.judgement import GateOutcome, Judgement
from kedro_hone.core.gates import Gate, Measurements

QUIET: Final = 0.25
"""Above this share a ratio is valid for that load only: the alias does not move, whatever limit a recipe has. A winner
that was 1.45 to 2.5 times as fast under load was 0.85 times as fast on the idle machine."""


def find_load(rows: Iterable[Judgement]) -> float | None:
    """Return the largest share of this gate's judgements if it is above ``QUIET``, otherwise None."""
    shares = [row.measured for row in rows if row.name == GATE.name and row.measured is not None]
    return max((share for share in shares if share > QUIET), default=None)


def format_wait(share: float) -> str:
    """Return a sentence that a winner waits for a quiet machine, with the command that measures it there."""
    shown = math.ceil(share * 1000) / 1000
    return (
        f"other processes took {shown:g} of the cores' time, and above {QUIET:g} no alias is moved: the winner waits "
        "until `kedro-hone run --from-nodes confirm` confirms it on a quiet machine"
    )


def judge(limit: float, candidate: Measurements, source: Measurements) -> tuple[Judgement, ...]:  # noqa: ARG001 - each judge gets it
    """Return undecided above the limit; the gate passes if the system does not report the load of others."""
    share, fields = candidate.other_load, {"limit": limit, "unit": "of the cores"}
    if share is None:
        return (GATE.rule(candidate.id, GateOutcome.HOLDS, "the load of other processes is not known", **fields),)
    judged = GateOutcome.HOLDS if share <= limit else GateOutcome.UNDECIDED
    shown = (math.floor if share <= limit else math.ceil)(share * 1000) / 1000  # on the same side of the limit
    reason = f"other processes took {shown:g} of the cores' time, where hone.gates.other_load allows {limit:g}"
    if judged is GateOutcome.UNDECIDED:
        reason += ": run again when the machine is idle, or raise the limit if it never is"
    return (GATE.rule(candidate.id, judged, reason, measured=share, **fields),)


GATE = Gate(
    name="other_load",
    takes=float,
    field=Field(
        default=QUIET,
        ge=0,
        le=1,
        description="The largest share of the cores' time, 0 to 1, that other processes may take during the "
        "confirmation. "
        f"Above it nothing is decided; 1 allows any load. Above {QUIET:g} a winner waits for a quiet machine, "
        "whatever this limit is.",
    ),
    judge=judge,
    relative=True,
    of_machine=True,
    asks="",
    doubt="speeds that were measured on a busy machine prove nothing about an idle one",
)
