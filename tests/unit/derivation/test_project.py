"""The files of a derived project, which replace nothing of a person's."""

from __future__ import annotations

import pytest
import yaml

from hone_runtime.errors import HoneError
from kedro_hone.core.locks import hold_lock
from kedro_hone.derivation.entries import list_entries
from kedro_hone.derivation.project import (
    LOCK,
    claim_folder,
    format_yaml,
    nest,
    release_folder,
    save_project,
    write_project,
)

RECIPE = {"model": {"uri": "net.onnx"}}


def write(folder, recipe=RECIPE):
    write_project(folder, recipe=recipe, catalog=list_entries({"gate": "gate.npz"}))


def test_a_project_is_three_files(tmp_path):
    write(tmp_path / "new")
    found = sorted(path.relative_to(tmp_path / "new").as_posix() for path in (tmp_path / "new").rglob("*"))
    assert found == ["conf", "conf/base", "conf/base/catalog.yml", "conf/base/parameters.yml", "conf/local"]
    assert yaml.safe_load((tmp_path / "new/conf/base/parameters.yml").read_text()) == {"hone": RECIPE}
    entry = yaml.safe_load((tmp_path / "new/conf/base/catalog.yml").read_text())["gate"]
    assert entry == {"type": "kedro_hone.datasets.FileDataset", "path": "gate.npz"}


@pytest.mark.parametrize("name", ["conf/base/parameters.yml", "data/splits/gate.csv", "notes.txt"])
def test_a_folder_with_files_of_a_person_is_not_written_to(tmp_path, name):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("mine: 1\n")
    for claim in (
        lambda: claim_folder(tmp_path, flag="--folder"),
        lambda: save_project(tmp_path / "from", tmp_path, recipe=RECIPE, catalog={}),
    ):
        with pytest.raises(HoneError, match="with other files") as raised:
            claim()
        assert raised.value.slug == "option-invalid"
    assert [one for one in tmp_path.rglob("*") if one.is_file()] == [path]
    assert path.read_text() == "mine: 1\n"


def test_a_folder_is_claimed_once_and_may_hold_an_earlier_store(tmp_path):
    (tmp_path / "data" / "hone" / "store").mkdir(parents=True)
    claim_folder(tmp_path, flag="--folder")
    write(tmp_path)
    claim_folder(tmp_path, flag="--folder")
    claim_folder(tmp_path / "new", flag="--folder")


def test_a_project_is_saved_with_its_splits(tmp_path):
    (tmp_path / "from" / "data" / "splits").mkdir(parents=True)
    (tmp_path / "from" / "data" / "splits" / "gate.npz").touch()
    save_project(tmp_path / "from", tmp_path / "to", recipe=RECIPE, catalog={})
    assert (tmp_path / "to" / "data" / "splits" / "gate.npz").exists()
    with pytest.raises(HoneError, match="--save"):
        save_project(tmp_path / "from", tmp_path / "to", recipe=RECIPE, catalog={})


def test_dotted_names_are_sections():
    assert nest({"gates.drop": 0.1, "gates.speedup": 2, "seed": 1}) == {"gates": {"drop": 0.1, "speedup": 2}, "seed": 1}
    bracketed = {"adaptors[onnxruntime.int8-dynamic].enabled": False, "adaptors[x.y].options.a": 1}
    assert nest(bracketed)["adaptors"] == {"onnxruntime.int8-dynamic": {"enabled": False}, "x.y": {"options": {"a": 1}}}
    for given in (
        {"publish.enabled": False, "publish": {"name": "x"}},
        {"publish": {"name": "x"}, "publish.enabled": False},
    ):
        assert nest(given) == {"publish": {"enabled": False, "name": "x"}}, "--no-publish stays"
    assert nest({"gates..drop": 1}) == {"gates": {"": {"drop": 1}}}, "a mistyped key stays unknown"


def test_a_section_with_a_value_has_no_keys():
    with pytest.raises(HoneError, match="Two options") as raised:
        nest({"gates": 0.01, "gates.speedup": 2})
    with pytest.raises(HoneError, match="Two options"):
        nest({"gates.speedup": 2, "gates": 0.01})
    with pytest.raises(HoneError, match="Two options"):
        nest({"publish.enabled": False, "publish": {"enabled": True}})
    assert raised.value.slug == "option-invalid"


@pytest.mark.parametrize("name", ["conf", "conf/base", "conf/local", "data", "data/splits"])
def test_links_in_a_folder_are_not_followed(tmp_path, name):
    folder, outside = tmp_path / "run", tmp_path / "outside"
    outside.mkdir()
    claim_folder(folder, flag="--folder")
    if (folder / name).is_dir():
        (folder / name).rename(outside / "old")
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).symlink_to(outside)
    with pytest.raises(HoneError, match="is a link"):
        claim_folder(folder, flag="--folder")


@pytest.mark.attack(
    what="line breaks in a name that is printed as YAML",
    who="data",
    stopped_by="text with a line break is in double quotes, on one line",
)
def test_no_text_in_a_recipe_takes_more_than_one_line():
    recipe = {"program": {"options": {"arrays": {"target": "a b\n\n  ::error::owned\u2028" + "c d " * 99}}}}
    text = format_yaml(recipe)
    assert yaml.safe_load(text) == recipe
    assert not [line for line in text.splitlines() if line.lstrip().startswith("::")]
    assert len(text.splitlines()) == 4


@pytest.mark.parametrize("existed", [True, False])
def test_a_refused_command_leaves_nothing_in_a_new_folder(tmp_path, existed):
    folder = tmp_path / "run"
    if existed:
        folder.mkdir()
    assert claim_folder(folder, flag="--folder")
    assert not claim_folder(folder, flag="--folder")
    with hold_lock(folder / LOCK, purpose="a test"):
        release_folder(folder, existed=existed)
    assert folder.exists() == existed
    assert not (folder / "data").exists()


def test_what_was_pulled_stays_in_a_folder(tmp_path):
    claim_folder(tmp_path, flag="--folder")
    (tmp_path / "data/hone/store").mkdir()
    (tmp_path / "data/hone/store/model.onnx").write_bytes(b"x")
    release_folder(tmp_path, existed=True)
    assert (tmp_path / "data/hone/store/model.onnx").exists()
    assert not claim_folder(tmp_path, flag="--folder")
