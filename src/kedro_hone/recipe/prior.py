"""An adaptor's usual times and gains, by the kind of network and the instructions of the CPU: measured figures.

They are in the ``capabilities.yml`` of the toolchain, below the adaptor's name::

    usual:
      convolution:
        AVX2: {seconds: 0.47, validation: 1.4, speed: 1}
        VNNI: {seconds: 0.34, validation: 0.78, speed: 0.28}
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal

from pydantic import Field, TypeAdapter

from hone_runtime.contract.adaptor import Adaptor
from hone_runtime.contract.host import Host
from hone_runtime.values.artifact import Artifact, Stage
from hone_runtime.values.base import Json, Value
from kedro_hone.recipe.capabilities import CAPABILITIES, UNREADABLE, explain_invalid, read_file, require_known_keys

Kind = Literal["convolution", "transformer", "recurrent"]
"""A kind of network."""
Level = Literal["AVX2", "VNNI", "AMX"]
"""The highest instruction set of an x86 CPU: one with AMX has the others, too."""

_LEVELS: Final[tuple[Level, ...]] = ("AVX2", "VNNI", "AMX")


class Usual(Value):
    """The usual figures of one adaptor; None if nothing was measured."""

    seconds: float | None = Field(None, ge=0, le=1e5, description="How long one step takes: the median.")
    validation: float | None = Field(
        None, ge=0, le=1e5, description="Of a runtime: how long the validation of a candidate takes: the median."
    )
    speed: float | None = Field(
        None,
        gt=0,
        le=1000,
        description="Of a runtime: the speed over that of the fastest candidate of the default toolchains. Of a "
        "compressor: how many times as fast as without it.",
    )


_PRIOR: Final[TypeAdapter[dict[Kind, dict[Level, Usual]]]] = TypeAdapter(dict[Kind, dict[Level, Usual]])


def find_kind(source: Artifact) -> Kind | None:
    """Return the kind of network of a source model, by its format and its operators; None if unknown."""
    listed = source.metadata.get("operators")
    names = " ".join(map(str, listed)).lower().replace("_", "") if isinstance(listed, list) else ""
    kinds: Mapping[Kind, str] = {
        "recurrent": "lstm|gru|rnn",
        "transformer": "layernorm|attention",
        "convolution": "conv(?!ert)",  # not a conversion of a type
    }
    found = (kind for kind, pattern in kinds.items() if re.search(pattern, names))
    return next(found, "transformer" if source.format == "transformers" else None)


def find_level(host: Host) -> Level | None:
    """Return the highest level of a machine; None if it has none of them, as on Arm."""
    return next((level for level in reversed(_LEVELS) if host.can(level)), None)


def find_usual(adaptor: Adaptor, source: Artifact, host: Host) -> Usual:
    """Return the usual figures of an adaptor for a model on a machine.

    Figures that were not measured at the machine's level are taken from the level below, or otherwise from the one
    above. The speed of a runtime is an exception: it is relative to the fastest candidate of its level, so speeds of
    two levels are not comparable.

    Raises:
        HoneError: ``capabilities-invalid``: the file cannot be read, or has an unknown key.
    """
    kind, level = find_kind(source), find_level(host)
    if kind is None or level is None:
        return Usual()
    known, place = read_prior(adaptor).get(kind, {}), _LEVELS.index(level)
    nearest = (*reversed(_LEVELS[: place + 1]), *_LEVELS[place + 1 :])
    found: dict[str, float] = {}
    for each in reversed([known[level] for level in nearest if level in known]):
        found |= each.model_dump(exclude_none=True)
    usual = Usual(**found)
    if adaptor.stage is not Stage.COMPILE:
        return usual
    return usual.model_copy(update={"speed": known.get(level, Usual()).speed})


def read_prior(adaptor: Adaptor) -> dict[Kind, dict[Level, Usual]]:
    """Return all usual figures of an adaptor; raises as ``find_usual``."""
    path = adaptor.toolchain.folder / CAPABILITIES
    try:
        known = read_file(path)
        require_known_keys(known, adaptor)
        return _PRIOR.validate_python(_read_own(known, adaptor))
    except UNREADABLE as error:
        raise explain_invalid(adaptor.name, path, error) from error


def _read_own(known: Mapping[str, Json], adaptor: Adaptor) -> Json:
    """Return ``usual`` of an adaptor from the last version that has it; empty if none has."""
    own = ((version.get("adaptors") or {}).get(adaptor.name) or {} for version in known.get("versions") or ())
    figures = [each["usual"] for each in own if "usual" in each]
    return figures[-1] if figures else {}
