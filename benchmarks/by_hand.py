"""Is the winner as fast as the best configuration made by hand, and is it found sooner?

For each of three models (see ``by_hand_models.py``) a separate project is made, in which ``kedro run`` searches for a
winner with an empty store. Then twelve configurations of ONNX Runtime and OpenVINO are built by hand, ten without BF16,
and opened for each shape of the recipe with fixed dimensions. In each launch every configuration and the winner (loaded
by ``kedro_hone.load``) run in separate processes and take turns in random order; the others are stopped meanwhile. The
ratio at a shape in one launch is the median over its rounds of the configuration's time over the winner's in the same
round. The geometric mean over the launches is printed, with the minimum and the maximum. The best configuration is the
fastest of those that meet the recipe's quality::

    python benchmarks/by_hand.py                            # half an hour, on a quiet machine
    python benchmarks/by_hand.py --models digits --budget 60
    python benchmarks/by_hand.py --folder DIR --keep        # measure existing builds again

The quality of a configuration is a point estimate: accuracy on the gate's images drops by no more than the recipe's
``drop``; for the encoder see ``by_hand_texts.py``. Exit code 1: at a shape the winner is slower than 0.97 of the best
configuration, or the search took longer than a third of what trying all configurations took.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

import by_hand_builds
import by_hand_models
import numpy as np
from by_hand_child import WINNER
from by_hand_models import Model
from by_hand_texts import measure_fall
from turns import Order, Times, Turns, collect, compare, launch

from hone_runtime.contract.hardware import read_host

LEAST, THIRD = 0.97, 1 / 3
FP32 = "ONNX Runtime fp32"
CHILD = str(Path(__file__).with_name("by_hand_child.py"))


def judge_all(model: Model, orders: list[Order]) -> dict[str, float | None]:
    """Return by how much the quality of each configuration dropped; None if it dropped too far."""
    predictions = {}
    for order in orders:
        turn = Turns(order, script=CHILD)
        if turn.opened and turn.ask("gate") == "saved":
            predictions[order["name"]] = np.load(model.files / f"{order['number']}.npy")
        turn.close()
    if model.drop is None:
        return {name: measure_fall(predictions[FP32], given) for name, given in predictions.items()}
    labels = np.load(model.files / "labels.npy")
    right = {name: float((given.argmax(1) == labels).mean()) for name, given in predictions.items()}
    falls = {name: right[FP32] - each for name, each in right.items()}
    return {name: fall if fall <= model.drop else None for name, fall in falls.items()}


def try_by_hand(model: Model, given: argparse.Namespace) -> tuple[Times, dict[str, float | None], float]:
    """Build, judge and measure the configurations next to the winner; return times, quality, and the seconds."""
    modern = {"avx512_vnni", "avx512_bf16"} <= read_host().flags
    began = time.perf_counter()
    built = by_hand_builds.build(model, modern=modern)
    winner = model.project / by_hand_models.read_winner(model.project)["path"]
    named = {**built, WINNER: {"path": str(winner)}}
    common = {"folder": str(model.files), "threads": given.threads, "shapes": model.shapes}
    orders = [{**order, **common, "name": name, "number": number} for number, (name, order) in enumerate(named.items())]
    quality = judge_all(model, orders)
    draw = random.Random(0)  # noqa: S311 - an order of measuring
    launches = [launch(orders, rounds=given.rounds, draw=draw, script=CHILD) for _ in range(given.launches)]
    seconds = (time.perf_counter() - began) * len(built) / len(named)
    return collect(launches), quality, seconds


def search(model: Model, given: argparse.Namespace) -> float:
    """Run kedro-hone in the model's project with an empty store, and return the seconds that it took."""
    hone = model.project / "data" / "hone"
    if given.keep and (hone / "latest").exists():
        return float(by_hand_models.read_evidence(model.project)["optimization_seconds"])
    shutil.rmtree(hone, ignore_errors=True)
    env = ["--env", "minilm"] if model.name == "minilm" else []
    began = time.perf_counter()
    by_hand_models.run(model.project, "run", *env, "--params", f"hone.budget={given.budget}")
    return time.perf_counter() - began


def measure(name: str, given: argparse.Namespace, folder: Path) -> bool:
    """Print the tables of one model, and return whether the winner is fast enough, and soon enough."""
    model = by_hand_models.make_project(name, folder, threads=given.threads)
    by_hand_models.write_feeds(model)
    took = search(model, given)
    winner = by_hand_models.read_winner(model.project)["candidate"]  # without one, this ends before any build
    times, quality, seconds = try_by_hand(model, given)
    print(f"\n{name}: {winner}", flush=True)
    fine = took <= THIRD * seconds
    for shape in model.shapes:
        rows = compare(times, shape, winner=WINNER)
        print(f"{shape:50}{'time over the winner':>28}{'median':>14}{'fall':>9}")
        for configuration, (mean, least, most, median) in sorted(rows.items(), key=lambda row: row[1][0]):
            fall = quality.get(configuration)
            said = "too far" if fall is None else f"{fall:.4f}"
            print(
                f"  {configuration:48}{mean:9.3f} ({least:.3f} to {most:.3f}){median * 1e6:11.1f} us{said:>9}",
                flush=True,
            )
        holding = [row[0] for each, row in rows.items() if each != WINNER and quality.get(each) is not None]
        fine = fine and min(holding) >= LEAST
        print(f"  the best that holds: {min(holding):.3f}; at least {LEAST} is required")
    print(
        f"the search took {took:.0f} s, all configurations {seconds:.0f} s: {took / seconds:.2f}; "
        f"at most {THIRD:.2f} is required"
    )
    return fine


def main() -> None:
    """Measure all models; exit code 1 if one falls short."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["digits", "mobilenet", "minilm"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--launches", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--budget", default="default", help="of the search")
    parser.add_argument("--keep", action="store_true", help="search nothing where a search has ended in the folder")
    parser.add_argument("--folder", type=Path, help="where the projects are kept for the next time")
    given = parser.parse_args()
    print(f"{read_host().cpu}, {given.threads} threads", flush=True)
    with tempfile.TemporaryDirectory(prefix="hone-by-hand-") as scratch:
        fine = [measure(name, given, (given.folder or Path(scratch)).resolve()) for name in given.models]
    sys.exit(0 if all(fine) else 1)


if __name__ == "__main__":
    main()
