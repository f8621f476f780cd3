"""Does the memory of earlier runs lead to the winner soon?

Ten convolutional networks of other sizes than the last one are raced with the default budget in one project,
so that its store remembers them. Then every candidate of an eleventh is tried (``budget: thorough``), and confirmed.
Printed is in which place, of the candidates that were tried, the winner was: of one with a graph for each shape, the
last of its parts. Next to it is the place that it has in a project that remembers only what is shipped::

    python benchmarks/memory.py            # an hour; fails where the winner is not among the first five

Each race is also predicted from the others: printed is how wrong the ratios are of each candidate to the one that is
expected to be the fastest at a batch size, how many candidates would have been left out, and what that would have cost.

The weights are random: which candidate is fast does not depend on them, and the gate on quality is wide.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from by_hand_models import ROOT, read_evidence, read_winner, run
from costs import SPLITS, track

from kedro_hone.building.hopeless import LEAST_GAIN
from kedro_hone.building.memory import LEAST_ROWS
from kedro_hone.core.store.costs import Cost, Share, guess_ratio, guess_share, read_costs

FIRST = 5
SIDE = 8
NETWORK = '''"""A convolutional network on images of 8 by 8."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        layers, channels = [], 1
        for width in %r:
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
            channels = width
        self.body, self.head = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten()), nn.Linear(channels, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(images))


if __name__ == "__main__":
    torch.manual_seed(0)
    rows, dynamic = torch.rand(2, 1, 8, 8), ({0: torch.export.Dim("batch")},)
    torch.export.save(torch.export.export(Net().eval(), (rows,), dynamic_shapes=dynamic), "models/source/model.pt2")
'''


def write_project(project: Path, *, threads: int) -> None:
    """Write a project without a model."""
    shutil.copytree(ROOT / "conf", project / "conf")
    (project / "conf" / "local").mkdir(exist_ok=True)
    images = np.random.default_rng(0).random((sum(SPLITS.values()), 1, SIDE, SIDE), np.float32)
    track(project, {"images": images})
    recipe: dict[str, Any] = {
        "model": {
            "uri": "models/source",
            "module": "net.py:Net",
            "inputs": [{"name": "images", "dtype": "float32", "shape": ["batch", 1, SIDE, SIDE]}],
        },
        "trust": ["module"],
        "program": {"name": "fidelity"},
        "shapes": {"batch1": {"batch": 1}, "batch64": {"batch": 64}},
        "threads": threads,
        "gates": {"drop": 0.9},
        "explore": False,
        "publish": {"enabled": False},
    }
    (project / "conf" / "base" / "parameters.yml").write_text(yaml.safe_dump({"hone": recipe}))


def write_model(project: Path, widths: tuple[int, ...]) -> None:
    """Put a network with some widths in place of the project's model."""
    shutil.rmtree(project / "models", ignore_errors=True)
    (project / "models" / "source").mkdir(parents=True)
    (project / "net.py").write_text(NETWORK % (widths,))
    subprocess.run([sys.executable, "-W", "ignore", "net.py"], cwd=project, check=True)


def find_places(project: Path) -> tuple[str, int, int, int]:
    """Return the winner of the last run, its place among the candidates that were tried, and how many there were.

    Between them is the place of the first ones with which each shape is as fast as with the winner's part, but for 3 %,
    in the race: candidates that differ by one more pass of rounding are not told apart by their speed.
    """
    evidence = read_evidence(project)
    candidates = {one["id"]: one for one in evidence["candidates"]}
    winner = read_winner(project)["candidate"]
    said = candidates[winner].get("note") or ""
    parts = [name for name in candidates if f" by {name}" in said] or [winner]
    lines = (project / "data" / "hone" / "latest" / "events.jsonl").read_text().splitlines()
    notes = [note for note in map(json.loads, lines) if note["event"] == "validation" and note["status"] == "measured"]
    tried = [note["candidate"] for note in notes if note["candidate"] != "composite"]
    ratios = {name: candidates[name]["ratios"] for name in tried if candidates[name]["ratios"]}
    near = 0
    for shape in ratios[parts[0]]:
        fastest = max(ratios[part][shape] for part in parts)
        near = max(near, min(tried.index(name) for name in ratios if ratios[name][shape] >= 0.97 * fastest))
    return winner, max(map(tried.index, parts)) + 1, near + 1, len(tried)


def predict_races(races: list[list[Cost]]) -> str:
    """Return how well each race follows from the others, and what would be left out by ratios alone."""
    wrong: list[float] = []
    lost: list[float] = []
    left_out = 0
    for number, race in enumerate(races):
        others = [row for other in (*races[:number], *races[number + 1 :]) for row in other]
        rows = {one.what: [row for row in others if row.what == one.what] for one in race}
        like, kept = race[0], {one.what: False for one in race}
        for batch in like.shares:
            shares = {one.what: guess_share(rows[one.what], like, batch) for one in race}
            known = {name: share for name, share in shares.items() if share and share.rows >= LEAST_ROWS}
            best = max(known, key=lambda name: known[name].share, default="")
            fastest = next((one.shares[batch] for one in race if one.what == best), 1.0)
            for one in race:
                ratio = guess_ratio(rows[one.what], rows[best], like, batch) if one.what in known else None
                gain = ratio.find_gain(Share(1.0, 0.0, 0)) if ratio else LEAST_GAIN
                kept[one.what] |= one.what == best or gain >= LEAST_GAIN
                if ratio and one.what != best:
                    wrong.append(math.log(one.shares[batch] / fastest / ratio.share))
        left_out += sum(not tried for tried in kept.values())
        lost += [
            max(r.shares[b] for r in race) / max(r.shares[b] for r in race if kept[r.what]) - 1 for b in like.shares
        ]
    error, most = math.sqrt(statistics.fmean(one**2 for one in wrong)), max(map(abs, wrong))
    return (
        f"{len(wrong)} ratios predicted, wrong by {error:.3f} (root mean square of the logarithm), {most:.2f} at most; "
        f"{left_out} of {sum(map(len, races))} candidates would have been left out, and with them {max(lost):.1%} of "
        f"the speed at a batch size at most"
    )


def read_races(project: Path) -> list[list[Cost]]:
    """Return the rows of each race that a project remembers."""
    races: dict[str, list[Cost]] = {}
    for row in read_costs(project / "data" / "hone" / "store"):
        if row.race and not row.options:
            races.setdefault(row.race, []).append(row)
    return [*races.values()]


def main() -> None:
    """Race ten models, then the last one with and without what they left, and print the places of its winner."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--earlier", type=int, default=10)
    parser.add_argument("--budget", default="thorough", help="of the runs of the eleventh network")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="where the projects are made; a temporary one by default")
    given = parser.parse_args()
    folder = (given.folder or Path(tempfile.mkdtemp(prefix="memory-"))).resolve()
    draw, last = np.random.default_rng(0), (32, 64, 64, 128)
    places: dict[str, int] = {}
    for name, earlier in (("shipped", 0), ("remembered", given.earlier)):
        project = folder / name
        write_project(project, threads=given.threads)
        for number in range(earlier):
            widths = tuple(int(16 * 2**width) for width in draw.integers(0, 4, size=draw.integers(2, 6)))
            write_model(project, widths)
            began = time.monotonic()
            run(project, "run", "--to-nodes", "race")
            print(f"{number + 1} of {earlier}: {widths} in {time.monotonic() - began:.0f} s", flush=True)
        write_model(project, last)
        run(project, "run", "--params", f"hone.budget={given.budget}")
        winner, places[name], near, count = find_places(project)
        said = f"was in place {places[name]} of {count}, who is as fast but for 3 % in place {near}"
        print(f"{name}: the winner {winner} {said}", flush=True)
    print(predict_races(read_races(folder / "remembered")))
    sys.exit(0 if places["remembered"] <= FIRST else 1)


if __name__ == "__main__":
    main()
