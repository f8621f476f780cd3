from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest
from packed_versions import SERVER_PACKAGES, install, make_environment

from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import Artifact
from kedro_hone.core.environments.environment import Environment
from kedro_hone.serving.image.bytecode import read_content
from kedro_hone.serving.image.packages import list_packages

ARTIFACT = Artifact(format="onnx", digest="sha256:0", inputs=(), outputs=(), runtime="onnxruntime")
INFO = "onnxruntime-1.31.0.dist-info"


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return make_environment(tmp_path, SERVER_PACKAGES)


def find_folder(environment: Environment) -> Path:
    (folder,) = Path(environment.python).parents[1].glob("lib/*/site-packages")
    return folder


def test_only_what_is_needed_is_taken_and_only_what_wheels_list(environment: Environment) -> None:
    (find_folder(environment) / "onnxruntime" / "planted.py").write_text("evil")
    packages = list_packages(environment, ARTIFACT, model={})
    assert set(packages.versions) == {"kserve", "numpy", "onnxruntime", "pydantic"}
    assert {str(name) for name in packages.files if "onnxruntime" in str(name)} == {
        "onnxruntime/__init__.py",
        f"{INFO}/METADATA",
        f"{INFO}/RECORD",
    }
    record = read_content(packages.files[PurePosixPath(INFO, "RECORD")]).decode()
    assert [line.partition(",")[0] for line in record.splitlines()] == [f"{INFO}/METADATA", "onnxruntime/__init__.py"]


@pytest.mark.attack(
    what="a file of the server's environment that was changed after its package was installed",
    who="store",
    stopped_by="its digest is compared with the one in the package's RECORD when the layer is written",
)
def test_a_changed_file_is_refused(environment: Environment) -> None:
    path = find_folder(environment) / "numpy" / "__init__.py"
    path.write_text(path.read_text().replace("numpy", "evil!"))
    packages = list_packages(environment, ARTIFACT, model={})
    with pytest.raises(HoneError, match="not the one that was installed") as refused:
        read_content(packages.files[PurePosixPath("numpy/__init__.py")])
    assert refused.value.slug == "toolchain-unbuildable"


def test_the_key_changes_with_a_file_and_with_a_package(environment: Environment) -> None:
    before = list_packages(environment, ARTIFACT, model={}).key
    assert list_packages(environment, ARTIFACT, model={}).key == before
    (find_folder(environment) / "numpy" / "__init__.py").write_text("NAME = 'evil!'\n")
    changed = list_packages(environment, ARTIFACT, model={}).key
    install(find_folder(environment), "tokenizers")
    with_text = list_packages(environment, ARTIFACT, model={PurePosixPath("tokenizer.json"): b"{}"})
    assert "tokenizers" in with_text.versions
    assert len({before, changed, with_text.key}) == 3


def test_a_runtime_that_the_environment_lacks_is_refused(environment: Environment) -> None:
    with pytest.raises(HoneError, match="openvino is not installed") as refused:
        list_packages(environment, ARTIFACT.model_copy(update={"runtime": "openvino"}), model={})
    assert refused.value.slug == "serving-unsupported"
