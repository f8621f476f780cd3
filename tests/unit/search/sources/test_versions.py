from __future__ import annotations

import json

import pytest
import yaml

from hone_runtime.contract.registry import UNASKED, VersionInfo
from hone_runtime.errors import HoneError
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.recipe.capabilities import MOST_OPERATORS
from kedro_hone.recipe.schema import read_recipe
from kedro_hone.search.comparison.quantization import rounds
from kedro_hone.search.sources.sealed_files import _read_description
from kedro_hone.search.sources.versions import fetch


class Holds:
    """A registry with one version, which holds no model that anything can read."""

    def __init__(self, *files, **tags):
        self.files, self.tags = files, tags

    def pull(self, uri, folder):
        for name in self.files:
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text("{}")
        return VersionInfo(uri=uri, name="digits", version="1", tags=self.tags)


def fail(registry, folder):
    recipe = read_recipe({"model": {"uri": "models:/digits/1"}})
    run = RunFolder(root=folder / "runs", run_id="one", project=folder)
    with pytest.raises(HoneError) as caught:
        fetch("models:/digits/1", registry, recipe, Store(folder / "store"), run)
    return caught.value.slug


@pytest.mark.parametrize(
    "registry", [Holds("evidence/evidence.json"), Holds("x", **{"hone.source": "models:/digits/0"})]
)
def test_an_event_optimizes_no_winner_again_and_a_person_may(registry, tmp_path, monkeypatch):
    assert fail(registry, tmp_path) != "model-optimized"
    monkeypatch.setenv(UNASKED, "1")
    assert fail(registry, tmp_path) == "model-optimized"
    assert fail(Holds("x"), tmp_path) != "model-optimized"


class Links:
    """A registry with an adapter of LoRA, as MLflow or PEFT keeps it, one of whose files is a link."""

    def __init__(self, link, target):
        self.link, self.target = link, target

    def pull(self, uri, folder):
        adapter = folder / "peft"
        (folder / "components" / "tokenizer").mkdir(parents=True)
        adapter.mkdir()
        (adapter / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA"}))
        (adapter / "adapter_model.safetensors").write_bytes(b"\2\0\0\0\0\0\0\0{}")
        flavors = {"transformers": {"peft_adaptor": "peft"}}
        (folder / "MLmodel").write_text(yaml.safe_dump({"flavors": flavors}))
        (folder / self.link).unlink(missing_ok=True)
        (folder / self.link).symlink_to(self.target)
        return VersionInfo(uri=uri, name="ada", version="1")


@pytest.mark.attack(
    what="a link to a file of the host in an adapter, which is merged into its base model and published",
    who="registry",
    stopped_by="links must stay in the folder, before anything in it is read",
)
@pytest.mark.parametrize(
    "link",
    [
        "peft/vocab.txt",
        "peft/adapter_config.json",
        "peft/adapter_model.safetensors",
        "components/tokenizer/tokenizer.json",
        "components/other",
        "vocab.txt",
    ],
)
def test_a_link_in_an_adapter_is_not_followed(link, tmp_path):
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    (secrets / "vocab.txt").write_text("secret")
    target = secrets if link == "components/other" else secrets / "vocab.txt"
    recipe = read_recipe({"model": {"uri": "models:/ada/1", "base": str(tmp_path / "absent")}})
    run = RunFolder(root=tmp_path / "runs", run_id="one", project=tmp_path)
    with pytest.raises(HoneError) as caught:
        fetch("models:/ada/1", Links(link, target), recipe, Store(tmp_path / "store"), run)
    assert (caught.value.slug, link in caught.value.what) == ("model-external-data", True)


LONG = "torch.ao.quantization.fake_quantize.FusedMovingAvgObsFakeQuantize"


@pytest.mark.parametrize("quantizing", ["quantized::linear_dynamic", "QuantizeLinear", "Round", "aten::round", LONG])
def test_what_quantizes_is_not_cut_from_a_long_list_of_operators(quantizing):
    """It decides whether a conversion must agree in each row."""
    listed = [*(f"aten::kind_{number:02}" for number in range(80)), quantizing]

    _, noted = _read_description({"operators": listed}, "models:/digits/1")

    assert quantizing in noted["operators"]
    assert len(noted["operators"]) == MOST_OPERATORS


def test_a_long_name_of_an_operator_is_cut_only_where_nothing_depends_on_it():
    """One that is not known may not become so by being cut."""
    odd = f"torch.ao.nn.quantized.{'A' * 38}"
    assert len(LONG) > 60

    _, noted = _read_description({"operators": [LONG, f"{odd}.modules.Other"]}, "models:/digits/1")

    assert noted["operators"] == [LONG, f"{odd[:59]}…"]
    assert [rounds(name) for name in noted["operators"]] == [True, False]
