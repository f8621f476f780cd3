"""The main program of a worker: run by its path with the Python of a toolchain's environment.

It imports only the standard library (NumPy where arrays are read or written), nothing of kedro-hone, and works with
Python 3.8 and later. ``guard/isolation.py`` isolates its process first.
"""

# Importing pathlib would cost each worker time.
# ruff: noqa: PTH100, PTH105, PTH112, PTH117, PTH118, PTH120, PTH123

from __future__ import annotations

import sys

if __name__ == "__main__" and not getattr(sys.flags, "safe_path", False):
    sys.path.pop(0)  # this file's folder, which Python 3.11 leaves out of the path by PYTHONSAFEPATH

import errno
import faulthandler
import functools
import gc
import importlib.util
import json
import os
import time
import traceback
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def _find_runtime() -> None:
    """Make ``hone_runtime`` importable from the folder of this file, which is run by its path."""
    name, folder = "hone_runtime", os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    file = os.path.join(folder, "__init__.py")
    spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=[folder])
    sys.modules[name] = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]


if __name__ == "__main__":
    _find_runtime()

from hone_runtime.worker.packages import import_worker  # noqa: E402 - not importable before
from hone_runtime.worker.refusal import UnsuitedError  # noqa: E402 - as above


def load_worker(job: dict[str, Any]) -> Any:
    """Import the worker of a job."""
    sys.path[:0] = [path for path in job.get("trust", []) if os.path.isabs(path) and os.path.isdir(path)]
    return import_worker(job["worker"], uses=job.get("uses", ()))


def call_function(job: dict[str, Any]) -> dict[str, Any]:
    """Call the job's function; after ``transform``, read back the saved files. Return the content of the result.

    ``UnsuitedError`` becomes the note ``refused``.
    """
    start = time.perf_counter()
    module = load_worker(job)
    try:
        notes = getattr(module, job["function"])(job) or {}
    except UnsuitedError as unsuited:
        notes = {"refused": str(unsuited), **({"slug": unsuited.slug} if unsuited.slug else {})}
    seconds = time.perf_counter() - start
    described = None
    if not isinstance(notes, dict):
        raise TypeError(f"{job['function']} returned {type(notes).__name__}, not a dict")
    if notes.get("refused", True) in ("", None):
        raise ValueError(f"{job['function']} refused the model without a reason")
    if job["function"] == "transform" and not {"refused", "nothing_to_do", "failed"}.intersection(notes):
        gc.collect()  # closes files that are only referenced by a cycle
        try:
            described = describe_output(module, job, notes)
        except Exception as error:
            error.hone_where = "describe"  # type: ignore[attr-defined]
            raise
    return {"notes": notes, "described": described, "seconds": seconds}


def describe_output(module: Any, job: dict[str, Any], notes: dict[str, Any]) -> Any:
    """Describe the saved files with the toolchain; None if it does not support their format."""
    if not hasattr(module, "describe"):
        return None
    model = dict(job["input"] or {}, path=job["output"], format=job["produces"], run_options={})
    model.update((name, notes[name]) for name in ("inputs", "outputs") if name in notes)
    names = notes.get("static_shapes") or []
    model["static_shapes"] = [shape for shape in job["shapes"] if shape["name"] in names]
    try:
        return module.describe(dict(job, function="describe", input=model))
    except KeyError as error:
        if error.args == (job["produces"],):
            return None
        raise


def protect(function: Callable[[], dict[str, Any]], job: dict[str, Any]) -> dict[str, Any]:
    """Return a function's result, or the error that it raised as JSON; the traceback is written to the log."""
    try:
        return function()
    except BaseException as error:  # noqa: BLE001 - SystemExit too: a toolchain may call sys.exit
        traceback.print_exc()
        number = getattr(error, "errno", None)
        explained = {
            "type": type(error).__name__,
            "message": str(error)[:4000],
            "errno": number if isinstance(number, int) else None,
            "trespass": find_trespass(error, job),
            "where": getattr(error, "hone_where", None),
        }
        return {"error": explained}


def find_trespass(error: BaseException, job: dict[str, Any]) -> str | None:
    """Return the target of a denied write: ``wrote-input`` or ``wrote-outside``; None for any other error."""
    name = getattr(error, "filename", None)
    refused = isinstance(error, PermissionError) or getattr(error, "errno", None) == errno.EROFS
    if not refused or not isinstance(name, str):
        return None
    path = os.path.realpath(name)

    def is_within(folders: list[str]) -> bool:
        return any(path.startswith(os.path.realpath(folder) + os.sep) for folder in folders)

    if is_within(find_folders(job)) or is_hidden(path):
        return None
    return "wrote-input" if job.get("input") and is_within([job["input"]["path"]]) else "wrote-outside"


def is_hidden(path: str) -> bool:
    """Whether the file exists and cannot be read; then a denied open is no evidence of a write."""
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def find_folders(job: dict[str, Any]) -> list[str]:
    """Return the folders to which this job may write."""
    return [folder for folder in (job.get("output"), job.get("temporary"), sys.argv[1]) if folder]


def write_json(path: str, value: dict[str, Any]) -> None:
    """Write a JSON file atomically."""

    def convert(item: Any) -> Any:
        if hasattr(item, "tolist"):  # NumPy scalars and arrays
            return item.tolist()
        raise TypeError("not JSON: " + repr(item))

    text = json.dumps(value, default=convert)
    with open(path + ".part", "w", encoding="utf-8") as stream:
        stream.write(text)
    os.replace(path + ".part", path)


def main() -> None:
    """Read the job, run it, write the result, and exit at once."""
    faulthandler.enable()
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]
    folder = sys.argv[1]
    with open(os.path.join(folder, "job.json"), encoding="utf-8") as stream:
        job = json.load(stream)
    if len(sys.argv) > 2:
        from hone_runtime.worker import served as part

        commands, replies = map(int, sys.argv[2:4])
        served = part.Served(job, load_worker)
        part.serve(served, functools.partial(protect, job=job), commands=commands, replies=replies)
    else:
        result = protect(lambda: call_function(job), job)
        path = os.path.join(folder, "result.json")
        error = protect(lambda: write_json(path, result) or {}, job)  # type: ignore[func-returns-value]
        if error:  # such as notes that are not JSON
            write_json(path, error)
    for child in getattr(sys.modules.get("multiprocessing"), "active_children", list)():
        child.terminate()  # as the standard library's pools do at a normal exit
    sys.stdout.flush()
    sys.stderr.flush()
    # Toolchains leave threads that never end, and crash during interpreter shutdown: neither affects the step's result.
    os._exit(0)


if __name__ == "__main__":
    main()
