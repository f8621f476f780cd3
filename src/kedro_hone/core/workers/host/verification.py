"""Checks a worker's output: nothing that it claims about its files is accepted without looking at them."""

from __future__ import annotations

import stat
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from pydantic import Field, TypeAdapter, ValidationError

from kedro_hone.core.contract.toolchain import Toolchain
from kedro_hone.core.values.artifact import Shape, TensorSpec
from kedro_hone.core.values.base import Format, Json, Value
from kedro_hone.core.values.digest import digest_tree
from kedro_hone.core.values.formats import FORMATS, find_missing
from kedro_hone.core.values.outcome import Failed, FailureClass
from kedro_hone.core.workers.host.job import Job, StepResult

_SPECS: TypeAdapter[tuple[TensorSpec, ...]] = TypeAdapter(tuple[TensorSpec, ...])

Row = tuple[str, int, int, int, int]
"""A file's relative name, size, time of change (ns), time of status change (ns) and inode."""


class Promise(Value):
    """What an adaptor promises about its output: its notes, and its input's values for what they leave out."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    static_shapes: tuple[Shape, ...] = ()
    metadata: dict[str, Json] = Field(default_factory=dict)


def watch_tree(folder: Path) -> Callable[[], tuple[str, ...]]:
    """Return what finds the relative names of files whose bytes changed, came or went after this call.

    The kernel sets the time of the status change at every write and nobody can set it back, so equal rows are equal
    bytes. Rows that differ (such as by a new hard link elsewhere) are settled by the digest; a tree that did not change
    since it was last watched in this process is not read again.
    """
    before = _list_files(folder)
    digest = _digest(str(folder), before)

    def find_changes() -> tuple[str, ...]:
        rows = _list_files(folder)
        if rows == before or digest_tree(folder) == digest:
            return ()
        return tuple(sorted({row[0] for row in {*rows} ^ {*before}}))

    return find_changes


def verify_output(job: Job, result: StepResult, *, toolchain: Toolchain | None = None) -> Failed | None:
    """Check the output of a ``transform``; that its input is unchanged is checked by ``call_worker``.

    Formats of the toolchain's own are accepted in addition to ``core.values.formats``. None when the output can be
    sealed, or a failure of the class ``bad-output``.

    Raises:
        ValueError: The job has no input, no output directory or no format to produce.
    """
    if job.input is None or job.output is None or job.produces is None:
        raise ValueError(f"the job of {job.adaptor} names no input, output or format: there is nothing to verify")
    output = Path(job.output)
    formats = {**FORMATS, **(toolchain.formats if toolchain else {})}
    problem = (
        _find_strange_file(output)
        or _find_missing_file(output, formats.get(job.produces, ("*",)), job.produces)
        or _find_contradiction(job, result)
    )
    return Failed(by=job.adaptor, failure=FailureClass.BAD_OUTPUT, reason=problem) if problem else None


def read_promise(job: Job, notes: Mapping[str, Json]) -> Promise:
    """Return what the notes of a ``StepResult`` promise, with what the output inherits from its input.

    Raises:
        ValueError: The notes are malformed.
    """
    model = job.input
    if model is None:
        raise ValueError("a job without an input promises nothing")
    known = {shape.name: shape for shape in (*model.static_shapes, *job.shapes)}
    static = notes.get("static_shapes") or []
    unknown = [str(name) for name in static if name not in known]
    if unknown:
        raise ValueError(f"static shapes that the job does not have: {', '.join(unknown)}")
    return Promise(
        inputs=notes.get("inputs") or model.inputs,
        outputs=notes.get("outputs") or model.outputs,
        static_shapes=tuple(known[name] for name in static) or model.static_shapes,
        metadata=notes.get("metadata") or {},
    )


def _list_files(folder: Path) -> tuple[Row, ...]:
    found = ((path.relative_to(folder).as_posix(), path.lstat()) for path in sorted(folder.rglob("*")))
    return tuple(
        (name, state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino)
        for name, state in found
        if not stat.S_ISDIR(state.st_mode)
    )


@lru_cache(maxsize=64)
def _digest(folder: str, rows: tuple[Row, ...]) -> str:  # noqa: ARG001 - the rows are the key
    return digest_tree(Path(folder))


def _find_strange_file(output: Path) -> str | None:
    """Only regular files and links between them may be sealed: the directory is moved, copied and published."""
    if not output.is_dir() or output.is_symlink():
        return "removed or replaced its output directory"
    names: dict[tuple[int, int, int], list[str]] = defaultdict(list)
    for path in sorted(output.rglob("*")):
        name, found = path.relative_to(output).as_posix(), path.lstat()
        if stat.S_ISLNK(found.st_mode):
            if path.readlink().is_absolute() or not _resolve(path).is_relative_to(_resolve(output)):
                return f"left a link out of its output directory: {name}"
        elif stat.S_ISREG(found.st_mode):
            names[found.st_dev, found.st_ino, found.st_nlink].append(name)
        elif not stat.S_ISDIR(found.st_mode):
            return f"left something that is not a file: {name}"
    for (_, _, links), known in names.items():
        if links > len(known):
            return f"left a hard link to a file outside its output directory: {known[-1]}"
    return None


def _resolve(path: Path) -> Path:
    try:
        return path.resolve(strict=True)
    except (OSError, RuntimeError):  # a link to nowhere or to itself
        return Path("/")


def _find_missing_file(output: Path, patterns: tuple[str, ...], produces: Format) -> str | None:
    missing = find_missing(output, patterns)
    if not missing:
        return None
    found = sorted(path.relative_to(output).as_posix() for path in output.rglob("*") if path.is_file())
    what = f"only {', '.join(found[:5])}" if found else "nothing"
    return f"promised the format {produces}, which needs {', '.join(missing)}, and wrote {what}"


def _find_contradiction(job: Job, result: StepResult) -> str | None:
    try:
        promised, described = read_promise(job, result.notes), result.described
    except (ValueError, TypeError) as error:
        return f"returned notes that cannot be read: {' '.join(str(error).split())}"
    if described is None:  # the toolchain cannot read this format; validation runs the model
        return None
    for kind, expected in (("inputs", promised.inputs), ("outputs", promised.outputs)):
        try:
            found = _SPECS.validate_python(described[kind])
        except (ValidationError, KeyError, TypeError):
            return f"described its {kind} in a way that cannot be read"
        if [spec.name for spec in found] != [spec.name for spec in expected]:
            return f"promised the {kind} {_join(expected)}, but the saved file has {_join(found)}"
        for want, have in zip(expected, found, strict=True):
            problem = _compare(want, have, promised.static_shapes)
            if problem:
                return f"promised {kind[:-1]} {want.name} {problem}"
    return None


def _compare(want: TensorSpec, have: TensorSpec, static: Sequence[Shape]) -> str | None:
    if want.dtype != have.dtype:
        return f"as {want.dtype}, but the saved file has {have.dtype}"
    # A size that the file leaves open contradicts nothing; a fixed one must be promised, or noted as specialized.
    fits = len(want.shape) == len(have.shape) and all(
        isinstance(found, str) or found in {promised, *(shape.sizes.get(str(promised)) for shape in static)}
        for promised, found in zip(want.shape, have.shape, strict=True)
    )
    shapes = [f"({', '.join(map(str, spec.shape))})" for spec in (want, have)]
    return None if fits else f"with the shape {shapes[0]}, but the saved file has {shapes[1]}"


def _join(specs: Sequence[TensorSpec]) -> str:
    return ", ".join(spec.name for spec in specs) or "none"
