"""Models of Transformers, from a folder to candidates that return what the author's class returns."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from small_project import ROWS, Project, copy_project
from tiny_transformers import VOCABULARY, write_models
from transformers_flavor import CLASSES

from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.outcome import OUTCOME
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.nodes.prepare import check_limits
from kedro_hone.nodes.pull import pull
from kedro_hone.recipe.schema import read_recipe

pytestmark = [pytest.mark.toolchain, pytest.mark.slow]

LENGTH = 24
OFF = ("pytorch.compile", "pytorch.compile-exported", "pytorch.aoti", "pytorch.aoti-bf16", "pytorch.pt2e-int8")
COMPRESSORS = ("onnxruntime.int8-dynamic", "onnxruntime.int8-static", "onnxruntime.int4-weights")
NNCF = ("openvino.int8-ptq", "openvino.int8-accuracy-control", "openvino.int8-weights", "openvino.int4-weights")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Path:
    return write_models(tmp_path_factory.mktemp("tiny"), "classifier")


def write_rows(project: Project, **rows: int) -> None:
    """Write splits of tokens, each row with its own number of them; the rest of it is masked."""
    for path in project.splits.glob("*.npz"):
        path.unlink()
    draw = np.random.default_rng(3)
    for name, count in (ROWS | rows).items():
        mask = (np.arange(LENGTH) < draw.integers(3, LENGTH + 1, size=(count, 1))).astype(np.int64)
        tokens = draw.integers(5, VOCABULARY, size=(count, LENGTH)) * mask
        types = (np.arange(LENGTH) >= draw.integers(1, LENGTH, size=(count, 1))).astype(np.int64) * mask
        np.savez(project.splits / f"{name}.npz", input_ids=tokens, attention_mask=mask, token_type_ids=types)
    project.track(tag="v2")


def make_project(template: Path, folder: Path, model: Path, **sections: Any) -> Project:
    """Return a project whose source is a folder of Transformers, and whose data are tokens."""
    project = copy_project(template, folder)
    write_rows(project)
    catalog = project.root / "conf" / "base" / "catalog.yml"
    catalog.write_text(catalog.read_text().replace("rev: v1}", "rev: v2}"))
    project.set(
        model={"uri": str(model)},
        toolchains=["pytorch", "onnxruntime", "openvino"],
        adaptors={name: {"enabled": False} for name in (*OFF, *COMPRESSORS, *NNCF, "openvino.bf16")},
        shapes={"short": {"batch": 1, "length": 8}, "long": {"batch": 8, "length": LENGTH}},
        **sections,
    )
    return project


@pytest.mark.nightly
def test_a_folder_becomes_candidates_that_agree_with_the_authors_class(template, tiny, tmp_path):
    project = make_project(template, tmp_path, tiny / "classifier", program={"options": {"compare": "l2"}})

    done = project.run("--to-nodes", "race.race")

    outcomes = {name: OUTCOME.validate_python(one) for name, one in project.read_outcomes().items()}
    built = {name: one for name, one in outcomes.items() if isinstance(one, Artifact) and one.runtime}
    assert {"onnxruntime", "openvino", "pytorch"} <= {one.runtime for one in built.values()}, done.output
    assert all(one.metadata["transformers"]["class"] == "BertForSequenceClassification" for one in built.values())


def write_copies(tiny: Path, folder: Path, kind: str) -> None:
    """Write a model as MLflow does, and as a repository of the Hub in small parts with a card."""
    script = Path(__file__).parents[1] / "transformers_flavor.py"
    quiet = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "TORCHAO_FORCE_SKIP_LOADING_SO_FILES": "1"}
    places = map(str, (tiny, folder / "flavor", folder / "hub"))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(script), *places, kind],
        env={**os.environ, **quiet},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    for path in (tiny / kind).iterdir():
        if not path.name.startswith(("model", "config")):
            shutil.copy(path, folder / "hub" / kind)
    (folder / "hub" / kind / "README.md").write_text("---\nlicense: mit\n---\n")


def pull_from(folder: Path, place: Path, **model: Any) -> Artifact:
    recipe = read_recipe({"model": {"uri": str(place), **model}, "threads": 1})
    run = RunFolder(root=folder / "runs", run_id=f"run-{len([*folder.glob('runs/*')])}", project=folder)
    return pull(recipe, Store(folder / "store"), run)[1]


@pytest.mark.nightly
@pytest.mark.parametrize("kind", CLASSES)
def test_the_same_model_from_three_places_is_one_artifact(tiny, tmp_path, monkeypatch, kind):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    write_models(tiny, kind)
    copies = tmp_path / "copies"
    write_copies(tiny, copies, kind)
    index = json.loads((copies / "hub" / kind / "model.safetensors.index.json").read_text())
    assert len({*index["weight_map"].values()}) > 1

    found = [pull_from(tmp_path, folder / kind) for folder in (tiny, copies / "flavor", copies / "hub")]

    assert len({one.digest for one in found}) == 1


def test_a_head_that_was_never_trained_is_refused(tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))

    with pytest.raises(HoneError) as caught:
        pull_from(tmp_path, drop_weights(tiny / "classifier", tmp_path / "untrained", "classifier."))

    assert caught.value.slug == "model-unsupported"
    assert "trained for another task than text-classification" in caught.value.why


def test_a_task_of_another_architecture_is_refused(tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))

    with pytest.raises(HoneError, match="The model is not for the task 'fill-mask'") as caught:
        pull_from(tmp_path, tiny / "classifier", task="fill-mask")

    assert caught.value.slug == "recipe-invalid"


def drop_weights(folder: Path, place: Path, part: str, **config: Any) -> Path:
    """Copy a model without the weights of a part, which transformers would fill with random numbers."""
    shutil.copytree(folder, place)
    tensors = load_file(place / "model.safetensors")
    kept = {name: tensor for name, tensor in tensors.items() if part not in name}
    assert len(kept) == len(tensors) - 2
    save_file(kept, place / "model.safetensors", metadata={"format": "pt"})
    changed = json.loads((place / "config.json").read_text()) | config
    (place / "config.json").write_text(json.dumps(changed))
    return place


@pytest.mark.nightly
def test_an_encoder_without_its_poolers_weights_has_no_pooled_output(tiny, tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    write_models(tiny, "encoder")

    source = pull_from(tmp_path, drop_weights(tiny / "encoder", tmp_path / "model", "pooler."))

    assert [spec.name for spec in source.outputs] == ["last_hidden_state"]
    assert "pooler.dense.weight" in caplog.text


def test_a_classifier_without_its_poolers_weights_is_refused(tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))

    with pytest.raises(HoneError) as caught:
        pull_from(tmp_path, drop_weights(tiny / "classifier", tmp_path / "model", "pooler."))

    assert caught.value.slug == "model-unsupported"
    assert "bert.pooler.dense.weight" in caught.value.why


@pytest.mark.nightly
def test_a_pooler_that_its_class_cannot_do_without_is_refused_by_name(tiny, tmp_path, monkeypatch):
    """``add_pooling_layer=False`` is no argument of every class."""
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    write_models(tiny, "squeeze")

    with pytest.raises(HoneError) as caught:
        pull_from(tmp_path, drop_weights(tiny / "squeeze", tmp_path / "model", "pooler."))

    assert caught.value.slug == "model-unsupported"
    assert "pooler.dense.bias" in caught.value.why


def test_a_class_that_is_not_installed_is_refused(tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    folder = Path(shutil.copytree(tiny / "classifier", tmp_path / "model"))
    config = json.loads((folder / "config.json").read_text())
    changed = {"model_type": "quagga", "architectures": ["QuaggaForSequenceClassification"]}
    (folder / "config.json").write_text(json.dumps(config | changed))

    with pytest.raises(HoneError) as caught:
        pull_from(tmp_path, folder)

    assert caught.value.slug == "model-unsupported"
    assert "quagga" in caught.value.why


def test_more_tokens_than_positions_are_an_error_before_anything_is_built(tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    source = pull_from(tmp_path, tiny / "classifier")
    assert source.metadata["transformers"]["limits"] == {"length": 64}
    keys = {"model": {"uri": "models:/text/1"}}
    long = read_recipe({**keys, "shapes": {"long": {"batch": 1, "length": 65}}})
    for split in ("calibration", "search", "gate"):
        (tmp_path / split).mkdir()
        rows = np.ones((2, 64 if split != "gate" else 80), np.int64)
        np.savez(tmp_path / split / "feeds.npz", **{spec.name: rows for spec in source.inputs})

    with pytest.raises(HoneError) as caught:
        check_limits(source, long, tmp_path)
    assert caught.value.slug == "recipe-invalid"
    assert "length = 65" in caught.value.what

    with pytest.raises(HoneError) as caught:
        check_limits(source, read_recipe(keys), tmp_path)
    assert caught.value.slug == "data-unreadable"
    assert "gate have length = 80" in caught.value.what
