from __future__ import annotations

import os

import pytest

from hone_runtime.errors import HoneError
from kedro_hone.sources.huggingface.adapters import copy_adapter, copy_texts, find_adapter
from kedro_hone.sources.source_format import MlModel, Pulled


@pytest.fixture
def places(tmp_path):
    """The folder of an adapter, and the one that the merging worker made."""
    for name in ("adapter", "merged"):
        (tmp_path / name).mkdir()
    return tmp_path / "adapter", tmp_path / "merged"


@pytest.mark.attack(
    what="a link in the folder that the merging worker fills, to a file of the user that is then written",
    who="worker",
    stopped_by="a link in the place of a copy is replaced, and not followed",
)
def test_nothing_is_written_through_a_link(places, tmp_path):
    adapter, merged = places
    (adapter / "vocab.txt").write_text("new")
    (tmp_path / "precious").write_text("old")
    (merged / "vocab.txt").symlink_to(tmp_path / "precious")
    copy_texts(adapter, merged, root=adapter)
    assert (tmp_path / "precious").read_text() == "old"
    assert ((merged / "vocab.txt").read_text(), (merged / "vocab.txt").is_symlink()) == ("new", False)


def test_a_link_inside_is_copied_as_its_file_and_one_outside_is_refused(places, tmp_path):
    adapter, merged = places
    (adapter / "blob").write_text("words")
    (adapter / "vocab.txt").symlink_to("blob")
    copy_texts(adapter, merged, root=adapter)
    assert (merged / "vocab.txt").read_text() == "words"
    (adapter / "adapter_config.json").write_text("{}")
    (tmp_path / "secret").write_text("x")
    (adapter / "adapter_model.safetensors").symlink_to("../secret")
    with pytest.raises(HoneError, match="leads out"):
        copy_adapter(adapter, merged / "adapter", root=adapter)
    assert not (merged / "adapter" / "adapter_model.safetensors").exists()


def test_what_is_no_regular_file_ends_in_an_error(places):
    adapter, merged = places
    (adapter / "adapter_config.json").write_text("{}")
    os.mkfifo(adapter / "adapter_model.safetensors")
    with pytest.raises(HoneError, match="cannot be copied"):
        copy_adapter(adapter, merged / "adapter", root=adapter)
    (adapter / "vocab.txt").write_text("new")
    (merged / "vocab.txt").mkdir()
    with pytest.raises(HoneError, match="cannot be copied"):
        copy_texts(adapter, merged, root=adapter)


@pytest.mark.parametrize("named", ["a\0b", "circle", "../adapter", "/etc", "é" * 190])
def test_a_name_that_is_no_path_in_the_folder_finds_nothing(places, named):
    adapter, merged = places
    (adapter / "adapter_config.json").write_text("{}")
    (merged / "circle").symlink_to("circle")
    flavors = {"transformers": {"peft_adaptor": named}}
    assert find_adapter(Pulled(folder=merged, mlmodel=MlModel(flavors=flavors))) is None
