from __future__ import annotations

import socket
import time
from dataclasses import replace

import numpy as np
import pytest
from proof import TAGS

import kedro_hone
from hone_runtime.contract.aliases import approve
from hone_runtime.contract.registries import find_registry
from hone_runtime.errors import HoneError
from hone_runtime.learner.manifest import read_artifact
from hone_runtime.values.artifact import TensorSpec
from kedro_hone.adaptors.registries.mlflow.registry import MlflowRegistry
from kedro_hone.sources.detection import read_flavor
from kedro_hone.sources.files import write_files

X = np.ones((2, 4), np.float32)
NOTHING: frozenset[str] = frozenset()


@pytest.fixture
def source(onnx_model):
    """Version 1 of ``digits``, as a user of mlflow.onnx logs it."""
    import mlflow
    from mlflow.models import infer_signature

    signature = infer_signature({"x": X}, {"y": np.ones((2, 3), np.float32)})
    with mlflow.start_run():
        mlflow.onnx.log_model(
            onnx_model, name="m", signature=signature, pip_requirements=["onnxruntime"], registered_model_name="digits"
        )
    mlflow.MlflowClient().set_registered_model_alias("digits", "champion", "1")


def catch(call):
    with pytest.raises(HoneError) as caught:
        call()
    return caught.value


def test_resolve_pins_the_version(source):
    registry = find_registry("models:/digits@champion")
    for uri in ("models:/digits@champion", "models:/digits/1", "models:/digits/latest"):
        info = registry.resolve(uri)
        assert (info.uri, info.name, info.version, info.aliases) == ("models:/digits/1", "digits", "1", ("champion",))
        assert not info.is_optimized


def test_pull_brings_the_folder_as_mlflow_wrote_it(source, tmp_path):
    MlflowRegistry().pull("models:/digits@champion", tmp_path / "pulled")
    assert (tmp_path / "pulled" / "MLmodel").is_file()
    flavor = read_flavor(tmp_path / "pulled", trust=NOTHING)
    assert (flavor.format, flavor.files) == ("onnx", (("model.onnx", "model.onnx"),))
    assert flavor.inputs == (TensorSpec(name="x", dtype="float32", shape=("batch", 4)),)
    assert not list(tmp_path.glob(".pull-*"))


def test_weights_next_to_a_model_can_be_read_by_its_library(tmp_path):
    """MLflow writes those of 1 KiB and more there, and ``onnx`` reads none that are hard links."""
    import mlflow
    from onnx import TensorProto, helper, load, numpy_helper

    weight = numpy_helper.from_array(np.ones((4, 256), np.float32), "w")
    sides = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", size]) for name, size in (("x", 4), ("y", 256))
    ]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", sides[:1], sides[1:], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    with mlflow.start_run():
        mlflow.onnx.log_model(model, name="m", pip_requirements=["onnxruntime"], registered_model_name="wide")
    MlflowRegistry().pull("models:/wide/1", tmp_path / "pulled")

    flavor = read_flavor(tmp_path / "pulled", trust=NOTHING)
    write_files(flavor, tmp_path / "pulled", tmp_path / "files")

    assert len(flavor.files) == 2
    (read,) = load(tmp_path / "files" / "model.onnx").graph.initializer
    assert numpy_helper.to_array(read).sum() == 1024


def test_unknown_names_say_what_there_is(source):
    registry = MlflowRegistry()
    error = catch(lambda: registry.resolve("models:/digist/1"))
    assert error.slug == "model-unknown"
    assert "Did you mean 'digits'" in error.hint
    error = catch(lambda: registry.resolve("models:/digits@champoin"))
    assert error.slug == "alias-unknown"
    assert "Did you mean 'champion'" in error.hint
    for version in ("7", "Production"):
        error = catch(lambda version=version: registry.resolve(f"models:/digits/{version}"))
        assert error.slug == "version-unknown"
        assert "versions 1" in error.why


def test_a_publication_carries_everything(source, make_winner, prove, tmp_path):
    import mlflow

    registry = MlflowRegistry()
    winner = prove(make_winner())
    done = registry.publish(winner, name="digits", tags=TAGS, alias="honed", metrics={"speedup": 2.0})
    assert done.uri == "models:/digits/2"
    info = registry.resolve("models:/digits@honed")
    assert (info.uri, info.aliases) == (done.uri, ("honed",))
    assert info.is_optimized
    assert info.tags["hone.state"] == "finished"
    assert info.tags.items() >= TAGS.items()

    client = mlflow.MlflowClient()
    version = client.get_model_version("digits", "2")
    model = client.get_logged_model(mlflow.models.get_model_info(done.uri).model_id)
    assert {metric.key: metric.value for metric in model.metrics} == {"speedup": 2.0}
    assert model.status == "READY"
    assert client.get_run(version.run_id).info.status == "FINISHED"

    info = mlflow.models.get_model_info(done.uri)
    assert info.signature.inputs.to_dict() == [
        {"name": "x", "type": "tensor", "tensor-spec": {"dtype": "float32", "shape": (-1, 4)}}
    ]
    registry.pull(done.uri, tmp_path / "pulled")
    winner.evidence.check(tmp_path / "pulled" / "evidence")
    assert "kedro-hone[onnxruntime]==" in (tmp_path / "pulled" / "requirements.txt").read_text()
    loaded = mlflow.models.Model.load(str(tmp_path / "pulled"))
    assert (loaded.model_id, loaded.model_uuid, loaded.run_id) == (model.model_id, model.model_id, version.run_id)
    assert loaded.artifact_path == model.model_uri
    assert str(tmp_path) not in (tmp_path / "pulled" / "MLmodel").read_text(), "an image would publish it"
    np.testing.assert_array_equal(loaded.load_input_example(str(tmp_path / "pulled"))["x"], np.zeros((1, 4)))
    assert read_flavor(tmp_path / "pulled", trust=NOTHING).source == "published"
    assert read_artifact(tmp_path / "pulled" / "artifact").digest == make_winner("again").digest


def test_the_same_publication_is_made_once(make_winner, prove):
    registry = MlflowRegistry()
    arguments = {"name": "digits", "tags": TAGS, "alias": "honed"}
    winner = make_winner()
    assert registry.publish(prove(winner), **arguments) == registry.publish(prove(winner), **arguments)
    assert registry.publish(prove(winner, "2"), **arguments).version == "2"
    assert registry.resolve("models:/digits@honed").version == "2"


def list_aliases(registry, uri):
    return registry.resolve(uri).aliases


def test_the_same_publication_with_another_alias_moves_that_alias(make_winner, prove):
    import mlflow

    registry, client = MlflowRegistry(), mlflow.MlflowClient()
    winner = prove(make_winner())
    done = registry.publish(winner, name="digits", tags=TAGS, alias="honed")
    again = registry.publish(winner, name="digits", tags=TAGS, alias="champion")
    assert (again.version, again.alias) == (done.version, "champion")
    assert sorted(list_aliases(registry, done.uri)) == ["champion", "honed"]
    registry.publish(prove(make_winner(), "2"), name="digits", tags=TAGS, alias="champion")
    assert registry.publish(winner, name="digits", tags=TAGS, alias="champion") == again
    aliases = client.get_registered_model("digits").aliases
    assert {alias: str(version) for alias, version in aliases.items()} == {"champion": "1", "honed": "1"}


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ({"alias": "latest"}, "reserved"),
        ({"alias": "V1"}, "reserved"),
        ({"alias": "a/b"}, "alphanumerics"),
        ({"alias": ""}, "empty"),
        ({"name": "a/b"}, "cannot contain '/' or ':'"),
        ({"name": "a:b"}, "cannot contain '/' or ':'"),
        ({"name": "a@b"}, "models:/a@b/1"),
    ],
)
def test_names_that_mlflow_refuses_are_refused_before_anything_is_registered(make_winner, prove, names, says):
    import mlflow

    registry, arguments = MlflowRegistry(), {"name": "digits", "alias": "honed"} | names
    assert says in registry.find_problem(**arguments)
    error = catch(lambda: registry.publish(prove(make_winner()), tags=TAGS, **arguments))
    assert error.slug == "recipe-invalid"
    assert says in error.why
    assert not mlflow.MlflowClient().search_registered_models()
    assert registry.find_problem(name='shop.digits 50% "off"', alias="honed_1") == ""
    assert registry.find_problem(name=None, alias=None) == ""


def test_an_alias_that_the_server_refuses_blocks_nothing(make_winner, prove, monkeypatch):
    """A server may know more rules than its client; the alias of a version that MLflow had taken is refused here."""
    import mlflow

    registry, client = MlflowRegistry(), mlflow.MlflowClient()
    winner = prove(make_winner())
    monkeypatch.setattr(registry, "find_problem", lambda **_: "")
    error = catch(lambda: registry.publish(winner, name="digits", tags=TAGS, alias="latest"))
    assert error.slug == "recipe-invalid"
    assert error.what == "models:/digits/1 is published, but the registry refuses the alias 'latest'."
    assert "reserved" in error.why
    tags = client.get_model_version("digits", "1").tags
    assert tags["hone.state"] == "finished"
    assert "hone.pending_alias" not in tags
    assert MlflowRegistry().publish(winner, name="digits", tags=TAGS, alias="honed").version == "1"
    assert MlflowRegistry().publish(prove(make_winner(), "2"), name="digits", tags=TAGS, alias="honed").version == "2"


def test_a_refused_alias_of_an_earlier_publication_is_not_asked_for_again(make_winner, prove):
    import mlflow

    registry, client = MlflowRegistry(), mlflow.MlflowClient()
    winner = prove(make_winner())
    registry.publish(winner, name="digits", tags=TAGS, alias=None)
    client.set_model_version_tag("digits", "1", "hone.pending_alias", "latest")  # as an older version of us left it
    assert registry.publish(winner, name="digits", tags=TAGS, alias="honed").version == "1"
    assert "hone.pending_alias" not in client.get_model_version("digits", "1").tags
    assert list_aliases(registry, "models:/digits/1") == ("honed",)


def test_a_name_that_the_server_refuses_is_the_recipes(make_winner, prove, monkeypatch):
    registry = MlflowRegistry()
    monkeypatch.setattr(registry, "find_problem", lambda **_: "")
    error = catch(lambda: registry.publish(prove(make_winner()), name="a/b", tags=TAGS, alias=None))
    assert error.slug == "recipe-invalid"
    assert "cannot contain '/' or ':'" in error.why


@pytest.mark.parametrize("name", ["o'neil", 'an "a"', "shop.digits", "50% off"])
def test_a_name_may_hold_what_a_registered_model_may(make_winner, prove, name):
    registry = MlflowRegistry()
    done = registry.publish(prove(make_winner()), name=name, tags=TAGS, alias="honed")
    assert registry.resolve(f"models:/{name}@honed").uri == done.uri
    assert registry.publish(prove(make_winner()), name=name, tags=TAGS, alias="honed") == done


def test_without_an_alias_none_is_moved(make_winner, prove):
    registry = MlflowRegistry()
    done = registry.publish(prove(make_winner()), name="digits", tags=TAGS, alias=None)
    assert registry.resolve(done.uri).aliases == ()
    assert registry.resolve(done.uri).tags["hone.state"] == "finished"


def test_an_alias_is_moved_when_a_person_says_so(make_winner, prove):
    registry, tags = MlflowRegistry(), TAGS | {"hone.awaits": "honed"}
    first = registry.publish(prove(make_winner()), name="digits", tags=TAGS, alias="honed")
    done = registry.publish(prove(make_winner(), "2"), name="digits", tags=tags, alias=None)
    assert registry.resolve(first.uri).aliases == ("honed",)
    assert approve(registry, done.uri).alias == "honed"
    assert registry.resolve("models:/digits@honed").uri == done.uri
    with pytest.raises(HoneError) as caught:
        registry.move_alias(done.uri, "latest")
    assert caught.value.slug == "recipe-invalid"


@pytest.mark.parametrize(("tag", "way"), [("hone.awaits", "hone approve"), ("hone.held", "--from-nodes confirm")])
def test_an_alias_that_a_winner_waits_for_is_told_with_the_version_and_the_way_to_it(make_winner, prove, tag, way):
    registry = MlflowRegistry()
    registry.publish(prove(make_winner()), name="digits", tags=TAGS, alias=None)
    done = registry.publish(prove(make_winner(), "2"), name="digits", tags=TAGS | {tag: "honed"}, alias=None)
    with pytest.raises(HoneError, match=f"{done.uri} was published without it") as caught:
        kedro_hone.load("models:/digits@honed")
    assert (caught.value.slug, way in caught.value.hint) == ("alias-unknown", True)
    with pytest.raises(HoneError, match="There are no aliases"):
        kedro_hone.load("models:/digits@other")


def test_the_description_says_how_it_is_loaded_once_an_alias_points_to_it(make_winner, prove):
    import mlflow

    registry, client = MlflowRegistry(), mlflow.MlflowClient()
    text, call = "**3.6 times as fast**\n", 'Load it with `kedro_hone.load("models:/digits@honed")`.'

    def describe(version):
        return client.get_model_version("digits", version).description

    for number, alias in (("1", "honed"), ("2", None)):
        winner = replace(prove(make_winner(), number), description=text)
        registry.publish(winner, name="digits", tags=TAGS | {"hone.awaits": "honed"}, alias=alias)
    assert (describe("1"), describe("2")) == (f"{text}\n{call}\n", text)
    approve(registry, "models:/digits/2")
    registry.move_alias("models:/digits/2", "honed")
    assert describe("2") == f"{text}\n{call}\n"
    late = replace(prove(make_winner(), "3"), description=text)
    done = registry.publish(late, name="digits", tags=TAGS, alias="honed", before={"honed": "1"})  # moved meanwhile
    assert (done.alias, describe("3")) == (None, text)
    client.create_model_version("digits", source="/of/others", description="Mine.")
    registry.move_alias("models:/digits/4", "honed")
    assert describe("4") == "Mine."


def test_a_deleted_experiment_says_how_to_get_it_back(make_winner, prove, tracking_uri):
    import mlflow

    registry, client = MlflowRegistry(), mlflow.MlflowClient()
    winner = prove(make_winner())
    number = client.create_experiment("kedro-hone")
    client.delete_experiment(number)
    error = catch(lambda: registry.publish(winner, name="digits", tags=TAGS, alias=None))
    assert error.slug == "registry-unreachable"
    assert f"mlflow experiments restore --experiment-id {number}" in error.hint
    assert f"mlflow gc --experiment-ids {number}" in error.hint
    assert not client.search_registered_models()
    client.restore_experiment(number)
    assert registry.publish(winner, name="digits", tags=TAGS, alias=None).version == "1"


def test_versions_since(source, make_winner, prove):
    registry = MlflowRegistry()
    first, cursor, _ = registry.versions_since(None)
    assert [info.uri for info in first] == ["models:/digits/1"]
    assert abs(first[0].created - time.time()) < 600
    assert registry.versions_since(cursor) == ((), cursor, {})
    registry.publish(prove(make_winner()), name="digits", tags=TAGS, alias="honed")
    registry.publish(prove(make_winner()), name="words", tags=TAGS, alias="honed")
    second, cursor, _ = registry.versions_since(cursor)
    assert [info.uri for info in second] == ["models:/digits/2", "models:/words/1"]
    assert all(info.is_optimized for info in second)
    assert registry.versions_since(cursor)[0] == ()


@pytest.fixture
def client():
    import mlflow

    return mlflow.MlflowClient()


def register(client, name, *, hours=0.0):
    """Register a version as a server does whose clock is some hours ahead."""
    from sqlalchemy import create_engine, text

    if not client.search_registered_models(f"name = '{name}'"):
        client.create_registered_model(name)
    version = client.create_model_version(name, source="/models/any").version
    with create_engine(client.tracking_uri).begin() as connection:
        moved = (
            "UPDATE model_versions SET creation_time = creation_time + :by WHERE name = :name AND version = :version"
        )
        connection.execute(text(moved), {"by": int(hours * 3_600_000), "name": name, "version": version})
    return f"models:/{name}/{version}"


def list_uris(registry, cursor):
    found, cursor, _ = registry.versions_since(cursor)
    return [info.uri for info in found], cursor


def test_a_clock_of_the_server_that_goes_back_hides_nothing(client):
    registry = MlflowRegistry()
    ahead = register(client, "digits", hours=1)
    found, cursor = list_uris(registry, None)
    assert found == [ahead]
    right = register(client, "digits")
    found, cursor = list_uris(registry, cursor)
    assert found == [right]
    behind = [register(client, "digits", hours=-24), register(client, "words", hours=-24)]
    found, cursor = list_uris(registry, cursor)
    assert sorted(found) == behind
    assert list_uris(registry, cursor)[0] == []
    # The versions of a model are in the order of their numbers, whatever the clock said.
    of_digits = [uri for uri in list_uris(registry, None)[0] if "digits" in uri]
    assert of_digits == [ahead, right, behind[0]]


def test_numbers_that_begin_again_are_new_and_a_new_name_is_not(client):
    registry = MlflowRegistry()
    for _ in range(3):
        register(client, "digits")
    register(client, "words")
    cursor = registry.versions_since(None).cursor
    client.delete_model_version("digits", "3")
    assert register(client, "digits") == "models:/digits/4"
    found, cursor = list_uris(registry, cursor)
    assert found == ["models:/digits/4"]
    client.delete_model_version("digits", "4")
    assert list_uris(registry, cursor)[0] == []
    client.delete_registered_model("digits")
    client.rename_registered_model("words", "letters")
    found, cursor = list_uris(registry, cursor)
    assert found == []
    new = [register(client, "digits"), register(client, "letters")]
    assert new == ["models:/digits/1", "models:/letters/2"]
    infos, cursor, _ = registry.versions_since(cursor)
    assert [(info.uri, info.again) for info in infos] == [(new[0], True), (new[1], False)]
    assert list_uris(registry, cursor)[0] == []
    register(client, "digits")
    assert [info.again for info in registry.versions_since(cursor)[0]] == [True]  # also of later numbers


def test_files_that_are_gone_and_names_that_cannot_be_are_no_outage(client, tmp_path):
    client.create_registered_model("gone")
    client.create_model_version("gone", source=f"{tmp_path.as_uri()}/nowhere")
    registry = MlflowRegistry()
    assert catch(lambda: registry.pull("models:/gone/1", tmp_path / "pulled")).slug == "model-corrupt"
    assert catch(lambda: registry.list_aliases("a:b")).slug == "registry-refused"


def test_the_embedded_store_needs_nothing(tmp_path, monkeypatch, make_winner, prove):
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    project = tmp_path / "project"
    registry = MlflowRegistry(project=project)
    assert catch(lambda: registry.resolve("models:/digits/1")).slug == "registry-missing"
    assert not project.exists()  # who only reads makes nothing
    registry.publish(prove(make_winner()), name="digits", tags=TAGS, alias="honed")
    assert (project / "data" / "mlflow.db").is_file()
    assert list((project / "data" / "mlartifacts").rglob("MLmodel"))
    assert not (tmp_path / "mlruns").exists()


def test_a_client_of_one_store_leaves_the_global_one_alone(tmp_path, make_winner, prove, tracking_uri, empty_database):
    import mlflow

    registry = MlflowRegistry(f"sqlite:///{tmp_path}/other.db")
    registry.publish(prove(make_winner()), name="digits", tags=TAGS, alias="honed")
    assert mlflow.get_tracking_uri() == tracking_uri
    assert MlflowRegistry().tracking_uri == tracking_uri
    assert (tmp_path / "mlflow.db").read_bytes() == empty_database.read_bytes()


@pytest.mark.filterwarnings("ignore:Saving pytorch model:FutureWarning")  # the old way is what is tested
def test_mlflows_pytorch_models(tmp_path):
    import mlflow
    import torch
    from mlflow.models import infer_signature

    signature = infer_signature(X, np.ones((2, 3), np.float32))
    for form in ("pt2", "pickle"):
        with mlflow.start_run():
            mlflow.pytorch.log_model(
                torch.nn.Linear(4, 3).eval(),
                name=form,
                signature=signature,
                input_example=X,
                pip_requirements=["torch"],
                serialization_format=form,
                registered_model_name=form,
            )
        MlflowRegistry().pull(f"models:/{form}/1", tmp_path / form)
    flavor = read_flavor(tmp_path / "pt2", trust=NOTHING)
    assert (flavor.format, flavor.interface) == ("pytorch", "pytorch")
    assert flavor.inputs[0].shape == ("batch", 4)
    assert catch(lambda: read_flavor(tmp_path / "pickle", trust=NOTHING)).slug == "pickle-not-trusted"


SOONER_THAN_MLFLOW = 150
"""Seconds: far more than our 20, and far less than MLflow's own, 4 minutes of retries and 16 of waiting."""


def test_an_unreachable_registry_is_an_error_before_mlflow_gives_up(monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:secret@127.0.0.1:9")
    start = time.monotonic()
    error = catch(lambda: MlflowRegistry().resolve("models:/digits/1"))
    assert error.slug == "registry-unreachable"
    assert "secret" not in str(error)
    assert time.monotonic() - start < SOONER_THAN_MLFLOW


@pytest.mark.nightly
@pytest.mark.slow
def test_a_registry_that_never_answers_is_an_error_too(monkeypatch):
    server = socket.create_server(("127.0.0.1", 0))  # the system accepts the connections; nothing is ever sent back
    with server:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{server.getsockname()[1]}")
        start = time.monotonic()
        assert catch(lambda: MlflowRegistry().resolve("models:/digits/1")).slug == "registry-unreachable"
        assert time.monotonic() - start < SOONER_THAN_MLFLOW


def test_a_store_that_is_none(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/nowhere/mlflow.db")
    error = catch(lambda: MlflowRegistry().resolve("models:/digits/1"))
    assert error.slug == "registry-missing"
    assert "There is no file" in error.why
