"""The Hub as a registry: the real client against a Hub on the loopback device."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hub_client import CONFIG, hub
from huggingface_hub import ModelCard, constants
from proof import TAGS

import kedro_hone
from hone_runtime.contract.aliases import PULL, approve, read_aliases
from hone_runtime.contract.registries import find_registry
from hone_runtime.contract.tags import KEY, SOURCE
from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import TensorSpec
from hone_runtime.values.manifest import Manifest

__all__ = ["hub"]
ALONE = """
import sys
class Refuse:
    def find_spec(self, name, *_):
        if name.split(".")[0] in {"mlflow", "kedro", "torch", "transformers", "sqlalchemy", "alembic", "platformdirs"}:
            raise ImportError(f"{name} is not installed here")
sys.meta_path.insert(0, Refuse())
"""
NEEDED = ["config.json", "model.safetensors", "tokenizer.json", "vocab.txt"]


def catch(call) -> HoneError:
    with pytest.raises(HoneError) as caught:
        call()
    return caught.value


def list_files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def registry(hub):
    return find_registry("hf://org/model")


@pytest.fixture
def proven(make_winner, prove):
    return prove(make_winner())


def publish(registry, winner, **arguments):
    wanted = {"name": "org/model", "tags": TAGS, "alias": "honed", "metrics": {"accuracy": 0.75}}
    return registry.publish(winner, **wanted | arguments)


def test_resolve_is_one_request_and_pins_the_commit(hub, registry):
    head = hub.repositories["org/model"].head
    info = registry.resolve("hf://org/model@main")
    assert (info.uri, info.name, info.version) == (f"hf://org/model@{head}", "org/model", head)
    assert not info.is_optimized
    assert hub.count("/api/models/") == 1
    assert not hub.count("/resolve/")
    assert registry.resolve(info.uri) == info
    assert registry.resolve("hf://org/model") == info


@pytest.mark.parametrize("revision", ["v1", "dev", "refs/pr/1", "short"])
def test_a_revision_may_be_a_tag_a_branch_a_request_or_the_beginning_of_a_commit(hub, registry, revision):
    repository = hub.repositories["org/model"]
    first = repository.head
    repository.refs |= {"refs/tags/v1": first, "refs/heads/dev": first, "refs/pr/1": first}
    repository.commit({"config.json": b"{}"})
    asked = first[:9] if revision == "short" else revision
    assert registry.resolve(f"hf://org/model@{asked}").version == first


def test_only_what_the_format_needs_is_pulled(hub, registry, tmp_path):
    hub.repositories["org/model"].commit(
        {
            "pytorch_model.bin": b"x" * 2000,
            "tf_model.h5": b"x",
            "flax_model.msgpack": b"x",
            "onnx/model.onnx": b"x",
            "openvino/openvino_model.bin": b"x",
            "training_args.bin": b"x",
            "modules.json": b"[]",
            "1_Pooling/config.json": b"{}",
        }
    )
    registry.pull("hf://org/model", tmp_path / "pulled")
    assert list_files(tmp_path / "pulled") == ["1_Pooling/config.json", *sorted([*NEEDED, "modules.json"])]
    assert not hub.count("pytorch_model|h5|msgpack|onnx|openvino|training")


def test_the_disk_holds_a_file_once(hub, registry, tmp_path):
    registry.pull("hf://org/model", tmp_path / "pulled")
    weights = tmp_path / "pulled" / "model.safetensors"
    blob = (Path(constants.HF_HUB_CACHE) / "models--org--model" / "blobs").glob("*")
    assert weights.stat().st_ino in {path.stat().st_ino for path in blob}
    assert not weights.is_symlink()


def test_a_second_pull_downloads_nothing(hub, registry, tmp_path):
    registry.pull("hf://org/model", tmp_path / "one")
    hub.requests.clear()
    registry.pull("hf://org/model", tmp_path / "two")
    assert hub.requests[0] == "GET /api/models/org/model/revision/main?blobs=true"
    assert not hub.count("/resolve/|/tree/")


def test_offline_the_cache_is_enough(hub, registry, tmp_path, monkeypatch):
    info = registry.pull("hf://org/model", tmp_path / "one")
    hub.requests.clear()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert registry.pull("hf://org/model", tmp_path / "two") == info
    assert registry.resolve(info.uri) == info
    assert list_files(tmp_path / "two") == NEEDED
    assert not hub.requests
    assert catch(lambda: registry.resolve("hf://org/model@dev")).slug == "registry-offline"
    assert read_aliases(registry, "org/model") == {}


def test_a_winner_is_one_commit_next_to_the_authors_files(hub, registry, make_winner, prove, tmp_path):
    repository = hub.repositories["org/model"]
    source = repository.head
    done = publish(registry, prove(make_winner()))
    assert done.uri == f"hf://org/model@{repository.head}"
    assert (done.alias, done.note) == ("honed", "")
    assert repository.commits[repository.head].parent == source
    assert {"artifact/model.onnx", "evidence/evidence.json", "MLmodel", "hone.json"} <= repository.files.keys()
    assert repository.files["model.safetensors"] == repository.commits[source].files["model.safetensors"]
    info = registry.resolve("hf://org/model@honed")
    assert (info.uri, info.aliases) == (done.uri, ("honed",))
    assert info.is_optimized
    assert info.tags[SOURCE] == TAGS[SOURCE]
    assert info.tags["hone.metric.accuracy"] == "0.75"
    registry.pull("hf://org/model@honed", tmp_path / "pulled")
    assert "model.safetensors" not in list_files(tmp_path / "pulled")
    assert "artifact/model.onnx" in list_files(tmp_path / "pulled")


def test_the_learner_loads_it(hub, registry, make_winner, prove):
    from mlflow_store import WEIGHTS

    publish(registry, prove(make_winner()))
    learner = kedro_hone.load("hf://org/model@honed", interface="onnx")
    rows = np.ones((2, 4), np.float32)
    np.testing.assert_allclose(learner(rows), rows @ WEIGHTS)


def test_the_same_publication_twice_is_one_commit(hub, registry, make_winner, prove):
    repository, winner = hub.repositories["org/model"], make_winner()
    first = publish(registry, prove(winner))
    count = len(repository.commits)
    assert publish(registry, prove(winner)) == first
    second = publish(registry, prove(winner, "2"))
    assert second.version != first.version
    assert registry.resolve("hf://org/model@honed").version == second.version
    assert publish(registry, prove(winner)) == first
    assert len(repository.commits) == count + 1
    assert registry.resolve("hf://org/model@honed").version == first.version


def test_a_repository_that_does_not_exist_is_made_private(hub, registry, make_winner, prove):
    publish(registry, prove(make_winner()), name="org/fresh")
    assert hub.repositories["org/fresh"].private
    assert registry.resolve("hf://org/fresh@honed").is_optimized


def made_from(winner, uri, /, **sections):
    """Return a winner that was made from another version, with more in its evidence."""
    place = winner.folder / "evidence.json"
    claim = json.loads(place.read_text())
    claim["source"]["uri"] = uri
    for name, value in sections.items():
        claim[name] |= value
    place.write_text(json.dumps(claim))
    evidence = winner.evidence.read(winner.evidence.run_id, winner.folder, decision="sha256:d")
    return replace(winner, source_uri=uri, evidence=evidence)


def test_a_model_that_was_changed_meanwhile_is_not_pushed_to(hub, registry, make_winner, prove):
    repository = hub.repositories["org/model"]
    winner = made_from(prove(make_winner()), registry.resolve("hf://org/model").uri)
    repository.commit({"model.safetensors": b"other" * 1000})
    before = repository.head
    error = catch(lambda: publish(registry, winner))
    assert error.slug == "registry-moved"
    assert catch(lambda: registry.propose(winner, name="org/model", tags=TAGS, alias=None)).slug == "registry-moved"
    assert repository.head == before
    assert not hub.count("/commit/")
    assert "refs/tags/honed" not in repository.refs


def test_a_push_in_the_last_moment_is_refused_by_the_hub(hub, registry, make_winner, prove):
    from hub_server import Fault

    repository = hub.repositories["org/model"]
    winner = made_from(prove(make_winner()), registry.resolve("hf://org/model").uri)
    hub.faults.append(Fault("POST .*/commit/", call=lambda: repository.commit({"config.json": b"{}"}), times=1))
    assert catch(lambda: publish(registry, winner)).slug == "registry-moved"
    assert "hone.json" not in repository.files


def test_a_card_that_was_edited_meanwhile_is_kept_and_no_reason_to_refuse(hub, registry, make_winner, prove):
    repository = hub.repositories["org/model"]
    winner = made_from(prove(make_winner()), registry.resolve("hf://org/model").uri)
    repository.commit({"README.md": b"---\nlicense: mit\n---\n# Edited\n"})
    publish(registry, winner)
    assert b"# Edited" in repository.files["README.md"].read()


def test_a_commit_of_the_author_after_a_winner_is_a_source_again(hub, registry, make_winner, prove, tmp_path):
    repository = hub.repositories["org/model"]
    publish(registry, prove(make_winner()))
    repository.commit({"model.safetensors": b"better" * 1000})
    info = registry.pull("hf://org/model", tmp_path / "pulled")
    assert not info.is_optimized
    assert list_files(tmp_path / "pulled") == NEEDED
    assert registry.resolve("hf://org/model@honed").is_optimized


def test_a_branch_that_ends_in_a_winner_means_its_source_where_it_is_optimized(hub, registry, make_winner, prove):
    source = registry.resolve("hf://org/model").uri
    winner = made_from(prove(make_winner()), source)
    assert registry.find_source("hf://org/model") == "hf://org/model"
    done = publish(registry, winner, tags=TAGS | {SOURCE: source})
    assert registry.find_source("hf://org/model") == registry.find_source("hf://org/model@main") == source
    for named in ("hf://org/model@honed", done.uri):
        assert registry.find_source(named) == named
    hub.repositories["org/model"].commit({"model.safetensors": b"better" * 1000})
    assert registry.find_source("hf://org/model") == "hf://org/model"


def test_a_pull_request_moves_no_alias_until_it_is_merged(hub, registry, make_winner, prove):
    repository, winner = hub.repositories["org/model"], make_winner()
    head = repository.head
    done = registry.propose(prove(winner), name="org/model", tags=TAGS, alias="honed")
    assert repository.head == head
    assert done.version == repository.refs["refs/pr/1"]
    assert done.alias is None
    assert f"{hub.url}/org/model/discussions/1" in done.note
    assert registry.propose(prove(winner), name="org/model", tags=TAGS, alias="honed") == done
    assert len(repository.pulls) == 1
    assert registry.resolve("hf://org/model@refs/pr/1").is_optimized
    assert kedro_hone.load("hf://org/model@refs/pr/1", interface="onnx")
    repository.pulls[0].status = "merged"
    repository.refs["refs/heads/main"] = done.version
    again = registry.propose(prove(winner), name="org/model", tags=TAGS, alias="honed")
    assert (again.version, again.alias, again.note) == (done.version, "honed", "")
    assert len(repository.pulls) == 1


def test_an_alias_is_moved_when_a_person_says_so(hub, registry, make_winner, prove):
    repository, tags = hub.repositories["org/model"], TAGS | {"hone.awaits": "honed"}
    repository.refs["refs/tags/honed"] = repository.head
    done = publish(registry, prove(make_winner()), tags=tags, alias=None)
    assert repository.refs["refs/tags/honed"] != done.version
    assert approve(registry, done.uri).alias == "honed"
    assert repository.refs["refs/tags/honed"] == done.version


def test_an_alias_that_others_moved_stays(hub, registry, make_winner, prove):
    repository = hub.repositories["org/model"]
    source, winner = repository.head, make_winner()
    repository.refs["refs/tags/honed"] = source
    done = publish(registry, prove(winner), before={})
    assert done.alias is None
    assert "was moved in the meantime" in done.note
    assert repository.refs["refs/tags/honed"] == source
    assert publish(registry, prove(winner, "2"), before={"honed": source}).alias == "honed"


def test_publications_of_one_pull_move_the_alias_on(hub, registry, make_winner, prove):
    winner, tags = make_winner(), TAGS | {PULL: "run-1"}
    publish(registry, prove(winner), tags=tags, before={})
    assert publish(registry, prove(winner, "2"), tags=tags, before={}).alias == "honed"


def test_files_of_an_earlier_winner_go(hub, registry, make_winner, prove, tmp_path):
    publish(registry, prove(make_winner()))
    repository = hub.repositories["org/model"]
    old = dict(repository.files)
    said = json.loads(old["hone.json"].read())
    said["files"] += ["artifact/old.bin"]
    repository.commit({"hone.json": json.dumps(said).encode(), "artifact/old.bin": b"old"})
    publish(registry, prove(make_winner(), "2"))
    assert "artifact/old.bin" not in repository.files


def test_files_of_the_authors_own_are_not_replaced(hub, registry, make_winner, prove):
    hub.repositories["org/model"].commit({"requirements.txt": b"torch"})
    error = catch(lambda: publish(registry, prove(make_winner())))
    assert error.slug == "recipe-invalid"
    assert "requirements.txt" in error.what


def test_the_card(hub, registry, make_winner, prove):
    winner = made_from(prove(make_winner()), registry.resolve("hf://org/model").uri)
    publish(registry, winner, name="org/fresh")
    card = ModelCard(hub.repositories["org/fresh"].files["README.md"].read().decode())
    assert card.data.base_model == "org/model"
    assert "kedro-hone" in card.data.tags
    assert 'kedro_hone.load("hf://org/fresh")' in card.text


def test_the_authors_card_stays_and_ours_is_there_once(hub, registry, make_winner, prove):
    for run in "12":
        publish(registry, prove(make_winner(), run))
    text = hub.repositories["org/model"].files["README.md"].read().decode()
    assert "# The author's card" in text
    assert text.count("kedro-hone: begin") == 1
    assert ModelCard(text).data.license == "mit"
    assert ModelCard(text).data.base_model is None


def run(code: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a process without MLflow, Kedro and the other packages that only the line needs."""
    environment = os.environ | {"PYTHONPATH": str(Path(kedro_hone.__file__).parents[1])}
    return subprocess.run(
        [sys.executable, "-c", ALONE + code], env=environment, capture_output=True, text=True, check=False, timeout=300
    )


def test_the_cards_usage_runs(hub, registry, make_winner, prove):
    publish(registry, prove(make_winner()), name="org/fresh")
    text = hub.repositories["org/fresh"].files["README.md"].read().decode()
    code = text.partition("```python\n")[2].partition("```")[0]
    done = run(code + 'print(outputs["y"].shape)')
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "(1, 3)"


def test_a_strangers_name_of_an_input_is_no_code_in_the_card(hub, registry, make_winner, prove, tmp_path):
    name = 'x": 0})\nimport os\n```\n<!-- kedro-hone: end -->#'
    spec = TensorSpec(name=name, dtype="float32", shape=("batch", 4))
    strange = make_winner().model_copy(update={"inputs": (spec,)})
    digest = Manifest.measure(tmp_path / "sealed", strange.manifest()).digest
    publish(registry, prove(strange.model_copy(update={"digest": digest})), name="org/fresh")
    text = hub.repositories["org/fresh"].files["README.md"].read().decode()
    code = text.partition("```python\n")[2].partition("\n```")[0]
    call = ast.parse(code).body[-1].value
    assert [key.value for key in call.args[0].keys] == [name]
    assert text.count("<!-- kedro-hone: end -->") == 1


@pytest.mark.parametrize(
    ("route", "relation"), [("onnxruntime.dynamic-int8", "quantized"), ("onnxruntime.graph", None)]
)
def test_the_card_says_quantized_where_it_is(hub, registry, proven, route, relation):
    winner = made_from(proven, registry.resolve("hf://org/model").uri, winner={"route": [route]})
    publish(registry, winner, name="org/fresh")
    card = ModelCard(hub.repositories["org/fresh"].files["README.md"].read().decode())
    assert card.data.to_dict().get("base_model_relation") == relation


def test_the_card_says_finetune_where_the_network_was_trained(hub, registry, make_winner, prove, tmp_path):
    made = make_winner()
    made = made.model_copy(update={"metadata": {**made.metadata, "trained": {"compress.prune-channels": {}}}})
    made = made.model_copy(update={"digest": Manifest.measure(tmp_path / "sealed", made.manifest()).digest})
    source = registry.resolve("hf://org/model").uri
    publish(registry, made_from(prove(made), source, winner={"route": ["compress.prune-channels"]}), name="org/fresh")
    card = ModelCard(hub.repositories["org/fresh"].files["README.md"].read().decode())
    assert card.data.to_dict()["base_model_relation"] == "finetune"


def test_a_tokenizer_goes_with_the_winner(hub, registry, make_winner, prove, tmp_path):
    source = tmp_path / "source"
    registry.pull("hf://org/model", source)
    winner = replace(made_from(prove(make_winner()), registry.resolve("hf://org/model").uri), companions=source)
    publish(registry, winner, name="org/fresh")
    files = hub.repositories["org/fresh"].files
    assert {"config.json", "tokenizer.json", "vocab.txt"} <= files.keys()
    assert "model.safetensors" not in files
    assert json.loads(files["hone.json"].read())["added"] == ["config.json", "tokenizer.json", "vocab.txt"]
    registry.pull("hf://org/fresh@honed", tmp_path / "pulled")
    assert (tmp_path / "pulled" / "tokenizer.json").read_bytes() == (source / "tokenizer.json").read_bytes()
    assert registry.resolve("hf://org/fresh").is_optimized
    # In the author's own repository they are the author's.
    publish(registry, winner)
    assert json.loads(hub.repositories["org/model"].files["hone.json"].read())["added"] == []
    hub.repositories["org/model"].commit({"tokenizer.json": b"{}"})
    assert not registry.resolve("hf://org/model").is_optimized


def test_the_authors_files_stay_as_they_are_next_to_a_winner(hub, registry, make_winner, prove, tmp_path):
    source = tmp_path / "source"
    registry.pull("hf://org/model", source)
    (source / "config.json").unlink()
    (source / "config.json").write_text('{"as": "it was sealed"}')
    winner = replace(made_from(prove(make_winner()), registry.resolve("hf://org/model").uri), companions=source)
    publish(registry, winner)
    assert hub.repositories["org/model"].files["config.json"].read() == CONFIG
    assert registry.resolve("hf://org/model").is_optimized
    assert kedro_hone.load("hf://org/model@honed")


def test_a_file_that_a_winner_brought_is_no_change_of_the_authors(hub, registry, make_winner, prove, tmp_path):
    source, uri = tmp_path / "source", registry.resolve("hf://org/model").uri
    registry.pull(uri, source)
    (source / "preprocessor_config.json").write_text("{}")
    for run in "12":
        publish(registry, replace(made_from(prove(make_winner(), run), uri), companions=source))
        said = json.loads(hub.repositories["org/model"].files["hone.json"].read())
        assert said["added"] == ["preprocessor_config.json"]


def test_a_signed_winner_is_verified_as_it_is_pulled(hub, registry, proven, tmp_path, monkeypatch):
    from cryptography.hazmat.primitives import serialization as pem
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    text = key.private_bytes(pem.Encoding.PEM, pem.PrivateFormat.PKCS8, pem.NoEncryption())
    (tmp_path / "key.pem").write_bytes(text)
    public = key.public_key().public_bytes(pem.Encoding.PEM, pem.PublicFormat.SubjectPublicKeyInfo).decode()
    monkeypatch.setenv("HONE_SIGNING_KEY", str(tmp_path / "key.pem"))
    publish(registry, proven)
    assert kedro_hone.load("hf://org/model@honed", verify=kedro_hone.Policy(keys=(public,)))
    repository = hub.repositories["org/model"]
    repository.refs["refs/tags/honed"] = repository.commit({"requirements.txt": b"evil"})
    load = partial(kedro_hone.load, "hf://org/model@honed", verify=kedro_hone.Policy(keys=(public,)))
    assert catch(load).slug == "signature-invalid"


def test_without_a_token_no_models_are_listed(hub, registry, monkeypatch):
    monkeypatch.delenv("HF_TOKEN")
    assert catch(lambda: registry.versions_since(None)).slug == "registry-denied"


def test_versions_since(hub, registry, make_winner, prove):
    hub.add("other/foreign", {"config.json": CONFIG})
    first, cursor, _ = registry.versions_since(None)
    assert [info.name for info in first] == ["org/model"]
    assert abs(first[0].created - time.time()) < 600
    assert registry.versions_since(cursor) == ((), cursor, {})
    done = publish(registry, prove(make_winner()))
    second, cursor, _ = registry.versions_since(cursor)
    assert [info.uri for info in second] == [done.uri]
    assert second[0].is_optimized
    assert second[0].tags[KEY]


@pytest.mark.parametrize(
    "names",
    [
        {"name": "model"},
        {"name": "a/b/c"},
        {"name": "org/a--b"},
        {"name": "org/model@a..b"},
        {"alias": "a b"},
        {"alias": ""},
        {"alias": "0" * 40},
        {"alias": "refs/pr/1"},
        {"alias": "x.lock"},
    ],
)
def test_names_that_the_hub_refuses_are_refused_before_it_is_asked(hub, registry, make_winner, prove, names):
    assert registry.find_problem(**{"name": "org/model", "alias": "honed"} | names)
    assert catch(lambda: publish(registry, prove(make_winner()), **names)).slug == "recipe-invalid"
    assert not hub.requests
    assert registry.find_problem(name="org/model@dev", alias="honed-1.0") == ""
    assert registry.find_problem(name=None, alias=None) == ""


@pytest.mark.parametrize("uri", ["hf://model", "hf://a/b/c", "hf://org/model@a@b", "hf://"])
def test_what_is_no_uri_of_the_hub(hub, registry, uri):
    assert catch(lambda: registry.resolve(uri)).slug == "registry-unknown"


LOAD = """
import numpy as np
import kedro_hone
model = kedro_hone.load("hf://org/model@honed")
print(model.run({"x": np.ones((2, 4), "float32")})["y"].shape)
"""


def test_a_process_with_the_runtime_and_huggingface_hub_alone_loads_it(hub, registry, make_winner, prove):
    publish(registry, prove(make_winner()))
    done = run(LOAD)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "(2, 3)"
    assert not done.stderr
