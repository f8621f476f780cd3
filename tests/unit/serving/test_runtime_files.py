from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hone_runtime.errors import SLUGS, HoneError
from hone_runtime.values.artifact import Artifact
from kedro_hone.serving.runtime_files import list_runtime_files, write_runtime


def make(runtime: str) -> Artifact:
    return Artifact(format="onnx", digest="sha256:0", inputs=(), outputs=(), runtime=runtime)


def test_the_files_suffice_to_find_the_toolchain(tmp_path: Path) -> None:
    write_runtime(make("composite"), tmp_path)
    code = (
        "from hone_runtime.contract.catalogue import find_installed, list_builtin, find_used; "
        "import kedro_hone; print(kedro_hone.__file__, *sorted(list_builtin()), "
        "len(find_used(find_installed('composite'))))"
    )
    run = subprocess.run(
        [sys.executable, "-P", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(tmp_path)},
    )
    assert run.stdout.split() == [str(tmp_path / "kedro_hone/__init__.py"), "composite", "onnxruntime", "openvino", "2"]


def test_the_pages_of_errors_are_among_the_files() -> None:
    names = {str(name) for name in list_runtime_files(make("onnxruntime"))}
    assert {f"hone_runtime/error_pages/{slug}.md" for slug in SLUGS} <= names, (
        "an error without a page cannot be raised"
    )


def test_the_files_contain_only_what_runs_the_artifact() -> None:
    names = {str(name) for name in list_runtime_files(make("onnxruntime"))}
    assert "kedro_hone/adaptors/onnxruntime/adaptor.py" in names
    assert not [name for name in names if "openvino" in name or "kedro_hone/search" in name or "requirements" in name]


def test_a_strangers_toolchain_is_refused() -> None:
    with pytest.raises(HoneError) as refused:
        list_runtime_files(make("quirk"))
    assert refused.value.slug == "serving-unsupported"
