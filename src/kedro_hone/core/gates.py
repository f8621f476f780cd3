"""Gates: what a candidate must hold to be published, one value each, and where they are found.

A gate is a module in ``kedro_hone.search.gates`` that exports ``GATE``. Other packages name theirs in the
entry-point group ``kedro_hone.gates``, and a Kedro project calls ``register_gate`` in its ``settings.py``. The recipe's
section ``gates``, its reference page, the decision, the evidence and the reports are made from these values.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from string import Formatter
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, ValidationError, create_model
from pydantic.fields import FieldInfo

from hone_runtime.contract.plugins import (
    Plugins,
    check_kind,
    describe_exception,
    guard,
    list_modules,
    list_offers,
    load,
    name_function,
)
from hone_runtime.errors import HoneError
from hone_runtime.values.base import Value
from hone_runtime.values.judgement import Judged, Judgement
from hone_runtime.values.measurement import Latency, Load, Quality, Speedup

ENTRY_POINTS: Final = "kedro_hone.gates"
"""The entry-point group of other distributions; each entry point names a gate."""


class Measurements(Value):
    """All that was measured on one finalist, or on the source, when the gates are asked.

    Attributes:
        id: ``source`` for the source model.
        faster: ``yes``, ``no`` or ``undecided``: whether it is faster by the recipe's threshold, as the launches
            decided; empty when it could not be confirmed, and for the source.
        speedup: The speed-up at the deciding shape, or None.
        speedups: One for each shape.
        quality: Its metric on the gate split; None for a gate that is not ``scored``.
        cold_start_ms: From the start of loading to the first predictions, without the interpreter's start.
        peak_memory_bytes: Resident memory of its worker at its highest, with the interpreter and the toolchain.
        other_load: Share of the cores' time that other processes took while the finalists were confirmed, 0 to 1; None
            where the system does not tell.
    """

    id: str
    faster: str = ""
    speedup: Speedup | None = None
    speedups: tuple[Speedup, ...] = ()
    latency: tuple[Latency, ...] = ()
    quality: Quality | None = None
    size_bytes: int | None = None
    cold_start_ms: float | None = None
    peak_memory_bytes: int | None = None
    other_load: Load | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Gate:
    """One gate.

    Attributes:
        name: Its key in the recipe's section ``gates``.
        takes: The type of that key, such as ``float | None``. A limit of None or of no shapes means not asked.
        field: Its default, its bounds and its description, which is the sentence of the reference page.
        judge: From the recipe's limit, the candidate and the source to one judgement, or to one for each shape. Pure.
        relative: Whether it compares with the source. Where no candidate holds these gates the source stays: ``KEEP``.
            A gate that is not relative is absolute; the source must hold it too where it stays. Where the best there
            is misses it, the verdict is ``FAIL``.
        scored: Whether it needs the metric on the gate split. Of the relative gates these are asked last, so that few
            candidates are scored.
        per_shape: Whether the limit is a map whose keys are the recipe's shapes.
        of_machine: Whether it is about the machine that measured, and so about all judgements: where it is undecided,
            nothing else is certain.
        asks: Of a relative gate: the words after "no candidate is", with ``{limit}``; empty where it asks nothing of
            the candidate itself.
        doubt: Of a relative gate: the reason where candidates are undecided, with ``{names}``, ``{limit}`` and
            ``{launches}``.
    """

    name: str
    takes: Any
    field: Any  # a FieldInfo: pydantic declares that Field() returns the default's type
    judge: Callable[[Any, Measurements, Measurements], Sequence[Judgement]]
    relative: bool = False
    scored: bool = False
    per_shape: bool = False
    of_machine: bool = False
    asks: str = "good enough"
    doubt: str = "what was measured cannot tell whether {names} is good enough"

    def __post_init__(self) -> None:
        if not (self.name.isidentifier() and isinstance(self.field, FieldInfo) and self.field.description):
            raise ValueError(f"the gate {self.name!r} needs an identifier as its name and a described field")
        if self.of_machine and not self.relative:
            raise ValueError(f"the gate {self.name!r} is of_machine, and so it must be relative")

    def ask(self, limit: Any, candidate: Measurements, source: Measurements) -> tuple[Judgement, ...]:
        """Judge a candidate, or the source itself where it stays; undecided where ``judge`` returned nothing.

        Raises:
            HoneError: ``gate-invalid``: ``judge`` raised, or returned no judgement of this gate on it.
        """
        if not is_asked(limit):
            return (self.rule(candidate.id, Judged.NOT_ASKED, "the recipe sets no limit"),)
        what = f"The gate {self.name} cannot judge {candidate.id}."
        hint = "Mend the gate, or set no limit for it; Write a gate in the documentation says what it returns."
        with guard("gate-invalid", what, culprit=name_function(self.judge), hint=hint):
            rows = tuple(check_kind(row, Judgement) for row in self.judge(limit, candidate, source))
            for row in rows:
                if (row.name, row.candidate) != (self.name, candidate.id):
                    raise ValueError(f"it returned a judgement of the gate {row.name!r} on {row.candidate!r}")
        reason = f"the gate {self.name} returned no judgement on {candidate.id}"
        return rows or (self.rule(candidate.id, Judged.UNDECIDED, reason),)

    def rule(self, candidate: str, judged: Judged, reason: str, **told: Any) -> Judgement:
        """Return a judgement of this gate, with what else it has, such as ``limit`` and ``measured``."""
        return Judgement(name=self.name, candidate=candidate, judgement=judged, reason=reason, **told)


def is_asked(limit: Any) -> bool:
    """Return whether a recipe's limit asks for anything."""
    return limit is not None and limit != {}


def judge_at_most(
    *,
    name: str,
    candidate: str,
    measured: float | None,
    limit: float,
    unit: str,
    subject: str,
    verb: str = "takes",
    digits: str = ".4g",
    shape: str = "",
) -> Judgement:
    """Judge a number that must not pass its limit; exactly the limit holds, and what was not measured is undecided.

    The reason reads as ``subject verb measured unit``: "the files of NAME take 3 MB". ``digits`` formats the number,
    ``unit`` that of both numbers in words, and ``shape`` the shape that it is about, if it is about one.
    """
    if measured is None or not math.isfinite(measured):
        judged, said = Judged.UNDECIDED, f"how many {unit} {subject} {verb} was not measured"
    else:
        judged = Judged.HOLDS if measured <= limit else Judged.FAILS
        said = f"{subject} {verb} {measured:{digits}} {unit}"
    reason = f"{said}, where {limit:g} {unit} is allowed"
    told = {"limit": limit, "measured": measured, "unit": unit, "shape": shape}
    return Judgement(name=name, candidate=candidate, judgement=judged, reason=reason, **told)


_PLUGINS: Final = Plugins[Gate](
    slug="gate-invalid", clash="Two gates are named {name!r}.", locate=lambda gate: name_function(gate.judge)
)


def register_gate(gate: Gate) -> None:
    """Add a gate of your own, from the ``settings.py`` of a Kedro project or any module that it imports.

    Registering the same again replaces it, so settings may be imported twice.

    Raises:
        HoneError: ``gate-invalid``: it cannot be a key of the recipe or give its reasons, or another registered gate
            has this name. A name that is built in or another package's is found when the gates are read.
    """
    if fault := _find_fault(check_kind(gate, Gate)):
        raise _explain_unusable(f"{gate.name!r} of {name_function(gate.judge)}", fault)
    _PLUGINS.register(gate)


forget_gates = _PLUGINS.own.clear
"""Drops what ``register_gate`` added, for tests and for reloading a project in a notebook."""


def read_gates() -> tuple[Gate, ...]:
    """Return all gates in the order in which they are asked: relative ones first, and first those that need no scoring.

    One that cannot be loaded ends the run: without it something would be published that does not hold it.

    Raises:
        HoneError: ``gate-invalid``: two gates have one name, or a module of a gate cannot be imported or has none that
            can be used.
    """
    offers = list_offers(ENTRY_POINTS, list_modules("kedro_hone.search.gates", "GATE"))
    found, broken = load(offers, _read_gate)
    for place, error in broken.items():
        raise _explain_unusable(f"of {place}", describe_exception(error)) from error
    gates = (gate for gate, _ in _PLUGINS.merge(found).values())
    return tuple(sorted(gates, key=lambda gate: (not gate.relative, gate.scored, gate.name)))


def _read_gate(value: Any) -> Gate:
    gate = check_kind(value, Gate)
    if fault := _find_fault(gate):
        raise ValueError(f"the gate {gate.name!r}: {fault}")
    return gate


def _explain_unusable(gate: str, why: str) -> HoneError:
    hint = "Mend it, or uninstall its package; Write a gate in the documentation says what it needs."
    return HoneError("gate-invalid", f"The gate {gate} cannot be used.", why=why, hint=hint)


_LIMITS: Final[tuple[Any, ...]] = (
    *(1, 0.5, 0.01, 2.0, 100.0, -1.0),
    *({"shape": 1.0}, {"shape": 1}, {"shape": 100.0}, {"shape": "x"}, ["x"], [1.0], "x", True),
)
"""Limits of many types, of which a gate takes some: those are written into its sentences."""


@lru_cache(maxsize=64)
def _find_fault(gate: Gate) -> str | None:
    """Return why a gate cannot be a key of the recipe or give its reasons, or None: found before measuring."""
    if not callable(gate.judge):
        return f"its judge is {gate.judge!r:.80}, which cannot be called"
    field: FieldInfo = gate.field
    if field.alias or field.validation_alias or field.serialization_alias:
        return "its field has an alias, and its key in the recipe is its name"
    if field.is_required():
        return "its field has no default: recipes that do not name it would be refused; None is no limit"
    try:
        section = _make_section(gate)
        default = getattr(section(), gate.name)
    except Exception as error:  # noqa: BLE001 - of pydantic there are many kinds, and a stranger's type may raise any
        return f"its limit cannot be a key of the recipe: {' '.join(describe_exception(error).split())}"
    if gate.per_shape and (_read_limits(section, gate, [None]) or not _read_limits(section, gate, [{}])):
        return "it is per_shape, so its limit must be a map from shapes, which may be empty and not None"
    return _find_bad_sentence(gate, [default, *_read_limits(section, gate, _LIMITS)])


def _make_section(gate: Gate) -> type[BaseModel]:
    """Return the gate's key as the recipe will have it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # as of a name that pydantic keeps for itself
        warnings.filterwarnings("ignore", message=".*shadows an attribute")  # the recipe refuses those by their names
        config = ConfigDict(frozen=True, extra="forbid", validate_default=True)
        keys: dict[str, Any] = {gate.name: (gate.takes, gate.field)}
        return create_model("Section", __config__=config, **keys)


def _read_limits(section: type[BaseModel], gate: Gate, limits: Iterable[Any]) -> list[Any]:
    """Return those limits that a gate takes, as the recipe reads them."""
    taken = []
    for limit in limits:
        with suppress(ValidationError):
            taken.append(getattr(section.model_validate({gate.name: limit}), gate.name))
    return taken


def _find_bad_sentence(gate: Gate, limits: list[Any]) -> str | None:
    """Return what is wrong with the words of a relative gate: a place that is not filled, or not so."""
    asks: dict[str, Any] = {"limit": None}
    for name, known in (("asks", asks), ("doubt", {"names": "a, b", **asks, "launches": 7})):
        words = getattr(gate, name)
        try:
            places = [place for _, place, _, _ in Formatter().parse(words) if place is not None]
        except (ValueError, TypeError) as error:
            return f"its {name} is no sentence to be filled: {describe_exception(error)}"
        if unknown := [place for place in places if place.partition(".")[0].partition("[")[0] not in known]:
            said = " and ".join(f"{{{place}}}" for place in known)
            return f"its {name} has the place {{{unknown[0]}}}, and there is {said}"
        for limit in limits:
            try:
                if is_asked(limit):
                    words.format(**{**known, "limit": limit})
            except Exception as error:  # noqa: BLE001 - a stranger's type may raise any
                return f"its {name} cannot be written with a limit of {limit!r}: {describe_exception(error)}"
    return None
