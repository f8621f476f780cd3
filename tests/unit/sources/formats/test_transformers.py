from __future__ import annotations

import json
import struct

import numpy as np
import pytest
import yaml

from hone_runtime.errors import HoneError
from hone_runtime.values.digest import digest_tree
from kedro_hone.sources.detection import read_flavor
from kedro_hone.sources.formats.transformers import write
from kedro_hone.sources.huggingface import tasks, weights

CONFIG = {
    "architectures": ["BertForSequenceClassification"],
    "model_type": "bert",
    "vocab_size": 100,
    "dtype": "float32",
}
NOTHING: frozenset[str] = frozenset()


def write_weights(path, *, metadata=None, **tensors):
    """Write safetensors as its documentation says, in the order given."""
    rows, place = ({"__metadata__": metadata} if metadata else {}), 0
    for name, array in tensors.items():
        kind = {"f": "F32", "i": "I64"}[array.dtype.kind]
        rows[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [place, place + array.nbytes]}
        place += array.nbytes
    header = json.dumps(rows).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + b"".join(each.tobytes() for each in tensors.values()))


A, B = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones(4, dtype=np.float32)


@pytest.fixture
def pulled(tmp_path):
    """A folder as ``save_pretrained`` writes it."""
    folder = tmp_path / "pulled"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "tokenizer.json").write_text('{"version": "1.0"}')
    (folder / "tokenizer_config.json").write_text('{"model_max_length": 64, "pad_token": "[PAD]"}')
    write_weights(folder / "model.safetensors", metadata={"format": "pt"}, a=A, b=B)
    return folder


def seal(folder, target):
    flavor = read_flavor(folder, trust=NOTHING)
    write(flavor, folder, target)
    return digest_tree(target), flavor.metadata


def refuse(folder, slug, *, trust=NOTHING, task=None):
    with pytest.raises(HoneError) as caught:
        read_flavor(folder, trust=trust, task=task)
    assert caught.value.slug == slug, caught.value
    return str(caught.value)


def test_a_folder_is_recognised_with_what_it_is_for(pulled):
    flavor = read_flavor(pulled, trust=NOTHING)

    assert (flavor.source, flavor.format, flavor.interface) == ("transformers", "transformers", "transformers")
    said = flavor.metadata["transformers"]
    assert said["task"] == "text-classification"
    assert said["auto_class"] == "AutoModelForSequenceClassification"
    assert said["config"] == CONFIG
    assert "generation" not in said


def test_what_is_not_needed_stays_behind(pulled, tmp_path):
    (pulled / "onnx").mkdir()
    for name in (
        "README.md",
        ".gitattributes",
        "pytorch_model.bin",
        "tf_model.h5",
        "onnx/model.onnx",
        "training_args.bin",
    ):
        (pulled / name).write_text("x")

    write(read_flavor(pulled, trust=NOTHING), pulled, tmp_path / "files")

    kept = {path.name for path in (tmp_path / "files").iterdir()}
    assert kept == {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}


def test_the_modules_of_a_sentence_encoder_are_kept(pulled, tmp_path):
    (pulled / "1_Pooling").mkdir()
    for name in ("modules.json", "sentence_bert_config.json", "1_Pooling/config.json"):
        (pulled / name).write_text("{}")

    write(read_flavor(pulled, trust=NOTHING), pulled, tmp_path / "files")

    assert (tmp_path / "files" / "1_Pooling" / "config.json").is_file()
    assert (tmp_path / "files" / "modules.json").is_file()


def make_flavor(pulled, folder):
    """Write the same model as MLflow's flavor does: its parts in folders of their own."""
    (folder / "components" / "tokenizer").mkdir(parents=True)
    (folder / "model").mkdir()
    for name in ("config.json", "model.safetensors"):
        (folder / "model" / name).write_bytes((pulled / name).read_bytes())
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / "components" / "tokenizer" / name).write_bytes((pulled / name).read_bytes())
    entry = {"model_binary": "model", "components": ["tokenizer"], "task": "text-classification"}
    signature = {"inputs": '[{"type": "string", "required": true}]'}
    (folder / "MLmodel").write_text(yaml.safe_dump({"flavors": {"transformers": entry}, "signature": signature}))
    return folder


def test_the_same_model_is_the_same_wherever_it_is_from(pulled, tmp_path):
    flavor, hub = make_flavor(pulled, tmp_path / "flavor"), tmp_path / "hub"
    hub.mkdir()
    other = {"_name_or_path": "org/name", "transformers_version": "4.1", "torch_dtype": "float32", **CONFIG}
    (hub / "config.json").write_text(json.dumps(other, indent=3))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (hub / name).write_bytes((pulled / name).read_bytes())
    write_weights(hub / "model-1.safetensors", b=B, **{"embeddings.position_ids": np.arange(4)})
    write_weights(hub / "model-2.safetensors", a=A)
    index = {"metadata": {}, "weight_map": {"a": "model-2.safetensors", "b": "model-1.safetensors"}}
    (hub / "model.safetensors.index.json").write_text(json.dumps(index))
    (flavor / "components" / "tokenizer" / "tokenizer_config.json").write_text(
        '{"pad_token": "[PAD]", "model_max_length": 64, "is_local": true, "local_files_only": true}'
    )

    found = [seal(folder, tmp_path / f"files-{folder.name}") for folder in (pulled, flavor, hub)]

    assert found[0] == found[1] == found[2]


def test_other_weights_are_another_model(pulled, tmp_path):
    first = seal(pulled, tmp_path / "one")
    write_weights(pulled / "model.safetensors", a=A, b=B + 1)

    assert seal(pulled, tmp_path / "two")[0] != first[0]


def test_the_file_of_the_library_stays_as_it_is(pulled, tmp_path):
    safetensors = pytest.importorskip("safetensors.numpy")
    path = tmp_path / "library.safetensors"
    safetensors.save_file({"z": A, "y": np.arange(3), "x": B.astype(np.float16)}, path, metadata={"format": "pt"})

    weights.write_canonical([path], tmp_path / "ours.safetensors")

    assert (tmp_path / "ours.safetensors").samefile(path), "the disk holds it once"


@pytest.mark.parametrize(
    ("header", "says"),
    [
        (b"[]", "not a dictionary"),
        (b"{" * 4000, "not JSON"),
        (b'{"a": 1}', "something else than a type"),
        (b'{"a": {"dtype": "F32", "shape": [9], "data_offsets": [0, 8]}}', "does not fit its shape"),
        (b'{"a": {"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]}}', "cannot be"),
        (b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}', "a gap or an overlap"),
        (b'{"a": {"dtype": "X", "shape": [2], "data_offsets": [0, 8]}}', "cannot be"),
        (b'{"a": {"dtype": "F32", "shape": [true], "data_offsets": [0, 4]}}', "cannot be"),
        (b'{"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}', "its header describes"),
    ],
)  # fmt: skip
def test_a_hostile_header_is_an_error(pulled, header, says):
    (pulled / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(8))

    assert says in refuse(pulled, "model-corrupt")


@pytest.mark.parametrize("length", [0, 2**63, 10**9])
def test_a_header_of_any_length_is_not_read(pulled, length):
    (pulled / "model.safetensors").write_bytes(struct.pack("<Q", length) + b"{}")

    assert "its header cannot have" in refuse(pulled, "model-corrupt")


def test_no_weights(pulled):
    (pulled / "model.safetensors").unlink()

    assert "no weights" in refuse(pulled, "model-unsupported")


def test_a_part_of_the_weights_that_is_missing(pulled):
    (pulled / "model.safetensors").rename(pulled / "model-1.safetensors")
    index = {"weight_map": {"a": "model-1.safetensors", "b": "../model-2.safetensors"}}
    (pulled / "model.safetensors.index.json").write_text(json.dumps(index))

    assert "model-2.safetensors" in refuse(pulled, "model-corrupt")


def test_pickled_weights_need_trust(pulled):
    (pulled / "model.safetensors").rename(pulled / "pytorch_model.bin")

    assert "pytorch_model.bin" in refuse(pulled, "pickle-not-trusted")
    flavor = read_flavor(pulled, trust=frozenset({"pickle"}))
    assert ("pytorch_model.bin", "pytorch_model.bin") in flavor.files


def test_pickled_weights_are_taken_once(pulled):
    (pulled / "model.safetensors").unlink()
    for name in ("pytorch_model.bin", "pytorch_model.fp16.bin", "pytorch_model.bin.index.json"):
        (pulled / name).write_bytes(b"x")

    flavor = read_flavor(pulled, trust=frozenset({"pickle"}))
    assert {name for _, name in flavor.files if name.startswith("pytorch")} == {"pytorch_model.bin"}


def test_shards_of_pickled_weights_come_with_their_index(pulled):
    (pulled / "model.safetensors").unlink()
    shards = {"pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin", "pytorch_model.bin.index.json"}
    for name in {*shards, "pytorch_model.fp16-00001-of-00002.bin"}:
        (pulled / name).write_bytes(b"x")

    flavor = read_flavor(pulled, trust=frozenset({"pickle"}))
    assert {name for _, name in flavor.files if name.startswith("pytorch")} == shards


def test_code_of_its_own_needs_trust(pulled):
    (pulled / "config.json").write_text(json.dumps({**CONFIG, "auto_map": {"AutoModel": "net.Net"}}))
    (pulled / "net.py").write_text("raise RuntimeError('imported')")

    refuse(pulled, "remote-code-not-trusted")
    refuse(pulled, "remote-code-not-trusted", trust=frozenset({"pickle", "module"}))
    flavor = read_flavor(pulled, trust=frozenset({"remote-code"}))
    assert ("net.py", "net.py") in flavor.files


def test_code_next_to_a_known_class_is_left_behind(pulled):
    (pulled / "net.py").write_text("raise RuntimeError('imported')")

    assert "net.py" not in {name for _, name in read_flavor(pulled, trust=NOTHING).files}


@pytest.mark.parametrize(
    "config",
    [
        {"architectures": ["LayoutThing"], "model_type": "thing"},
        {"model_type": "bert"},
        {"architectures": ["WhisperForConditionalGeneration"], "model_type": "whisper"},
        {"architectures": ["CLIPModel"], "model_type": "clip"},
    ],
)
def test_an_unknown_architecture_is_refused_with_the_tasks_there_are(pulled, config):
    (pulled / "config.json").write_text(json.dumps(config))

    assert "fill-mask" in refuse(pulled, "model-unsupported") or config["model_type"] in {"whisper", "clip"}


def test_the_recipe_can_say_the_task(pulled):
    (pulled / "config.json").write_text(json.dumps({"model_type": "bert"}))

    flavor = read_flavor(pulled, trust=NOTHING, task="ner")

    assert flavor.metadata["transformers"]["auto_class"] == "AutoModelForTokenClassification"
    assert "Name one of text-classification" in refuse(pulled, "recipe-invalid", task="cooking")


def test_a_task_for_another_kind_of_model_is_an_error(tmp_path):
    (tmp_path / "model.onnx").write_bytes(b"x")

    assert "hone.model.task" in refuse(tmp_path, "recipe-invalid", task="ner")


def test_a_missing_tokenizer_is_said(pulled, caplog):
    (pulled / "tokenizer.json").unlink()
    (pulled / "tokenizer_config.json").unlink()

    read_flavor(pulled, trust=NOTHING)

    assert "no tokenizer" in caplog.text


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"model_type": NaN}', "[" * 9000, '{"model_type": "bert", "a": ' + "[" * 200 + "]" * 200 + "}"]
)
def test_a_configuration_that_cannot_be_read(pulled, text):
    (pulled / "config.json").write_text(text)

    refuse(pulled, "model-corrupt")


@pytest.mark.parametrize(
    ("name", "slug", "says"),
    [
        ("model_index.json", "model-unsupported", "Diffusers"),
    ],
)
def test_what_comes_later_is_named(tmp_path, name, slug, says):
    (tmp_path / name).write_text("{}")

    message = refuse(tmp_path, slug)

    assert says in message
    assert "later version" in message


def test_a_configuration_next_to_another_format_is_not_ours(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "model.onnx").write_bytes(b"x")

    assert read_flavor(tmp_path, trust=NOTHING).format == "onnx"


@pytest.mark.parametrize(
    ("architecture", "model_type", "task"),
    [
        ("GPT2LMHeadModel", "gpt2", "text-generation"),
        ("LlamaForCausalLM", "llama", "text-generation"),
        ("T5ForConditionalGeneration", "t5", "text2text-generation"),
        ("BertForMaskedLM", "bert", "fill-mask"),
        ("XLMWithLMHeadModel", "xlm", "fill-mask"),
        ("DistilBertForQuestionAnswering", "distilbert", "question-answering"),
        ("BertModel", "bert", "feature-extraction"),
        ("Wav2Vec2ForCTC", "wav2vec2", "automatic-speech-recognition"),
        ("Wav2Vec2ForSequenceClassification", "wav2vec2", "audio-classification"),
        ("ViTForImageClassification", "vit", "image-classification"),
    ],
)
def test_what_an_architecture_is_for(architecture, model_type, task):
    found = tasks.find_purpose({"architectures": [architecture], "model_type": model_type}, task=None)

    assert isinstance(found, tasks.Purpose)
    assert found.task == task


@pytest.mark.parametrize(
    ("config", "task", "slug", "why", "hint"),
    [
        ({"model_type": "whisper"}, None, "model-unsupported", "Its type whisper takes several", "torch.export"),
        ({"vision_config": {}}, None, "model-unsupported", "Its type of several parts", "torch.export"),
        ({"architectures": ["which_come_later"]}, None, "model-unsupported", "none of the tasks", "its body"),
        ({"model_type": "bert"}, None, "model-unsupported", "names no architecture", "text-classification, token-"),
        ({"model_type": "bert"}, "juggling", "recipe-invalid", "There is no task 'juggling', by", "one of text-cl"),
        ({"architectures": ["BertModel"]}, "fill-mask", "recipe-invalid", "BertModel is not for fill-mask", "leave it"),
    ],
)
def test_what_is_not_taken_says_why_and_what_to_do(config, task, slug, why, hint):
    found = tasks.find_purpose(config, task=task)

    assert isinstance(found, tasks.Untaken)
    assert found.slug == slug
    assert why in found.why
    assert hint in found.hint


@pytest.mark.parametrize(
    ("architecture", "task", "found"),
    [
        ("BeitForImageClassification", None, "image-classification"),
        ("BeitForImageClassification", "image-classification", "image-classification"),
        ("BeitModel", None, "image-feature-extraction"),
    ],
)
def test_a_vocabulary_of_patches_is_no_text(architecture, task, found):
    config = {"architectures": [architecture], "model_type": "beit", "num_channels": 3, "vocab_size": 8192}

    purpose = tasks.find_purpose(config, task=task)

    assert isinstance(purpose, tasks.Purpose)
    assert (purpose.task, purpose.kind) == (found, "image")


LORA = {"peft_type": "LORA", "base_model_name_or_path": "org/base"}


def refuse_adapter(folder):
    with pytest.raises(HoneError) as caught:
        read_flavor(folder, trust=NOTHING)
    error = caught.value
    assert (error.slug, error.what) == (
        "model-unsupported",
        "The model is an adapter of PEFT that is not merged into its base model.",
    )
    assert "model.merge_and_unload(), and then model.save_pretrained(folder)" in error.hint
    return error.why


def test_an_adapter_alone_is_refused_by_its_name(tmp_path):
    (tmp_path / "adapter_config.json").write_text(json.dumps(LORA))
    write_weights(tmp_path / "adapter_model.safetensors", lora_A=A)
    assert "('LORA') are added to those of 'org/base'" in refuse_adapter(tmp_path)


@pytest.mark.parametrize("name", ["adapter_config.json", "adapter_model.safetensors"])
def test_an_adapter_next_to_the_weights_of_its_base_is_refused(pulled, name):
    (pulled / name).write_text("{}")
    assert name in refuse_adapter(pulled)


@pytest.mark.parametrize("entry", [{"peft_adaptor": "peft"}, {"peft_adaptor": "peft", "model_binary": "model"}])
def test_an_adapter_that_mlflow_keeps_is_refused(tmp_path, pulled, entry):
    folder = tmp_path / "version"
    (folder / "peft").mkdir(parents=True)
    pulled.rename(folder / "model")
    (folder / "peft" / "adapter_config.json").write_text(json.dumps(LORA))
    flavor = {"task": "text-classification", "source_model_name": "org/base", **entry}
    (folder / "MLmodel").write_text(yaml.safe_dump({"flavors": {"transformers": flavor}}))
    assert "org/base" in refuse_adapter(folder)


def test_a_reference_without_weights_is_refused_with_what_downloads_them(tmp_path):
    flavor = {"task": "text-classification", "source_model_name": "org/base", "source_model_revision": "a" * 40}
    (tmp_path / "MLmodel").write_text(yaml.safe_dump({"flavors": {"transformers": flavor}}))
    said = refuse(tmp_path, "model-unsupported")
    assert "org/base" in said
    assert "persist_pretrained_model" in said


@pytest.mark.parametrize(
    ("config", "task"),
    [
        ({"architectures": ["BertForSequenceClassification"], "model_type": "bert"}, "fill-mask"),
        ({"architectures": ["BertModel"], "model_type": "bert"}, "text-classification"),
        ({"architectures": ["BertForTokenClassification"], "model_type": "bert"}, "image-classification"),
        ({"architectures": ["ViTModel"], "model_type": "vit", "num_channels": 3}, "image-classification"),
        ({"architectures": ["Wav2Vec2ForCTC"], "model_type": "wav2vec2"}, "audio-classification"),
        ({"architectures": ["BertForMultipleChoice"], "model_type": "bert"}, "automatic-speech-recognition"),
    ],
)
def test_a_task_that_an_architecture_is_not_for_is_refused(pulled, config, task):
    (pulled / "config.json").write_text(json.dumps(config))
    with pytest.raises(HoneError) as caught:
        read_flavor(pulled, trust=NOTHING, task=task)
    assert caught.value.slug == "recipe-invalid"
    assert config["architectures"][0] in caught.value.why
    for named in tasks.list_tasks(config):  # each that the hint names is taken
        assert named in caught.value.hint
        read_flavor(pulled, trust=NOTHING, task=named)


@pytest.mark.parametrize(
    ("config", "task", "auto"),
    [
        ({"architectures": ["BertForSequenceClassification"]}, "feature-extraction", "AutoModel"),
        ({"architectures": ["ViTForImageClassification"], "num_channels": 3}, "feature-extraction", "AutoModel"),
        ({"architectures": ["BertForPreTraining"]}, "fill-mask", "AutoModelForMaskedLM"),
        ({"architectures": ["GPT2DoubleHeadsModel"]}, "text-generation", "AutoModelForCausalLM"),
        ({"architectures": ["NetOfItsAuthor"]}, "text-classification", "AutoModelForSequenceClassification"),
    ],
)
def test_a_task_that_an_architecture_may_be_for_is_taken(pulled, config, task, auto):
    (pulled / "config.json").write_text(json.dumps({"model_type": "x", **config}))
    flavor = read_flavor(pulled, trust=NOTHING, task=task)
    assert flavor.metadata["transformers"]["auto_class"] == auto


@pytest.mark.parametrize("task", [None, "automatic-speech-recognition", "feature-extraction"])
def test_a_model_of_several_inputs_is_advised_no_task(pulled, task):
    config = {"architectures": ["WhisperForConditionalGeneration"], "model_type": "whisper"}
    (pulled / "config.json").write_text(json.dumps(config))
    said = refuse(pulled, "model-unsupported", task=task)
    assert "come later" in said
    assert "hone.model.task" not in said


def test_of_a_class_without_a_known_head_only_the_body_is_advised(pulled):
    (pulled / "config.json").write_text(json.dumps({"architectures": ["BertForMultipleChoice"], "model_type": "bert"}))
    assert "Add `hone.model.task: feature-extraction` if" in refuse(pulled, "model-unsupported")


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "by bitsandbytes."),
        ({"load_in_4bit": True}, "by bitsandbytes."),
        ({"quant_method": "gptq", "bits": 4}, "by GPTQ (4 bits)."),
        ({"quant_method": "awq", "bits": 4}, "by AWQ (4 bits)."),
        ({"quant_method": "compressed-tensors"}, "by compressed-tensors."),
        ({"quant_method": "of tomorrow"}, "by 'of tomorrow'."),
    ],
)
def test_a_quantized_checkpoint_is_named(pulled, more, says):
    (pulled / "config.json").write_text(json.dumps({**CONFIG, "quantization_config": more}))
    said = refuse(pulled, "model-unsupported")
    assert f"weights were quantized {says}" in said
    assert "fp32, fp16 or bf16" in said


@pytest.mark.parametrize(
    ("name", "method"),
    [("layer.qweight", "GPTQ or AWQ"), ("layer.SCB", "bitsandbytes"), ("layer.weight.absmax", "bitsandbytes")],
)
def test_quantized_weights_are_known_by_their_names(pulled, name, method):
    write_weights(pulled / "model.safetensors", **{name: A})
    assert method in refuse(pulled, "model-unsupported")


def test_a_file_of_an_older_tool_says_it(pulled):
    (pulled / "quantize_config.json").write_text("{}")
    assert "by GPTQ" in refuse(pulled, "model-unsupported")


def test_no_quantization_is_none(pulled):
    (pulled / "config.json").write_text(json.dumps({**CONFIG, "quantization_config": None}))
    assert read_flavor(pulled, trust=NOTHING).format == "transformers"


KINDS = ("Transformer", "Pooling", "Dense", "Normalize")


def add_modules(folder, kinds=KINDS, **configs):
    rows = []
    for place, kind in enumerate(kinds):
        path = f"{place}_{kind}" if place else ""
        rows.append({"idx": place, "name": str(place), "path": path, "type": f"sentence_transformers.models.{kind}"})
        if place:
            (folder / path).mkdir()
            (folder / path / "config.json").write_text(json.dumps(configs.get(kind, {})))
        if kind in {"Dense", "LayerNorm"}:
            write_weights(folder / path / "model.safetensors", **{"linear.weight": A})
    (folder / "modules.json").write_text(json.dumps(rows))


def test_a_dense_module_is_part_of_the_model(pulled, tmp_path):
    add_modules(pulled, Pooling={"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False})
    flavor = read_flavor(pulled, trust=NOTHING)
    said = flavor.metadata["transformers"]
    assert (said["task"], said["auto_class"]) == ("feature-extraction", "AutoModel")
    assert [row["kind"] for row in said["modules"]] == ["Pooling", "Dense", "Normalize"]
    assert said["modules"][0]["modes"] == ["cls"]
    write(flavor, pulled, tmp_path / "files")
    assert (tmp_path / "files" / "2_Dense" / "model.safetensors").is_file()


def test_without_weights_in_its_modules_the_encoder_is_the_model(pulled):
    add_modules(pulled, ("Transformer", "Pooling", "Normalize"))
    assert "modules" not in read_flavor(pulled, trust=NOTHING).metadata["transformers"]


def test_a_module_that_is_unknown_next_to_a_dense_one_is_refused(pulled):
    add_modules(pulled, ("Transformer", "Pooling", "CNN", "Dense"))
    said = refuse(pulled, "model-unsupported")
    assert "CNN" in said
    (pulled / "modules.json").unlink()  # the way out
    assert read_flavor(pulled, trust=NOTHING).format == "transformers"


def test_a_module_that_is_unknown_alone_is_said(pulled, caplog):
    add_modules(pulled, ("Transformer", "SpladePooling"))
    assert "modules" not in read_flavor(pulled, trust=NOTHING).metadata["transformers"]
    assert "SpladePooling: its encoder alone" in caplog.text


@pytest.mark.parametrize("kinds", [KINDS, ("Transformer", "Pooling", "Normalize"), ("Transformer", "Dropout")])
@pytest.mark.parametrize("at", [0, 1])
@pytest.mark.parametrize(
    "package", ["my_pool.", "custom_st.", "", "sentence_transformers_too.models.", "x.sentence_transformers."]
)
def test_a_class_of_the_authors_is_none_of_the_librarys(pulled, kinds, at, package):
    add_modules(pulled, kinds)
    rows = json.loads((pulled / "modules.json").read_text())
    rows[at]["type"] = f"{package}{kinds[at]}"
    (pulled / "modules.json").write_text(json.dumps(rows))
    said = refuse(pulled, "model-unsupported")
    assert rows[at]["type"] in said
    (pulled / "modules.json").unlink()  # the way out
    assert read_flavor(pulled, trust=NOTHING).format == "transformers"


@pytest.mark.parametrize("package", ["base.modules.dense", "sentence_transformer.modules.pooling", "models.Dense"])
def test_every_place_of_the_librarys_classes_is_known(pulled, package):
    add_modules(pulled)
    rows = json.loads((pulled / "modules.json").read_text())
    for row, kind in zip(rows, KINDS, strict=True):
        row["type"] = f"sentence_transformers.{package}.{kind}"
    (pulled / "modules.json").write_text(json.dumps(rows))
    assert len(read_flavor(pulled, trust=NOTHING).metadata["transformers"]["modules"]) == 3


@pytest.mark.parametrize("kinds", [("Transformer", "Dense"), ("Transformer", "LayerNorm", "Pooling")])
def test_weights_before_any_pooling_are_refused(pulled, kinds):
    add_modules(pulled, kinds)
    assert f"{kinds[1]} (1_{kinds[1]})" in refuse(pulled, "model-unsupported")


def test_a_dense_module_over_tokens_is_refused(pulled):
    add_modules(pulled, Dense={"module_input_name": "token_embeddings"})
    assert "'token_embeddings'" in refuse(pulled, "model-unsupported")


def test_a_pooling_without_the_default_prompt_is_refused(pulled):
    add_modules(pulled, Pooling={"pooling_mode": "mean", "include_prompt": False})
    prompts = {"prompts": {"query": "query: ", "none": ""}, "default_prompt_name": "none"}
    path = pulled / "config_sentence_transformers.json"
    for said in (prompts, {**prompts, "default_prompt_name": None}):
        path.write_text(json.dumps(said))
        assert len(read_flavor(pulled, trust=NOTHING).metadata["transformers"]["modules"]) == 3
    path.write_text(json.dumps({**prompts, "default_prompt_name": "query"}))
    assert "1_Pooling" in refuse(pulled, "model-unsupported")
    (pulled / "modules.json").unlink()  # the way out
    assert "modules" not in read_flavor(pulled, trust=NOTHING).metadata["transformers"]


def test_pickled_weights_of_a_module_are_refused(pulled):
    add_modules(pulled)
    (pulled / "2_Dense" / "model.safetensors").rename(pulled / "2_Dense" / "pytorch_model.bin")
    assert "2_Dense/pytorch_model.bin" in refuse(pulled, "pickle-not-trusted")


@pytest.mark.parametrize("path", ["../2_Dense", "/etc", "2_Dense/..", ""])
def test_a_module_elsewhere_is_refused(pulled, path):
    add_modules(pulled)
    rows = json.loads((pulled / "modules.json").read_text())
    rows[2]["path"] = path
    (pulled / "modules.json").write_text(json.dumps(rows))
    refuse(pulled, "model-corrupt")


@pytest.mark.parametrize("text", ["[" * 3000, "{", "7", '[{"type": ' + "[" * 900 + "]" * 900 + "}]", '[{"type": 7}]'])
def test_modules_that_cannot_be_read_end_in_no_other_error(pulled, text):
    (pulled / "modules.json").write_text(text)
    try:
        found = read_flavor(pulled, trust=NOTHING).metadata["transformers"]
    except HoneError as error:
        found = {error.slug}
    assert "modules" not in found
    assert "model_type" in found.get("config", ()) if isinstance(found, dict) else found == {"model-corrupt"}


def test_the_flavor_of_sentences_is_taken_as_its_folder_is(pulled, tmp_path):
    add_modules(pulled)
    wanted = seal(pulled, tmp_path / "one")
    folder = tmp_path / "version"
    folder.mkdir()
    pulled.rename(folder / "model.sentence_transformer")
    flavors = {
        "python_function": {"loader_module": "mlflow.sentence_transformers", "data": "model.sentence_transformer"},
        "sentence_transformers": {"source_model_name": "x/y", "pipeline_model_type": "BertModel"},
    }
    (folder / "MLmodel").write_text(yaml.safe_dump({"flavors": flavors}))
    assert seal(folder, tmp_path / "two") == wanted
