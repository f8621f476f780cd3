"""Does it pay to sort rows by length, and to call a model with a few batches that are filled up less?

Docstrings as they come, of 10 to 128 tokens, are embedded by MiniLM in ONNX Runtime (fp32) and in OpenVINO (int8
weights, bf16 where the CPU has it): in one call, filled up to the longest row; in calls of 8 as they come, each filled
up to its own longest; and in calls of 8 sorted by length, whose results are put back in order. The table has the median
over the rounds of the time of one call over the time of the other way, measured in turns::

    python benchmarks/padding.py                          # a minute, two threads
    python benchmarks/padding.py --threads 1 --clock cpu  # on a busy machine
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import minilm_models
import numpy as np
from minilm import CLOCKS, Model

ROWS, BATCH = (8, 32, 128), 8
RUNS = ("ONNX Runtime fp32", "OpenVINO, int8 weights, bf16", "OpenVINO, int8 weights, fp32")


def make_ways(model: Model, rows: list[list[int]]) -> dict[str, Callable[[], np.ndarray]]:
    """Return three ways of calling a model with rows of token ids."""

    def call(part: list[list[int]]) -> np.ndarray:
        longest = max(map(len, part))
        ids = np.array([row + [0] * (longest - len(row)) for row in part], np.int64)
        mask = np.array([[1] * len(row) + [0] * (longest - len(row)) for row in part], np.int64)
        vectors = np.array(model.run({"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}))
        return (vectors * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)

    def split(given: list[list[int]]) -> np.ndarray:
        return np.concatenate([call(given[start : start + BATCH]) for start in range(0, len(given), BATCH)])

    def sort() -> np.ndarray:
        order = np.argsort([len(row) for row in rows], kind="stable")
        found = split([rows[index] for index in order])
        back = np.empty_like(found)
        back[order] = found
        return back

    return {"one call": lambda: call(rows), "calls of 8": lambda: split(rows), "calls of 8, sorted": sort}


def measure(ways: dict[str, Callable[[], np.ndarray]], rounds: int, clock: Callable[[], float]) -> dict[str, float]:
    """Return the median ratio of the first way's time to each way's, taken in turns of random order."""
    draw = random.Random(0)  # noqa: S311 - an order of measuring
    first, *others = (way() for way in ways.values())  # also warms up
    for other in others:
        np.testing.assert_allclose(other, first, atol=0.1)
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name in draw.sample(list(ways), k=len(ways)):
            start = clock()
            ways[name]()
            times[name].append(clock() - start)
    one = times["one call"]
    return {name: statistics.median(a / b for a, b in zip(one, row, strict=True)) for name, row in times.items()}


def main() -> None:
    """Measure every runtime with every number of rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--clock", choices=sorted(CLOCKS), default="wall", help="cpu: with one thread")
    parser.add_argument("--folder", type=Path, help="where models are kept for the next time")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hone-padding-") as scratch:
        modern = {"avx512_vnni", "avx512_bf16"} <= minilm_models.read_flags()
        candidates = minilm_models.build(arguments.folder or Path(scratch), modern=modern)
        texts = minilm_models.read_texts()
        tokens: list[list[int]] = minilm_models.open_tokenizer()(texts, truncation=True, max_length=128)["input_ids"]
        print(f"{minilm_models.name_cpu()}, {arguments.threads} thread(s), {arguments.clock} time")
        print(f"{'':32}{'rows':>6}{'filled up':>11}{'calls of 8':>12}{'sorted':>9}")
        for name in [name for name in RUNS if name in candidates][:2]:
            model = Model({**candidates[name], "threads": arguments.threads})
            for count in ROWS:
                _print(name, tokens[:count], model, arguments)


def _print(name: str, rows: list[list[int]], model: Model, arguments: Any) -> None:
    found = measure(make_ways(model, rows), arguments.rounds, CLOCKS[arguments.clock])
    filled = 1 - sum(map(len, rows)) / (len(rows) * max(map(len, rows)))
    print(
        f"{name:32}{len(rows):>6}{filled:>10.0%} {found['calls of 8']:>11.2f}{found['calls of 8, sorted']:>9.2f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
