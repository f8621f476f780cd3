"""The process that a person starts stays small, since all that is heavy happens in workers."""

from __future__ import annotations

import re
import shutil
import time
from pathlib import Path

import pytest
from small_project import copy_project, write_onnx_source

LIMIT_MB = 500
TOOLCHAINS = re.compile(
    r"site-packages/(torch|onnxruntime|openvino|nncf|onnx|tensorflow|iree|deepsparse|sklearn|ai_edge_litert)/"
)

pytestmark = pytest.mark.toolchain


@pytest.fixture
def folder(template, tmp_path):
    """A recipe for an ONNX model and ONNX Runtime, in a folder that holds nothing else but data."""
    project = copy_project(template, tmp_path)
    shutil.rmtree(project.root / "src")
    (project.root / "pyproject.toml").unlink()
    write_onnx_source(project.root / "models" / "matrix")
    project.set(toolchains=["onnxruntime"])
    return project


def test_the_parent_imports_no_toolchain_and_stays_small(folder):
    mapped: set[str] = set()
    peak = 0
    with folder.start("run", module="kedro_hone") as process:
        place = Path(f"/proc/{process.pid}")
        while process.poll() is None:
            try:
                mapped |= {match[1] for match in TOOLCHAINS.finditer((place / "maps").read_text())}
                status = (place / "status").read_text()
            except (FileNotFoundError, ProcessLookupError):
                break
            found = re.search(r"VmHWM:\s+(\d+) kB", status)
            peak = max(peak, int(found[1]) if found else 0)
            time.sleep(0.1)  # what was mapped stays mapped, and the peak is the kernel's
        output, _ = process.communicate()
    assert process.returncode in {0, 11}, output  # what is faster is a matter of the machine
    assert {path.name.partition("-")[2] for path in folder.runs[-1].glob("launches/*-onnx.onnxruntime_session")}
    assert mapped == set()
    assert 0 < peak / 1024 < LIMIT_MB
    assert folder.evidence["counts"]["builds"] >= 3
