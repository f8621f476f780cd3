"""Is the winner of a real model as fast as the best configuration made by hand?

The models are those of ``tests/wheel_models.py``, which are contained in wheels; their packages are not installed. For
each a project is made, in which ``kedro run`` searches for a winner for single rows and one thread. All sizes of the
model but the batch are fixed to those of the data. For comparison, six configurations of ONNX Runtime and OpenVINO are
built by hand, and two of PyTorch if the source is a module. A configuration is accepted if its outputs on the gate's
rows differ from the source's by no more than the recipe's ``drop``, by the program ``fidelity``. All take turns as in
``by_hand.py``. The search confirms its finalists in three launches, since the winner is measured here again. If
they cannot decide, the first finalist is measured; if a run keeps the source, the source is. CPU time is measured, so
that the load of other processes has little effect::

    python benchmarks/wheels.py                                # an hour
    python benchmarks/wheels.py --models magika --folder DIR   # no search if DIR contains a complete one

Exit code 1: the best accepted configuration takes less than 0.97 of the winner's time.
"""

from __future__ import annotations

import argparse
import importlib
import json
import random
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # contains the models of wheels and the small project

from turns import Order, Turns, collect, compare, launch, time_calls
from wheels_builds import OPENERS, SHAPE, SOURCE, Model, Project, build, fix, split

from hone_runtime.contract.hardware import read_host
from kedro_hone.programs import fidelity

WINNER = "kedro-hone"
DROP, LEAST = 0.03, 0.97


def serve(order: Order) -> None:
    """Open one configuration, and for each line of the standard input run a burst or the gate's rows."""
    run = OPENERS[order["opener"]](order)
    folder = Path(order["folder"])
    feeds, gate = (dict(np.load(folder / f"{name}.npz")) for name in (SHAPE, "gate"))
    run(feeds)
    print("ready", flush=True)
    for line in sys.stdin:
        if line.strip() == "gate":
            parts = zip(*([np.array(part) for part in run(row)] for row in split(gate)), strict=True)
            np.savez(folder / f"{order['number']}.npz", *(np.stack(part) for part in parts))
            print("saved", flush=True)
            continue
        print(time_calls(run, feeds, clock=time.process_time), flush=True)


def judge(orders: list[Order], names: list[str]) -> dict[str, float | None]:
    """Return how far each configuration is below the source on the gate's rows; None if it fails."""
    outputs: dict[str, dict[str, np.ndarray]] = {}
    for order in orders:
        turn = Turns(order, script=__file__)
        if turn.opened and turn.ask("gate") == "saved":
            with np.load(Path(order["folder"], f"{order['number']}.npz")) as parts:
                outputs[order["name"]] = dict(zip(names, (parts[key] for key in parts.files), strict=True))
        turn.close()
    falls: dict[str, float | None] = dict.fromkeys(order["name"] for order in orders)
    for name, found in outputs.items():
        falls[name] = 1 - float(fidelity.metric(found, outputs[SOURCE], {"compare": None}))
    return falls


def search(model: Model, folder: Path, budget: str) -> Project:
    """Return the project of a model with a complete search; an existing one is used as it is."""
    projects, models = (importlib.import_module(name) for name in ("small_project", "wheel_models"))
    project = projects.Project(folder / "shop")
    if not project.root.exists():
        folder.mkdir(parents=True)
        project = models.make_project(projects.make_template(folder / "template"), folder, model)
        if not model.is_network and model.script is None:
            path = project.root / "models" / "wheel" / "model.onnx"
            fix(path, path, model.draw(1, np.random.default_rng(0)), first=1)  # the batch stays free
    project.parameters = {
        "model": {"uri": "models/voices" if model.script else "models/wheel"},
        "program": {"name": "fidelity"},
        "shapes": {SHAPE: {"batch": 1}},
        "threads": 1,
        "toolchains": list(model.toolchains),
        "gates": {"drop": DROP, "other_load": 1},
        "confirm": {"looks": [3]},
        "budget": float(budget) if budget.isdecimal() else budget,
    }
    project.set(**model.recipe)
    if not (project.work / "latest").exists():
        done = project.call("run")
        if done.code not in {0, 10, 11}:
            raise SystemExit(done.output)
    return project


def find_winner(project: Project) -> Order | None:
    """Return how to open the winner, or the finalist that three launches could not decide; None if there is neither."""
    evidence = project.evidence
    if evidence["winner"]:
        return {"opener": "winner", "path": str(project.root / evidence["winner"]["path"])}
    if evidence["verdict"] != "INCONCLUSIVE" or not evidence["confirmation"]["finalists"]:
        return None
    outcome = project.read_outcomes()[evidence["confirmation"]["finalists"][0]["id"]]
    return {"opener": "winner", "store": str(project.store.root), "digest": outcome["digest"]}


def measure(model: Model, given: argparse.Namespace, folder: Path) -> bool:
    """Print the table of one model, and return whether no accepted configuration is faster than allowed."""
    project = search(model, folder, given.budget)
    evidence, files = project.evidence, folder / "by-hand"
    files.mkdir(exist_ok=True)
    gate, searched = (dict(np.load(project.splits / f"{name}.npz")) for name in ("gate", "search"))
    np.savez(files / "gate.npz", allow_pickle=False, **gate)
    np.savez(files / f"{SHAPE}.npz", allow_pickle=False, **next(split(searched)))
    finalists = [one["id"] for one in evidence["confirmation"]["finalists"]]
    print(f"\n{model.package}: {evidence['verdict']}, {', '.join(finalists) or 'no finalist'}", flush=True)
    named = build(model, project, files)
    named[WINNER] = find_winner(project) or named[SOURCE]
    common = {"folder": str(files), "threads": 1, "shapes": {SHAPE: {"batch": 1}}}
    orders = [{**order, **common, "name": name, "number": number} for number, (name, order) in enumerate(named.items())]
    source = json.loads((project.work / "work" / "source.json").read_text())
    falls = judge(orders, [spec["name"] for spec in source["outputs"]])
    draw = random.Random(0)  # noqa: S311 - an order of measuring
    launches = [launch(orders, rounds=given.rounds, draw=draw, script=__file__) for _ in range(given.launches)]
    rows = compare(collect(launches), SHAPE, winner=WINNER)
    for name, (mean, least, most, seconds) in sorted(rows.items(), key=lambda row: row[1][0]):
        fall = falls[name]
        said = "failed" if fall is None else f"{fall:.4f}{'' if fall <= DROP else ', too far'}"
        print(f"  {name:36}{mean:8.3f} ({least:.3f} to {most:.3f}){seconds * 1e6:11.1f} us  {said}", flush=True)
    fell = {name: fall for name, fall in falls.items() if fall is not None and name != WINNER}
    holding = {name: rows[name][0] for name, fall in fell.items() if fall <= DROP and name in rows}
    if not holding:
        print("  no configuration by hand holds", flush=True)
        return True
    best = min(holding, key=lambda name: holding[name])
    print(f"  the best that holds: {best}, {holding[best]:.3f}; at least {LEAST} is asked", flush=True)
    return holding[best] >= LEAST


def main() -> None:
    """Measure all models; the exit code states whether their winners are fast enough."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", help="names of packages; all")
    parser.add_argument("--launches", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--budget", default="default", help="of a search")
    parser.add_argument("--folder", type=Path, help="where the projects are kept for the next time")
    parser.add_argument("--child", type=json.loads, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child is not None:
        serve(given.child)
        return
    print(f"{read_host().cpu}, one thread", flush=True)
    with tempfile.TemporaryDirectory(prefix="hone-wheels-") as scratch:
        folder = (given.folder or Path(scratch)).resolve()
        models = importlib.import_module("wheel_models").RUN
        chosen = [model for model in models if model.package in (given.models or [model.package])]
        fine = [measure(model, given, folder / model.package) for model in chosen]
    sys.exit(0 if all(fine) else 1)


if __name__ == "__main__":
    main()
