"""Does a user see the reported speed-up? Measures source and winner again, without kedro-hone's own code.

Each is loaded as users load it: the source by MLflow, or as its author's class with MLflow's state; the winner by
``kedro_hone.load``. Each launch has a fresh process for each of the two, which take turns in short bursts of plain
calls, since the speed of shared machines changes by half within seconds. The ratio of their median calls is compared
with the one in ``evidence.json``, shape by shape; the exit code is 1 when they differ by more than ten per cent
anywhere.

Run it in the project's folder after a run that has published a winner::

    python benchmarks/honesty.py --repeat 5     # on a quiet machine
    python benchmarks/honesty.py --load         # both under one busy core, with one thread

``--load`` is ``--busy --rerun --threads 1``: a process that never rests is pinned to the last core, `kedro run --params
hone.threads=1` is run during it, and then this is measured during it too. See ``benchmarks/README.md``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

TOLERANCE = 0.10
LEAST_LAUNCHES = 7
KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}
MODELS = ("source", "winner")

BUSY = """
import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
while os.getppid() == int(sys.argv[2]):
    for _ in range(1_000_000):
        pass
"""
"""A process that computes continuously as long as its parent lives."""

READY = "ready"
MODEL = Path(__file__).with_name("honesty_model.py")

Times = dict[str, dict[str, np.ndarray]]
Process = subprocess.Popen[str]


def measure(order: dict[str, Any], *, launches: int, rounds: int, seed: int) -> Times:
    """Launch source and winner side by side, in ``launches`` launches.

    Args:
        order: The configuration of both processes.
        launches: Number of launches of each.
        rounds: Bursts of each model at each shape in a launch.
        seed: Seed of the random order of starts and turns.

    Returns:
        For each model and shape the median call of each burst, in nanoseconds; (launches, rounds). Bursts at the same
        position of both models ran one after the other.
    """
    draw = random.Random(seed)  # noqa: S311 - an order of measuring
    times = {model: {name: np.empty((launches, rounds)) for name in order["shapes"]} for model in MODELS}
    for number in range(launches):
        with contextlib.ExitStack() as stack:
            pair = {model: stack.enter_context(start(order, model)) for model in draw.sample(MODELS, k=2)}
            for turn in range(rounds):
                for name in draw.sample(sorted(order["shapes"]), k=len(order["shapes"])):
                    for model in draw.sample(MODELS, k=2):
                        times[model][name][number, turn] = ask(pair[model], name)
        print(".", end="", flush=True)
    print()
    return times


@contextlib.contextmanager
def start(order: dict[str, Any], model: str) -> Iterator[Process]:
    """Start a fresh process that serves one of the two, wait until it is warm, and stop it.

    It is stopped except for its turns, since the threads of a pool keep polling long after the last call.
    """
    command = [sys.executable, "-W", "ignore", str(MODEL), json.dumps({**order, "model": model})]
    environment = {**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false"}
    if order["allocator"] == "keep":
        environment |= KEEP_MEMORY
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        for line in process.stdout or ():
            if line.strip() == READY:
                break
        else:
            raise SystemExit(f"the {model} could not be loaded; what it said stands above")
        process.send_signal(signal.SIGSTOP)
        try:
            yield process
        finally:
            process.send_signal(signal.SIGCONT)  # to read the end of its input


def ask(process: Process, shape: str) -> float:
    """Let a stopped process time one burst, and return the median call in nanoseconds."""
    if process.stdin is None or process.stdout is None:
        raise ValueError("the process was started without pipes")
    process.send_signal(signal.SIGCONT)
    process.stdin.write(f"{shape}\n")
    median_ns = float(process.stdout.readline())
    process.send_signal(signal.SIGSTOP)
    return median_ns


def read_order(run: Path, arguments: argparse.Namespace) -> tuple[dict[str, Any], dict[str, dict[str, float]]]:
    """Read the reported results of a run.

    Returns:
        The configuration of the launches, and the reported speed-ups by shape.
    """
    evidence = json.loads((run / "evidence.json").read_text())
    published = run / "publication.json"
    if evidence["winner"] is None or not published.exists():
        raise SystemExit(f"{run} has published no winner (its verdict is {evidence['verdict']}): nothing to compare")
    from mlflow.models import get_model_info  # noqa: PLC0415 - the launches must not pay for it

    connect(arguments.tracking_uri)
    recipe, uri = evidence["recipe"], evidence["source"]["uri"]
    info = get_model_info(uri)
    if info.signature is None:
        raise SystemExit(f"{uri} has no signature: what it takes is not known")
    inputs = [{"name": s["name"], **s["tensor-spec"]} for s in info.signature.inputs.to_dict()]
    order = {
        "source": uri,
        "winner": json.loads(published.read_text())["uri"],
        "author": recipe["model"]["module"],
        "kwargs": recipe["model"]["kwargs"],
        "flavor": "pytorch" if "pytorch" in info.flavors else "onnx",
        "inputs": inputs,
        "shapes": recipe["shapes"],
        "threads": arguments.threads or evidence["hardware"]["threads"],
        "call": arguments.call,
        "allocator": arguments.allocator,
        "tracking_uri": arguments.tracking_uri,
    }
    return order, {speedup["shape"]: speedup["ratio"] for speedup in evidence["speedups"]}


def connect(tracking_uri: str) -> None:
    """Set the registry of MLflow."""
    import mlflow  # noqa: PLC0415 - slow to import

    mlflow.set_tracking_uri(tracking_uri)


def compare(times: Times, reported: dict[str, dict[str, float]]) -> float:
    """Print both ratios at every shape.

    Returns:
        The largest difference: the larger ratio over the smaller one, minus one.
    """
    print(
        f"{'shape':12}{'source':>12}{'winner':>12}{'here':>9}{'  (launches)':17}{'reported':>9}  (interval)    differ"
    )
    worst = 0.0
    for name, interval in reported.items():
        source, winner = (times[model][name] for model in MODELS)
        ratios = np.median(source / winner, axis=1)
        ratio = float(np.exp(np.log(ratios).mean()))
        differ = max(ratio, interval["estimate"]) / min(ratio, interval["estimate"]) - 1
        worst = max(worst, differ)
        middle = [f"{np.median(values) / 1e6:.4f} ms" for values in (source, winner)]
        spread = f"({ratios.min():.2f}-{ratios.max():.2f})"
        ends = f"({interval['low']:.2f}-{interval['high']:.2f})"
        mark = "" if differ <= TOLERANCE else "  TOO MUCH"
        print(
            f"{name:12}{middle[0]:>12}{middle[1]:>12}{ratio:9.3f}  {spread:15}{interval['estimate']:9.3f}  {ends:14}"
            f"{differ:6.1%}{mark}"
        )
    return worst


@contextlib.contextmanager
def keep_busy(*, wanted: bool) -> Iterator[None]:
    """Keep the last core busy meanwhile."""
    if not wanted:
        yield
        return
    core = max(os.sched_getaffinity(0))
    busy = subprocess.Popen([sys.executable, "-c", BUSY, str(core), str(os.getpid())])
    try:
        print(f"core {core} is kept busy")
        yield
    finally:
        busy.kill()
        busy.wait()


def rerun(threads: int | None, *, busy: bool) -> None:
    """Run the optimization again in this folder; with a busy core, also if other processes use the cores."""
    command = [str(Path(sys.executable).with_name("kedro")), "run"]
    params = {"hone.threads": threads, "hone.gates.other_load": 1 if busy else None}
    given = ",".join(f"{name}={value}" for name, value in params.items() if value)
    command += ["--params", given] if given else []
    print(" ".join(["$ kedro", *command[1:]]), flush=True)
    subprocess.run(command, check=True)


def read_arguments() -> argparse.Namespace:
    """Read the command line."""
    default = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{Path('data/mlflow.db').absolute()}"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, default=Path("data/hone/latest"), help="the run's folder")
    parser.add_argument("--repeat", type=int, default=1, help="how often it is measured and compared")
    parser.add_argument("--launches", type=int, default=LEAST_LAUNCHES, help="of each model, seven at least")
    parser.add_argument("--rounds", type=int, default=10, help="bursts of each model and shape in a launch")
    parser.add_argument("--threads", type=int, help="as the run used when not given")
    parser.add_argument("--call", choices=("public", "arrays"), default="public", help="arrays: without its interface")
    parser.add_argument(
        "--allocator", choices=("keep", "default"), default="keep", help="keep: freed memory is kept, as in the run"
    )
    parser.add_argument("--busy", action="store_true", help="keep one core busy meanwhile")
    parser.add_argument("--rerun", choices=("once", "each"), help="`kedro run` before the first or before each repeat")
    parser.add_argument("--load", action="store_true", help="--busy --rerun once --threads 1")
    parser.add_argument("--tracking-uri", default=default, help="the registry; MLFLOW_TRACKING_URI or data/mlflow.db")
    arguments = parser.parse_args()
    if arguments.load:
        arguments.busy, arguments.rerun, arguments.threads = True, arguments.rerun or "once", arguments.threads or 1
    if arguments.launches < LEAST_LAUNCHES:
        parser.error(f"--launches: {LEAST_LAUNCHES} at least")
    return arguments


def main() -> None:
    """Measure and compare, ``--repeat`` times."""
    arguments = read_arguments()
    found = []
    with keep_busy(wanted=arguments.busy):
        for number in range(arguments.repeat):
            if arguments.rerun == "each" or (arguments.rerun == "once" and number == 0):
                rerun(arguments.threads, busy=arguments.busy)
            order, reported = read_order(arguments.run, arguments)
            run, threads = arguments.run.resolve().name, order["threads"]
            print(f"{number + 1}: {order['source']} and {order['winner']} of the run {run}, {threads} thread(s)")
            times = measure(order, launches=arguments.launches, rounds=arguments.rounds, seed=number)
            found.append(compare(times, reported))
    print(f"largest difference in {len(found)} repeats: {max(found):.1%}, where {TOLERANCE:.0%} is allowed")
    sys.exit(1 if max(found) > TOLERANCE else 0)


if __name__ == "__main__":
    main()
