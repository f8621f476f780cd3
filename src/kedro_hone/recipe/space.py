"""The space of an adaptor's options: which choices next to the defaults are worth trying, and on which machine.

It stands in the ``capabilities.yml`` of the toolchain, under the adaptor's name::

    space:
      activations: [uint8]
      reduce_range: {choices: [false], unless: VNNI}
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from pydantic import Field, TypeAdapter, field_validator, model_validator

from kedro_hone.core.contract.adaptor import Adaptor
from kedro_hone.core.contract.host import INSTRUCTIONS, Host
from kedro_hone.core.values.base import Json, Value
from kedro_hone.recipe.capabilities import CAPABILITIES, UNREADABLE, explain_invalid, read_file, require_known_keys


class Choices(Value):
    """What is worth trying of one option."""

    choices: tuple[Json, ...] = Field(min_length=1, description="Values next to the default.")
    where: str = Field("", description="Only on a machine with this vector extension, such as `VNNI`.")
    unless: str = Field("", description="Only on a machine without this one.")

    @model_validator(mode="before")
    @classmethod
    def _read_list(cls, value: Any) -> Any:
        return {"choices": value} if isinstance(value, list) else value

    @field_validator("where", "unless")
    @classmethod
    def _know(cls, name: str) -> str:
        if name and name not in INSTRUCTIONS:
            raise ValueError(f"{name!r} is none of {', '.join(sorted(INSTRUCTIONS))}")
        return name

    def fit(self, host: Host) -> bool:
        """Return whether they are worth trying on a machine."""
        return (not self.where or host.can(self.where)) and not (self.unless and host.can(self.unless))


Space = dict[str, Choices]
"""By the option's name."""

_SPACE: Final[TypeAdapter[Space]] = TypeAdapter(Space)


def read_space(adaptor: Adaptor) -> Space:
    """Return what is worth trying of an adaptor's options; nothing where its toolchain does not say.

    Raises:
        HoneError: ``capabilities-invalid``: the file cannot be read, has an unknown key, or names what options refuse.
    """
    path = adaptor.toolchain.folder / CAPABILITIES
    try:
        space = _SPACE.validate_python(_read_own(path, adaptor))
        for option, choices in space.items():
            for value in choices.choices:
                adaptor.options.model_validate({option: value})
    except UNREADABLE as error:
        raise explain_invalid(adaptor.name, path, error) from error
    return space


def _read_own(path: Path, adaptor: Adaptor) -> Json:
    """Return ``space`` of an adaptor, of the last version that has one; nothing where there is no file."""
    if not (known := read_file(path)):
        return {}
    require_known_keys(known, adaptor)
    own = ((version.get("adaptors") or {}).get(adaptor.name) or {} for version in known.get("versions") or ())
    spaces = [said["space"] for said in own if "space" in said]
    return spaces[-1] if spaces else {}
