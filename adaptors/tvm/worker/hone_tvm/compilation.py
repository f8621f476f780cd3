"""Compile ONNX with Relax: one module for each shape, with schedules from the records of earlier measurements."""

from __future__ import annotations

import math
import time
from itertools import chain
from pathlib import Path
from typing import Any

from hone_runtime.conversion import normalization
from hone_runtime.sessions import compiled
from hone_runtime.worker.refusal import UnsuitedError

from . import session, tuning

Json = dict[str, Any]

_RESERVE = 0.15
"""The share of the job's time that is reserved for compiling the tuned model."""


def compile_model(job: Json) -> Json:
    """Write ``index.json`` and a library for each of the recipe's shapes that the model supports."""
    started = time.monotonic()
    specs = job["input"]["inputs"]
    chosen = [shape for shape in job["shapes"] if compiled.fits(specs, shape["sizes"])]
    if not chosen:
        return {"refused": f"the model is fixed to {specs[0]['shape']}, which is none of the recipe's shapes"}
    tvm = session.import_tvm(int(job["threads"]))
    target, modules, notes = find_target(tvm, int(job["threads"])), {}, dict[str, Any]()
    for shape in chosen:
        try:
            model, notes = normalization.normalize(job, sizes=shape["sizes"])
        except UnsuitedError as error:
            return {"refused": str(error)}
        try:
            modules[shape["name"]] = import_model(model, specs, shape["sizes"])
        except Exception as error:  # noqa: BLE001 - the importer raises its own classes for operators that it lacks
            lines = str(error).strip().splitlines() or [""]
            return {"refused": f"Relax cannot import it: {type(error).__name__}: {lines[-1][:300]}"}
    limit = job.get("seconds") or math.inf  # None: the worker has no limit
    seconds = min(job["options"]["seconds"], (1 - _RESERVE) * limit)
    with target:
        prepared = {name: prepare(module) for name, module in modules.items()}
        operators = [tuning.list_tasks(module, target) for module in prepared.values()]
        records = tuning.Records(Path(job["temporary"], "tuning"), job.get("records"), [*chain(*operators)])
        tuned = {"trials": 0, "known": records.known}
        if job["options"]["trials"]:
            tuned |= tuning.tune(
                operators,
                records=records,
                trials=job["options"]["trials"],
                resume=job["options"]["resume"],
                until=started + seconds,
                threads=int(job["threads"]),
                seed=job["seed"],
            )
        for shape in chosen:
            library = tvm.compile(records.apply(prepared[shape["name"]]), target=target)
            library.export_library(str(compiled.find_file(job["output"], shape, session.ENDING)))
    compiled.write_index(job["output"], job["input"])
    return {"static_shapes": [shape["name"] for shape in chosen], "metadata": {"tuning": tuned, **notes}}


def find_target(tvm: Any, threads: int) -> Any:
    """Return this CPU as an LLVM target, by LLVM's name for it."""
    from tvm.target.codegen import llvm_get_system_cpu

    described = {"kind": "llvm", "mcpu": llvm_get_system_cpu(), "mtriple": "x86_64-linux-gnu"}
    return tvm.target.Target({**described, "num-cores": threads, "opt-level": 3})


def import_model(model: Any, specs: list[Json], sizes: Json) -> Any:
    """Return a model as a Relax module with fixed sizes and with the weights as constants."""
    from tvm.relax.frontend.onnx import from_onnx

    keys = compiled.find_key(specs, sizes)
    return from_onnx(model, shape_dict={spec["name"]: list(key) for spec, key in zip(specs, keys, strict=True)})


def prepare(module: Any) -> Any:
    """Return a module lowered to loops: operators are fused, and each has its own function to schedule."""
    import tvm
    from tvm import relax

    passes = [relax.transform.DecomposeOpsForInference(), relax.transform.CanonicalizeBindings()]
    return tvm.transform.Sequential([*passes, relax.get_pipeline("zero")])(module)
