"""Models of Keras and SavedModels are recognised by names alone."""

from __future__ import annotations

import pytest
import yaml

from hone_runtime.errors import HoneError
from kedro_hone.sources.detection import read_flavor

NOTHING: frozenset[str] = frozenset()
KERAS = {"data": "data", "keras_version": "3.15.1"}


@pytest.fixture
def write(tmp_path):
    """Return a function that writes files, with an ``MLmodel`` where flavors are given, and returns their folder."""

    def write(*files, **flavors):
        for name in files:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes(b"x")
        if flavors:
            (tmp_path / "MLmodel").write_text(yaml.safe_dump({"flavors": flavors}))
        return tmp_path

    return write


def refuse(folder, slug):
    with pytest.raises(HoneError) as refused:
        read_flavor(folder, trust=NOTHING)
    assert refused.value.slug == slug
    return str(refused.value)


@pytest.mark.parametrize("name", ["model.keras", "digits.keras", "sub/digits.keras"])
def test_a_file_of_keras(write, name):
    flavor = read_flavor(write(name), trust=NOTHING)
    assert (flavor.format, flavor.interface, flavor.files) == ("keras", "keras", ((name, "model.keras"),))


@pytest.mark.parametrize("flavor", ["keras", "tensorflow"])
def test_what_mlflow_writes_of_keras(write, flavor):
    folder = write("data/model.keras", "data/keras_module.txt", "other.keras", **{flavor: KERAS})
    assert read_flavor(folder, trust=NOTHING).files == (("data/model.keras", "model.keras"),)


def test_a_flavor_that_leads_out_of_the_folder(write):
    refuse(write("model.keras", keras={"data": "../../etc"}), "model-corrupt")


def test_several_files(write):
    assert "a.keras, b.keras" in refuse(write("a.keras", "b.keras"), "model-unsupported")


def test_hdf5_has_to_be_saved_again(write):
    assert "model.save" in refuse(write("model.h5"), "model-unsupported")


def test_a_saved_model_has_its_parts_and_nothing_else(write):
    parts = ("variables/variables.index", "variables/variables.data-00000-of-00001", "assets/words.txt")
    flavor = read_flavor(write("saved_model.pb", "fingerprint.pb", "README.md", *parts), trust=NOTHING)
    assert (flavor.format, flavor.interface) == ("saved-model", "onnx")
    assert sorted(name for _, name in flavor.files) == sorted(("saved_model.pb", "fingerprint.pb", *parts))


def test_what_mlflow_writes_of_a_module(write):
    said = {"saved_model_dir": "tf2model", "model_type": "tf2-module"}
    folder = write("tf2model/saved_model.pb", "tf2model/variables/variables.index", tensorflow=said)
    files = read_flavor(folder, trust=NOTHING).files
    assert files[0] == ("tf2model/saved_model.pb", "saved_model.pb")
    assert files[1] == ("tf2model/variables/variables.index", "variables/variables.index")


def test_files_of_tensorflow_next_to_another_flavor_are_not_the_model(write):
    refuse(write("saved_model.pb", "model.keras", spacy={"data": "model.keras"}), "model-unsupported")


def test_a_signature_is_chosen_of_a_saved_model_only(write):
    folder = write("saved_model.pb")
    assert read_flavor(folder, trust=NOTHING).metadata == {}
    assert read_flavor(folder, trust=NOTHING, signature="encode").metadata == {"signature": "encode"}
    (folder / "saved_model.pb").rename(folder / "model.keras")
    with pytest.raises(HoneError) as refused:
        read_flavor(folder, trust=NOTHING, signature="encode")
    assert refused.value.slug == "recipe-invalid"
    assert refused.value.why == "hone.model.signature is 'encode', and the model is a model of Keras."
