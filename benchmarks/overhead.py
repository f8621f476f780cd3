"""The overhead of kedro-hone: seconds for each candidate, and the memory of the process that runs the pipelines.

For each candidate its two nodes, ``transform`` and ``validate``, are run as by Kedro, with the toy toolchain, which
computes almost nothing. The time of its worker file (the import of numpy, and the work) is subtracted. The rest is the
overhead: starting guards and interpreters, jobs, verification, sealing, the program's worker, the store. Then a whole
run is observed: the peak memory of its process, and whether a toolchain was ever loaded into it::

    python benchmarks/overhead.py                # in the project's folder; a minute, and the time of `kedro run`
    python benchmarks/overhead.py --times 20 --no-run
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hone_runtime.contract.catalogue import register
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.digest import digest_file
from hone_runtime.values.measurement import Status
from hone_runtime.values.samples import Reference, TrackedFile
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.nodes.baseline import take_baseline
from kedro_hone.nodes.prepare import prepare
from kedro_hone.nodes.transform import apply_adaptor
from kedro_hone.nodes.validate import validate
from kedro_hone.recipe.plan import make_plan
from kedro_hone.recipe.schema import Recipe, read_recipe
from kedro_hone.search.context import RunContext

TESTS = str(Path(__file__).parents[1] / "tests")
"""The folder of the toy toolchain; the name of its package is that of a benchmark."""
MOST_SECONDS, MOST_MEGABYTES = 0.5, 500
ROWS = {"calibration": 64, "search": 256, "gate": 512}
TOOLCHAINS = ("libtorch", "onnxruntime", "libopenvino", "onnx_cpp2py", "nncf")
"""Parts of the names of mapped files if a toolchain has been imported."""


def make_recipe(number: int) -> Recipe:
    """Return a recipe with different options of the adaptor, and so a different result, for each candidate."""
    return read_recipe(
        {
            "model": {"uri": "models:/toy/1"},
            "shapes": {"batch64": {"batch": 64}},
            "budget": "thorough",
            "toolchains": ["toy"],
            "adaptors": {"toy.compile": {"enabled": True, "options": {"slow": 1.0 + number}}},
            "gates": {"drop": 0.5},
        }
    )


def track(path: Path, rows: int, rng: np.random.Generator) -> TrackedFile:
    """Write random rows as if DVC had downloaded them."""
    np.savez(path, x=rng.random((rows, 4), dtype=np.float32))
    return TrackedFile(path=str(path), source=path.name, repo="", rev="", resolved_rev="", md5=digest_file(path))


def measure_candidates(times: int, folder: Path) -> list[dict[str, float]]:
    """Build and validate candidates that are not in the store.

    Args:
        times: Number of candidates, after a first one that is not counted.
        folder: An empty directory.

    Returns:
        For each candidate the seconds of its nodes, and those of the toolchain in them.
    """
    sys.path.insert(0, TESTS)
    toy, model = (importlib.import_module(f"toolchains.toy.{name}") for name in ("adaptor", "model"))
    register(toy.TOOLCHAIN, *toy.ADAPTORS)
    store = Store(folder / "hone" / "store")
    run = RunFolder(root=folder / "hone" / "runs", run_id="overhead", project=folder)
    made, rng, recipe = model.make_model(folder / "source", slow=1e-9), np.random.default_rng(0), make_recipe(0)
    source = store.seal(
        folder / "source", format=made.format, inputs=made.inputs, outputs=made.outputs, runtime=made.runtime
    )
    files: dict[str, Any] = {name: track(folder / f"{name}.npz", rows, rng) for name, rows in ROWS.items()}
    common: dict[str, Any] = {"source": source, "store": store, "run": run}
    context = RunContext(samples=prepare(recipe=recipe, **common, **files), recipe=recipe, **common)
    reference = take_baseline(context=context)
    return [measure_candidate(number, context, reference) for number in range(times + 1)][1:]


def measure_candidate(number: int, context: RunContext, reference: Reference) -> dict[str, float]:
    """Run the nodes of one candidate; the source sleeps for some picoseconds, so its calls take almost no time."""
    context = replace(context, recipe=make_recipe(number))
    options = make_plan(context.recipe).options["toy.compile"]
    common: dict[str, Any] = {"context": context, "reference": reference}
    began = time.perf_counter()
    outcome = apply_adaptor(parent=context.source, adaptor="toy.compile", options=options, **common)
    built = time.perf_counter()
    route = ("toy.compile",)
    validation = validate(outcome=outcome, candidate="toy", route=route, **common)
    ended = time.perf_counter()
    if (
        not isinstance(outcome, Artifact)
        or validation.status is not Status.MEASURED
        or validation.run != context.run.run_id
    ):
        raise RuntimeError(f"the toy did not run: {outcome} {validation.reason}")
    step = max(context.run.folder.glob("steps/*-toy.compile"))
    worker = json.loads((step / "result.json").read_text())["seconds"]
    return {
        "transform": built - began - worker,
        "validate": ended - built - (validation.cold_start_ms or 0.0) / 1000,
        "toolchain": worker + (validation.cold_start_ms or 0.0) / 1000,
    }


def watch_run(command: list[str]) -> tuple[float, list[str], int]:
    """Run a command and watch its own process, not its children.

    Returns:
        Its peak resident memory in megabytes, the toolchains that were mapped into it, and its exit code.
    """
    process = subprocess.Popen(command, stdout=sys.stderr)
    peak, loaded = 0, set[str]()
    folder = Path("/proc") / str(process.pid)
    while process.poll() is None:
        try:
            status, maps = (folder / "status").read_text(), (folder / "maps").read_text()
        except OSError:  # it has just ended
            break
        lines = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
        peak = max(peak, int(lines.get("VmHWM", "0 kB").split()[0]))
        loaded |= {name for name in TOOLCHAINS if name in maps}
        time.sleep(0.2)
    return peak / 1000, sorted(loaded), process.wait()


def main() -> None:
    """Measure both; exit code 1 if one is above its limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=20, help="how many candidates")
    parser.add_argument("--no-run", action="store_true", help="leave the whole run out")
    parser.add_argument("--command", default="run --pipelines assess", help="what kedro is told, for the whole run")
    arguments = parser.parse_args()
    logging.getLogger("kedro_hone").setLevel(logging.WARNING)
    with tempfile.TemporaryDirectory(prefix="hone-overhead-") as folder:
        rows = measure_candidates(arguments.times, Path(folder))
    parts = {name: statistics.median(row[name] for row in rows) for name in rows[0]}
    own = statistics.median(row["transform"] + row["validate"] for row in rows)
    nodes = ", ".join(f"{name} {parts[name]:.3f}" for name in ("transform", "validate"))
    print(f"each candidate: {own:.3f} s of our own ({nodes}), median of {len(rows)}; {MOST_SECONDS} is allowed")
    print(f"in addition {parts['toolchain']:.3f} s in the worker file")
    fine = own <= MOST_SECONDS
    if not arguments.no_run:
        kedro = str(Path(sys.executable).with_name("kedro"))
        peak, loaded, code = watch_run([kedro, *arguments.command.split()])
        print(f"kedro {arguments.command}: at most {peak:.0f} MB, where {MOST_MEGABYTES} is allowed; exit code {code}")
        print(f"toolchains in its process: {', '.join(loaded) or 'none'}")
        fine = fine and peak < MOST_MEGABYTES and not loaded
    sys.exit(0 if fine else 1)


if __name__ == "__main__":
    main()
