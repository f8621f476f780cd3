from __future__ import annotations

import pytest
from pydantic import model_validator

from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.contract.toolchain import RunOptions, Toolchain


class Streams(RunOptions):
    streams: int = 1
    threads: int = 4

    @model_validator(mode="after")
    def _fit(self) -> Streams:
        if self.streams > self.threads:
            raise ValueError("more streams than threads")
        return self


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"streams": 2}, None),
        (
            {"streams": 8},
            "the run option combination of tool is {'streams': 8}: Value error, more streams than threads",
        ),
        ({"streams": "2"}, "the run option streams of tool is '2': Input should be a valid integer"),
        ({"CACHE_DIR": "x"}, "tool takes no run option 'CACHE_DIR'"),
    ],
)
def test_a_bad_run_option_or_combination_of_them_is_named(tmp_path, options, says):
    assert Toolchain(name="tool", folder=tmp_path, run_options=Streams).find_bad_option(options) == says


def test_a_format_is_code_until_its_toolchain_names_it_data(tmp_path):
    tool = Toolchain(name="tool", folder=tmp_path, runs=frozenset({"a", "b", "c"}), data=frozenset({"a"}))
    assert tool.code == {"b", "c"}
    for odd in (
        {"native": {"d"}},
        {"native": {"a"}, "data": {"a"}},
        {"generated": {"a"}, "data": {"a"}},
    ):
        with pytest.raises(ValueError, match=r"does not run its native|both code and data"):
            Toolchain(name="tool", folder=tmp_path, runs=frozenset({"a"}), **odd)


def test_which_of_our_formats_are_data():
    """A format that is added is code: who names it data has seen that opening it runs nothing of its author's."""
    catalogue = read_catalogue()
    data = {(name, form) for name, one in catalogue.toolchains.items() for form in one.data}
    assert data == {
        ("composite", "composite"),
        ("deepsparse", "deepsparse-onnx"),
        ("executorch", "executorch"),
        ("litert", "tflite"),
        ("litert", "tflite-file"),
        ("onnxruntime", "onnx"),
        ("onnxruntime_gpu", "onnx"),
        ("openvino", "openvino-ir"),
        ("pytorch", "transformers"),
        ("sklearn", "sklearn"),
    }
    assert not catalogue.is_code("onnx", "onnxruntime")
    assert catalogue.is_code("onnx", "of-nobody")
    assert catalogue.is_code("onnx", None)


@pytest.mark.parametrize("name", ["runtime", "programs", "worker"])
def test_a_toolchain_does_not_take_the_place_of_a_package_of_ours(tmp_path, name):
    with pytest.raises(ValueError, match=f"hone_{name} is a package"):
        Toolchain(name=name, folder=tmp_path)
