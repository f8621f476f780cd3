"""Checks a worker's output: no claim about its files is accepted without checking the files."""

from __future__ import annotations

import os
import stat
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from hone_runtime.contract.job import Job, JobInput, StepResult
from hone_runtime.contract.toolchain import Toolchain
from hone_runtime.values.artifact import FORMATS, Shape, TensorSpec, find_missing
from hone_runtime.values.base import Json
from hone_runtime.values.digest import digest_tree, digest_tree_once, list_states
from hone_runtime.values.outcome import Failed, FailureClass

_SPECS: TypeAdapter[tuple[TensorSpec, ...]] = TypeAdapter(tuple[TensorSpec, ...])


def watch_tree(folder: Path) -> Callable[[], tuple[str, ...]]:
    """Return a function that finds the relative names of files that were changed, added or removed after this call.

    If only the state differs (such as by a new hard link elsewhere), the digest decides. A tree that did not change
    since it was last read in this process is not read again.
    """
    before, digest = list_states(folder), digest_tree_once(folder)

    def find_changes() -> tuple[str, ...]:
        states = list_states(folder)
        if states == before or digest_tree(folder) == digest:
            return ()
        return tuple(sorted({state[0] for state in {*states} ^ {*before}}))

    return find_changes


def verify_output(job: Job, result: StepResult, *, toolchain: Toolchain | None = None) -> JobInput | Failed:
    """Check the output of a ``transform``, and return it as the input of the next job, or why it cannot be sealed.

    It has the properties promised in the adaptor's notes; the others are those of its input. ``call_worker`` checks
    that the input is unchanged. Formats of the toolchain's own are accepted in addition to ``FORMATS``. The failure is
    of the class ``bad-output``.

    Raises:
        ValueError: The job has no input, no output directory or no format to produce.
    """
    if job.input is None or job.output is None or job.produces is None:
        raise ValueError(f"the job of {job.adaptor} names no input, output or format: there is nothing to verify")
    output = Path(job.output)
    formats = {**FORMATS, **(toolchain.formats if toolchain else {})}
    bad = partial(Failed, by=job.adaptor, failure=FailureClass.BAD_OUTPUT)
    problem = _find_strange_file(output) or _find_missing_file(output, formats.get(job.produces, ("*",)), job.produces)
    if problem:
        return bad(reason=problem)
    try:
        promised = _read_promise(job, job.input, result.notes)
    except (ValueError, TypeError) as error:
        return bad(reason=f"returned notes that cannot be read: {' '.join(str(error).split())}")
    problem = _find_contradiction(promised, result.described)
    return bad(reason=problem) if problem else promised


def _read_promise(job: Job, model: JobInput, notes: Mapping[str, Json]) -> JobInput:
    known = {shape.name: shape for shape in (*model.static_shapes, *job.shapes)}
    static = notes.get("static_shapes") or []
    unknown = [str(name) for name in static if name not in known]
    if unknown:
        raise ValueError(f"static shapes that the job does not have: {', '.join(unknown)}")
    return JobInput(
        path=job.output,
        format=job.produces,
        inputs=notes.get("inputs") or model.inputs,
        outputs=notes.get("outputs") or model.outputs,
        static_shapes=tuple(known[name] for name in static) or model.static_shapes,
        metadata=notes.get("metadata") or {},
    )


def _find_strange_file(output: Path) -> str | None:
    """Only regular files and links between them may be sealed, since the directory is moved, copied and published."""
    if not output.is_dir() or output.is_symlink():
        return "removed or replaced its output directory"
    names: dict[tuple[int, int, int], list[str]] = defaultdict(list)
    for path in sorted(output.rglob("*")):
        name, found = path.relative_to(output).as_posix(), path.lstat()
        if stat.S_ISLNK(found.st_mode):
            leads = os.access(path, os.F_OK)  # neither dangling nor to itself
            if path.readlink().is_absolute() or not (leads and path.resolve().is_relative_to(output.resolve())):
                return f"left a link out of its output directory: {name}"
        elif stat.S_ISREG(found.st_mode):
            names[found.st_dev, found.st_ino, found.st_nlink].append(name)
        elif not stat.S_ISDIR(found.st_mode):
            return f"left something that is not a file: {name}"
    for (_, _, links), known in names.items():
        if links > len(known):
            return f"left a hard link to a file outside its output directory: {known[-1]}"
    return None


def _find_missing_file(output: Path, patterns: tuple[str, ...], produces: str) -> str | None:
    missing = find_missing(output, patterns)
    if not missing:
        return None
    found = sorted(path.relative_to(output).as_posix() for path in output.rglob("*") if path.is_file())
    what = f"only {', '.join(found[:5])}" if found else "nothing"
    return f"promised the format {produces}, which needs {', '.join(missing)}, and wrote {what}"


def _find_contradiction(promised: JobInput, described: Mapping[str, Json] | None) -> str | None:
    if described is None:  # the toolchain cannot read this format; validation will run the model
        return None
    for kind, expected in (("inputs", promised.inputs), ("outputs", promised.outputs)):
        try:
            found = _SPECS.validate_python(described[kind])
        except (ValidationError, KeyError, TypeError):
            return f"described its {kind} in a way that cannot be read"
        wanted, given = ([spec.name for spec in specs] for specs in (expected, found))
        if wanted != given:
            listed = ", ".join(given) or "none"
            return f"promised the {kind} {', '.join(wanted) or 'none'}, but the saved file has {listed}"
        named = {str(size) for spec in promised.inputs for size in spec.shape}
        for want, have in zip(expected, found, strict=True):
            problem = _compare(want, have, promised.static_shapes, named=named)
            if problem:
                return f"promised {kind[:-1]} {want.name} {problem}"
    return None


def _compare(want: TensorSpec, have: TensorSpec, static: Sequence[Shape], *, named: Collection[str]) -> str | None:
    """Return how a tensor contradicts the promise; ``named`` are the names of the inputs' sizes.

    A name that no input has carries no information: exporters invent one for each size that they cannot compute.
    """
    if want.dtype != have.dtype:
        return f"as {want.dtype}, but the saved file has {have.dtype}"
    # A size that is free in the file contradicts nothing; a fixed one must be promised, or noted as specialized.
    fits = len(want.shape) == len(have.shape) and all(
        isinstance(found, str)
        or (isinstance(promised, str) and promised not in named)
        or found in {promised, *(shape.sizes.get(str(promised)) for shape in static)}
        for promised, found in zip(want.shape, have.shape, strict=True)
    )
    shapes = [f"({', '.join(map(str, spec.shape))})" for spec in (want, have)]
    return None if fits else f"with the shape {shapes[0]}, but the saved file has {shapes[1]}"
