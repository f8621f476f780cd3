from __future__ import annotations

from dataclasses import replace

import pytest

from kedro_hone.core.contract.catalogue import read_catalogue
from kedro_hone.core.contract.host import Host
from kedro_hone.core.errors import HoneError
from kedro_hone.recipe.space import Choices, read_space

ADAPTORS = read_catalogue().adaptors


@pytest.mark.parametrize("name", sorted(ADAPTORS))
def test_each_choice_is_one_that_the_adaptor_takes_and_not_its_default(name):
    adaptor = ADAPTORS[name]
    for option, choices in read_space(adaptor).items():
        default = adaptor.options().model_dump(mode="json")[option]
        assert default not in choices.choices, option


def plant(tmp_path, space):
    adaptor = ADAPTORS["onnxruntime.int8-static"]
    (tmp_path / "capabilities.yml").write_text(
        f"versions: [{{version: '1', adaptors: {{onnxruntime.int8-static: {{space: {space}}}}}}}]"
    )
    return replace(adaptor, toolchain=replace(adaptor.toolchain, folder=tmp_path))


def test_choices_are_a_list_or_say_where(tmp_path):
    space = read_space(plant(tmp_path, "{activations: [uint8], reduce_range: {choices: [false], unless: VNNI}}"))

    assert space["activations"] == Choices(choices=("uint8",))
    assert space["reduce_range"] == Choices(choices=(False,), unless="VNNI")


@pytest.mark.parametrize(
    "space",
    [
        "{activations: [int2]}",
        "{colour: [red]}",
        "{activations: []}",
        "{activations: {choices: [uint8], where: MMX}}",
    ],
)
def test_what_the_options_refuse_is_an_error(tmp_path, space):
    with pytest.raises(HoneError) as raised:
        read_space(plant(tmp_path, space))
    assert raised.value.slug == "capabilities-invalid"


def test_without_a_file_nothing_is_worth_trying(tmp_path):
    adaptor = ADAPTORS["onnxruntime.session"]
    assert read_space(replace(adaptor, toolchain=replace(adaptor.toolchain, folder=tmp_path))) == {}


def test_a_misspelt_space_is_an_error(tmp_path):
    adaptor = plant(tmp_path, "{activations: [uint8]}")
    path = tmp_path / "capabilities.yml"
    path.write_text(path.read_text().replace("space", "spaces"))
    with pytest.raises(HoneError) as raised:
        read_space(adaptor)
    assert raised.value.why.endswith("onnxruntime.int8-static.spaces: unknown key, did you mean 'space'?")


@pytest.mark.parametrize(("flags", "where", "unless"), [({"avx512_vnni"}, True, False), ({"avx2"}, False, True)])
def test_choices_fit_by_the_vector_instructions(flags, where, unless):
    host = Host(machine="x86_64", flags=frozenset(flags), cores=2, gpu=None, compilers=frozenset(), fingerprint="")
    assert Choices(choices=(1,), where="VNNI").fit(host) is where
    assert Choices(choices=(1,), unless="VNNI").fit(host) is unless


def test_what_is_said_of_other_adaptors_is_not_read(tmp_path):
    adaptor = plant(tmp_path, "{activations: [uint8]}")
    path = tmp_path / "capabilities.yml"
    path.write_text(path.read_text().replace("}}}]", "}, other.one: null}}]"))
    assert "null" in path.read_text()
    assert read_space(adaptor).keys() == {"activations"}


def test_a_nesting_without_end_is_an_error(tmp_path):
    adaptor = plant(tmp_path, "{}")
    (adaptor.toolchain.folder / "capabilities.yml").write_text("versions: " + "[" * 5000)
    with pytest.raises(HoneError) as raised:
        read_space(adaptor)
    assert raised.value.slug == "capabilities-invalid"
