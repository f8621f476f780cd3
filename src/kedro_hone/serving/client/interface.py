"""The interface of a winner with the names that a generated client has for it."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import TensorSpec
from kedro_hone.serving.client.identifiers import clean_identifier, make_class_name, make_identifiers
from kedro_hone.serving.tensors import Datatype, find_datatype
from kedro_hone.serving.winner import ServedWinner

_TAKEN: Final = frozenset({"self", "np", "npt"})
"""What the generated code itself uses where the names of tensors are."""


@dataclass(frozen=True, kw_only=True)
class Field:
    """An input or an output.

    Attributes:
        name: The model's own name.
        argument: The name in the client: of an argument, or of a field of the result and of messages.
        shape: Sizes, and names of dynamic dimensions.
    """

    name: str
    argument: str
    datatype: Datatype
    shape: tuple[int | str, ...]


SERVICE: Final = "open_inference"
"""The name of the file with the protocol's service, which is no model's."""


@dataclass(frozen=True, kw_only=True)
class Interface:
    """What a client is generated from.

    Attributes:
        model: The model's name on a server.
        stem: The name as an identifier in lower case: the package is ``<stem>_client``.
        title: The name as the first part of the names of classes and messages.
        version: The client's own version: that of the registry if it is a number.
        made_from: The registry's URI and the digest of the winner.
    """

    model: str
    stem: str
    title: str
    version: str
    made_from: str
    inputs: tuple[Field, ...]
    outputs: tuple[Field, ...]

    @property
    def package(self) -> str:
        """The name of the Python package."""
        return f"{self.stem}_client"

    @property
    def distribution(self) -> str:
        """The name by which ``pip`` knows the package."""
        return re.sub("_+", "-", self.package)


def make_interface(winner: ServedWinner) -> Interface:
    """Return the interface of a winner for a client.

    Raises:
        HoneError: ``serving-unsupported``: it is a language model with a cache, which no server of the protocol runs.
    """
    artifact, version = winner.artifact, winner.download.version
    if artifact.has_cache:
        raise HoneError(
            "serving-unsupported",
            "No client is generated for a language model with a cache.",
            why="Servers of the Open Inference Protocol do not generate text; engines with OpenAI's protocol do.",
            hint="Export it for such an engine, and call that by OpenAI's client.",
        )
    stem = clean_identifier(winner.name, first="model").lower().strip("_")
    stem = f"{stem}_model" if stem == SERVICE else stem
    title = make_class_name(stem)
    number = winner.version if winner.version.isascii() and winner.version.isdigit() else "0"
    place = version.uri if version else winner.name  # a folder's path is a matter of this machine
    return Interface(
        model=winner.name,
        stem=stem,
        title=title,
        version=f"{int(number)}.0.0",
        made_from=f"{place}, {artifact.digest}",
        inputs=_name_fields(artifact.inputs, {f"{title}Result"}),
        outputs=_name_fields(artifact.outputs, ()),
    )


def _name_fields(specs: Sequence[TensorSpec], reserved: Collection[str]) -> tuple[Field, ...]:
    names = make_identifiers([spec.name for spec in specs], reserved=_TAKEN | set(reserved))
    return tuple(
        Field(name=spec.name, argument=names[spec.name], datatype=find_datatype(spec), shape=spec.shape)
        for spec in specs
    )
