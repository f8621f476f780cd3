"""What is wrong with a gate, found when it is registered: later it would be found when all is measured."""

from __future__ import annotations

import warnings
from contextlib import suppress
from functools import lru_cache
from string import Formatter
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, ConfigDict, ValidationError, create_model
from pydantic.fields import FieldInfo

from kedro_hone.core.plugins import describe_exception

if TYPE_CHECKING:
    from kedro_hone.core.contract.gates import Gate

_PLACES: Final[dict[str, dict[str, Any]]] = {
    "asks": {"limit": None},
    "doubt": {"names": "a, b", "limit": None, "launches": 7},
}
"""The places of each sentence, and what may stand in them."""

_LIMITS: Final[tuple[Any, ...]] = (
    *(1, 0.5, 0.01, 2.0, 100.0, -1.0),
    *({"shape": 1.0}, {"shape": 1}, {"shape": 100.0}, {"shape": "x"}, ["x"], [1.0], "x", True),
)
"""Limits of many types, of which a gate takes some: those are written into its sentences."""


@lru_cache(maxsize=64)
def find_fault(gate: Gate) -> str | None:
    """Return what keeps a gate from being a key of the recipe or from giving its reasons, or None. Pure."""
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
        said = " ".join(describe_exception(error).split())
        return f"its limit cannot be a key of the recipe: {said}"
    if gate.per_shape and (not _list_limits(section, gate, ({},)) or _list_limits(section, gate, (None,))):
        return "it is per_shape, so its limit must be a map from shapes, which may be empty and not None"
    return _find_bad_sentence(gate, [default, *_list_limits(section, gate, _LIMITS)])


def _make_section(gate: Gate) -> type[BaseModel]:
    """Return the gate's key as the recipe will have it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # as of a name that pydantic keeps for itself
        warnings.filterwarnings("ignore", message=".*shadows an attribute")  # the recipe refuses those by their names
        config = ConfigDict(frozen=True, extra="forbid", validate_default=True)
        keys: dict[str, Any] = {gate.name: (gate.takes, gate.field)}
        return create_model("Section", __config__=config, **keys)


def _list_limits(section: type[BaseModel], gate: Gate, limits: tuple[Any, ...]) -> list[Any]:
    """Return those of some limits that the gate takes, as the recipe would have them."""
    taken = []
    for limit in limits:
        with suppress(ValidationError):
            taken.append(getattr(section.model_validate({gate.name: limit}), gate.name))
    return taken


def _find_bad_sentence(gate: Gate, limits: list[Any]) -> str | None:
    """Return what is wrong with the words of a relative gate: a place that is not filled, or not so."""
    for name, known in _PLACES.items():
        words = getattr(gate, name)
        try:
            places = [place for _, place, _, _ in Formatter().parse(words) if place is not None]
        except (ValueError, TypeError) as error:
            return f"its {name} is no sentence to be filled: {describe_exception(error)}"
        unknown = [place for place in places if place.partition(".")[0].partition("[")[0] not in known]
        if unknown:
            said = " and ".join(f"{{{place}}}" for place in known)
            return f"its {name} has the place {{{unknown[0]}}}, and there is {said}"
        for limit in limits:
            try:
                if limit is not None and limit != {}:
                    words.format(**{**known, "limit": limit})
            except Exception as error:  # noqa: BLE001 - a stranger's type may raise any
                return f"its {name} cannot be written with a limit of {limit!r}: {describe_exception(error)}"
    return None
