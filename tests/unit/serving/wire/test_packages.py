from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hone_runtime.errors import HoneError
from hone_runtime.learner.download import Download
from hone_runtime.values.artifact import Artifact
from kedro_hone.core.environments.environment import Environment
from kedro_hone.core.environments.store import EnvironmentStore
from kedro_hone.serving.winner import describe_winner
from kedro_hone.serving.wire.packages import choose_environment, find_packages, write_startup


def make(runtime: str) -> Artifact:
    return Artifact(format="pytorch", digest="sha256:0", inputs=(), outputs=(), runtime=runtime)


def make_server(**versions: str) -> Environment:
    return Environment(
        toolchain="kserve", key="0", python="python", own=True, lock_digest="sha256:0", versions=versions
    )


def test_a_runtime_of_the_server_needs_no_other_packages(tmp_path: Path) -> None:
    server = make_server(onnxruntime="1.31.1")
    assert find_packages(make("onnxruntime"), server, EnvironmentStore(tmp_path)) is None


def test_another_runtime_comes_from_its_toolchain(tmp_path: Path) -> None:
    found = find_packages(make("pytorch"), make_server(), EnvironmentStore(tmp_path))  # torch is installed here
    assert found is not None
    assert (found / "torch").is_dir()


@pytest.mark.parametrize(
    ("runtime", "server"), [("onnxruntime", "kserve"), ("pytorch", "kserve_torch"), ("iree", "kserve")]
)
def test_a_winner_is_measured_in_the_environment_that_serves_it(runtime: str, server: str, tmp_path: Path) -> None:
    artifact = make(runtime)
    download = Download(folder=tmp_path, files=tmp_path, artifact=artifact, version=None, name="one", vouched=True)
    assert choose_environment(describe_winner(download, "one")).name == server


@pytest.mark.parametrize(("runtime", "why"), [("tvm", "not built"), ("quirk", "not known")])
def test_what_can_not_be_served_is_refused_with_what_would_help(runtime: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(HoneError, match="is not the source") as refused:
        find_packages(make(runtime), make_server(), EnvironmentStore(tmp_path))
    assert refused.value.slug == "serving-unsupported"
    assert why in refused.value.why


def test_other_packages_come_after_the_servers_own(tmp_path: Path) -> None:
    own, more = tmp_path / "own", tmp_path / "more"
    for folder in (own, more):
        folder.mkdir()
        (folder / "both.py").write_text(f"place = {folder.name!r}")
    (more / "only.py").write_text("place = 'more'")
    third = tmp_path / "third"
    third.mkdir()
    (third / "only.py").write_text("place = 'third'")
    (third / "last.py").write_text("place = 'third'")
    for place in (more, third, more):
        write_startup(own, place)
    code = "import both, last, only; print(both.place, only.place, last.place)"
    variables = {**os.environ, "PYTHONPATH": str(own)}
    run = subprocess.run([sys.executable, "-P", "-c", code], env=variables, capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["own", "more", "third"]
