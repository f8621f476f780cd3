"""A session in a worker: a model that remains loaded, and is run and timed by commands.

It imports only the standard library, and NumPy and torch if arrays or tensors are passed.
"""

from __future__ import annotations

import functools
import gc
import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from hone_runtime.worker.clients import Clients


class Served:
    """The commands of a session, each a method; replies are JSON values. ``load_worker`` imports a job's file."""

    def __init__(self, job: dict[str, Any], load_worker: Callable[[dict[str, Any]], Any]) -> None:
        self.job = job
        self.load_worker = load_worker
        self.session: Any = None
        self.armed: dict[str, Callable[[], Any]] = {}
        self.clients: dict[str, Clients] = {}

    def load(self, feeds: str | None = None) -> dict[str, Any]:
        """Import the toolchain, open the model, and run it once if feeds are given."""
        arrays = _read_arrays(feeds) if feeds else None
        start = time.perf_counter_ns()
        worker = self.load_worker(self.job)
        _seed_generators(self.job["seed"])
        self.session = worker.load(self.job)
        if arrays is not None:
            self.complete(functools.partial(self.session.run, arrays))()
        return {"cold_start_ms": (time.perf_counter_ns() - start) / 1e6}

    def run(self, feeds: str, output: str, batch: int | None = None) -> dict[str, Any]:
        """Run all rows in chunks and write the outputs, rows first.

        If a model accepts only a fixed number of rows, the last chunk is filled with copies of its last row.
        """
        import numpy as np

        from hone_runtime.sessions import shapes

        arrays = _read_arrays(feeds)
        rows = min((len(array) for array in arrays.values()), default=0)
        step = batch or max(rows, 1)
        parts: dict[str, list[Any]] = {}
        model = self.job["input"]
        fixed = model["static_shapes"] or shapes.find_fixed_batch(spec["shape"] for spec in model["inputs"]) == batch
        whole = shapes.find_whole_outputs(model["inputs"], model["outputs"]) if batch == 1 else ()
        for first in range(0, max(rows, 1), step):
            chunk = {name: array[first : first + step] for name, array in arrays.items()}
            short = min(step, rows - first)
            pad = batch and short < step and fixed
            if pad:
                rest = step - short
                chunk = {name: np.concatenate([part, part[-1:].repeat(rest, 0)]) for name, part in chunk.items()}
            for name, value in self.session.run(chunk).items():
                array = np.asarray(value)
                array = array[None] if name in whole and array.shape[:1] != (1,) else array
                parts.setdefault(name, []).append(array[:short] if pad and array.ndim else array)
        _write_arrays(output, {name: _join(values) for name, values in parts.items()})
        return {}

    def run_together(self, feeds: str, threads: int, calls: int) -> dict[str, Any]:
        """Call the model from several threads at once; count results unlike single calls'.

        Each thread has its own rows, or all have the same if the model takes no others, such as unknown categories.
        """
        import concurrent.futures

        arrays = _read_arrays(feeds)
        own = [{name: _vary(array, number, threads) for name, array in arrays.items()} for number in range(threads)]
        try:
            alone = [_copy(self.session.run(each)) for each in own]
        except Exception:  # noqa: BLE001 - of any class; if the rows themselves fail, so does the next line
            own = [arrays] * threads
            alone = [_copy(self.session.run(each)) for each in own]

        def call(number: int) -> int:
            return sum(not _are_close(self.session.run(own[number]), alone[number]) for _ in range(calls))

        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)  # in seconds: so that threads also switch within a call
        try:
            with concurrent.futures.ThreadPoolExecutor(threads) as pool:
                return {"differing": sum(pool.map(call, range(threads)))}
        finally:
            sys.setswitchinterval(interval)

    def arm(self, shape: str, feeds: str, clients: int = 1) -> dict[str, Any]:
        """Read the feeds of a shape into memory, and prepare its call for timing: one for each client."""
        self.armed[shape], *more = (self.complete(self.prepare(_read_arrays(feeds))) for _ in range(clients))
        if more:
            self.clients[shape] = Clients([self.armed[shape], *more])
        gc.collect()
        gc.freeze()  # a toolchain has some hundred thousand objects, which each later collection would scan again
        return {}

    def complete(self, call: Callable[[], Any]) -> Callable[[], Any]:
        """Return a call that ends when the device has finished, if the session can wait for its device."""
        synchronize = getattr(self.session, "synchronize", None)
        if synchronize is None:
            return call

        def call_and_wait() -> None:
            call()
            synchronize()

        return call_and_wait

    def prepare(self, feeds: dict[str, Any]) -> Callable[[], Any]:
        """Return one call in the form that is timed: the session's own, with the source's interface, or with arrays."""
        if hasattr(self.session, "prepare"):
            return self.session.prepare(feeds)  # type: ignore[no-any-return]  # a session has no types
        interface = self.job.get("interface")
        specs = {side: [SimpleNamespace(**spec) for spec in self.job["input"][side]] for side in ("inputs", "outputs")}
        model: Any = SimpleNamespace(metadata=self.job["input"]["metadata"], **specs)
        if interface == "sklearn" and model.metadata.get("sklearn"):  # absent if the source is itself a winner
            return _prepare_rows(self.session.run, model, feeds)
        if interface in {"pytorch", "transformers"} and importlib.util.find_spec("torch"):
            return _prepare_tensors(self.session.run, model, feeds, named=interface == "transformers")
        return functools.partial(self.session.run, feeds)

    def time(self, shape: str, calls: int, warmup: int = 0) -> dict[str, Any]:
        """Time calls one by one, in nanoseconds, with the garbage collector switched off."""
        run, clock = self.armed[shape], time.perf_counter_ns
        times = []
        gc.collect()  # before the warm-up: it scans all objects, and would leave the caches cold
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

    def time_together(self, shape: str, calls: int, warmup: int = 0) -> dict[str, Any]:
        """Time calls by all clients of a shape at once, and the block that they make, in nanoseconds; as ``time``."""
        clients = self.clients[shape]
        gc.collect()
        gc.disable()
        try:
            if warmup:
                clients.time(warmup)
            times, wall = clients.time(calls)
        finally:
            gc.enable()
        return {"times": times, "wall": wall}

    def count_operators(self, feeds: str) -> dict[str, Any]:
        """Count the operators that run for these feeds, by precision and kind; None if the session cannot count.

        Some runtimes load the model a second time for it, so nothing should be timed afterwards.
        """
        from hone_runtime.sessions import operators

        return {"operators": operators.count_operators(self.session, _read_arrays(feeds))}


def serve(
    served: Served, protect: Callable[[Callable[[], dict[str, Any]]], Any], *, commands: int, replies: int
) -> None:
    """Serve commands, one JSON line each, until the pipe (a descriptor) closes.

    ``protect`` calls a function and returns its result, or the error that it raised, as JSON.
    """
    for descriptor in (commands, replies):
        os.set_inheritable(descriptor, False)  # noqa: FBT003 - it takes no names
    with os.fdopen(commands, "r", encoding="utf-8") as lines, os.fdopen(replies, "w", encoding="utf-8") as stream:
        for line in lines:
            command = json.loads(line)
            reply = protect(functools.partial(getattr(served, command.pop("do")), **command))
            stream.write(json.dumps(reply) + "\n")
            stream.flush()


def _seed_generators(seed: int) -> None:
    """Seed the random generators of the libraries that the toolchain has imported with the job's seed."""
    seeds = {
        "random": "seed",
        "numpy.random": "seed",
        "torch": "manual_seed",
        "onnxruntime": "set_seed",
        "tensorflow.random": "set_seed",
    }
    for name, function in seeds.items():
        head, _, rest = name.partition(".")
        library = sys.modules.get(head)
        call = getattr(getattr(library, rest, None) if rest else library, function, None)
        if call is not None:
            call(seed % 2**32)


def _prepare_rows(run: Any, model: Any, feeds: dict[str, Any]) -> Callable[[], Any]:
    """Return the call of an estimator's method, on rows in the callers' form; the source is timed in the same way."""
    from hone_runtime.interfaces import tables

    call = (tables.make_predict_proba if tables.has_probabilities(model) else tables.make_predict)(run, model)
    return functools.partial(call, tables.make_rows(model, feeds))


def _prepare_tensors(run: Any, model: Any, feeds: dict[str, Any], *, named: bool) -> Callable[[], Any]:
    """Return the call with tensors; if ``named``, with their names and a ``ModelOutput``, as in Transformers.

    If transformers is missing, the results are dictionaries, since nothing else can be timed.
    """
    from hone_runtime.interfaces import pretrained, tensors

    torch = tensors.import_torch()
    arguments = {spec.name: torch.from_numpy(feeds[spec.name]) for spec in model.inputs}
    if named and "transformers" in model.metadata and importlib.util.find_spec("transformers"):
        return functools.partial(pretrained.make_pretrained_interface(run, model), **arguments)
    return functools.partial(tensors.make_tensors_interface(run, model), *arguments.values())


def _read_arrays(path: str) -> dict[str, Any]:
    """Read an npz file into memory, arrays contiguous; never a pickle."""
    import numpy as np

    with np.load(path, allow_pickle=False) as arrays:
        return {name: np.ascontiguousarray(arrays[name]) for name in arrays.files}


def _vary(array: Any, number: int, count: int) -> Any:
    """Return other values for each number below the count, for which a model's output differs."""
    import numpy as np

    if array.dtype.kind == "f":
        return (array * ((number + 1) / count)).astype(array.dtype)
    return np.roll(array, number, axis=-1) if array.ndim else array


def _copy(outputs: dict[str, Any]) -> dict[str, Any]:
    import numpy as np

    return {name: np.array(value) for name, value in outputs.items()}


def _are_close(found: dict[str, Any], alone: dict[str, Any]) -> bool:
    """Return whether outputs are equal up to rounding, which may vary between calls."""
    import numpy as np

    def is_close(one: Any, other: Any) -> bool:
        if other.dtype.kind not in "fc" or not other.size:
            return np.array_equal(one, other)
        largest = np.abs(other[np.isfinite(other)]).max(initial=0.0)
        return np.allclose(one, other, rtol=0, atol=1e-3 * float(largest), equal_nan=True)

    return all(is_close(np.asarray(found[name]), value) for name, value in alone.items())


def _write_arrays(path: str, arrays: dict[str, Any]) -> None:
    """Write an npz file; unlike ``numpy.savez``, with any array names. Text becomes NumPy strings, not pickles."""
    import zipfile

    import numpy as np

    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, array in arrays.items():
            with archive.open(name + ".npy", "w", force_zip64=True) as stream:
                found = np.asanyarray(array)
                if found.dtype.kind == "O" and all(isinstance(value, str) for value in found.flat):
                    found = found.astype(str)
                np.lib.format.write_array(stream, found, allow_pickle=False)


def _join(values: list[Any]) -> Any:
    """Concatenate the chunks of one output; a single chunk is returned unchanged."""
    import numpy as np

    return values[0] if len(values) == 1 else np.concatenate([np.atleast_1d(value) for value in values])
