"""What of TensorRT needs no GPU: profiles from a recipe's shapes, the index, and the refusal elsewhere."""

from __future__ import annotations

import dataclasses

import pytest
from hone_tensorrt import profiles

from hone_runtime.contract.host import Host
from kedro_hone.adaptors.onnxruntime_gpu import adaptor as onnxruntime_gpu
from kedro_hone.adaptors.tensorrt import adaptor as tensorrt
from kedro_hone.adaptors.torch_tensorrt import adaptor as torch_tensorrt

IDS = {"name": "ids", "dtype": "int64", "shape": ["batch", "length"]}
IMAGE = {"name": "image", "dtype": "float32", "shape": ["batch", 3, 8, 8]}
LOGITS = {"name": "logits", "dtype": "float32", "shape": ["batch", 10]}
PLAIN = Host(flags=frozenset(), cores=2, gpu=None, compilers=frozenset(), fingerprint="sha256:0")


def shape(name: str, **sizes: int) -> dict[str, object]:
    return {"name": name, "sizes": sizes}


@pytest.mark.parametrize(
    "adaptor",
    [*tensorrt.ADAPTORS, *torch_tensorrt.ADAPTORS, *onnxruntime_gpu.ADAPTORS],
    ids=lambda adaptor: adaptor.name,
)
def test_a_machine_without_a_gpu_is_refused(adaptor):
    assert adaptor.find_missing(PLAIN) == "needs a GPU, and this machine has none"
    assert adaptor.find_missing(dataclasses.replace(PLAIN, gpu="NVIDIA T4", driver="580.65")) is None
    assert not adaptor.toolchain.default


def test_each_shape_has_a_profile_of_all_inputs():
    shapes = [shape("one", batch=1, length=16), shape("many", batch=64, length=128)]
    assert profiles.find_profiles([IDS, IMAGE], shapes) == [
        ((1, 16), (1, 3, 8, 8)),
        ((64, 128), (64, 3, 8, 8)),
    ]


def test_shapes_of_the_same_sizes_share_a_profile():
    shapes = [shape("short", batch=4, length=16), shape("long", batch=4, length=64)]
    assert profiles.find_profiles([IMAGE], shapes) == [((4, 3, 8, 8),)]


def test_a_model_of_fixed_shapes_has_one_profile():
    assert profiles.find_profiles([{**IMAGE, "shape": [2, 3]}], [shape("any")]) == [((2, 3),)]


@pytest.mark.parametrize("sizes", [{"batch": 1}, {"batch": 1, "length": 0}, {"batch": 1, "length": "8"}])
def test_a_dimension_without_a_size_is_named(sizes):
    with pytest.raises(ValueError, match="'one' gives the dimension 'length' of 'ids' no size"):
        profiles.find_profiles([IDS], [{"name": "one", "sizes": sizes}])


def test_no_shapes_are_no_engine():
    with pytest.raises(ValueError, match="no shapes"):
        profiles.find_profiles([IDS], [])


def test_the_index_is_read_as_it_was_written(tmp_path):
    found = profiles.find_profiles([IMAGE], [shape("one", batch=1), shape("many", batch=64)])
    profiles.write_index(tmp_path, {"inputs": [IMAGE], "outputs": [LOGITS]}, found)
    assert profiles.read_index(tmp_path) == {"inputs": [IMAGE], "outputs": [LOGITS], "profiles": found}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"inputs": [{"name": "x"}], "outputs": [], "profiles": []}'])
def test_a_damaged_index_is_refused(tmp_path, text):
    (tmp_path / profiles.INDEX).write_text(text)
    with pytest.raises(ValueError, match=r"index\.json cannot be read"):
        profiles.read_index(tmp_path)


@pytest.mark.parametrize("found", [[], [((1, 3, 8, 8), (1, 10))]])
def test_profiles_that_do_not_fit_the_inputs_are_refused(tmp_path, found):
    profiles.write_index(tmp_path, {"inputs": [IMAGE], "outputs": [LOGITS]}, found)
    with pytest.raises(ValueError, match="do not fit its inputs"):
        profiles.read_index(tmp_path)
