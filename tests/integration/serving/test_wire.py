"""A winner and its source behind two servers, measured by the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from installations import find_environments
from linear_winners import write_linear

from hone_runtime.values.manifest import Manifest
from hone_runtime.values.wire import WireComparison

pytestmark = pytest.mark.toolchain

FEW = ("--clients", "1", "--clients", "3", "--launches", "2", "--seconds", "0.3")


def write_pair(folder: Path, *, digest: str | None = None) -> Path:
    """Write a winner whose source is a file with the same model; its recorded digest may be another one."""
    winner = write_linear(folder / "linear")
    artifact = winner / "artifact"
    source = folder / "source.onnx"
    source.write_bytes((artifact / "model.onnx").read_bytes())
    evidence = winner / "evidence" / "evidence.json"
    claim = {"uri": str(source), "digest": digest or Manifest.read(artifact / "artifact.json").digest}
    evidence.write_text(json.dumps({**json.loads(evidence.read_text()), "source": claim}))
    return winner


def measure(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "HONE_HOME": str(find_environments().root)}
    command = [sys.executable, "-m", "kedro_hone", "wire", *map(str, arguments)]
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False)


def test_both_are_served_and_measured(server_environment, tmp_path: Path) -> None:
    winner, file = write_pair(tmp_path), tmp_path / "wire.json"
    run = measure(winner, *FEW, "--output", file)
    assert run.returncode == 0, run.stderr
    found = WireComparison.model_validate_json(file.read_text())
    assert (found.launches, found.threads, found.sizes, found.rows) == (2, 1, {"batch": 1}, 4)
    assert found.baseline == str(tmp_path / "source.onnx")
    assert [cell.clients for cell in found.cells] == [1, 3]
    for cell in found.cells:
        for side in (cell.baseline, cell.winner):
            assert side.latency.n >= 4 * 10 * cell.clients
            assert side.cpu_ms > 0
            assert 0 < side.median_ms.low <= side.median_ms.estimate
    assert found.wire_ms is not None
    assert min(found.wire_ms) > 0
    assert "what the wire costs one client" in run.stdout
    again = measure(winner, *FEW, "--output", file)
    assert again.returncode == 3
    assert "option-invalid" in again.stderr


def test_another_model_is_not_measured_as_the_source(server_environment, tmp_path: Path) -> None:
    run = measure(write_pair(tmp_path, digest="sha256:" + "0" * 64), *FEW)
    assert run.returncode == 3
    assert "is not what was optimized" in run.stderr
    assert "serving-unsupported" in run.stderr


def test_a_wrong_winner_is_not_measured(server_environment, tmp_path: Path) -> None:
    winner = write_pair(tmp_path)
    golden = winner / "evidence" / "golden.json"
    rows = json.loads(golden.read_text())
    rows["outputs"]["y"]["data"] = rows["inputs"]["x"]["data"][: len(rows["outputs"]["y"]["data"])]
    golden.write_text(json.dumps(rows))
    run = measure(winner, *FEW)
    assert run.returncode == 3
    assert "explain winner-differs" in run.stderr
    assert "per second" not in run.stdout
