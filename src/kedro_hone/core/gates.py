"""Gates: the conditions for publishing a candidate, one value each, and how they are registered.

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
    locate_function,
)
from hone_runtime.errors import HoneError
from hone_runtime.values.base import Value
from hone_runtime.values.judgement import GateOutcome, Judgement
from hone_runtime.values.measurement import Latency, Load, Quality, Speedup

ENTRY_POINTS: Final = "kedro_hone.gates"
"""The entry-point group of other distributions; each entry point names a gate."""


class Measurements(Value):
    """All measurements of one finalist, or of the source, when the gates are evaluated.

    Attributes:
        id: ``source`` for the source model.
        faster: ``yes``, ``no`` or ``undecided``: whether it is faster by the recipe's threshold, as decided by the
            launches; empty if it could not be confirmed, and for the source.
        speedup: The speed-up at the deciding shape, or None.
        speedups: One for each shape.
        quality: Its metric on the gate split; None for a gate that is not ``scored``.
        cold_start_ms: From the start of loading to the first predictions, without the interpreter's start.
        peak_memory_bytes: Resident memory of its worker at its highest, with the interpreter and the toolchain.
        other_load: Share of the cores' time that other processes took while the finalists were confirmed, 0 to 1; None
            if the system does not report it.
        trained: Whether a step of its route trained it: then it may compute something else than the source.
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
    trained: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class Gate:
    """One gate.

    Attributes:
        name: Its key in the recipe's section ``gates``.
        takes: The type of that key, such as ``float | None``. With a limit of None or without shapes, the gate is not
            evaluated.
        field: Its default, its bounds and its description, which is the sentence of the reference page.
        judge: A pure function from the recipe's limit, the candidate and the source to one judgement, or one for each
            shape.
        relative: Whether it compares with the source. If no candidate passes these gates, the source stays: ``KEEP``. A
            gate that is not relative is absolute; if the source stays, it must pass it too. If the best model does not
            pass it, the verdict is ``FAIL``.
        scored: Whether it needs the metric on the gate split. Of the relative gates these are evaluated last, so that
            few candidates are scored.
        per_shape: Whether the limit is a map from the recipe's shapes to limits.
        of_machine: Whether it is about the machine that measured, and so about all judgements: if it is undecided,
            nothing else is certain.
        asks: For a relative gate: the words after "no candidate is", with ``{limit}``; empty if it requires nothing of
            the candidate itself.
        doubt: For a relative gate: the reason if candidates are undecided, with ``{names}``, ``{limit}``,
            ``{launches}`` and ``{are}``, which is "is" for a single name.
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
    doubt: str = "the measurements cannot show whether {names} {are} good enough"

    def __post_init__(self) -> None:
        if not (self.name.isidentifier() and isinstance(self.field, FieldInfo) and self.field.description):
            raise ValueError(f"the gate {self.name!r} needs an identifier as its name and a described field")
        if self.of_machine and not self.relative:
            raise ValueError(f"the gate {self.name!r} is of_machine, and so it must be relative")

    def evaluate(self, limit: Any, candidate: Measurements, source: Measurements) -> tuple[Judgement, ...]:
        """Judge a candidate, or the source itself if it stays; undecided if ``judge`` returned nothing.

        Raises:
            HoneError: ``gate-invalid``: ``judge`` raised, or returned no judgement of this gate on it.
        """
        if not has_limit(limit):
            return (self.rule(candidate.id, GateOutcome.NOT_ASKED, "the recipe sets no limit"),)
        what = f"The gate {self.name} cannot judge {candidate.id}."
        hint = "Correct the gate, or set no limit for it; Write a gate in the documentation describes what it returns."
        with guard("gate-invalid", what, culprit=locate_function(self.judge), hint=hint):
            rows = tuple(check_kind(row, Judgement) for row in self.judge(limit, candidate, source))
            for row in rows:
                if (row.name, row.candidate) != (self.name, candidate.id):
                    raise ValueError(f"it returned a judgement of the gate {row.name!r} on {row.candidate!r}")
        reason = f"the gate {self.name} returned no judgement on {candidate.id}"
        return rows or (self.rule(candidate.id, GateOutcome.UNDECIDED, reason),)

    def rule(self, candidate: str, judged: GateOutcome, reason: str, **fields: Any) -> Judgement:
        """Return a judgement of this gate, with further fields such as ``limit`` and ``measured``."""
        return Judgement(name=self.name, candidate=candidate, judgement=judged, reason=reason, **fields)


def has_limit(limit: Any) -> bool:
    """Return whether a recipe's limit requires anything."""
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
    """Judge a number that must not exceed its limit; a number equal to the limit passes, and None is undecided.

    The reason reads as ``subject verb measured unit``: "the files of NAME take 3 MB". ``digits`` formats the number,
    ``unit`` is the unit of both in words, and ``shape`` the shape that the number is about, if any.
    """
    if measured is None or not math.isfinite(measured):
        judged, statement = GateOutcome.UNDECIDED, f"how many {unit} {subject} {verb} was not measured"
    else:
        judged = GateOutcome.HOLDS if measured <= limit else GateOutcome.FAILS
        statement = f"{subject} {verb} {measured:{digits}} {unit}"
    reason = f"{statement}, where {limit:g} {unit} is allowed"
    fields = {"limit": limit, "measured": measured, "unit": unit, "shape": shape}
    return Judgement(name=name, candidate=candidate, judgement=judged, reason=reason, **fields)


_PLUGINS: Final = Plugins[Gate](
    slug="gate-invalid", clash="Two gates are named {name!r}.", locate=lambda gate: locate_function(gate.judge)
)


def register_gate(gate: Gate) -> None:
    """Add a gate of your own, from the ``settings.py`` of a Kedro project or any module that it imports.

    Registering the same again replaces it, so settings may be imported twice.

    Raises:
        HoneError: ``gate-invalid``: it cannot be a key of the recipe or format its reasons, or another registered gate
            has this name. A name of a built-in gate or of another package's is detected when the gates are read.
    """
    if fault := _find_fault(check_kind(gate, Gate)):
        raise _explain_unusable(f"{gate.name!r} of {locate_function(gate.judge)}", fault)
    _PLUGINS.register(gate)


forget_gates = _PLUGINS.own.clear
"""Removes the gates that ``register_gate`` added, for tests and for reloading a project in a notebook."""


def read_gates() -> tuple[Gate, ...]:
    """Return all gates in the order of evaluation: relative ones first, and of those the ones without scoring first.

    A gate that cannot be loaded ends the run: otherwise a model that does not pass it could be published.

    Raises:
        HoneError: ``gate-invalid``: two gates have one name, or a module of a gate cannot be imported or contains no
            usable gate.
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
    hint = "Correct it, or uninstall its package; Write a gate in the documentation lists what it needs."
    return HoneError("gate-invalid", f"The gate {gate} cannot be used.", why=why, hint=hint)


_LIMITS: Final[tuple[Any, ...]] = (
    *(1, 0.5, 0.01, 2.0, 100.0, -1.0),
    *({"shape": 1.0}, {"shape": 1}, {"shape": 100.0}, {"shape": "x"}, ["x"], [1.0], "x", True),
)
"""Sample limits of many types; those that a gate accepts are inserted into its sentences as a check."""


@lru_cache(maxsize=64)
def _find_fault(gate: Gate) -> str | None:
    """Return why a gate cannot be a key of the recipe or format its reasons; None if it can: before measuring."""
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
    except Exception as error:  # noqa: BLE001 - pydantic raises many kinds, and another package's type any
        return f"its limit cannot be a key of the recipe: {' '.join(describe_exception(error).split())}"
    if gate.per_shape and (_read_limits(section, gate, [None]) or not _read_limits(section, gate, [{}])):
        return "it is per_shape, so its limit must be a map from shapes, which may be empty and not None"
    return _find_bad_sentence(gate, [default, *_read_limits(section, gate, _LIMITS)])


def _make_section(gate: Gate) -> type[BaseModel]:
    """Return a model with the gate's key as it will be in the recipe."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # such as for a name that pydantic reserves
        warnings.filterwarnings("ignore", message=".*shadows an attribute")  # the recipe refuses those by their names
        config = ConfigDict(frozen=True, extra="forbid", validate_default=True)
        keys: dict[str, Any] = {gate.name: (gate.takes, gate.field)}
        return create_model("Section", __config__=config, **keys)


def _read_limits(section: type[BaseModel], gate: Gate, limits: Iterable[Any]) -> list[Any]:
    """Return those limits that a gate accepts, as parsed from a recipe."""
    taken = []
    for limit in limits:
        with suppress(ValidationError):
            taken.append(getattr(section.model_validate({gate.name: limit}), gate.name))
    return taken


def _find_bad_sentence(gate: Gate, limits: list[Any]) -> str | None:
    """Return what is wrong with the sentences of a relative gate, such as a placeholder that cannot be formatted."""
    asks: dict[str, Any] = {"limit": None}
    for name, known in (("asks", asks), ("doubt", {"names": "a, b", **asks, "launches": 7, "are": "are"})):
        words = getattr(gate, name)
        try:
            places = [place for _, place, _, _ in Formatter().parse(words) if place is not None]
        except (ValueError, TypeError) as error:
            return f"its {name} is not a template of a sentence: {describe_exception(error)}"
        if unknown := [place for place in places if place.partition(".")[0].partition("[")[0] not in known]:
            said = " and ".join(f"{{{place}}}" for place in known)
            return f"its {name} has the place {{{unknown[0]}}}, and there is {said}"
        for limit in limits:
            try:
                if has_limit(limit):
                    words.format(**{**known, "limit": limit})
            except Exception as error:  # noqa: BLE001 - another package's type may raise any
                return f"its {name} cannot be written with a limit of {limit!r}: {describe_exception(error)}"
    return None
