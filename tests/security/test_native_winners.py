"""Native code in a winner is not run where nobody vouches for it, and never where the registry says it was changed.

Each attack is a real library or program that writes a file when it is opened.
"""

from __future__ import annotations

import json
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import pytest
from mlflow_store import WEIGHTS
from proof import prove, reseal

import kedro_hone
from hone_runtime.contract.registry import VersionInfo
from hone_runtime.contract.tags import make_tags
from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import Artifact, TensorSpec
from hone_runtime.values.manifest import Manifest
from kedro_hone.adaptors.registries.local.registry import LocalRegistry
from kedro_hone.adaptors.registries.mlflow.registry import MlflowRegistry
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.nodes.pull import pull
from kedro_hone.recipe.schema import read_recipe
from kedro_hone.sources.detection import read_flavor

pytestmark = [pytest.mark.toolchain]
SPECS = {
    "inputs": (TensorSpec(name="x", dtype="float32", shape=(1, 4)),),
    "outputs": (TensorSpec(name="y", dtype="float32", shape=(1, 4)),),
}
NOTHING: frozenset[str] = frozenset()


def catch(call):
    with pytest.raises(HoneError) as caught:
        call()
    return caught.value


def write_library(package: Path, effect: str) -> None:
    """Write an AOTInductor package around a library that does something when it is opened."""
    source, library = package.with_suffix(".c"), package.with_suffix(".so")
    source.write_text(f"#include <fcntl.h>\n__attribute__((constructor)) static void run(void) {{ {effect} }}\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    with zipfile.ZipFile(package, "w") as archive:
        for name, text in {"archive_format": "pt2", "archive_version": "0", "byteorder": "little"}.items():
            archive.writestr(f"m/{name}", text)
        archive.write(library, "m/data/aotinductor/model/m.wrapper.so")
        archive.writestr("m/data/aotinductor/model/m.wrapper_metadata.json", '{"AOTI_DEVICE_KEY": "cpu"}')
    source.unlink()
    library.unlink()


@pytest.fixture
def trap(tmp_path) -> Path:
    return tmp_path / "trap"


def make_evil(trap: Path) -> str:
    return f'open("{trap}", O_CREAT | O_WRONLY, 0600);'


@pytest.fixture
def make_native(tmp_path):
    """Return a function that makes the artifact of an AOTInductor winner, whose files are in ``sealed``."""
    import torch

    def make(effect: str = "") -> Artifact:
        folder = tmp_path / "sealed"
        folder.mkdir()
        write_library(folder / "a.pt2", effect)
        index = {"cpu": torch.backends.cpu.get_cpu_capability(), "packages": [{"file": "a.pt2", "shapes": [[1, 4]]}]}
        index |= {side: [{"name": specs[0].name}] for side, specs in SPECS.items()}
        (folder / "index.json").write_text(json.dumps(index))
        return seal(folder, "aot-inductor", "pytorch")

    return make


def seal(folder: Path, form: str, runtime: str) -> Artifact:
    artifact = Artifact(format=form, digest="", runtime=runtime, metadata={"threads": 1, "interface": "onnx"}, **SPECS)
    return artifact.model_copy(update={"digest": Manifest.measure(folder, artifact.manifest()).digest})


def publish(tmp_path: Path, artifact: Artifact, registry=None, name: str = "models/net"):
    winner = prove(tmp_path, artifact)
    registry = registry or LocalRegistry(tmp_path)
    return registry.publish(winner, name=name, tags=make_tags(winner, recipe="sha256:2"), alias="honed").uri


def find_files(tmp_path: Path) -> Path:
    """Where the registry of MLflow keeps the winner's files."""
    (found,) = (tmp_path / "mlartifacts").rglob("artifact.json")
    return found.parent


@pytest.mark.attack(
    what="a winner that is a compiled library",
    who="registry",
    stopped_by="native formats need trust or a signature",
)
def test_a_published_library_is_not_run_by_default(tmp_path, make_native, trap):
    place = publish(tmp_path, make_native(make_evil(trap)))
    error = catch(lambda: kedro_hone.load(place))
    assert error.slug == "native-not-trusted"
    assert "aot-inductor" in error.what
    assert not trap.exists()


def test_a_trusted_library_is_run(tmp_path, make_native, trap):
    """The attack is real: the library is opened, and torch refuses it only afterwards."""
    place = publish(tmp_path, make_native(make_evil(trap)))
    with pytest.raises(RuntimeError, match="AOTInductorModelContainerCreate"):
        kedro_hone.load(place, trust=["native"])
    assert trap.exists()


@pytest.mark.attack(
    what="a library swapped together with its line in the manifest",
    who="registry",
    stopped_by="the digest over all is compared with the registry's tag",
)
def test_a_library_that_was_swapped_with_its_line_in_the_manifest_is_not_run(tmp_path, make_native, trap, registry):
    """Also not where native code is trusted: the registry has another digest for the winner."""
    publish(tmp_path, make_native(), MlflowRegistry(), "net")
    files = find_files(tmp_path)
    write_library(files / "a.pt2", make_evil(trap))
    reseal(files)
    for trust in ([], ["native"]):
        error = catch(lambda trust=trust: kedro_hone.load("models:/net@honed", trust=trust))
        assert error.slug == "model-corrupt"
        assert "the registry has" in error.why
    assert not trap.exists()


@pytest.mark.attack(
    what="a TorchScript program that writes files while it is loaded",
    who="registry",
    stopped_by="native formats need trust or a signature",
)
@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_a_program_of_torchscript_is_not_run_by_default(tmp_path, trap):
    import torch

    class Writer(torch.nn.Module):
        @torch.jit.export
        def __getstate__(self) -> tuple[str, bool]:
            return self.path, self.training

        @torch.jit.export
        def __setstate__(self, state: tuple[str, bool]) -> None:
            self.path, self.training = state
            self.rows = torch.from_file(self.path, True, 8, dtype=torch.uint8)

        def __init__(self) -> None:
            super().__init__()
            self.path = str(trap)
            self.rows = torch.zeros(8, dtype=torch.uint8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x

    folder = tmp_path / "sealed"
    folder.mkdir()
    torch.jit.script(Writer()).save(str(folder / "model.ts"))
    place = publish(tmp_path, seal(folder, "torchscript", "pytorch"))
    trap.unlink(missing_ok=True)
    assert catch(lambda: kedro_hone.load(place)).slug == "native-not-trusted"
    assert not trap.exists()
    kedro_hone.load(place, trust=["native"])
    assert trap.exists()


@pytest.mark.attack(
    what="native code under the name of a data format",
    who="registry",
    stopped_by="a runtime opens only the formats that it runs",
)
@pytest.mark.parametrize(("form", "runtime"), [("onnx", "iree"), ("iree-vmfb", "onnxruntime"), ("onnx", "pytorch")])
def test_native_code_under_the_name_of_a_data_format_is_not_opened(tmp_path, make_native, form, runtime):
    place = Path(publish(tmp_path, make_native()))
    reseal(place / "artifact", format=form, runtime=runtime)
    error = catch(lambda: kedro_hone.load(place))
    assert error.slug == "model-unsupported"
    assert f"{runtime} runs no models of the format {form}" in error.what


def test_trust_is_no_text(tmp_path):
    for trust in ("native", ["all"]):
        with pytest.raises(ValueError, match=r'\["native"\] or empty'):
            kedro_hone.load(tmp_path, trust=trust)


@pytest.mark.attack(
    what="a native winner of another run as a source",
    who="registry",
    stopped_by="native formats need trust or a signature",
)
def test_a_native_winner_is_no_source_that_is_opened_by_default(tmp_path, make_native):
    place = Path(publish(tmp_path, make_native()))
    error = catch(lambda: read_flavor(place, trust=NOTHING))
    assert error.slug == "native-not-trusted"
    assert "trust: [native]" in error.hint
    assert read_flavor(place, trust=frozenset({"native"})).format == "aot-inductor"


def read_source(tmp_path: Path, uri: str) -> tuple[VersionInfo, Artifact]:
    project = tmp_path / "project"
    project.mkdir(exist_ok=True)
    run = RunFolder(root=project / "runs", run_id="1", project=project)
    return pull(read_recipe({"model": {"uri": uri}}), Store(tmp_path / "store"), run)


@pytest.mark.attack(
    what="a source swapped in the artifact store, with its manifest",
    who="registry",
    stopped_by="the digest over all is compared with the registry's tag",
)
def test_a_source_that_was_swapped_behind_the_registry_is_not_pulled(tmp_path, make_winner, registry):
    """With its manifest; and with an MLmodel that names another file and no winner any more."""
    import yaml

    publish(tmp_path, make_winner(), MlflowRegistry(), "net")
    files = find_files(tmp_path)
    honest = (files / "model.onnx").read_bytes()
    (files / "model.onnx").write_bytes(honest.replace(WEIGHTS.tobytes(), (-WEIGHTS).tobytes()))
    assert (files / "model.onnx").read_bytes() != honest
    reseal(files)
    error = catch(lambda: read_source(tmp_path, "models:/net@honed"))
    assert (error.slug, "the registry has" in error.why) == ("model-corrupt", True)
    described = yaml.safe_load((files.parent / "MLmodel").read_text())
    described["flavors"] = {"onnx": {"data": "artifact/model.onnx"}}
    (files.parent / "MLmodel").write_text(yaml.safe_dump(described))
    error = catch(lambda: read_source(tmp_path, "models:/net@honed"))
    assert (error.slug, "it contains none" in error.why) == ("model-corrupt", True)


@pytest.fixture
def program(tmp_path) -> Artifact:
    """A program of torch.export as a winner, whose files are in ``sealed``."""
    import torch

    folder = tmp_path / "sealed"
    folder.mkdir()
    made = torch.export.export(torch.nn.Identity(), (torch.ones(1, 4),))
    torch.export.save(made, folder / "model.pt2")
    return seal(folder, "pytorch", "pytorch")


@pytest.mark.attack(
    what="a winner that is a program of torch.export, from which torch generates Python",
    who="registry",
    stopped_by="formats that become code need trust or a signature",
)
def test_a_program_that_becomes_code_is_not_opened_by_default(tmp_path, program, monkeypatch):
    place = publish(tmp_path, program)
    assert kedro_hone.load(place, trust=["native"]).run({"x": np.ones((1, 4), np.float32)})["y"].tolist() == [[1] * 4]
    opened = []
    monkeypatch.setattr("torch.export.load", opened.append)
    error = catch(lambda: kedro_hone.load(place))
    assert error.slug == "native-not-trusted"
    assert "pytorch writes code from it" in error.why
    assert opened == []


def test_a_program_that_becomes_code_is_a_source_without_trust(tmp_path, program):
    """It is opened in an isolated worker only."""
    assert read_flavor(Path(publish(tmp_path, program)), trust=NOTHING).format == "pytorch"


def test_data_needs_no_trust(tmp_path, make_winner, registry):
    publish(tmp_path, make_winner(), MlflowRegistry(), "net")
    outputs = kedro_hone.load("models:/net@honed")(np.ones((2, 4), np.float32))
    assert outputs.tolist() == [[18, 22, 26]] * 2
