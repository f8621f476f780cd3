"""How much of what a thorough search reaches does a short one reach?

For each model of ``by_hand_models.py`` two projects are made, with the same data and an empty store each. One is
searched within the short budget, the other one within the long one. Then both winners, by ``kedro_hone.load``, take
turns in random order, each in a process of its own in each launch. The ratio at a shape is, in each launch, the median
over its rounds of the long winner's time over the short one's in the same round; printed is the geometric mean over
the launches, with the least and the most of them::

    python benchmarks/budgets.py                       # hours, on a quiet machine; an hour without minilm
    python benchmarks/budgets.py --models digits --folder DIR --keep

Exit code 1: at a shape the short winner reaches less than 0.9 of the long one's speed.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path

import by_hand
import by_hand_models
from minilm_models import name_cpu

ENOUGH = 0.9
LONG = f"{by_hand.WINNER} long"


def compare_budgets(name: str, given: argparse.Namespace, folder: Path) -> bool:
    """Search a model within both budgets, print the ratios of the winners, and return whether they hold."""
    orders = []
    for number, (label, budget) in enumerate({by_hand.WINNER: given.short, LONG: given.long}.items()):
        model = by_hand_models.make_project(name, folder / budget, threads=given.threads)
        by_hand_models.write_feeds(model)
        took = by_hand.search(model, argparse.Namespace(budget=budget, keep=given.keep))
        evidence = by_hand_models.read_evidence(model.project)
        winner = evidence["winner"]
        if winner is None:
            print(f"{name}, {budget}: nothing passed, after {took:.0f} s", flush=True)
            return False
        print(f"{name}, {budget}: {winner['candidate']} after {took:.0f} s", flush=True)
        common = {"folder": str(model.files), "threads": given.threads, "shapes": model.shapes}
        orders.append({**common, "name": label, "number": number, "path": str(model.project / winner["path"])})
    draw = random.Random(0)  # noqa: S311 - an order of measuring
    launches = [by_hand.launch(orders, rounds=given.rounds, draw=draw) for _ in range(given.launches)]
    launches = [each for each in launches if len(each) == len(orders)]  # in the others one of them failed
    if not launches:
        raise SystemExit(f"{name}: in none of {given.launches} launches could both winners be called")
    times = {order["name"]: [each[order["name"]] for each in launches] for order in orders}
    reached = []
    for shape in orders[0]["shapes"]:
        mean, least, most, _ = by_hand.compare(times, shape)[LONG]
        reached.append(mean)
        print(f"  {shape}: {given.short} reaches {mean:.3f} ({least:.3f} to {most:.3f}) of {given.long}", flush=True)
    return min(reached) >= ENOUGH


def main() -> None:
    """Compare the budgets on all models, and say whether they hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=list(by_hand_models.MODELS))
    parser.add_argument("--short", default="60", help="the budget of one search")
    parser.add_argument("--long", default="thorough", help="the budget of the other one")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--launches", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--keep", action="store_true", help="search nothing where a search has ended in the folder")
    parser.add_argument("--folder", type=Path, help="where the projects are kept for the next time")
    given = parser.parse_args()
    print(f"{name_cpu()}, {given.threads} threads", flush=True)
    with tempfile.TemporaryDirectory(prefix="hone-budgets-") as scratch:
        folder = (given.folder or Path(scratch)).resolve()
        fine = [compare_budgets(name, given, folder) for name in given.models]
    sys.exit(0 if all(fine) else 1)


if __name__ == "__main__":
    main()
