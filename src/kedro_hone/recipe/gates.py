"""The recipe's section ``gates``: one key for each gate, of kedro-hone and of other packages."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pydantic import Field, create_model

from hone_runtime.errors import HoneError
from hone_runtime.values.slices import SliceLimit
from kedro_hone.core.gates import Gate, read_gates
from kedro_hone.recipe.bounds import Section


class GatesSection(Section):
    """The gates that a candidate must pass to be published."""

    require_improvement: bool = Field(default=False, description="FAIL instead of KEEP when nothing is faster.")
    beat_published: bool = Field(
        default=False,
        description="A winner must also beat, by the same gates, the version that `publish.alias` points to; it is "
        "measured next to it. Else the published version stays.",
    )
    confidence: float = Field(0.95, gt=0.5, le=0.9999, description="Confidence of every interval.")
    conversion: float | None = Field(
        None,
        ge=0,
        le=1,
        description="The share of rows in which a route that only converts may differ from the source by more than "
        "rounding. When empty: 0.01 for estimators, and for outputs of whole numbers or text, where a threshold may "
        "turn a rounding into another value; else 0.",
    )
    unscored: float = Field(
        0.1,
        ge=0,
        le=1,
        description="How far outputs that no metric reads may be from the source's: the length of a row's difference "
        "over that of the row, on average; of whole numbers and text, the share of rows that differ.",
    )
    if TYPE_CHECKING:  # the other keys are those of the gates; these are also needed to plan the measurements
        speedup: float = 0.0
        other_load: float = 0.0
        drop: float = 0.0
        drops: dict[str, float] = {}
        latency_p99_ms: dict[str, float] = {}
        slices: SliceLimit | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return read_section, (self.model_dump(),)  # the class with the gates' keys is not in a module


def read_section(value: object) -> GatesSection:
    """Return the section with the keys of all registered gates; a ``ValidationError`` for an invalid key."""
    section = compose_gates(read_gates())  # gates may be registered after this module is imported
    return section.model_validate(value.model_dump() if isinstance(value, GatesSection) else value)


@lru_cache(maxsize=8)
def compose_gates(gates: tuple[Gate, ...]) -> type[GatesSection]:
    """Return the section ``gates`` with one key for each gate.

    Raises:
        HoneError: ``gate-invalid``: a gate has the name of another key in the section.
    """
    for gate in gates:
        if hasattr(GatesSection, gate.name) or gate.name in GatesSection.model_fields:
            why = "The recipe's section `gates` uses this name for something else."
            raise HoneError("gate-invalid", f"A gate cannot be named {gate.name!r}.", why=why, hint="Rename the gate.")
    keys: dict[str, Any] = {gate.name: (gate.takes, gate.field) for gate in gates}
    return create_model("GatesSection", __base__=GatesSection, __doc__=GatesSection.__doc__, **keys)
