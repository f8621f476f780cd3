"""The bases of every value, and of those that name what they were made from; and the names in values."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from hone_runtime.values.digest import digest_json

Json = Any
"""A JSON value. Pydantic checks it on the way in; mypy cannot follow its recursion through dataclass fields."""

Format = str
"""What kind of model files a directory holds, such as ``onnx`` or ``openvino-ir``; see ``FORMATS``."""

Trust = Literal["module", "native", "pickle", "remote-code"]
"""What a recipe can trust, which is then executed."""

EVERYTHING: Final[frozenset[Trust]] = frozenset(get_args(Trust))

BACKENDS: tuple[Format, ...] = ("pytorch", "onnx", "tensorflow")
"""The formats that every model is converted to first."""


def read_device(text: str) -> str:
    """Return the device that a text names: ``cpu``, or ``kind:index``; a kind alone is the first one of its kind.

    Raises:
        ValueError: It names none.
    """
    found = re.fullmatch(r"(?!cpu:0*[1-9])([a-z]+)(?::([0-9]{1,4}))?", text)
    if found is None:
        raise ValueError(f"{text!r} is no device: write cpu for all cores, or a kind and an index such as cuda:0")
    return CPU if found[1] == CPU else f"{found[1]}:{int(found[2] or 0)}"


Device = Annotated[str, AfterValidator(read_device)]
"""Where a model computes, such as ``cpu`` or ``cuda:0``."""

CPU: Final[Device] = "cpu"
"""All cores of the machine, which are one device."""


class Value(BaseModel):
    """Base of every value: frozen, and strict about unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Made(Value):
    """A value that a node hands on, which names what it was made from: a node refuses one that does not fit the others.

    Both is done in ``kedro_hone.pipelines.binding``.
    """

    made_from: dict[str, str] = Field(
        {}, description="Digests of all that it was made from, by name: values of the catalog, and keys of the recipe."
    )

    @property
    def identity(self) -> str:
        """``sha256:…`` by which the values that are made from this one name it."""
        return digest_json(self.model_dump(mode="json"))
