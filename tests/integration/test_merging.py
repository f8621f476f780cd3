"""An adapter of LoRA and its base model, from their places to one artifact."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from safetensors.numpy import load_file, save_file
from tiny_transformers import write_models

from hone_runtime.errors import HoneError
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.nodes.pull import pull
from kedro_hone.recipe.schema import read_recipe

pytestmark = [pytest.mark.toolchain, pytest.mark.slow, pytest.mark.nightly]

QUERY = "bert.encoder.layer.0.attention.self.query"
CONFIG = {"peft_type": "LORA", "task_type": "SEQ_CLS", "base_model_name_or_path": "org/base", "r": 2, "lora_alpha": 4}


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    return write_models(tmp_path_factory.mktemp("tiny"), "classifier") / "classifier"


@pytest.fixture
def adapter(tmp_path, base) -> Path:
    """A folder with an adapter only, as ``save_pretrained`` of PEFT writes it."""
    folder = tmp_path / "adapter"
    folder.mkdir()
    (folder / "adapter_config.json").write_text(json.dumps(CONFIG))
    weights = load_file(base / "model.safetensors")
    first, second = weights[f"{QUERY}.weight"][:2], weights[f"{QUERY}.weight"][:, :2]
    names = {f"base_model.model.{QUERY}.lora_{part}.weight": value for part, value in (("A", first), ("B", second))}
    save_file({name: value.copy() for name, value in names.items()}, folder / "adapter_model.safetensors")
    return folder


@pytest.fixture
def take(tmp_path, monkeypatch):
    """Return a function that pulls a model, and returns the artifact and the folder of its files."""
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))

    def take(place: Path, **model: Any):
        recipe = read_recipe({"model": {"uri": str(place), **model}, "threads": 1})
        run = RunFolder(root=tmp_path / "runs", run_id=f"run-{len([*tmp_path.glob('runs/*')])}", project=tmp_path)
        store = Store(tmp_path / "store")
        version, artifact = pull(recipe, store, run)
        take.base = version.base
        return artifact, store.locate(artifact)

    return take


def catch(call) -> HoneError:
    with pytest.raises(HoneError) as caught:
        call()
    return caught.value


def test_a_folder_with_an_adapter_only_is_merged_into_the_base_model(take, adapter, base):
    artifact, files = take(adapter, base=str(base))
    assert take.base == str(base)  # its registry pins nothing: it is a path
    about = artifact.metadata["transformers"]
    assert (about["class"], about["task"]) == ("BertForSequenceClassification", "text-classification")
    weights, merged = load_file(base / "model.safetensors"), load_file(files / "model.safetensors")
    old = weights[f"{QUERY}.weight"]
    wanted = old + 2 * old[:, :2] @ old[:2]
    assert abs(merged[f"{QUERY}.weight"] - wanted).max() < 1e-5
    assert {name for name in weights if (weights[name] != merged[name]).any()} == {f"{QUERY}.weight"}
    assert (files / "tokenizer.json").is_file()


def test_what_mlflow_logs_of_peft_is_merged(take, adapter, base, tmp_path):
    folder = tmp_path / "version"
    (folder / "components" / "tokenizer").mkdir(parents=True)
    shutil.copytree(adapter, folder / "peft")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(base / name, folder / "components" / "tokenizer")
    flavor = {"task": "text-classification", "source_model_name": "org/base", "peft_adaptor": "peft"}
    (folder / "MLmodel").write_text(yaml.safe_dump({"flavors": {"transformers": flavor}}))
    assert "hone.model.base" in catch(lambda: take(folder)).hint
    assert take(folder, base=str(base))[0].digest == take(adapter, base=str(base))[0].digest


def test_another_base_model_is_refused(take, adapter, tmp_path):
    other = write_models(tmp_path / "other", "distilbert") / "distilbert"
    error = catch(lambda: take(adapter, base=str(other)))
    assert (error.slug, QUERY in error.why) == ("model-unsupported", True)
    assert "model.merge_and_unload()" in error.hint


def test_a_base_model_of_what_is_no_adapter_is_an_error(take, base):
    error = catch(lambda: take(base, base=str(base)))
    assert (error.slug, "not an adapter" in error.what) == ("recipe-invalid", True)


def test_an_adapter_in_a_pickle_is_not_opened(take, adapter, base):
    (adapter / "adapter_model.safetensors").rename(adapter / "adapter_model.bin")
    assert catch(lambda: take(adapter, base=str(base))).slug == "pickle-not-trusted"
