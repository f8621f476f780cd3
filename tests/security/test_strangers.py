"""What strangers write of their models, read by a user or by ``kedro run`` itself: in bounded time and memory."""

from __future__ import annotations

import json
import os
import shutil
import time

import numpy as np
import pytest
from mlflow_store import make_winner, onnx_model

import kedro_hone
from hone_runtime.contract.host import Host
from hone_runtime.errors import HoneError
from hone_runtime.interfaces.tables import read_classes
from hone_runtime.learner.golden import make_golden
from hone_runtime.learner.manifest import write_manifest
from hone_runtime.values.artifact import Artifact
from kedro_hone.sources.huggingface.documents import read_document
from kedro_hone.sources.huggingface.weights import read_tensors

__all__ = ["make_winner", "onnx_model"]


@pytest.mark.attack(
    what="a configuration of a Transformers winner with billions of classes or layers, which transformers lists",
    who="registry",
    stopped_by="what a configuration counts up to is bounded before transformers reads it",
)
@pytest.mark.toolchain
@pytest.mark.parametrize(
    "values",
    [
        {"model_type": "bert", "num_labels": 10**12},
        {"model_type": "gemma2", "num_hidden_layers": 10**12},
        {"model_type": "gpt2", "n_layer": 10**12},
        {"model_type": "gpt_neo", "attention_types": [[["global"], 10**12]]},
        {"model_type": "encoder-decoder", "encoder": {"model_type": "bert", "num_labels": 1e12}},
    ],
)
def test_a_configuration_that_counts_without_end(values):
    pytest.importorskip("transformers")
    from hone_runtime.learner.pretrained import make_config

    with pytest.raises(HoneError, match="counts up to 1e\\+12") as caught:
        make_config(values)
    assert caught.value.slug == "model-corrupt"


@pytest.mark.attack(
    what="a configuration of a Transformers winner that names a repository, from which transformers downloads another",
    who="registry",
    stopped_by="such a name is taken for that of a backbone of timm, which transformers does not download",
)
@pytest.mark.toolchain
@pytest.mark.parametrize(
    "values",
    [
        {"model_type": "dpt", "backbone": "evil/beacon"},
        {"model_type": "detr", "use_timm_backbone": False},
        {"model_type": "encoder-decoder", "encoder": {"model_type": "upernet", "backbone": "evil/beacon"}},
    ],
)
def test_a_configuration_that_downloads_another(values, monkeypatch):
    pytest.importorskip("transformers")
    from transformers import backbone_utils

    from hone_runtime.learner.pretrained import make_config

    monkeypatch.setattr(backbone_utils, "hf_api", lambda: pytest.fail("the Hub was asked"))
    config = make_config({"decoder": {"model_type": "bert"}, **values})
    assert "timm_backbone" in str(config)


@pytest.mark.toolchain
def test_a_configuration_with_many_classes_is_read():
    pytest.importorskip("transformers")
    from hone_runtime.learner.pretrained import make_config

    config = make_config({"model_type": "bert", "num_labels": 1000, "layer_rope_theta": [1e7], "vocab_size": 250_002})
    assert (config.num_labels, config.vocab_size) == (1000, 250_002)


@pytest.mark.attack(
    what="a winner of an estimator whose classes have a type of gigabytes, or of a structure",
    who="registry",
    stopped_by="classes are numbers or text, of a bounded size",
)
@pytest.mark.parametrize("dtype", ["<U30000000", "(100000000,)f8", "V1000000000", {"names": ["a"], "formats": ["f8"]}])
def test_classes_of_gigabytes(dtype):
    said = {"sklearn": {"classes": ["a"] * 10, "classes_dtype": dtype}}
    with pytest.raises(ValueError, match=r"its classes have the type|would fill the memory"):
        read_classes(Artifact(format="onnx", digest="", inputs=(), outputs=(), metadata=said))


@pytest.fixture
def differing(tmp_path, make_winner):
    """Return a function that writes a winner which differs from its golden row, and names a source."""

    def write(source: str):
        winner = make_winner()
        place = tmp_path / "version"
        shutil.copytree(tmp_path / "sealed", place / "artifact")
        write_manifest(place / "artifact", winner)
        rows = {"x": np.ones((1, 4), np.float32)}
        host = Host(
            flags=frozenset(), cores=2, gpu=None, compilers=frozenset(), fingerprint="sha256:e", cpu="\x1b]0;HAL\x07"
        )
        wrong = {"y": np.full((1, 3), 1e6, np.float32)}
        golden = make_golden(rows, wrong, rows=1, largest_error=0.1, source=winner, host=host)
        (place / "evidence").mkdir()
        claim = {"source": {"uri": source, "digest": "sha256:0"}}
        (place / "evidence" / "evidence.json").write_text(json.dumps(claim))
        (place / "evidence" / "golden.json").write_text(golden.model_dump_json())
        return place

    return write


@pytest.mark.toolchain
@pytest.mark.attack(
    what="a winner whose source is said to be any folder of the user, to be copied whole where the winner differs",
    who="registry",
    stopped_by="a folder that holds no model is refused before it is read",
)
def test_a_source_that_is_no_model_is_not_copied(differing, tmp_path, monkeypatch):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "diary.txt").write_text("dear diary")
    place = differing(str(tmp_path / "home"))
    monkeypatch.setattr(shutil, "copytree", lambda *_, **__: pytest.fail("it was copied"))
    with pytest.raises(HoneError, match="contains no model that can be optimized") as caught:
        kedro_hone.load(place)
    assert caught.value.slug == "winner-differs"


@pytest.mark.toolchain
@pytest.mark.attack(
    what="a winner whose source is said to be a device, a pipe, a whole disk, or what a registry keeps elsewhere",
    who="registry",
    stopped_by="a source is of regular files, counted before they are read, and in a place of its registry's",
)
@pytest.mark.parametrize("uri", ["/dev/zero", "/dev/stdin", "/", "/proc", "pipe", "models:/evil/1", "file:///etc"])
def test_a_source_without_end_is_not_copied(differing, tmp_path, registry, uri):
    if uri.startswith("models:"):
        import mlflow

        client = mlflow.MlflowClient()
        client.create_registered_model("evil")
        client.create_model_version("evil", source="file:///etc")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(HoneError) as caught:
        kedro_hone.load(differing(uri))
    assert caught.value.slug == "winner-differs"
    assert "Its source cannot take its place" in caught.value.why


@pytest.mark.toolchain
@pytest.mark.attack(
    what="a winner whose source is a folder of the attacker's with a pickle or remote code",
    who="registry",
    stopped_by="a source that takes a winner's place is refused for what a winner is",
)
@pytest.mark.parametrize("what", ["auto_map", "pickle"])
def test_a_source_that_brings_code_does_not_take_a_winners_place(differing, tmp_path, what):
    source, trap = tmp_path / "source", tmp_path / "trap"
    source.mkdir()
    (source / "modeling_evil.py").write_text(f"open({str(trap)!r}, 'w').close()\n")
    config = {"model_type": "bert", "architectures": ["BertModel"], "auto_map": {"AutoModel": "modeling_evil.Evil"}}
    if what != "auto_map":
        (source / "model.pth").write_bytes(b"\x80\x04cposix\nsystem\n.")
    else:
        (source / "config.json").write_text(json.dumps(config))
        (source / "model.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0{}")
    with pytest.raises(HoneError) as caught:
        kedro_hone.load(differing(str(source)))
    assert caught.value.slug == "winner-differs"
    assert not trap.exists()


@pytest.mark.toolchain
@pytest.mark.attack(
    what="escape sequences in the name of a processor, for the warning of a winner that differs",
    who="registry",
    stopped_by="control characters are replaced",
)
def test_a_warning_holds_no_control_characters(differing):
    with pytest.warns(RuntimeWarning, match="HAL") as caught:
        kedro_hone.load(differing("nowhere"), on_mismatch="warn")
    assert "\x1b" not in str(caught[0].message)


BEGIN = "<!-- kedro-hone: begin -->"
MERGED = "".join(f"a{one}: &a{one}\n  <<: [{', '.join([f'*a{one - 1}'] * 10)}]\n" for one in range(1, 9))


@pytest.mark.attack(
    what="a model card, to which a winner's is added, whose metadata grow or whose comments never end",
    who="registry",
    stopped_by="metadata with aliases or endless numbers are not read, and comments are found in one pass",
)
@pytest.mark.parametrize(
    "known",
    [
        f"---\na0: &a0 {{x: 1}}\n{MERGED}---\nhi",
        f"---\nx: 1{':59' * 160_000}\n---\nhi",
        f"---\nx: {'[' * 2000}\n---\nhi",
        "---\ntags: [[1], {a: 2}, b]\n---\nhi",
        f"hi{BEGIN * 40_000}",
    ],
    ids=["merged", "base-60", "brackets", "tags", "comments"],
)
def test_a_card_of_a_stranger(known):
    pytest.importorskip("huggingface_hub")
    from kedro_hone.adaptors.registries.huggingface.card import _read, _remove_sections

    begun = time.process_time()
    card = _read(known)
    assert _remove_sections(card.text).strip().startswith("hi")
    assert len(card.data.to_yaml()) < 1000
    assert time.process_time() - begun < 5


@pytest.mark.attack(
    what="a server in the Hub's place that lists files outside the folder, or ids that are paths",
    who="registry",
    stopped_by="what git takes as no path and no id is refused",
)
@pytest.mark.parametrize(
    ("path", "ids"),
    [
        ("../evil", {}),
        ("a/../../evil", {}),
        ("/etc/evil", {}),
        ("a//evil", {}),
        ("evil", {"blob": "../../evil"}),
        ("evil", {"sha256": "../../evil"}),
    ],
)
def test_a_hub_that_lists_files_outside(path, ids):
    pytest.importorskip("huggingface_hub")
    from kedro_hone.adaptors.registries.huggingface.versions import Snapshot

    files = {path: {"blob": "0" * 40, "size": 1, **ids}}
    with pytest.raises(ValueError, match=r"is not a path in a repository|should match pattern"):
        Snapshot(name="a/b", sha="0" * 40, files=files)


@pytest.mark.attack(
    what="a config.json with half a character or a number without end, which nothing can write again",
    who="registry",
    stopped_by="what cannot be written is refused when it is read",
)
@pytest.mark.parametrize("text", ['{"a": "\\ud800"}', '{"\\ud800": 1}', '{"a": 1e999}'])
def test_a_document_that_cannot_be_written(tmp_path, text):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(HoneError, match="cannot be read") as caught:
        read_document(tmp_path / "config.json")
    assert caught.value.slug == "model-corrupt"


@pytest.mark.attack(
    what="a header of safetensors of 100 MB that is 3 GB in memory, or says that it has 10^15 bytes",
    who="registry",
    stopped_by="its length and its brackets are counted before it is parsed",
)
@pytest.mark.parametrize("header", [b'{"a":[' + b"[]," * 9000 + b"0]}", b'{"a":' + b"[" * 9000])
def test_a_header_that_fills_the_memory(tmp_path, header):
    path = tmp_path / "model.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(ValueError, match="its header is not JSON with tensors"):
        read_tensors(path)
    path.write_bytes((10**15).to_bytes(8, "little") + header)
    with pytest.raises(ValueError, match="its header cannot have 1000000000000000 bytes"):
        read_tensors(path)


def test_a_header_of_many_small_tensors_is_read(tmp_path):
    rows = {f"{one:x}": {"dtype": "U8", "shape": [], "data_offsets": [one, one + 1]} for one in range(9000)}
    header = json.dumps(rows, separators=(",", ":")).encode()
    (tmp_path / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(9000))
    assert len(read_tensors(tmp_path / "model.safetensors")) == 9000
