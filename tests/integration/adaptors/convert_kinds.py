"""Describe, run and convert every model of ``keras_kinds.py`` in one process of TensorFlow, whose start takes seconds.

``convert_kinds.py KINDS OUTPUT`` writes for each model ``OUTPUT/NAME.json`` with what the worker says of it, and
``OUTPUT/NAME`` with what it made: ``onnx/``, and the outputs of the source and of XLA's program as ``ROWS.npz``.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

sys.path.append(str(Path(__file__).parents[3] / "src"))
from hone_runtime.worker.packages import import_worker

sys.path.pop()

ROOT = Path(__file__).parents[3]
SHAPES = [{"name": name, "sizes": {"batch": size, "tokens_1": 9}} for name, size in (("one", 1), ("batch-5", 5))]
Json = dict[str, Any]


def read_rows(path: Path) -> list[Any]:
    with np.load(path) as told:
        return [told[key] for key in told.files if not key.startswith("due_")]


def write_outputs(worker: Any, job: Json, feeds: Json, folder: Path, sizes: tuple[int, ...]) -> None:
    folder.mkdir()
    session = worker.load(job)
    for size in sizes:
        np.savez(folder / f"{size}.npz", **session.run({key: array[:size] for key, array in feeds.items()}))


def convert(worker: Any, source: Path, output: Path, *, adaptors: tuple[str, ...]) -> Json:
    """Return what the worker says of a model, by what it was asked."""
    form = "keras" if source.is_file() else "saved-model"
    copy = output / "source"
    if source.is_file():
        copy.mkdir(parents=True)
        shutil.copy(source, copy / "model.keras")
    else:
        shutil.copytree(source, copy)
    artifact = {"path": str(copy), "format": form, "inputs": [], "outputs": [], "metadata": {}, "device": "cpu"}
    job: Json = {"input": artifact, "threads": 1, "seed": 0, "shapes": SHAPES, "options": {"opset": 18}}
    said = {"describe": worker.describe(job)}
    if "refused" in said["describe"] or not adaptors:
        return said
    given = read_rows(source.with_name(f"{source.stem}.npz"))
    feeds = dict(zip((spec["name"] for spec in said["describe"]["inputs"]), given, strict=True))
    np.savez(output / "rows.npz", **feeds)
    artifact.update(said["describe"], static_shapes=SHAPES)
    write_outputs(worker, job, feeds, output / "run", (len(given[0]), 5))
    for name in adaptors:
        folders = {"output": output / name, "temporary": output / f"{name}-temporary"}
        for folder in folders.values():
            folder.mkdir()
        asked = {**job, "adaptor": f"tensorflow.{name}", "calibration": str(output / "rows.npz")}
        said[name] = worker.transform({**asked, **{key: str(folder) for key, folder in folders.items()}})
        if name == "xla" and "static_shapes" in said[name]:
            compiled = {**artifact, "path": str(output / name), "format": "tensorflow-xla"}
            write_outputs(worker, {**job, "input": compiled}, feeds, output / "compiled", (1, 5))
    return said


def main() -> None:
    """Do so for the models that are named after the two folders, each as ``NAME`` or ``NAME:adaptor,adaptor``."""
    kinds, output = Path(sys.argv[1]), Path(sys.argv[2])
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    worker = import_worker(
        str(ROOT / "adaptors" / "tensorflow" / "worker" / "hone_tensorflow" / "__init__.py"),
        uses=[str(ROOT / "adaptors" / "litert" / "worker" / "hone_litert")],
    )
    for asked in sys.argv[3:]:
        name, _, adaptors = asked.partition(":")
        said = convert(worker, kinds / name, output / name, adaptors=tuple(filter(None, adaptors.split(","))))
        (output / f"{name}.json").write_text(json.dumps(said))


if __name__ == "__main__":
    main()
