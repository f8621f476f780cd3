from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

import pytest

from hone_runtime.errors import HoneError
from kedro_hone.serving.image.containerfile import write_context

LOCK = """\
# Made by `make lock`; do not edit.
kserve==0.21.0 \\
    --hash=sha256:aa \\
    --hash=sha256:bb
ruamel.yaml==1.0 \\
    --hash=sha256:cc
stray==2.0 \\
    --hash=sha256:dd
"""


def write(folder: Path, lock: Path) -> None:
    write_context(
        folder,
        base="registry.example.org/python:3.11",
        runtime={PurePosixPath("opt/hone/runtime/hone_runtime/__init__.py"): b""},
        model={PurePosixPath("opt/hone/model/x.onnx"): b"x", PurePosixPath("opt/hone/server.json"): b"{}"},
        locks=[lock],
        versions={"kserve": "0.21.0", "ruamel-yaml": "1.0"},
    )


def test_it_copies_what_is_in_its_context(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text(LOCK)
    write(tmp_path / "context", tmp_path / "lock")
    text = (tmp_path / "context" / "Containerfile").read_text()
    copied = re.findall(r"^COPY (\S+) (/\S+)$", text, re.MULTILINE)
    assert len(copied) == 4
    assert all((tmp_path / "context" / name).exists() for name, _ in copied)
    assert ("model", "/opt/hone/model") in copied
    assert "\nUSER 10001:10001\n" in text
    assert "FROM registry.example.org/python:3.11\n" in text
    assert "{" not in re.sub(r"\n(HEALTHCHECK|ENTRYPOINT) .*", "", text)


def test_the_lock_has_the_hashes_of_what_is_needed(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text(LOCK)
    write(tmp_path / "context", tmp_path / "lock")
    chosen = (tmp_path / "context" / "requirements.lock").read_text()
    assert re.findall(r"^\S+==\S+", chosen, re.MULTILINE) == ["kserve==0.21.0", "ruamel.yaml==1.0"]
    assert re.findall("sha256:(..)", chosen) == ["aa", "bb", "cc"]


def test_of_the_builds_of_a_package_the_installed_one_is_taken(tmp_path: Path) -> None:
    places = [tmp_path / name for name in ("lock", "cpu", "cuda")]
    for place, text in zip(
        places, (LOCK, *(f"torch=={one} --hash=sha256:ee\n" for one in ("2+cpu", "2"))), strict=True
    ):
        place.write_text(text)
    folder, versions = tmp_path / "context", {"kserve": "0.20.0", "torch": "2+cpu"}
    model = {PurePosixPath("opt/hone/model/x.onnx"): b"x"}
    write_context(folder, base="b", runtime={}, model=model, locks=places, versions=versions)
    chosen = (folder / "requirements.lock").read_text()
    assert re.findall(r"^\S+==\S+", chosen, re.MULTILINE) == ["kserve==0.21.0", "torch==2+cpu"]


def test_a_folder_with_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text(LOCK)
    (tmp_path / "context").mkdir()
    (tmp_path / "context" / "secrets.txt").write_text("mine")
    with pytest.raises(HoneError, match="not empty"):
        write(tmp_path / "context", tmp_path / "lock")


@pytest.mark.parametrize("base", ["python\nRUN curl evil", "a b", "python:3.11\\", "", "# escape=`"])
def test_a_base_that_is_no_reference_is_refused(tmp_path: Path, base: str) -> None:
    with pytest.raises(HoneError) as refused:
        write_context(tmp_path / "context", base=base, runtime={}, model={}, locks=[], versions={})
    assert refused.value.slug == "option-invalid"
    assert not (tmp_path / "context").exists()
