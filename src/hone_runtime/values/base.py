"""The bases of every value, and of those that refer to their inputs; and the names used in values."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from hone_runtime.values.digest import digest_json

Json = Any
"""A JSON value. Pydantic checks it on input; mypy cannot follow its recursion through dataclass fields."""

Format = str
"""The kind of model files in a directory, such as ``onnx`` or ``openvino-ir``; see ``FORMATS``."""

Trust = Literal["module", "native", "pickle", "remote-code"]
"""What a recipe can trust; trusted code is executed."""

EVERYTHING: Final[frozenset[Trust]] = frozenset(get_args(Trust))

BACKENDS: tuple[Format, ...] = ("pytorch", "onnx", "tensorflow")
"""The formats to which every model is converted first."""


def read_device(text: str) -> str:
    """Return the device of a text: ``cpu``, or ``kind:index``; a kind alone is the first device of its kind.

    Raises:
        ValueError: The text is not a device.
    """
    found = re.fullmatch(r"(?!cpu:0*[1-9])([a-z]+)(?::([0-9]{1,4}))?", text)
    if found is None:
        raise ValueError(f"{text!r} is not a device: write cpu for all cores, or a kind and an index such as cuda:0")
    return CPU if found[1] == CPU else f"{found[1]}:{int(found[2] or 0)}"


Device = Annotated[str, AfterValidator(read_device)]
"""The device of a model, such as ``cpu`` or ``cuda:0``."""

CPU: Final[Device] = "cpu"
"""All cores of the machine, which count as one device."""


class Value(BaseModel):
    """Base of every value: frozen, and strict about unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Derived(Value):
    """A node's output that refers to the values it was made from: a node refuses inputs that do not fit together.

    Both are implemented in ``kedro_hone.pipelines.binding``.
    """

    made_from: dict[str, str] = Field(
        {}, description="Digests of all that it was made from, by name: values of the catalog, and keys of the recipe."
    )

    @property
    def identity(self) -> str:
        """``sha256:…`` by which derived values refer to this one."""
        return digest_json(self.model_dump(mode="json"))
