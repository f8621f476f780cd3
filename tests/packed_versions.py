"""A published version with a small real model, a base image, and an environment of small packages."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import subprocess
import sys
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from hone_runtime.learner.manifest import write_manifest
from hone_runtime.learner.versions import write_version_files
from hone_runtime.values.artifact import Artifact, TensorSpec
from hone_runtime.values.digest import digest_file
from hone_runtime.values.manifest import Manifest as Sealed
from kedro_hone.core.environments.environment import Environment
from kedro_hone.serving.image.base import PYTHON
from kedro_hone.serving.image.blobs import Blobs
from kedro_hone.serving.image.descriptors import CONFIG, LAYER, MANIFEST, Manifest, Platform, read_platform
from kedro_hone.serving.image.layers import make_layer, read_diff_id
from kedro_hone.serving.image.layouts import write_layout

HOST = read_platform()

EVIDENCE = {
    "schema": "kedro-hone/evidence/2",
    "run_id": "2026-11-29T16.41.47.772Z",
    "verdict": "PASS",
    "source": {"uri": "models:/digits/3", "digest": f"sha256:{'1' * 64}"},
    "program": {"name": "tabular-classification"},
    "hardware": {"cpu": "Intel Xeon"},
    "speedups": [{"shape": "one", "ratio": {"estimate": 2.4, "low": 2.3, "high": 2.5}}],
    "latencies": [{"source": {"shape": "one", "p50_ms": 0.42}, "winner": {"shape": "one", "p50_ms": 0.17}}],
    "recipe": {"shapes": {"one": {"batch": 1}}},
    "winner": {"candidate": "fast"},
    "quality": [{"id": "fast", "metric": "accuracy", "split": "gate", "source": 0.97, "candidate": 0.96}],
}


CONVERT = "import sys, openvino as o; o.save_model(o.convert_model(sys.argv[1]), sys.argv[2], compress_to_fp16=False)"


def write_version(
    folder: Path, *, weight: float = 1.0, note: str = "", signed: bool = False, openvino: bool = False
) -> Path:
    """Write a version whose model, of ONNX or OpenVINO, computes ``x @ W``: x has four columns, W has equal weights."""
    files = folder / "artifact"
    files.mkdir(parents=True)
    tensors = {
        name: helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["batch", n]) for name, n in SIZES.items()
    }
    weights = numpy_helper.from_array(np.full((4, 2), weight, np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [tensors["x"]], [tensors["y"]], [weights]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (files / "model.onnx").write_bytes(model.SerializeToString())
    if openvino:
        command = [sys.executable, "-W", "ignore", "-c", CONVERT, str(files / "model.onnx"), str(files / "model.xml")]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        (files / "model.onnx").unlink()
    specs = {name: (TensorSpec(name=name, dtype="float32", shape=("batch", n)),) for name, n in SIZES.items()}
    artifact = Artifact(
        format="openvino-ir" if openvino else "onnx",
        digest=f"sha256:{'0' * 64}",
        inputs=specs["x"],
        outputs=specs["y"],
        runtime="openvino" if openvino else "onnxruntime",
    )
    digest = Sealed.measure(files, artifact.manifest()).digest
    write_manifest(files, artifact.model_copy(update={"digest": digest}))
    (folder / "evidence").mkdir()
    (folder / "evidence" / "evidence.json").write_text(json.dumps({**EVIDENCE, "note": note}))
    write_version_files(folder, model="digits")
    if signed:
        (folder / "model.sig").write_text('{"mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json"}')
    return folder


SIZES = {"x": 4, "y": 2}


def make_environment(folder: Path, packages: dict[str, tuple[str, ...]]) -> Environment:
    """Install packages of one module each, as pip does; the values are what they require."""
    place = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    for name, needs in packages.items():
        install(place, name, needs=needs)
    (folder / "bin").mkdir(exist_ok=True)
    (folder / "bin" / "python").symlink_to(sys.executable)
    return Environment(
        toolchain="kserve",
        key="0" * 64,
        python=str(folder / "bin" / "python"),
        own=True,
        lock_digest=f"sha256:{'0' * 64}",
        versions=dict.fromkeys(packages, "1.31.0"),
    )


def install(place: Path, name: str, *, needs: tuple[str, ...] = ()) -> None:
    """Install one package, with a test, a compiled module and a script, which no image needs."""
    info = f"{name}-1.31.0.dist-info"
    contents = {
        f"{name}/__init__.py": f"NAME = {name!r}\n",
        f"{name}/tests/test_it.py": "raise SystemExit\n",
        f"{info}/METADATA": "\n".join(
            [f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.31.0", *(f"Requires-Dist: {one}" for one in needs)]
        ),
        f"{info}/INSTALLER": "pip\n",
    }
    rows = [f"../../../bin/{name},sha256=x,1", f"{name}/__pycache__/__init__.cpython-311.pyc,,", f"{info}/RECORD,,"]
    for file, text in contents.items():
        path = place / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        rows.append(f"{file},sha256={digest},{len(text)}")
    (place / info / "RECORD").write_text("\n".join(rows))


SERVER_PACKAGES = {"kserve": ("pydantic>=1",), "numpy": (), "pydantic": (), "onnxruntime": ("numpy",), "stray": ()}
"""A server's environment, with a package that nothing needs."""


def write_base(
    folder: Path, blobs: Blobs, *, platform: Platform | None = HOST, archive: Path | None = None, **changes: Any
) -> Path:
    """Write a base image of one layer: of a small file, or of a tar archive."""
    if archive is None:
        layer = make_layer({PurePosixPath("etc/release"): b"base\n"}, blobs)
        diff_id = read_diff_id(layer)
    else:
        layer, diff_id = blobs.add(gzip.compress(archive.read_bytes(), 1), LAYER), digest_file(archive)
    config = {
        "architecture": HOST.architecture,
        "os": "linux",
        "config": {"Env": [f"PYTHON_VERSION={PYTHON}.7", "PATH=/usr/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [diff_id]},
        **changes,
    }
    described = blobs.add_json(config, CONFIG)
    document = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": described.dump(),
        "layers": [layer.model_copy(update={"annotations": None}).dump()],
    }
    image = Manifest(descriptor=blobs.add_json(document, MANIFEST), parts=(layer, described))
    write_layout(folder, image, blobs=blobs, tag="base", platform=platform)
    return folder
