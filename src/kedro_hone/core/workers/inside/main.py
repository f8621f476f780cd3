"""The worker's own main program: run by path with the python of a toolchain's environment.

It imports the standard library only (numpy where arrays are read or written), nothing of ours, and works with Python
3.8 and later. Before it loads the worker file it gives up the right to write anywhere but in its own folders.
"""

# pathlib would cost each worker time to import.
# ruff: noqa: PTH100, PTH105, PTH110, PTH112, PTH117, PTH118, PTH120, PTH123

from __future__ import annotations

import sys

if not getattr(sys.flags, "safe_path", False):  # Python 3.11 leaves our folder out of the path by PYTHONSAFEPATH
    sys.path.pop(0)

import faulthandler
import functools
import gc
import importlib.util
import json
import os
import time
import traceback
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from kedro_hone.core.workers.inside.landlock import confine
else:  # run by path: our package is not importable here, and must not be
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))
    from landlock import confine

    sys.path.pop()


def load_worker(job: dict[str, Any]) -> Any:
    """Import the worker file by its path."""
    sys.path[:0] = [path for path in job.get("trust", []) if os.path.isabs(path) and os.path.isdir(path)]
    return import_file("hone_worker", job["worker"])


def import_file(name: str, path: str) -> Any:
    """Import a file by its path, under a name; files beside it are its parts: ``from . import worker_steps``."""
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=[os.path.dirname(path)])
    if spec is None or spec.loader is None:
        raise ImportError("not a python file: " + path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def call_function(job: dict[str, Any]) -> dict[str, Any]:
    """Call the job's function; for ``transform``, read back what it saved.

    Args:
        job: The job.

    Returns:
        The contents of ``result.json``.
    """
    start = time.perf_counter()
    module = load_worker(job)
    notes = getattr(module, job["function"])(job) or {}
    seconds = time.perf_counter() - start
    described = None
    if not isinstance(notes, dict):
        raise TypeError(f"{job['function']} returned {type(notes).__name__}, not a dict")
    if job["function"] == "transform" and not {"refused", "nothing_to_do", "failed"}.intersection(notes):
        gc.collect()  # closes the files that a cycle still holds open
        try:
            described = describe_output(module, job, notes)
        except Exception as error:
            error.hone_where = "describe"  # type: ignore[attr-defined]
            raise
    return {"ok": True, "notes": notes, "described": described, "seconds": seconds}


def describe_output(module: Any, job: dict[str, Any], notes: dict[str, Any]) -> Any:
    """Let the toolchain read the saved files; None when it does not know their format."""
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


class Served:
    """The commands of a session, each a method; answers are JSON values."""

    def __init__(self, job: dict[str, Any], landlock: int) -> None:
        self.job = job
        self.landlock = landlock
        self.session: Any = None
        self.armed: dict[str, Callable[[], Any]] = {}

    def load(self, feeds: str | None = None, shape: str | None = None) -> dict[str, Any]:
        """Import the toolchain, open the model, and answer once where feeds are given."""
        arrays = read_arrays(feeds) if feeds else None
        start = time.perf_counter_ns()
        self.session = load_worker(self.job).load(self.job)
        if arrays is not None:
            self.complete(functools.partial(self.session.run, arrays))()
        elapsed = time.perf_counter_ns() - start
        if arrays is not None and shape:
            self.keep(shape, arrays)
        return {"cold_start_ms": elapsed / 1e6, "landlock": self.landlock}

    def run(self, feeds: str, output: str, batch: int | None = None) -> dict[str, Any]:
        """Run all rows in chunks and write the outputs, rows first."""
        import numpy as np

        arrays = read_arrays(feeds)
        rows = min((len(array) for array in arrays.values()), default=0)
        step = batch or max(rows, 1)
        parts: dict[str, list[Any]] = {}
        for first in range(0, max(rows, 1), step):
            chunk = {name: array[first : first + step] for name, array in arrays.items()}
            short = min(step, rows - first)
            pad = bool(batch) and short < step and bool(self.job["input"]["static_shapes"])
            if pad:
                missing = step - short
                chunk = {name: np.concatenate([part, part[-1:].repeat(missing, 0)]) for name, part in chunk.items()}
            for name, value in self.session.run(chunk).items():
                array = np.asarray(value)
                parts.setdefault(name, []).append(array[:short] if pad and array.ndim else array)
        write_arrays(output, {name: join(values) for name, values in parts.items()})
        return {}

    def arm(self, shape: str, feeds: str) -> dict[str, Any]:
        """Read the feeds of a shape into memory."""
        self.keep(shape, read_arrays(feeds))
        return {}

    def keep(self, shape: str, feeds: dict[str, Any]) -> None:
        """Keep the call of one shape, ready to be timed."""
        self.armed[shape] = self.complete(self.prepare(feeds))
        gc.collect()
        gc.freeze()  # a toolchain is some hundred thousand objects: each later collection would go through them again

    def complete(self, call: Callable[[], Any]) -> Callable[[], Any]:
        """Return a call that ends when the device has finished it, where the session can wait for its device."""
        synchronize = getattr(self.session, "synchronize", None)
        if synchronize is None:
            return call

        def call_and_wait() -> None:
            call()
            synchronize()

        return call_and_wait

    def prepare(self, feeds: dict[str, Any]) -> Callable[[], Any]:
        """Return one call as it is timed: as the session says, behind the source's interface, or with arrays."""
        if hasattr(self.session, "prepare"):
            prepared: Callable[[], Any] = self.session.prepare(feeds)
            return prepared
        if self.job.get("interface") != "pytorch" or not importlib.util.find_spec("torch"):
            return functools.partial(self.session.run, feeds)
        here = os.path.dirname(os.path.abspath(__file__))
        interfaces = import_file("hone_interfaces", os.path.join(here, "interfaces.py"))
        torch = interfaces.import_torch()
        specs = {side: [SimpleNamespace(**spec) for spec in self.job["input"][side]] for side in ("inputs", "outputs")}
        model = SimpleNamespace(metadata=self.job["input"]["metadata"], **specs)
        call = interfaces.make_tensors_interface(self.session.run, model)
        return functools.partial(call, *(torch.from_numpy(feeds[spec.name]) for spec in specs["inputs"]))

    def time(self, shape: str, calls: int, warmup: int = 0) -> dict[str, Any]:
        """Time calls one by one, in nanoseconds, with the garbage collector switched off."""
        run, clock = self.armed[shape], time.perf_counter_ns
        times = []
        gc.collect()  # before the warm-up: it goes through all objects, and would leave the caches cold
        gc.disable()
        try:
            for _ in range(warmup):
                run()
            for _ in range(calls):
                start = clock()
                run()
                times.append(clock() - start)
        finally:
            gc.enable()
        return {"times": times}


def serve(job: dict[str, Any], landlock: int, commands: int, answers: int) -> None:
    """Obey commands, one JSON line each, until the pipe closes or one says quit."""
    served = Served(job, landlock)
    for descriptor in (commands, answers):
        os.set_inheritable(descriptor, False)  # noqa: FBT003
    with os.fdopen(commands, "r", encoding="utf-8") as lines, os.fdopen(answers, "w", encoding="utf-8") as replies:
        for line in lines:
            command = json.loads(line)
            name = command.pop("do")
            if name == "quit":
                return
            answer = protect(functools.partial(getattr(served, name), **command), job)
            replies.write(json.dumps(answer) + "\n")
            replies.flush()


def protect(function: Callable[[], dict[str, Any]], job: dict[str, Any]) -> dict[str, Any]:
    """Return what a function returns, or the error that it raised, with the traceback in the log."""
    try:
        return function()
    except BaseException as error:  # noqa: BLE001 - SystemExit too: a toolchain may call sys.exit
        traceback.print_exc()
        return {"error": explain(error, job)}


def explain(error: BaseException, job: dict[str, Any]) -> dict[str, Any]:
    """Return an exception as JSON: its type, message and number, and whether it tried to write where it may not."""
    number = getattr(error, "errno", None)
    name = getattr(error, "filename", None)
    outside = False
    if isinstance(error, PermissionError) and isinstance(name, str):
        own = [os.path.realpath(path) + os.sep for path in find_folders(job)]
        path = os.path.realpath(name)
        outside = not any(path.startswith(folder) for folder in own) and (
            os.access(path, os.R_OK) or not os.path.exists(path)
        )
    return {
        "type": type(error).__name__,
        "message": str(error)[:4000],
        "errno": number if isinstance(number, int) else None,
        "outside": outside,
        "where": getattr(error, "hone_where", None),
    }


def find_folders(job: dict[str, Any]) -> list[str]:
    """Return where this job may write."""
    return [path for path in (job.get("output"), job.get("temporary"), sys.argv[1]) if path]


def read_arrays(path: str) -> dict[str, Any]:
    """Read an npz file into memory, arrays contiguous; never a pickle."""
    import numpy as np

    with np.load(path, allow_pickle=False) as arrays:
        return {name: np.ascontiguousarray(arrays[name]) for name in arrays.files}


def write_arrays(path: str, arrays: dict[str, Any]) -> None:
    """Write an npz file; unlike ``numpy.savez`` with any name of an array. Text becomes numpy's own, no pickle."""
    import zipfile

    import numpy as np

    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, array in arrays.items():
            with archive.open(name + ".npy", "w", force_zip64=True) as stream:
                found = np.asanyarray(array)
                if found.dtype.kind == "O" and all(isinstance(value, str) for value in found.flat):
                    found = found.astype(str)
                np.lib.format.write_array(stream, found, allow_pickle=False)


def join(values: list[Any]) -> Any:
    """Concatenate the chunks of one output; a single one stays as it is."""
    import numpy as np

    return values[0] if len(values) == 1 else np.concatenate([np.atleast_1d(value) for value in values])


def write_json(path: str, value: dict[str, Any]) -> None:
    """Write a file that is whole or not there."""

    def convert(item: Any) -> Any:
        if hasattr(item, "tolist"):  # numpy's scalars and arrays
            return item.tolist()
        raise TypeError("not JSON: " + repr(item))

    text = json.dumps(value, default=convert)
    with open(path + ".part", "w", encoding="utf-8") as stream:
        stream.write(text)
    os.replace(path + ".part", path)


def main() -> None:
    """Read the job, give up rights, work, answer, and end at once."""
    faulthandler.enable()
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]
    folder = sys.argv[1]
    with open(os.path.join(folder, "job.json"), encoding="utf-8") as stream:
        job = json.load(stream)
    landlock = confine(find_folders(job))
    if len(sys.argv) > 2:
        serve(job, landlock, int(sys.argv[2]), int(sys.argv[3]))
    else:
        result = dict(protect(lambda: call_function(job), job), landlock=landlock)
        path = os.path.join(folder, "result.json")
        error = protect(lambda: write_json(path, result) or {}, job)  # type: ignore[func-returns-value]
        if error:  # such as notes that are no JSON
            write_json(path, dict(error, landlock=landlock))
    for child in getattr(sys.modules.get("multiprocessing"), "active_children", list)():
        child.terminate()  # the pools of the standard library would do so at a normal exit
    sys.stdout.flush()
    sys.stderr.flush()
    # Toolchains leave threads behind that never end, and crash while they are torn down: neither is the step's result.
    os._exit(0)


if __name__ == "__main__":
    main()
