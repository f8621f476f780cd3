"""A winner of a format that is data brings no code: not by its metadata, its configuration, or a file among its own.

Each attack is a real model of Transformers, or an estimator, with something that would write a file.
"""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

import pytest

import kedro_hone
from hone_runtime.contract.catalogue import forget_registrations, register
from hone_runtime.contract.toolchain import Toolchain
from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import Artifact, TensorSpec
from hone_runtime.values.manifest import MANIFEST, Manifest

pytestmark = [pytest.mark.toolchain]

CONFIG = {
    "model_type": "bert",
    "architectures": ["BertModel"],
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "intermediate_size": 8,
    "vocab_size": 16,
    "max_position_embeddings": 16,
}
NOTE = {"auto_class": "AutoModel", "task": "feature-extraction", "class": "BertModel"}
SPECS = {
    "inputs": (TensorSpec(name="input_ids", dtype="int64", shape=("batch", "length")),),
    "outputs": (TensorSpec(name="last_hidden_state", dtype="float32", shape=("batch", "length", 8)),),
}


class Evil:
    """What runs a command when it is unpickled."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


@pytest.fixture
def trap(tmp_path) -> Path:
    return tmp_path / "trap"


@pytest.fixture
def make_winner(tmp_path, trap):
    """Return a function that makes an unsigned winner of the format transformers with all that an attack adds."""
    import torch
    from safetensors.torch import save_file
    from transformers import BertConfig, BertModel

    def make(*, config=None, note=None, files=None, weights=True) -> Path:
        folder = tmp_path / "winner" / "artifact"
        folder.mkdir(parents=True)
        if weights:
            torch.manual_seed(0)
            state = BertModel(BertConfig(**CONFIG)).state_dict()
            save_file({k: v.contiguous() for k, v in state.items()}, folder / "model.safetensors", {"format": "pt"})
        (folder / "config.json").write_text(json.dumps({**CONFIG, **(config or {})}))
        for name, content in (files or {}).items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(content)
        seal(folder, "transformers", "pytorch", {"transformers": {**NOTE, **(note or {})}})
        return folder.parent

    return make


def seal(folder: Path, form: str, runtime: str, metadata: dict, specs=None) -> None:
    noted = {"interface": "onnx", "threads": 1, **metadata}
    artifact = Artifact(format=form, digest="", runtime=runtime, metadata=noted, **(specs or SPECS))
    (folder / MANIFEST).unlink(missing_ok=True)
    Manifest.measure(folder, artifact.manifest()).write(folder / MANIFEST)


def make_module(trap: Path) -> bytes:
    return f"open({str(trap)!r}, 'w').close()\nfrom transformers import BertModel\n".encode()


def make_pickle(trap: Path, *, protocol: int = 4) -> bytes:
    return pickle.dumps(Evil(f"touch {trap}"), protocol=protocol)


def load(place: Path) -> str:
    """Return what a load without trust and signature is refused with."""
    with pytest.raises(HoneError) as caught:
        kedro_hone.load(place)
    return caught.value.slug


AUTO_MAP = {"auto_map": {"AutoModel": "modeling_evil.BertModel"}}


@pytest.mark.attack(
    what="an argument of from_pretrained in the metadata of a Transformers winner, such as trust_remote_code",
    who="registry",
    stopped_by="notes have a closed schema, and the worker gives no argument that a model names",
)
@pytest.mark.parametrize(
    "arguments",
    [
        {"trust_remote_code": True},
        {"use_safetensors": False, "weights_only": False},
        {"attn_implementation": "evil/kernel"},
        {"local_files_only": False, "adapter_kwargs": {"peft_model_id": "evil/adapter"}},
    ],
    ids=str,
)
def test_arguments_in_the_metadata(make_winner, trap, arguments):
    files = {"modeling_evil.py": make_module(trap), "pytorch_model.bin": make_pickle(trap)}
    assert load(make_winner(config=AUTO_MAP, note={"kwargs": arguments}, files=files)) == "model-corrupt"
    assert not trap.exists()


def test_arguments_in_the_metadata_alone(make_winner):
    """Also where nothing else is wrong: what nobody knows is not opened."""
    assert load(make_winner(note={"kwargs": {}})) == "model-corrupt"


@pytest.mark.attack(
    what="another function of transformers, such as pipeline, as the automatic class of a winner",
    who="registry",
    stopped_by="the automatic classes are a list",
)
@pytest.mark.parametrize("name", ["pipeline", "AutoTokenizer", "utils", "AutoModel.register", "__class__"])
def test_another_automatic_class(make_winner, name):
    assert load(make_winner(note={"auto_class": name})) == "model-corrupt"


@pytest.mark.attack(
    what="code in the configuration or among the files of a Transformers winner that nobody signed",
    who="registry",
    stopped_by="the host reads the configuration and the names before a worker is imported",
)
@pytest.mark.parametrize(
    ("config", "names", "slug"),
    [
        (AUTO_MAP, ["modeling_evil.py"], "remote-code-not-trusted"),
        (AUTO_MAP, [], "remote-code-not-trusted"),
        ({"text_config": {"nested": [AUTO_MAP]}}, [], "remote-code-not-trusted"),
        ({"_attn_implementation": "evil/kernel:run"}, [], "remote-code-not-trusted"),
        ({"attn_implementation": {"": "evil/kernel"}}, [], "remote-code-not-trusted"),
        ({"quantization_config": {"quant_method": "evil"}}, [], "remote-code-not-trusted"),
        ({"backbone": "evil/model"}, [], "remote-code-not-trusted"),
        ({"architecture": "hf-hub:evil/model"}, [], "remote-code-not-trusted"),
        ({"backbone": "resnet50", "use_pretrained_backbone": True}, [], "remote-code-not-trusted"),
        ({}, ["modeling_evil.py"], "remote-code-not-trusted"),
        ({}, ["code/evil.so"], "remote-code-not-trusted"),
        ({}, ["adapter_config.json"], "model-corrupt"),
        ({}, ["model.gguf"], "model-corrupt"),
    ],
    ids=str,
)
def test_code_in_a_model_of_transformers(make_winner, trap, config, names, slug):
    assert load(make_winner(config=config, files=dict.fromkeys(names, make_module(trap)))) == slug
    assert not trap.exists()


@pytest.mark.attack(
    what="arguments in a winner's configuration by which timm, which transformers calls, would read another file",
    who="registry",
    stopped_by="such arguments are numbers, and words that choose a layer, by a list of their names",
)
@pytest.mark.parametrize(
    "arguments",
    [
        {"checkpoint_path": "weights"},
        {"pretrained_cfg_overlay": {"file": 1}},
        {"pretrained": True},
        {"cache_dir": "x"},
        {"weights": "evil"},
        {"act_layer": "evil.module/Layer"},
        {"block": {"more": [{"path": "evil"}]}},
        {"": "evil"},
        "checkpoint_path=evil",
    ],
    ids=str,
)
@pytest.mark.parametrize("key", ["model_args", "backbone_kwargs"])
def test_arguments_of_timm(make_winner, key, arguments):
    config = {"encoder": {"model_type": "timm_wrapper", "architecture": "resnet18", key: arguments}}
    assert load(make_winner(config=config)) == "remote-code-not-trusted"


@pytest.mark.parametrize(
    "arguments",
    [None, {}, {"depth": 3, "img_size": [224, 224]}, {"global_pool": "avg", "act_layer": "silu", "x": None}],
)
def test_arguments_of_timm_that_say_sizes_and_layers(make_winner, arguments):
    place = make_winner(config={"encoder": {"model_type": "timm_wrapper", "model_args": arguments}})
    assert kedro_hone.load(place).artifact.format == "transformers"


@pytest.mark.attack(
    what="auto_map in the configuration of a tokenizer that is among the files of a winner",
    who="registry",
    stopped_by="every configuration is read, at any depth",
)
def test_code_of_a_tokenizer(make_winner):
    tokenizer = json.dumps({"auto_map": {"AutoTokenizer": ["evil.Tokenizer", None]}}).encode()
    assert load(make_winner(files={"tokenizer_config.json": tokenizer})) == "remote-code-not-trusted"


@pytest.mark.attack(
    what="a pickle next to, or in the place of, the weights of a Transformers winner",
    who="registry",
    stopped_by="the files of such a winner are a list, and what begins as a pickle is one by any name",
)
@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.safetensors", "added_tokens.json", "weights.pkl"])
@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_a_pickle_in_a_model_of_transformers(make_winner, trap, name, protocol):
    place = make_winner(files={name: make_pickle(trap, protocol=protocol)})
    assert load(place) == "pickle-not-trusted"
    assert not trap.exists()


def test_an_archive_of_torch_in_a_model_of_transformers(make_winner, trap, tmp_path):
    import torch

    torch.save({"x": Evil(f"touch {trap}")}, tmp_path / "saved")
    place = make_winner(files={"model.safetensors": (tmp_path / "saved").read_bytes()}, weights=False)
    assert load(place) == "pickle-not-trusted"
    assert not trap.exists()


@pytest.mark.attack(
    what="an estimator that is a pickle, or of a class that is none, as a winner",
    who="registry",
    stopped_by="the host reads how it was written before a worker is imported",
)
@pytest.mark.parametrize(
    ("reference", "slug"),
    [
        ({"serialization": "pickle"}, "pickle-not-trusted"),
        ({"serialization": "cloudpickle"}, "pickle-not-trusted"),
        ({}, "pickle-not-trusted"),
        ({"serialization": "xgboost", "class": "xgboost.os.system"}, "model-corrupt"),
    ],
    ids=str,
)
def test_a_pickled_estimator(tmp_path, trap, reference, slug):
    folder = tmp_path / "winner" / "artifact"
    folder.mkdir(parents=True)
    said = {"class": "sklearn.svm.SVC", "file": "model.dat", "version": "1.9", **reference}
    (folder / "estimator.json").write_text(json.dumps(said))
    (folder / "model.dat").write_bytes(b"no model" if slug == "model-corrupt" else make_pickle(trap, protocol=0))
    seal(folder, "sklearn", "sklearn", {})
    assert load(folder.parent) == slug
    assert not trap.exists()


@pytest.mark.attack(
    what="a class of the author's with its state, or a format that no toolchain names data, as a winner",
    who="registry",
    stopped_by="a format is code until its toolchain names it data",
)
@pytest.mark.parametrize(("form", "runtime"), [("pytorch-module", "pytorch"), ("mine", "own")])
def test_a_format_that_nobody_names_data(tmp_path, trap, form, runtime):
    (tmp_path / "own" / "worker").mkdir(parents=True)
    (tmp_path / "own" / "worker" / "__init__.py").write_text(f"open({str(trap)!r}, 'w').close()\n")
    register(Toolchain(name="own", folder=tmp_path / "own", runs=frozenset({"mine"})))
    try:
        folder = tmp_path / "winner" / "artifact"
        folder.mkdir(parents=True)
        (folder / "net.py").write_bytes(make_module(trap))
        said = {"class": "net:BertModel", "file": "net.py", "kwargs": {}, "state": "model.safetensors"}
        (folder / "module.json").write_text(json.dumps(said))
        seal(folder, form, runtime, {})
        assert load(folder.parent) == "native-not-trusted"
    finally:
        forget_registrations()
    assert not trap.exists()


def test_what_is_data_is_loaded(make_winner):
    """The checks refuse no model as a run seals it."""
    tokenizer = json.dumps({"tokenizer_class": "BertTokenizer", "model_max_length": 16}).encode()
    place = make_winner(config={"dtype": "float32"}, files={"tokenizer_config.json": tokenizer})
    assert kedro_hone.load(place).artifact.format == "transformers"
