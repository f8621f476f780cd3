"""What is beside a winner's own files is published, too: whoever changes it changes the version."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

import kedro_hone
from hone_runtime.contract.tags import FILES, make_tags
from hone_runtime.errors import HoneError
from hone_runtime.learner.versions import check_version_files, write_version_files
from hone_runtime.signing.policy import VERSION_FILES
from hone_runtime.values.manifest import Manifest
from kedro_hone.adaptors.registries.local.registry import LocalRegistry
from kedro_hone.adaptors.registries.mlflow.registry import MlflowRegistry
from kedro_hone.cli import hone
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.nodes.pull import pull
from kedro_hone.recipe.schema import read_recipe

Attack = Callable[[Path], object]


def change(name: str, text: str = "evil") -> Attack:
    def attack(place: Path) -> None:
        (place / name).parent.mkdir(exist_ok=True)
        with (place / name).open("a") as stream:
            stream.write(text)

    return attack


ATTACKS: dict[str, Attack] = {
    "a loader": lambda place: (place / "MLmodel").write_text(
        (place / "MLmodel").read_text().replace("hone_runtime.learner.pyfunc", "evil")
    ),
    "a requirement": change("requirements.txt", "evil-package==1.0\n"),
    "a tokenizer": change("tokenizer.json", "{}"),
    "an environment": change("conda.yaml"),
    "an example": change("input_example.json"),
    "a report": change("evidence/report.html"),
    "golden rows": change("evidence/golden.json", "{}"),
    "a module": change("artifact.py"),
    "what was removed": lambda place: (place / "python_env.yaml").unlink(),
    "a link": lambda place: (place / "vocab.txt").symlink_to("/etc/passwd"),
    "the list": lambda place: write_list(place, lambda files: files.pop("requirements.txt")),
}


def write_list(place: Path, attack: Callable[[dict], object]) -> None:
    said = json.loads((place / VERSION_FILES).read_text())
    attack(said["files"])
    (place / VERSION_FILES).write_text(json.dumps(said))


@pytest.fixture
def publish(tmp_path, make_winner, prove):
    """Return a function that publishes a winner and returns its URI."""

    def publish(registry=None, name: str = "models/net") -> str:
        winner = prove(make_winner())
        registry = registry or LocalRegistry(tmp_path)
        return registry.publish(winner, name=name, tags=make_tags(winner, recipe="sha256:2"), alias="honed").uri

    return publish


def refuse(place: Path | str) -> HoneError:
    with pytest.raises(HoneError) as caught:
        kedro_hone.load(place)
    return caught.value


@pytest.mark.attack(
    what="a loader, requirement, tokenizer, report or golden row beside the winner's files that was changed or added",
    who="registry",
    stopped_by="one digest over all files of a version is compared at a load, a pull and a verification",
)
@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
def test_what_is_beside_a_winner_is_compared(publish, tmp_path, attack):
    place = Path(publish())
    assert kedro_hone.load(place).artifact.format == "onnx"
    attack(place)
    assert refuse(place).slug == "model-corrupt"
    done = CliRunner().invoke(hone, ["verify", str(place)])
    assert done.exit_code == 3
    recipe = read_recipe({"model": {"uri": str(place)}})
    run = RunFolder(root=tmp_path / "runs", run_id="1", project=tmp_path)
    with pytest.raises(HoneError) as caught:
        pull(recipe=recipe, store=Store(tmp_path / "store"), run=run)
    assert caught.value.slug in {"model-corrupt", "model-external-data"}


@pytest.mark.attack(
    what="the list of a version's files that was removed, or written again after a change, without the registry",
    who="registry",
    stopped_by="the registry's tag has its digest: a version that has one is compared",
)
@pytest.mark.parametrize("way", ["removed", "written again"])
def test_the_list_cannot_be_left_out(publish, registry, tmp_path, way):
    uri = publish(MlflowRegistry(), "net")
    assert kedro_hone.load(uri).artifact.format == "onnx"
    (place,) = (path.parent for path in (tmp_path / "mlartifacts").rglob(VERSION_FILES))
    (place / "requirements.txt").write_text("evil\n")
    (place / VERSION_FILES).unlink()
    if way == "written again":
        write_version_files(place, model="net")
    error = refuse(uri)
    assert error.slug == "model-corrupt"
    assert "the registry has" in error.why


@pytest.mark.parametrize("way", ["removed", "written again"])
def test_the_list_cannot_be_left_out_of_a_folder(publish, way):
    """Its tags are in ``hone.json``; who writes that too is found by a signature only."""
    place = Path(publish())
    (place / "requirements.txt").write_text("evil\n")
    (place / VERSION_FILES).unlink()
    if way == "written again":
        write_version_files(place, model="net")
    assert refuse(place).slug == "model-corrupt"


def test_every_registry_keeps_the_digest(publish, registry, tmp_path):
    pulled = tmp_path / "pulled"
    for registry_, uri in ((LocalRegistry(tmp_path), publish()), (MlflowRegistry(), publish(MlflowRegistry(), "net"))):
        assert registry_.pull(uri, pulled).tags[FILES] == Manifest.read(pulled / VERSION_FILES).digest
        shutil.rmtree(pulled)


def test_a_version_of_before_is_loaded(publish):
    """Without a list and without a tag, as every version was published until there was one."""
    place = Path(publish())
    (place / VERSION_FILES).unlink()
    said = json.loads((place / "hone.json").read_text())
    del said[FILES]
    (place / "hone.json").write_text(json.dumps(said))
    change("requirements.txt")(place)
    assert kedro_hone.load(place).artifact.format == "onnx"


def test_what_other_tools_leave_in_a_folder_is_nobodys_change(publish, tmp_path):
    shutil.copytree(publish(), tmp_path / "copy")
    for name in ("README.md", ".gitattributes", "LICENSE", "registered_model_meta", ".git/config"):
        change(name)(tmp_path / "copy")
    assert kedro_hone.load(tmp_path / "copy").artifact.format == "onnx"
    assert check_version_files(tmp_path / "copy")


def test_mlflow_loads_no_version_that_was_changed(publish, tmp_path):
    from hone_runtime.learner.pyfunc import _load_pyfunc

    place = Path(publish())
    assert _load_pyfunc(str(place / "artifact"))
    change("evidence/report.md")(place)
    with pytest.raises(HoneError):
        _load_pyfunc(str(place / "artifact"))


@pytest.mark.attack(
    what="a version of five hundred digits, which is not a number of a database",
    who="recipe",
    stopped_by="a version's number has nine digits at most; another is unknown",
)
@pytest.mark.parametrize("version", ["9" * 500, "9" * 5000, "9" * 19, "٣", "-1", "1e3", "0x1"])
def test_a_version_that_is_no_number(publish, registry, tmp_path, version):
    publish(MlflowRegistry(), "net")
    uri = f"models:/net/{version}"
    calls = (
        lambda: MlflowRegistry().resolve(uri),
        lambda: MlflowRegistry().pull(uri, tmp_path / "pulled"),
        lambda: MlflowRegistry().move_alias(uri, "honed"),
        lambda: kedro_hone.load(uri),
    )
    for call in calls:
        with pytest.raises(HoneError) as caught:
            call()
        assert caught.value.slug == "version-unknown"
    assert CliRunner().invoke(hone, ["verify", uri]).exit_code == 3
    with pytest.raises(HoneError) as caught:
        LocalRegistry(tmp_path).resolve(f"models/net-hone/{version}")
    assert caught.value.slug == "model-unknown"
