"""What a toolchain writes or sends of its own accord: nothing, wherever we import it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from hone_runtime.contract.job import Job
from kedro_hone.core.workers.host.run import make_environment

pytest.importorskip("onnxruntime")


@pytest.mark.parametrize("inherited", [{}, {"PATH": "/bin", "ORT_DISABLE_TELEMETRY": "true"}])
def test_onnx_runtime_leaves_no_device_number_in_a_worker_of_any_toolchain(tmp_path, inherited):
    variables = make_environment(
        Job(function="f", worker="w", adaptor="a", temporary=str(tmp_path)), inherited=inherited
    )

    subprocess.run([sys.executable, "-c", "import onnxruntime"], env=variables, check=True, timeout=120)

    assert not list(tmp_path.rglob("deviceid"))


def test_onnx_runtime_itself_would(tmp_path):
    """Else the test above proves nothing: since version 1.31 on Linux, as soon as it is imported."""
    variables = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    subprocess.run([sys.executable, "-c", "import onnxruntime"], env=variables, check=True, timeout=120)
    if not list(tmp_path.rglob("deviceid")):
        pytest.skip("this version of ONNX Runtime has no telemetry on Linux")
