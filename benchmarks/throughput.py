"""Is the throughput winner as good as the best of eight stream and thread settings that are written by hand?

For each model a separate project is made, in which ``kedro run`` searches for the most throughput with an empty store:
each shape of the recipe has several clients, and ``race.objective`` is ``throughput``. Then four settings of ONNX
Runtime and four of OpenVINO open the model as it was exported, with fixed dimensions for each shape; OpenVINO computes
in bf16 where the CPU has it, which is its default. In each launch every setting
and the winner (loaded by ``kedro_hone.load``) run in separate processes and take turns in random order; the others are
stopped meanwhile. In a turn the clients, which are threads, make a block of calls at once. The ratio at a shape in one
launch is the median over its rounds of the setting's time for a block over the winner's in the same round, each divided
by its number of calls. The geometric mean over the launches is printed, with the minimum and the maximum::

    python benchmarks/throughput.py                      # half an hour, on a quiet machine
    python benchmarks/throughput.py --models digits --clients 4 --budget 120
    python benchmarks/throughput.py --folder DIR --keep  # measure existing builds again

Exit code 1: at a shape the winner has less than 0.97 of the throughput of the best setting.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path

import by_hand
import by_hand_builds
import by_hand_models
import numpy as np
import yaml
from by_hand_models import Model
from throughput_child import WINNER
from turns import Order, collect, compare, launch

from hone_runtime.contract.hardware import read_host

LEAST = 0.97
CHILD = str(Path(__file__).with_name("throughput_child.py"))
NO_SPINNING = {"session.intra_op.allow_spinning": "0"}


def list_settings(onnx: Path, xml: Path, *, threads: int, clients: int) -> dict[str, Order]:
    """Return eight settings by name: how sessions, streams and threads are divided among the clients."""

    def make_onnx(*, intra: int, sessions: int = 1, entries: dict[str, str] | None = None) -> Order:
        return {"kind": "onnx", "path": str(onnx), "intra": intra, "sessions": sessions, "entries": entries or {}}

    def make_openvino(**properties: str | int) -> Order:
        return {"kind": "openvino", "path": str(xml), "properties": properties}

    return {
        "ONNX Runtime, one session, all threads": make_onnx(intra=threads),
        "ONNX Runtime, the same without spinning": make_onnx(intra=threads, entries=NO_SPINNING),
        "ONNX Runtime, one session, one thread a call": make_onnx(intra=1),
        "ONNX Runtime, a session of one thread a client": make_onnx(intra=1, sessions=clients),
        "OpenVINO, LATENCY": make_openvino(PERFORMANCE_HINT="LATENCY"),
        "OpenVINO, THROUGHPUT": make_openvino(PERFORMANCE_HINT="THROUGHPUT"),
        "OpenVINO, a stream a thread": make_openvino(PERFORMANCE_HINT="THROUGHPUT", NUM_STREAMS=threads),
        "OpenVINO, THROUGHPUT, its queue": {**make_openvino(PERFORMANCE_HINT="THROUGHPUT"), "queue": True},
    }


def ask_for_throughput(model: Model, given: argparse.Namespace) -> None:
    """Write the clients and the objective into the project's local recipe."""
    shapes = {shape: {**sizes, "clients": given.clients} for shape, sizes in model.shapes.items()}
    local = {
        "threads": given.threads,
        "shapes": shapes,
        "race": {"objective": "throughput"},
        "gates": {"other_load": given.load},
    }
    (model.project / "conf" / "local" / "parameters.yml").write_text(yaml.safe_dump({"hone": local}))


def measure(name: str, given: argparse.Namespace, folder: Path) -> bool:
    """Print the tables of one model, and return whether the winner has throughput enough."""
    model = by_hand_models.make_project(name, folder, threads=given.threads)
    by_hand_models.write_feeds(model)
    ask_for_throughput(model, given)
    took = by_hand.search(model, given)
    winner = by_hand_models.read_winner(model.project)
    onnx, xml = by_hand_builds.export(model), model.files / "plain.xml"
    if not xml.exists():
        by_hand_builds.convert(onnx, xml)
    settings = list_settings(onnx, xml, threads=given.threads, clients=given.clients)
    named = {**settings, WINNER: {"path": str(model.project / winner["path"])}}
    common = {"folder": str(model.files), "threads": given.threads, "clients": given.clients, "shapes": model.shapes}
    orders = [{**order, **common, "name": each} for each, order in named.items()]
    draw = random.Random(0)  # noqa: S311 - an order of measuring
    launches = [launch(orders, rounds=given.rounds, draw=draw, script=CHILD) for _ in range(given.launches)]
    print(f"\n{name}: {winner['candidate']}, found in {took:.0f} s", flush=True)
    fine = True
    for shape in model.shapes:
        rows, fewest = compare(collect(launches), shape, winner=WINNER), _count_rows(model, shape)
        print(f"{shape:50}{'time over the winner':>28}{'rows per second':>20}")
        for setting, (mean, least, most, median) in sorted(rows.items(), key=lambda row: row[1][0]):
            print(f"  {setting:48}{mean:9.3f} ({least:.3f} to {most:.3f}){fewest / median:17,.0f}", flush=True)
        best = min(row[0] for each, row in rows.items() if each != WINNER)
        fine = fine and best >= LEAST
        print(f"  the best by hand: {best:.3f}; at least {LEAST} is required")
    return fine


def _count_rows(model: Model, shape: str) -> int:
    with np.load(model.files / f"{shape}.npz") as arrays:
        return len(arrays[arrays.files[0]])


def main() -> None:
    """Measure all models; exit code 1 if one falls short."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["digits", "minilm"])
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--launches", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--budget", default="default", help="of the search")
    parser.add_argument("--load", type=float, default=0.25, help="the share of the cores that others may take")
    parser.add_argument("--keep", action="store_true", help="search nothing where a search has ended in the folder")
    parser.add_argument("--folder", type=Path, help="where the projects are kept for the next time")
    given = parser.parse_args()
    print(f"{read_host().cpu}, {given.threads} threads, {given.clients} clients", flush=True)
    with tempfile.TemporaryDirectory(prefix="hone-throughput-") as scratch:
        fine = [measure(name, given, (given.folder or Path(scratch)).resolve()) for name in given.models]
    sys.exit(0 if all(fine) else 1)


if __name__ == "__main__":
    main()
