"""How often is a byte-identical copy of the source judged faster? At most in 2 of 40 tries.

Each copy is a finalist of its own and is confirmed by the same node as winners, ``nodes.confirm``: with fresh
processes, the source's control, and the product's looks and level. Two verdicts are counted: with the product's
threshold, and without a threshold, for which each copy may err with the nominal 2.5 per cent at most.

Run it on a quiet machine, never in CI::

    python benchmarks/aa.py                                       # a small ONNX model; 15 to 20 minutes
    python benchmarks/aa.py --source data/hone/work/source.json   # the source of the last run; about an hour
"""

from __future__ import annotations

import argparse
import logging
import shutil
import sys
import tempfile
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from hone_runtime.values.artifact import Artifact, TensorSpec
from hone_runtime.values.measurement import Finalist, RaceResult, Standing, Status, Validation
from hone_runtime.values.outcome import Candidate
from hone_runtime.values.samples import Samples
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.nodes.confirm import confirm
from kedro_hone.recipe.schema import read_recipe
from kedro_hone.search.context import RunContext

ALLOWED = 2
WIDTH = 512


def make_source(store: Store) -> Artifact:
    """Write a small network of three layers as ONNX: a row takes dozens of microseconds, when noise is worst."""
    import onnx  # noqa: PLC0415 - only where no other source is given
    from onnx import TensorProto, helper, numpy_helper  # noqa: PLC0415 - as above

    rng = np.random.default_rng(0)
    sizes, value, nodes, weights = (64, WIDTH, WIDTH, 10), "x", [], []
    for layer, shape in enumerate(pairwise(sizes)):
        weights.append(numpy_helper.from_array(rng.normal(0, 0.05, shape).astype(np.float32), f"w{layer}"))
        product, result = f"p{layer}", "y" if layer == 2 else f"h{layer}"
        nodes += [helper.make_node("MatMul", [value, f"w{layer}"], [product])]
        nodes += [helper.make_node("Relu", [product], [result])]
        value = result
    tensors = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", size]) for name, size in (("x", 64), ("y", 10))
    ]
    graph = helper.make_graph(nodes, "net", tensors[:1], tensors[1:], weights)
    with store.workspace() as folder:
        (folder / "files").mkdir()
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.save(model, folder / "files" / "model.onnx")
        return store.seal(
            folder / "files",
            format="onnx",
            inputs=(TensorSpec(name="x", dtype="float32", shape=("batch", 64)),),
            outputs=(TensorSpec(name="y", dtype="float32", shape=("batch", 10)),),
            runtime="onnxruntime",
        )


def make_samples(store: Store, batches: dict[str, int]) -> Samples:
    """Write one batch of random rows for each shape of the small network."""
    rng = np.random.default_rng(1)
    with store.workspace() as folder:
        for name, batch in batches.items():
            np.savez(folder / f"{name}.npz", x=rng.random((batch, 64), dtype=np.float32))
        store.store_tree("aa", folder)
    shapes = {name: f"{name}.npz" for name in batches}
    return Samples(digest="aa", splits={}, shapes=shapes, program="", program_digest="")


def copy_source(source: Artifact, number: int, store: Store) -> Artifact:
    """Return a copy of the source with the same bytes in other files, and another digest."""
    with store.workspace() as folder:
        shutil.copytree(store.locate(source), folder / "files")
        fields = source.model_dump(exclude={"kind", "path", "digest", "metadata", "steps", "made_from"})
        specs = {name: getattr(source, name) for name in ("inputs", "outputs", "static_shapes")}
        return store.seal(folder / "files", **{**fields, **specs}, metadata={**source.metadata, "copy": number})


def race_copy(number: int, context: RunContext) -> Finalist:
    """Confirm one copy as the only finalist, with an order of measuring of its own."""
    name = f"copy-{number}"
    copy = copy_source(context.source, number, context.store)
    validation = Validation(candidate=Candidate(id=name, route=("copy",), outcome=copy), status=Status.MEASURED)
    result = RaceResult(
        validations=(validation,),
        standings=(Standing(id=name, status=Status.MEASURED, rounds=0),),
        source_latency=(),
        rounds=0,
        seconds=0.0,
        budget_ended=False,
        timings="",
    )
    own = replace(context, recipe=context.recipe.model_copy(update={"seed": number}))
    finalist = confirm(context=own, result=result).finalists[0]
    if finalist.reason:
        raise RuntimeError(f"{name} could not be measured: {finalist.reason}")
    return finalist


def describe(finalist: Finalist) -> tuple[str, bool]:
    """Return a line on one copy, and whether it would be faster without a threshold."""
    lows = [speedup.ratio.low / speedup.noise_floor for speedup in finalist.speedups]
    shapes = ", ".join(
        f"{s.shape} {s.ratio.estimate:.3f} ({s.ratio.low:.3f}-{s.ratio.high:.3f}, floor {s.noise_floor:.3f})"
        for s in finalist.speedups
    )
    return f"{finalist.verdict:10} {finalist.launches:3} launches  {shapes}", min(lows) > 1


def main() -> None:
    """Race the copies and count the verdicts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=40, help="how many copies")
    parser.add_argument("--source", type=Path, help="source.json of a run, with samples.json next to it")
    parser.add_argument("--looks", default="7,10,13,16,20", help="after how many launches the data are looked at")
    parser.add_argument("--threshold", type=float, default=1.05, help="the speed-up that is asked for")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    logging.getLogger("kedro_hone").setLevel(logging.WARNING)
    batches = {"batch1": 1, "batch64": 64}
    with tempfile.TemporaryDirectory(prefix="hone-aa-") as scratch:
        store = Store((arguments.source.parents[1] if arguments.source else Path(scratch)) / "store")
        run = RunFolder(root=Path(scratch) / "hone" / "runs", run_id="aa", project=Path(scratch))
        if arguments.source:
            source = Artifact.model_validate_json(arguments.source.read_bytes())
            samples = Samples.model_validate_json(arguments.source.with_name("samples.json").read_bytes())
            tree = store.locate_tree(samples.digest)
            batches = {name: len(next(iter(np.load(tree / file).values()))) for name, file in samples.shapes.items()}
        else:
            source, samples = make_source(store), make_samples(store, batches)
        recipe = read_recipe(
            {
                "model": {"uri": "models:/source/1"},
                "trust": ["module"],
                "shapes": {name: {"batch": size} for name, size in batches.items()},
                "budget": "thorough",
                "threads": arguments.threads,
                "gates": {"speedup": arguments.threshold},
                "confirm": {"finalists": 1, "looks": [int(look) for look in arguments.looks.split(",")]},
            }
        )
        context = RunContext(source=source, samples=samples, recipe=recipe, store=store, run=run)
        faster = faster_at_all = 0
        for number in range(1, arguments.times + 1):
            began = time.monotonic()
            finalist = race_copy(number, context)
            line, at_all = describe(finalist)
            faster += finalist.verdict == "yes"
            faster_at_all += at_all
            print(f"{number:3} {line}  {time.monotonic() - began:.0f} s", flush=True)
    print(
        f"faster by {arguments.threshold:g}: {faster} of {arguments.times}; faster at all: {faster_at_all}; "
        f"{ALLOWED} are allowed of each"
    )
    sys.exit(1 if max(faster, faster_at_all) > ALLOWED else 0)


if __name__ == "__main__":
    main()
