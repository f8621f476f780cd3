"""A winner as the models that a server loads: itself, or one for each part of a composite or each compiled shape."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hone_runtime.learner.golden import Packed
from hone_runtime.sessions.streams import find_streams, share_threads
from hone_runtime.values.artifact import Artifact, Shape, TensorSpec
from hone_runtime.values.base import CPU, Format
from hone_runtime.values.composite import PARTS, read_parts
from hone_runtime.values.manifest import MANIFEST
from kedro_hone.serving.export.golden_rows import GoldenRows, choose_rows
from kedro_hone.serving.tensors import DYNAMIC, Tensor, describe_tensors
from kedro_hone.serving.winner import ServedWinner

ENDINGS: Final[Mapping[Format, str]] = {"aot-inductor": ".pt2", "executorch": ".pte", "tflite": ".tflite"}
"""The formats with a file ``model-<shape>`` for each compiled shape, with its suffix."""


@dataclass(frozen=True, kw_only=True)
class Model:
    """One model of a server.

    Attributes:
        name: The name in the server.
        artifact: Its format, run options and metadata; for a part of a composite, the part's own.
        folder: The folder of its files.
        files: Its files by their names in the server, which may be in folders.
        inputs: Its inputs, with fixed sizes where it was compiled for a shape.
        outputs: Its outputs.
        serves: The calls that it is for; empty for all.
        golden: Golden rows in its shapes; None if there are none.
    """

    name: str
    artifact: Artifact
    folder: Path
    files: Mapping[str, Path]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    serves: str = ""
    golden: GoldenRows | None = None


def find_misfit(winner: ServedWinner, formats: Iterable[Format], *, text: bool = True) -> str:
    """Return why a server of graphs cannot run a winner, as a clause; empty if it can.

    Args:
        winner: The winner.
        formats: The formats that the server runs.
        text: Whether it accepts tensors of text.
    """
    return next(_list_misfits(winner, {*formats}, text=text), "")


def _list_misfits(winner: ServedWinner, known: set[Format], *, text: bool) -> Iterator[str]:
    artifact = winner.artifact
    forms = {part.format for part in read_parts(artifact)} or {artifact.format}
    if unknown := sorted(forms - known):
        yield f"the winner's format is {unknown[0]}, and it takes {', '.join(sorted(known))}"
    if artifact.device != CPU:
        yield f"the winner is for the device {artifact.device}, and exports are for CPUs"
    if artifact.has_cache:
        yield "the winner is a language model with a cache of its own, which belongs to an engine that generates text"
    if artifact.static_shapes and artifact.format not in ENDINGS:
        yield "the winner takes the sizes of the recipe only"
    if any(not re.fullmatch(r"[\w.-]+", shape.name) for shape in artifact.static_shapes):
        yield "the names of its shapes are no names of files"
    if not text and any(tensor.datatype == "BYTES" for tensor in (*winner.inputs, *winner.outputs)):
        yield "it takes no text"


def list_models(winner: ServedWinner) -> tuple[Model, ...]:
    """Return the models of a winner; with several, each has the winner's name and a number."""
    artifact = winner.artifact
    if read_parts(artifact):
        return tuple(_make_parts(winner))
    if artifact.format in ENDINGS:
        return tuple(_make_shapes(winner))
    stored = winner.golden.outputs if winner.golden else {}
    rows = choose_rows(winner.golden, winner.inputs, winner.outputs, stored=stored)
    return (
        Model(
            name=winner.name,
            artifact=artifact,
            folder=winner.files,
            files=list_files(winner.files),
            inputs=winner.inputs,
            outputs=winner.outputs,
            golden=rows,
        ),
    )


def list_files(folder: Path) -> dict[str, Path]:
    """Return the files of an artifact by their paths below its folder, without its manifest."""
    found = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
    found.pop(MANIFEST, None)
    return found


def find_threads(artifact: Artifact) -> int | None:
    """Return the number of threads that a winner was measured with; None if it is not recorded."""
    threads = artifact.metadata.get("threads")
    return threads if isinstance(threads, int) else None


@dataclass(frozen=True, kw_only=True)
class Streams:
    """How a winner computes several calls at once.

    Attributes:
        calls: How many calls it takes at once; at most so many if its runtime chooses the number of streams.
        threads: The threads of one stream; None if the number of all threads is not recorded, or the runtime chooses.
        auto: Whether the runtime chooses.
    """

    calls: int
    threads: int | None
    auto: bool = False


def find_model_streams(artifact: Artifact) -> Streams | None:
    """Return the streams of a winner, or of a part of a composite; None if it computes one call with all threads."""
    streams, threads = find_streams(artifact.run_options), find_threads(artifact)
    if streams is None:
        return None
    if streams == "auto":
        return Streams(calls=threads or 1, threads=None, auto=True)
    if threads is None:
        return Streams(calls=streams, threads=None)
    calls, each = share_threads(threads, streams)
    return Streams(calls=calls, threads=each)


def list_stream_notes(streams: Streams | None, opened: str) -> tuple[str, ...]:
    """Return the notes of a target whose code makes one call after the other; calls at once need an ``opened`` each."""
    if streams is None or streams.calls == 1:
        return ()
    most = f"{'up to ' if streams.auto else ''}{streams.calls}"
    note = f"The winner takes {most} calls at once, and this code one: use as many threads, with a {opened} for each."
    return (note,)


def _make_parts(winner: ServedWinner) -> Iterator[Model]:
    parts, golden = read_parts(winner.artifact), winner.golden
    own = golden.parts if golden and len(golden.parts) == len(parts) else ()
    for number, part in enumerate(parts):
        folder = winner.files / PARTS / str(number)
        metadata = {**part.metadata, "threads": find_threads(winner.artifact)}
        attributes = {"format": part.format, "runtime": part.runtime, "run_options": part.run_options}
        stored: Mapping[str, Packed] = own[number] if own else {}
        calls = [_format_sizes(sizes) for sizes in part.shapes.values()]
        yield Model(
            name=f"{winner.name}-{number + 1}",
            artifact=winner.artifact.model_copy(update={**attributes, "metadata": metadata}),
            folder=folder,
            files=list_files(folder),
            inputs=winner.inputs,
            outputs=winner.outputs,
            serves="; ".join([*calls, *(["all other sizes"] if number == 0 else [])]),
            golden=choose_rows(golden, winner.inputs, winner.outputs, stored=stored),
        )


def _make_shapes(winner: ServedWinner) -> Iterator[Model]:
    artifact, golden = winner.artifact, winner.golden
    for number, shape in enumerate(artifact.static_shapes):
        inputs, outputs = (_fix(specs, shape) for specs in (artifact.inputs, artifact.outputs))
        file = f"model-{Path(shape.name).name}{ENDINGS[artifact.format]}"
        yield Model(
            name=winner.name if len(artifact.static_shapes) == 1 else f"{winner.name}-{number + 1}",
            artifact=artifact,
            folder=winner.files,
            files={file: winner.files / file},
            inputs=inputs,
            outputs=outputs,
            serves=f"{_format_sizes(shape.sizes)} only",
            golden=choose_rows(golden, inputs, outputs, stored=golden.outputs if golden else {}),
        )


def _fix(specs: Sequence[TensorSpec], shape: Shape) -> tuple[Tensor, ...]:
    """Return tensors with the sizes of a compiled shape; dynamic where it does not set one."""
    fixed = [tuple(shape.sizes.get(dim, DYNAMIC) if isinstance(dim, str) else dim for dim in s.shape) for s in specs]
    described = describe_tensors(specs)
    return tuple(tensor.model_copy(update={"shape": sizes}) for tensor, sizes in zip(described, fixed, strict=True))


def _format_sizes(sizes: Mapping[str, int]) -> str:
    """Return sizes as text, such as ``batch 1, length 128``."""
    return ", ".join(f"{name} {size}" for name, size in sizes.items()) or "the model's own sizes"
