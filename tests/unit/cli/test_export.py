from __future__ import annotations

import json
from contextlib import ExitStack

import pytest
import served_winners as winners
from click.testing import CliRunner

from hone_runtime.errors import ExitCode
from kedro_hone.cli import script


@pytest.fixture
def winner(tmp_path):
    with ExitStack() as stack:
        winners.make_onnx_winner(tmp_path / "digits", stack=stack)
        yield str(tmp_path / "digits")


def run(*arguments: str):
    return CliRunner().invoke(script, ["export", *arguments])


def test_without_a_target_those_that_fit_are_listed(winner, tmp_path) -> None:
    found = run(winner)
    assert found.exit_code == 0, found.output
    assert "triton      fits" in found.output
    assert "tflite      no: the winner's format is onnx, and it takes tflite" in found.output
    assert (
        json.loads(run(winner, "--json").stdout)["openvino"] == "the winner's format is onnx, and it takes openvino-ir"
    )


def test_an_export_reports_the_check(winner, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = run(winner, "--to", "triton")
    assert found.exit_code == 0, found.output
    assert "agreed in the written files" in found.output
    assert (tmp_path / "digits-triton" / "models" / "digits" / "config.pbtxt").is_file()
    again = run(winner, "--to", "triton")
    assert again.exit_code == ExitCode.INPUT
    assert "explain option-invalid" in again.stderr


def test_json(winner, tmp_path) -> None:
    out = tmp_path / "out"
    found = run(winner, "--to", "onnx", "-o", str(out), "--json", "--name", "net")
    assert json.loads(found.stdout) == {
        "target": "onnx",
        "folder": str(out),
        "models": ["net"],
        "golden_rows": "agreed",
        "notes": [],
        "unverified": None,
    }


def test_a_misfit_lists_the_targets_that_fit(winner, tmp_path) -> None:
    found = run(winner, "--to", "openvino", "-o", str(tmp_path / "out"))
    assert found.exit_code == ExitCode.INPUT
    assert "These targets fit it: triton, ovms, kserve, mlserver, onnx." in found.stderr
    assert not (tmp_path / "out").exists()


def test_a_required_signature_is_checked_first(winner, tmp_path) -> None:
    key = tmp_path / "key.pem"
    key.write_text("-----BEGIN PUBLIC KEY-----\n")
    found = run(winner, "--to", "onnx", "-o", str(tmp_path / "out"), "--key", str(key))
    assert found.exit_code == ExitCode.INPUT, found.output
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "arguments", [["--name", "../digits"], ["--max-batch", "1"], ["--identity", "a@b.c"], ["--to", "torchserve"]]
)
def test_wrong_options(winner, arguments) -> None:
    assert run(winner, *arguments).exit_code == 2
