"""The notes in a model's metadata that affect how it is opened or called, in a closed schema.

The metadata come with an artifact, which may be untrusted. Notes without effect, such as a producer's version, are
for people: they may be any JSON, and are not passed to workers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from hone_runtime.contract.catalogue import find_installed
from hone_runtime.contract.toolchain import Toolchain
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.base import Format, Json
from hone_runtime.values.composite import PARTS, read_parts

AutoClass = Annotated[str, Field(pattern="^AutoModel(For[A-Z][A-Za-z0-9]*)?$", max_length=80)]
"""An automatic class of Transformers that opens a model; only such classes of that package have this form of name."""

Name = Annotated[str, Field(pattern="^[A-Za-z_][A-Za-z0-9_]*$", max_length=200)]
_Text = Annotated[str, Field(max_length=1000)]
_Keys = dict[Name, Annotated[int, Field(strict=True)]]


class _Note(BaseModel):
    """Base of the notes: frozen, with known keys only."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ModuleNote(_Note):
    """One module of sentence-transformers after an encoder; its files are in the folder ``path``."""

    kind: Literal["Pooling", "Dense", "LayerNorm", "Normalize"]
    path: Annotated[str, Field(pattern="^[0-9]+_[A-Za-z0-9_]+$", max_length=100)]
    config: dict[str, Json] = Field(default_factory=dict)
    modes: list[_Text] | None = None


class PretrainedNote(_Note):
    """``transformers``: facts about a source of Transformers.

    The configurations are ``config.json`` and ``generation_config.json``, which the learner reads as data.
    """

    task: _Text | None = None
    auto_class: AutoClass | None = None
    kind: Literal["text", "image", "audio"] = "text"
    class_: Annotated[Name | None, Field(alias="class")] = None
    output_class: Name | None = None
    config: dict[str, Json] = Field(default_factory=dict)
    generation: dict[str, Json] | None = None
    optional: _Keys | None = None
    limits: _Keys | None = None
    remote_code: bool = False
    modules: list[ModuleNote] | None = None


class StructureNote(_Note):
    """``structure``: the structure of the source's results."""

    kind: Literal["tuple", "list", "dict"]
    items: list[str | tuple[str | int, str | None]]


class KerasNote(_Note):
    """``keras``: the structures of a Keras model's inputs and outputs."""

    inputs: Literal["single", "list", "dict"]
    outputs: Literal["single", "list", "dict"]


NOTES: Final[Mapping[str, TypeAdapter[Any]]] = {
    "transformers": TypeAdapter(PretrainedNote),
    "structure": TypeAdapter(StructureNote),
    "keras": TypeAdapter(KerasNote),
    "sklearn": TypeAdapter(dict[Name, Json]),
    "cache": TypeAdapter(dict[Name, Json]),
    "crashes": TypeAdapter(Annotated[str, Field(pattern="^[A-Za-z0-9_;]*$", max_length=1000)]),
    "graphs": TypeAdapter(bool),
}
"""The notes with an effect, by name. Not included are those that are checked where they are read: ``interface``,
``threads``, ``compiled_shapes``, ``single_thread`` and the parts of a composite."""


def find_faults(metadata: Mapping[str, Json]) -> Iterator[str]:
    """Yield the faults of invalid notes, as clauses."""
    for name, adapter in NOTES.items():
        if name not in metadata:
            continue
        try:
            adapter.validate_python(metadata[name])
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join([name, *map(str, first["loc"])])
            yield f"its metadata have {place:.120} = {first['input']!r:.80}: {first['msg'][:120]}"
        except RecursionError:
            yield f"its metadata have {name} without end"


def choose_notes(artifact: Artifact, toolchain: Toolchain) -> dict[str, Json]:
    """Return the notes for a toolchain's ``load``: for a data format only those that it reads.

    A format that is code is opened only if it is signed or trusted; then its worker gets all notes.

    Raises:
        ValueError: As in ``read_parts``.
    """
    chosen = _choose(artifact.format, artifact.metadata, toolchain)
    if parts := read_parts(artifact):
        own = [(part, find_installed(part.runtime)) for part in parts]
        notes = [
            part.model_copy(update={"metadata": one and _choose(part.format, part.metadata, one)}) for part, one in own
        ]
        chosen[PARTS] = [part.model_dump(mode="json") for part in notes]
    return chosen


def _choose(form: Format, metadata: Mapping[str, Json], toolchain: Toolchain) -> dict[str, Json]:
    if form not in toolchain.data:
        return dict(metadata)
    return {name: value for name, value in metadata.items() if name in toolchain.reads}
