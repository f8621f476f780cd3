"""Which files of a repository are pulled."""

from __future__ import annotations

import pytest

from kedro_hone.adaptors.registries.huggingface.files import choose_files, list_sources
from kedro_hone.adaptors.registries.huggingface.references import find_problem, read_target, read_uri

TEXTS = ["config.json", "tokenizer.json"]
INDEX = "model.safetensors.index.json"
SHARDS = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
BINS = ["pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin", "pytorch_model.bin.index.json"]


@pytest.mark.parametrize(
    ("there", "weights"),
    [
        (["model.safetensors", "pytorch_model.bin"], ["model.safetensors"]),
        ([INDEX, *SHARDS, *BINS], [*SHARDS, INDEX]),
        (["model.safetensors", INDEX, *SHARDS], ["model.safetensors"]),
        (["model.safetensors", "model.fp16.safetensors"], ["model.safetensors"]),
        (BINS, BINS),
        (["pytorch_model.bin", "training_args.bin", "optimizer.bin"], ["pytorch_model.bin"]),
        (["adapter_model.safetensors"], ["adapter_model.safetensors"]),
        (["tf_model.h5", "flax_model.msgpack", "rust_model.ot", "model.gguf"], []),
        (["tf_model.h5", "model.onnx", "model.onnx_data", "onnx/model.onnx"], ["model.onnx", "model.onnx_data"]),
        (["model.safetensors", "model.onnx"], ["model.safetensors"]),
        (["consolidated.00.pth", "original/model.safetensors", "model.safetensors"], ["model.safetensors"]),
        (
            ["onnx/model.onnx", "openvino/openvino_model.xml", "coreml/model.mlmodel", "model.safetensors"],
            ["model.safetensors"],
        ),
    ],
)
def test_one_kind_of_weights(there, weights):
    assert choose_files([*TEXTS, *there]) == tuple(sorted([*TEXTS, *weights]))


def test_modules_of_sentence_transformers_have_weights_of_their_own():
    there = ["modules.json", "1_Pooling/config.json", "2_Dense/config.json", "2_Dense/model.safetensors"]
    assert choose_files([*TEXTS, *there, "2_Dense/pytorch_model.bin"]) == tuple(sorted([*TEXTS, *there]))


def test_cards_and_pictures_are_left_out():
    noise = ["README.md", ".gitattributes", "LICENSE", "logo.png"]
    assert choose_files([*TEXTS, *noise]) == tuple(TEXTS)
    assert choose_files(["model.onnx", "model.onnx.data", *noise]) == ("model.onnx", "model.onnx.data")


def test_of_a_pipeline_of_diffusers_only_its_index_is_pulled():
    there = ["model_index.json", "unet/config.json", "unet/diffusion_pytorch_model.safetensors", "v1-5.ckpt"]
    assert choose_files(there) == ("model_index.json",)


def test_a_folder_of_mlflows_is_pulled_whole():
    there = ["MLmodel", "config.json", "data/model.pt2", "pytorch_model.bin"]
    assert choose_files([*there, "README.md"]) == tuple(sorted(there))


def test_what_is_ours_is_no_source():
    ours = ["MLmodel", "hone.json", "artifact/model.onnx", "evidence/evidence.json", "requirements.txt"]
    assert list_sources([*TEXTS, *ours]) == tuple(TEXTS)
    assert list_sources(["MLmodel", "requirements.txt"]) == ("MLmodel", "requirements.txt")


@pytest.mark.parametrize(
    ("uri", "name", "revision"),
    [
        ("hf://org/name", "org/name", "main"),
        ("hf://org/name@v1.0", "org/name", "v1.0"),
        ("hf://org/name@refs/pr/3", "org/name", "refs/pr/3"),
        ("hf:/org/name@feature/fast", "org/name", "feature/fast"),
    ],
)
def test_uris(uri, name, revision):
    assert read_uri(uri)[:2] == (name, revision)


def test_targets():
    assert read_target("org/name") == ("org/name", "main", True)
    assert read_target("org/name@fast") == ("org/name", "fast", True)
    assert find_problem(name="org/name@fast", alias="v1") == ""
