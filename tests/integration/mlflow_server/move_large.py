"""Publish a large winner to a registry and pull it again; print by how many bytes that raised this process's memory."""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path

from proof import TAGS, prove

from hone_runtime.values.artifact import Artifact, TensorSpec
from hone_runtime.values.manifest import Manifest
from kedro_hone.adaptors.registries.mlflow.registry import MlflowRegistry


def read_peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def make_winner(folder: Path, size: int) -> Artifact:
    (folder / "sealed").mkdir(parents=True)
    (folder / "sealed" / "model.onnx").write_bytes(b"not opened here")
    with (folder / "sealed" / "model.onnx.data").open("wb") as stream:
        stream.truncate(size)
    spec = (TensorSpec(name="x", dtype="float32", shape=("batch", 4)),)
    unsealed = Artifact(format="onnx", digest="", inputs=spec, outputs=spec, runtime="onnxruntime")
    digest = Manifest.measure(folder / "sealed", unsealed.manifest()).digest
    return unsealed.model_copy(update={"digest": digest})


def move(folder: Path, size: int) -> int:
    winner = prove(folder, make_winner(folder, size))
    done = MlflowRegistry().publish(winner, name=folder.name, tags=TAGS, alias="honed")
    MlflowRegistry().pull(done.uri, folder / "pulled")
    assert (folder / "pulled" / "artifact" / "model.onnx.data").stat().st_size == size
    return read_peak()


small = move(Path(sys.argv[1], "small"), 1)  # what is imported, and whatever a publication costs
large = move(Path(sys.argv[1], "large"), int(sys.argv[2]))
sys.stdout.write(json.dumps({"small": small, "large": large}))
