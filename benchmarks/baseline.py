"""Is an exported program, as we run the baseline, as fast as the author's class?

Eight networks are exported and saved, and opened as a source is opened. In each launch, a fresh process, the class
(``eval``, inference mode) and the callable that a race would time take turns in random order; a launch gives the median
over its rounds of the baseline's time over the class's, and the table the median over the launches::

    python benchmarks/baseline.py                           # some minutes, on a quiet machine
    python benchmarks/baseline.py --only ViT --launches 3
    python benchmarks/baseline.py --threads 1 --clock cpu   # on a busy one: the CPU's time, without waiting for it

More than 1.10 anywhere is exit code 1: then candidates would look faster than they are. Less than 0.90 is shown and is
no fault: the graph calls no modules, which is much of the time of a network of a few microseconds.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

MOST = 1.10
BATCHES = (1, 32)
CLOCKS = {"wall": time.perf_counter_ns, "cpu": time.process_time_ns}


def serve(order: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Measure one network in this process.

    Args:
        order: Its name, threads, rounds, seconds of each burst, and a seed.

    Returns:
        For each batch size the median ratio, and the median microseconds of both.
    """
    import torch  # noqa: PLC0415 - only the launches pay for it
    from networks import NETWORKS  # noqa: PLC0415 - see above

    torch.manual_seed(0)
    torch.set_num_threads(order["threads"])
    make, draw_inputs = NETWORKS[order["network"]]
    model = make().eval()
    with tempfile.TemporaryDirectory(prefix="hone-baseline-") as folder:
        program = torch.export.export(model, (draw_inputs(3),), dynamic_shapes=({0: torch.export.Dim("batch")},))
        torch.export.save(program, Path(folder) / "model.pt2")
        session = open_source(folder, order["threads"])
    found = {}
    for batch in BATCHES:
        tensor = draw_inputs(batch)
        calls = {"class": make_call(model, tensor), "baseline": session.prepare({"x": tensor.numpy()})}
        found[str(batch)] = take_turns(calls, order)
    return found


def open_source(folder: str, threads: int) -> Any:
    """Open an exported program by the worker of its toolchain, as a race does with a source."""
    from kedro_hone.core.contract.catalogue import read_catalogue  # noqa: PLC0415 - see above
    from kedro_hone.core.workers.inside.loading import load_file  # noqa: PLC0415 - see above

    specs = {"inputs": [{"name": "x"}], "outputs": [{"name": "y"}]}
    model = {"path": folder, "format": "pytorch", "run_options": {}, **specs}
    worker = load_file("hone_worker", str(read_catalogue().toolchains["pytorch"].worker))
    return worker.load({"input": model, "threads": threads, "trust": []})


def make_call(model: Callable[..., Any], tensor: Any) -> Callable[[], Any]:
    """Return one call of the author's class as its user writes it."""
    import torch  # noqa: PLC0415 - see above

    def call() -> Any:
        with torch.inference_mode():
            return model(tensor)

    return call


def take_turns(calls: dict[str, Callable[[], Any]], order: dict[str, Any]) -> dict[str, float]:
    """Time both in rounds of random order."""
    draw = random.Random(order["seed"])  # noqa: S311 - an order of measuring
    times: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(order["rounds"] + 1):
        for name in draw.sample(sorted(calls), k=len(calls)):
            spent = time_calls(calls[name], seconds=order["seconds"], clock=CLOCKS[order["clock"]])
            if number:  # the first round warms up
                times[name].append(spent)
    ratios = [baseline / own for baseline, own in zip(times["baseline"], times["class"], strict=True)]
    medians = {name: statistics.median(values) / 1000 for name, values in times.items()}
    return {"ratio": statistics.median(ratios), **medians}


def time_calls(call: Callable[[], Any], *, seconds: float, clock: Callable[[], int]) -> float:
    """Return the median call of a burst, in nanoseconds."""
    times = []
    end = time.perf_counter() + seconds
    while len(times) < 5 or time.perf_counter() < end:
        start = clock()
        call()
        times.append(clock() - start)
    return statistics.median(times)


def name_cpu() -> str:
    """Return the processor's name, as Linux has it."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown CPU")


def launch(order: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Measure one network in a fresh process."""
    command = [sys.executable, "-W", "ignore", __file__, "--child", json.dumps(order)]
    # As all workers of a run: freed memory is kept, so that page faults do not decide.
    keep = {"MALLOC_MMAP_THRESHOLD_": "33554432", "MALLOC_TRIM_THRESHOLD_": "1099511627776"}
    done = subprocess.run(command, env={**os.environ, **keep}, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, dict[str, float]] = json.loads(done.stdout.splitlines()[-1])
    return found


def compare(name: str, order: dict[str, Any], launches: int) -> bool:
    """Measure one network in several launches, and print a line for each batch size; whether both hold."""
    found = [launch({**order, "network": name, "seed": seed}) for seed in range(launches)]
    fine = True
    for batch in map(str, BATCHES):
        ratios = [each[batch]["ratio"] for each in found]
        ratio, own, ours = (
            statistics.median(each[batch][key] for each in found) for key in ("ratio", "class", "baseline")
        )
        mark = "  TOO SLOW" if ratio > MOST else ""
        spread = f"({min(ratios):.2f}-{max(ratios):.2f})"
        print(f"{name:20}{batch:>6}{own:11.1f} µs{ours:11.1f} µs{ratio:8.3f}  {spread}{mark}", flush=True)
        fine = fine and ratio <= MOST
    return fine


def main() -> None:
    """Measure all networks and say whether they hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--launches", type=int, default=5, help="fresh processes for each network")
    parser.add_argument("--rounds", type=int, default=20, help="turns of each in a launch")
    parser.add_argument("--seconds", type=float, default=0.02, help="of each turn")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="all cores when not given")
    parser.add_argument(
        "--clock", choices=sorted(CLOCKS), default="wall", help="cpu: with one thread, on a busy machine"
    )
    parser.add_argument("--only", nargs="+", help="names of networks")
    parser.add_argument("--child", type=json.loads, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child is not None:
        print(json.dumps(serve(arguments.child)))
        return
    from networks import NETWORKS  # noqa: PLC0415 - see above

    order = {"threads": arguments.threads, "rounds": arguments.rounds, "seconds": arguments.seconds}
    order["clock"] = arguments.clock
    times = f"{arguments.launches} launches of {arguments.rounds} rounds"
    print(f"{name_cpu()}, {arguments.threads} thread(s), {arguments.clock} time, {times}")
    print(f"{'network':20}{'batch':>6}{'class':>14}{'baseline':>14}{'ratio':>8}  (launches)")
    names = arguments.only or list(NETWORKS)
    fine = [compare(name, order, arguments.launches) for name in names]
    sys.exit(0 if all(fine) else 1)


if __name__ == "__main__":
    main()
