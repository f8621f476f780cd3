"""The usual figures of adaptors, in the files of their toolchains."""

from __future__ import annotations

from dataclasses import replace

import pytest
from toolchains.toy import adaptor as toy

from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.contract.hardware import read_host
from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import Artifact, Stage
from kedro_hone.recipe.prior import Usual, find_kind, find_level, find_usual, read_prior

FLAGS = {"AVX2": {"avx2"}, "VNNI": {"avx2", "avx512_vnni"}, "AMX": {"avx2", "avx512_vnni", "amx_tile"}, "Arm": {"neon"}}


def make_source(*operators, form="onnx"):
    return Artifact(format=form, digest="", inputs=(), outputs=(), metadata={"operators": [*operators]})


def make_host(level):
    return replace(read_host(), flags=frozenset(FLAGS[level]))


def plant(folder, usual):
    text = f'toolchain: toy\nversions:\n  - version: "1"\n    adaptors:\n      toy.compile:\n        usual: {usual}\n'
    (folder / "capabilities.yml").write_text(text)
    return replace(toy.COMPILE, toolchain=replace(toy.COMPILE.toolchain, folder=folder))


@pytest.mark.parametrize("name", sorted(read_catalogue().adaptors))
def test_the_figures_of_every_adaptor_can_be_read(name):
    for levels in read_prior(read_catalogue().adaptors[name]).values():
        assert all(usual != Usual() for usual in levels.values())


def test_most_adaptors_of_the_default_toolchains_have_figures_of_convolutions():
    known = [one for one in read_catalogue().adaptors.values() if one.toolchain.name in {"onnxruntime", "openvino"}]
    lacking = {one.name for one in known if "convolution" not in read_prior(one)}
    tuned = {"onnxruntime.int8-tuned", "openvino.int8-tuned"}  # their duration depends on the network
    assert lacking == {"onnxruntime.fused", "onnxruntime.int8-fused", "openvino.int4-weights", *tuned}


@pytest.mark.parametrize(
    ("operators", "form", "kind"),
    [
        (["Conv2d", "BatchNorm2d", "Linear"], "pytorch-module", "convolution"),
        (["Conv", "Relu"], "onnx", "convolution"),
        (["Conv2d", "LayerNorm", "Linear"], "pytorch-module", "transformer"),
        (["LayerNormalization", "MatMul"], "onnx", "transformer"),
        (["Embedding", "LSTM"], "pytorch-module", "recurrent"),
        (["aten::_convolution", "aten::layer_norm", "aten::linear"], "torchscript", "transformer"),
        (["aten.conv2d.default", "aten.layer_norm.default"], "exported-program", "transformer"),
        (["aten::_convolution", "aten::batch_norm"], "torchscript", "convolution"),
        (["aten.convolution", "prims.convert_element_type"], "exported-program", "convolution"),
        (["aten.linear", "aten.relu", "prims.convert_element_type"], "exported-program", None),
        (["TreeEnsembleClassifier"], "onnx", None),
        ([], "transformers", "transformer"),
        (["Linear", "ReLU"], "pytorch-module", None),
        ([], "sklearn", None),
    ],
)
def test_the_kind_of_a_network_follows_from_its_operators(operators, form, kind):
    assert find_kind(make_source(*operators, form=form)) == kind


def test_operators_that_are_no_list_tell_nothing():
    """A worker wrote them."""
    assert find_kind(make_source().model_copy(update={"metadata": {"operators": 3}})) is None


@pytest.mark.parametrize("level", ["AVX2", "VNNI", "AMX"])
def test_the_level_is_the_last_that_a_machine_has(level):
    assert find_level(make_host(level)) == level
    assert find_level(make_host("Arm")) is None


def test_what_was_not_measured_at_a_level_is_that_of_the_next_one(tmp_path):
    adaptor = plant(tmp_path, "{convolution: {AVX2: {seconds: 2, speed: 0.5}, VNNI: {speed: 0.9, validation: 4}}}")
    compressor = replace(adaptor, stage=Stage.COMPRESS)
    found = {level: find_usual(compressor, make_source("Conv"), make_host(level)) for level in FLAGS}
    assert found["AVX2"] == Usual(seconds=2.0, validation=4.0, speed=0.5)
    assert found["VNNI"] == found["AMX"] == Usual(seconds=2.0, validation=4.0, speed=0.9)
    assert found["Arm"] == Usual()
    assert find_usual(adaptor, make_source("LSTM"), make_host("VNNI")) == Usual()


def test_the_speed_of_a_runtime_is_never_that_of_another_level(tmp_path):
    """It is over the fastest of its own level, which is another candidate at each."""
    adaptor = plant(tmp_path, "{convolution: {AVX2: {seconds: 2, speed: 0.5}, VNNI: {speed: 0.9, validation: 4}}}")
    found = {level: find_usual(adaptor, make_source("Conv"), make_host(level)) for level in FLAGS}
    assert found["AVX2"] == Usual(seconds=2.0, validation=4.0, speed=0.5)
    assert found["VNNI"] == Usual(seconds=2.0, validation=4.0, speed=0.9)
    assert found["AMX"] == Usual(seconds=2.0, validation=4.0)


@pytest.mark.parametrize(("level", "speed"), [("AVX2", 0.65), ("VNNI", None), ("AMX", None)])
def test_tvm_is_compared_with_others_only_where_it_was_measured(level, speed):
    usual = find_usual(read_catalogue().adaptors["tvm.cpu"], make_source("Conv"), make_host(level))
    assert usual == Usual(validation=2.2, speed=speed)


def test_without_a_file_nothing_is_known(tmp_path):
    adaptor = replace(toy.COMPILE, toolchain=replace(toy.COMPILE.toolchain, folder=tmp_path))
    assert read_prior(adaptor) == {}


@pytest.mark.parametrize(
    ("usual", "word"),
    [
        ("{convolutions: {AVX2: {speed: 1}}}", "convolutions"),
        ("{convolution: {AVX: {speed: 1}}}", "AVX"),
        ("{convolution: {AVX2: {sped: 1}}}", "sped"),
        ("{convolution: {AVX2: {speed: 0}}}", "speed"),
        ("{convolution: {AVX2: {seconds: -1}}}", "seconds"),
        ("{convolution: {AVX2: {seconds: .inf}}}", "seconds"),
        ("[convolution]", "dict"),
    ],
)
def test_figures_that_cannot_be_read_are_an_error_that_names_them(tmp_path, usual, word):
    with pytest.raises(HoneError, match=word) as caught:
        read_prior(plant(tmp_path, usual))
    assert caught.value.slug == "capabilities-invalid"
