"""Is the winner as fast as the best that somebody writes by hand, and is it found sooner?

For each of three models (see ``by_hand_models.py``) a project of its own is made, in which ``kedro run`` searches a
winner with an empty store. Then twelve configurations of ONNX Runtime and OpenVINO are built by hand, ten without BF16,
and opened for each shape of the recipe with fixed dimensions. In each launch every configuration and the winner, by
``kedro_hone.load``, get a process of their own, and take turns in random order; those without a turn are stopped. The
ratio at a shape is, in each launch, the median over its rounds of the configuration's time over the winner's in the
same round; printed is the geometric mean over the launches, with the least and the most of them. The best
configuration is the fastest of those that hold the recipe's quality::

    python benchmarks/by_hand.py                            # half an hour, on a quiet machine
    python benchmarks/by_hand.py --models digits --budget 60
    python benchmarks/by_hand.py --folder DIR --keep        # measure again what is there

Quality by hand is a point estimate: accuracy on the gate's images falls by no more than the recipe's ``drop``; for the
encoder see ``minilm.py``. Exit code 1: at a shape the winner is slower than 0.97 of the best configuration, or the
search took longer than a third of what trying all configurations took.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from minilm import Turns, judge
from minilm_models import name_cpu, read_flags

if TYPE_CHECKING:
    from by_hand_models import Model

LEAST, THIRD = 0.97, 1 / 3
WINNER = "kedro-hone"
BURST_SECONDS, GATE_BATCH = 0.06, 64


class Sessions:
    """A configuration opened in this process: once with fixed dimensions for each shape, and once for any."""

    def __init__(self, order: dict[str, Any]) -> None:
        open_one = self._open_openvino if "precision" in order else self._open_onnx
        self.runs = {shape: open_one(order, sizes) for shape, sizes in order["shapes"].items()}
        self.any = open_one(order, {})

    def _open_onnx(self, order: dict[str, Any], sizes: dict[str, int]) -> Any:
        import onnxruntime as ort  # noqa: PLC0415 - each process opens one runtime

        options = ort.SessionOptions()
        options.intra_op_num_threads = order["threads"]
        # This process has a session for each shape, whose threads would wait actively while another one computes.
        options.add_session_config_entry("session.intra_op.spin_duration_us", "500")
        for dimension, size in sizes.items():
            options.add_free_dimension_override_by_name(dimension, size)
        session = ort.InferenceSession(order["path"], options, providers=["CPUExecutionProvider"])
        return lambda feeds: session.run(None, feeds)[0]

    def _open_openvino(self, order: dict[str, Any], sizes: dict[str, int]) -> Any:
        os.environ["CI"] = "true"  # no telemetry
        import openvino as ov  # noqa: PLC0415 - see above

        core = ov.Core()
        model = core.read_model(order["path"])
        if sizes:
            free = list(sizes.values())
            fixed = {
                port.any_name: [next(left) if dim.is_dynamic else dim.get_length() for dim in port.partial_shape]
                for port in model.inputs
                for left in [iter(free)]
            }
            model.reshape(fixed)
        hints = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": order["precision"]}
        request = core.compile_model(
            model, "CPU", {**hints, "INFERENCE_NUM_THREADS": order["threads"]}
        ).create_infer_request()
        return lambda feeds: request.infer(feeds, share_inputs=True)[0]


class Winner:
    """The winner as its user loads it, called with arrays."""

    def __init__(self, order: dict[str, Any]) -> None:
        import kedro_hone  # noqa: PLC0415 - each process opens one runtime

        learner = kedro_hone.load(order["path"], threads=order["threads"])
        self._names = [spec.name for spec in learner.artifact.inputs]
        self._learner = learner
        self.runs = dict.fromkeys(order["shapes"], self.any)

    def any(self, feeds: dict[str, np.ndarray]) -> np.ndarray:
        """Return the first output."""
        return next(iter(self._learner.run(feeds).values()))

    def rename(self, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the arrays under the source's names, in its order."""
        return feeds if {*feeds} == {*self._names} else dict(zip(self._names, feeds.values(), strict=True))


def serve(order: dict[str, Any]) -> None:
    """Open one configuration or the winner, and do what each line of the standard input asks for."""
    ours = order["name"].startswith(WINNER)
    model: Any = Winner(order) if ours else Sessions(order)
    folder = Path(order["folder"])
    feeds = {name: dict(np.load(folder / f"{name}.npz")) for name in (*order["shapes"], "gate")}
    if ours:
        feeds = {name: model.rename(arrays) for name, arrays in feeds.items()}
    print("ready", flush=True)
    for line in sys.stdin:
        asked = line.strip()
        if asked == "gate":
            np.save(folder / f"{order['number']}.npy", predict(model.any, feeds[asked]))
            print("saved", flush=True)
            continue
        call, arrays, times = model.runs[asked], feeds[asked], []
        for _ in range(3):
            call(arrays)
        end = time.perf_counter() + BURST_SECONDS
        while len(times) < 5 or time.perf_counter() < end:
            start = time.perf_counter()
            call(arrays)
            times.append(time.perf_counter() - start)
        print(statistics.median(times), flush=True)


def predict(call: Any, rows: dict[str, np.ndarray]) -> np.ndarray:
    """Return the logits of all rows, or the embeddings where the outputs are vectors of tokens."""
    parts = []
    for start in range(0, len(next(iter(rows.values()))), GATE_BATCH):
        feeds = {name: array[start : start + GATE_BATCH] for name, array in rows.items()}
        found = np.array(call(feeds))
        if found.ndim == 3:
            mask = feeds["attention_mask"][..., None]
            vectors = (found * mask).sum(1) / mask.sum(1)
            found = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        parts.append(found)
    return np.concatenate(parts)


def launch(orders: list[dict[str, Any]], *, rounds: int, draw: random.Random) -> dict[str, dict[str, list[float]]]:
    """Start all, measure some rounds in turns, and return the seconds by name and shape; who fails is left out."""
    with contextlib.ExitStack() as stack:
        turns: dict[str, Turns] = {}
        for order in draw.sample(orders, k=len(orders)):
            turn = Turns(order, {}, script=__file__)
            stack.callback(turn.close)
            if turn.opened:
                turns[order["name"]] = turn
        shapes = orders[0]["shapes"]
        times: dict[str, dict[str, list[float]]] = {name: {shape: [] for shape in shapes} for name in turns}
        for _ in range(rounds):
            for shape in shapes:
                for name in draw.sample(sorted(times), k=len(times)):
                    reply = turns[name].ask(shape)
                    if reply:
                        times[name][shape].append(float(reply))
                    else:
                        times.pop(name)
        return times


def judge_all(model: Model, orders: list[dict[str, Any]]) -> dict[str, float | None]:
    """Return by how much the quality of each configuration fell; None where it does not hold."""
    predictions: dict[str, np.ndarray] = {}
    for order in orders:
        turn = Turns(order, {}, script=__file__)
        if turn.opened and turn.ask("gate") == "saved":
            predictions[order["name"]] = np.load(model.files / f"{order['number']}.npy")
        turn.close()
    wanted = predictions["ONNX Runtime fp32"]
    if model.drop is None:
        judged = {name: judge(wanted, given) for name, given in predictions.items()}
        return {name: float(1 - row["cosine"]) if row["holds"] else None for name, row in judged.items()}
    labels = np.load(model.files / "labels.npy")
    right = {name: float((given.argmax(1) == labels).mean()) for name, given in predictions.items()}
    falls = {name: right["ONNX Runtime fp32"] - each for name, each in right.items()}
    return {name: fall if fall <= model.drop else None for name, fall in falls.items()}


def try_by_hand(model: Model, given: argparse.Namespace) -> tuple[dict[str, Any], dict[str, float | None], float]:
    """Build, judge and measure the configurations next to the winner; return times, quality, and the seconds."""
    import by_hand_builds  # noqa: PLC0415 - the children need none of it
    import by_hand_models  # noqa: PLC0415 - see above

    modern = {"avx512_vnni", "avx512_bf16"} <= read_flags()
    began = time.perf_counter()
    built = by_hand_builds.build(model, modern=modern)
    winner = model.project / by_hand_models.read_winner(model.project)["path"]
    named = {**built, WINNER: {"path": str(winner)}}
    common = {"folder": str(model.files), "threads": given.threads, "shapes": model.shapes}
    orders = [{**order, **common, "name": name, "number": number} for number, (name, order) in enumerate(named.items())]
    quality = judge_all(model, orders)
    draw = random.Random(0)  # noqa: S311 - an order of measuring
    launches = [launch(orders, rounds=given.rounds, draw=draw) for _ in range(given.launches)]
    seconds = (time.perf_counter() - began) * len(built) / len(named)
    return {name: [each[name] for each in launches if name in each] for name in named}, quality, seconds


def compare(times: dict[str, Any], shape: str) -> dict[str, tuple[float, float, float, float]]:
    """Return of each configuration its time over the winner's: the geometric mean, least and most; and its seconds."""
    rows: dict[str, tuple[float, float, float, float]] = {}
    for name, launches in times.items():
        ratios = [
            statistics.median(theirs / ours for theirs, ours in zip(mine[shape], winner[shape], strict=True))
            for mine, winner in zip(launches, times[WINNER], strict=False)
        ]
        if ratios:
            mean = math.exp(statistics.fmean(map(math.log, ratios)))
            rows[name] = (
                mean,
                min(ratios),
                max(ratios),
                statistics.median(t for each in launches for t in each[shape]),
            )
    return rows


def search(model: Model, given: argparse.Namespace) -> float:
    """Run kedro-hone in the model's project with an empty store, and return the seconds that it took."""
    import shutil  # noqa: PLC0415 - the children need none of it

    import by_hand_models  # noqa: PLC0415 - see above

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
    import by_hand_models  # noqa: PLC0415 - the children need none of it

    model = by_hand_models.make_project(name, folder, threads=given.threads)
    by_hand_models.write_feeds(model)
    took = search(model, given)
    winner = by_hand_models.read_winner(model.project)["candidate"]  # ends before anything is built where there is none
    times, quality, seconds = try_by_hand(model, given)
    print(f"\n{name}: {winner}", flush=True)
    fine = took <= THIRD * seconds
    for shape in model.shapes:
        rows = compare(times, shape)
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
        print(f"  the best that holds: {min(holding):.3f}; at least {LEAST} is asked")
    print(
        f"the search took {took:.0f} s, all configurations {seconds:.0f} s: {took / seconds:.2f}; at most 0.33 is asked"
    )
    return fine


def main() -> None:
    """Measure all models, and say whether they hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["digits", "mobilenet", "minilm"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--launches", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--budget", default="default", help="of the search")
    parser.add_argument("--keep", action="store_true", help="search nothing where a search has ended in the folder")
    parser.add_argument("--folder", type=Path, help="where the projects are kept for the next time")
    parser.add_argument("--child", type=json.loads, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child is not None:
        serve(given.child)
        return
    print(f"{name_cpu()}, {given.threads} threads", flush=True)
    with tempfile.TemporaryDirectory(prefix="hone-by-hand-") as scratch:
        fine = [measure(name, given, (given.folder or Path(scratch)).resolve()) for name in given.models]
    sys.exit(0 if all(fine) else 1)


if __name__ == "__main__":
    main()
