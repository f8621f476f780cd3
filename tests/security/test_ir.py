"""A stranger's IR is opened in the process of who loads it: it may not read what is not in its files."""

from __future__ import annotations

import subprocess
import sys

import pytest

from hone_runtime.values.artifact import Artifact, TensorSpec
from hone_runtime.values.manifest import Manifest

pytestmark = [pytest.mark.toolchain]
WEIGHTS = 'shape="16" offset="0" size="64"'
CONSUMER = """
import sys, numpy, kedro_hone
numbers = numpy.arange(16) + 1_000_000_000
kedro_hone.load(sys.argv[1]).run({"x": numpy.zeros((1, 16), "float32"), "index": numbers})
"""


def write_ir(folder):
    """Write an IR that looks its second input up in 16 numbers."""
    import numpy as np
    import openvino as ov
    from openvino import opset13 as operators

    folder.mkdir()
    x = operators.parameter([1, 16], np.float32, name="x")
    index = operators.parameter([16], np.int64, name="index")
    table = operators.constant(np.arange(16, dtype=np.float32))
    y = operators.add(x, operators.gather(table, index, operators.constant(np.int64(0))), name="y")
    ov.save_model(ov.Model([y], [x, index]), folder / "model.xml", compress_to_fp16=False)


def seal(folder):
    specs = {
        "inputs": (
            TensorSpec(name="x", dtype="float32", shape=(1, 16)),
            TensorSpec(name="index", dtype="int64", shape=(16,)),
        ),
        "outputs": (TensorSpec(name="y", dtype="float32", shape=(1, 16)),),
    }
    artifact = Artifact(digest="sha256:" + "0" * 64, format="openvino-ir", runtime="openvino", **specs)
    Manifest.measure(folder, artifact.manifest()).write(folder / "artifact.json")


@pytest.mark.attack(
    what="an IR whose constant has more elements than 64 bits can count, to read memory behind its weights",
    who="registry",
    stopped_by="a constant's elements and bytes are compared with its file",
)
@pytest.mark.parametrize(
    "constant",
    [
        f'shape="{2**59 + 16}" offset="0" size="64"',
        f'shape="{2**30},{2**29},1" offset="0" size="0"',
        'shape="16" offset="64" size="64"',
        'shape="16" offset="-64" size="64"',
    ],
)
def test_a_constant_that_is_larger_than_its_file(tmp_path, constant):
    folder = tmp_path / "winner"
    write_ir(folder)
    text = (folder / "model.xml").read_text()
    assert WEIGHTS in text
    (folder / "model.xml").write_text(text.replace(WEIGHTS, constant))
    seal(folder)
    done = subprocess.run([sys.executable, "-c", CONSUMER, folder], capture_output=True, text=True, check=False)
    assert done.returncode == 1, f"it crashed: {done}"
    assert "a constant is larger than its bytes" in done.stderr
