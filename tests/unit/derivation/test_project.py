"""The files of a derived project, which replace nothing of a person's."""

from __future__ import annotations

import pytest
import yaml

from hone_runtime.errors import HoneError
from kedro_hone.derivation.project import claim_folder, list_entries, nest, save_project, write_project

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


def test_drawn_inputs_are_marked():
    assert list_entries({"gate": "gate.npz"}, drawn=True)["gate"]["type"] == "kedro_hone.datasets.DraftDataset"


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


def test_a_section_with_a_value_has_no_keys():
    with pytest.raises(HoneError, match="one section") as raised:
        nest({"gates": 0.01, "gates.speedup": 2})
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
