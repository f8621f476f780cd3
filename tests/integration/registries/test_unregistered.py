"""Logged models, what runs logged, and parts of versions, as sources."""

from __future__ import annotations

import mlflow
import pytest
from mlflow_store import WARNINGS

from hone_runtime.contract.registries import find_registry
from hone_runtime.contract.target import find_name, find_target
from hone_runtime.errors import HoneError
from kedro_hone.adaptors.registries.mlflow.registry import MlflowRegistry
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.nodes.pull import pull as pull_source
from kedro_hone.recipe.schema import read_recipe
from kedro_hone.sources.detection import read_flavor

pytestmark = [
    *(pytest.mark.filterwarnings(warning) for warning in WARNINGS),
    pytest.mark.filterwarnings("ignore:[\\s\\S]*Add type hints:UserWarning"),
]
NOTHING: frozenset[str] = frozenset()


@pytest.fixture
def logged(onnx_model):
    """What ``mlflow.onnx.log_model`` returned."""
    with mlflow.start_run():
        return mlflow.onnx.log_model(onnx_model, name="net", pip_requirements=["onnxruntime"])


@pytest.fixture
def wrapper():
    """A model that loads another one, as people write it."""

    class Wrapper(mlflow.pyfunc.PythonModel):
        def load_context(self, context):
            import onnxruntime

            self.session = onnxruntime.InferenceSession(f"{context.artifacts['net']}/model.onnx")

        def predict(self, context, model_input, params=None):  # noqa: ARG002 - MLflow's signature
            return self.session.run(None, {"x": model_input})[0]

    return Wrapper()


def pull(uri, folder):
    info = find_registry(uri).pull(uri, folder)
    return info, read_flavor(folder, trust=NOTHING)


def catch(call):
    with pytest.raises(HoneError) as caught:
        call()
    return caught.value


def test_a_logged_model_is_a_source_without_a_name(logged, tmp_path):
    uri = f"models:/{logged.model_id}"
    info, flavor = pull(uri, tmp_path / "pulled")
    assert (info.uri, info.name, info.version) == (uri, "", logged.model_id)
    assert flavor.format == "onnx"


def test_a_run_finds_the_model_that_it_logged_by_its_name(logged, tmp_path):
    uri = f"runs:/{logged.run_id}/net"
    info, flavor = pull(uri, tmp_path / "pulled")
    assert (info.uri, info.name) == (uri, "")
    assert flavor.format == "onnx"
    pull(f"runs:/{logged.run_id}/net/model.onnx", tmp_path / "file")
    assert [path.name for path in (tmp_path / "file").iterdir()] == ["model.onnx"]


def test_a_run_has_files_of_its_own(onnx_model, tmp_path):
    import onnx

    onnx.save(onnx_model, tmp_path / "model.onnx")
    with mlflow.start_run() as run:
        mlflow.log_artifact(tmp_path / "model.onnx", "folder")
    for number, path in enumerate(("folder", "folder/model.onnx")):
        assert pull(f"runs:/{run.info.run_id}/{path}", tmp_path / f"{number}")[1].format == "onnx"


def test_what_there_is_not(logged, tmp_path):
    registry = MlflowRegistry()
    assert catch(lambda: registry.resolve(f"models:/m-{'0' * 32}")).slug == "model-unknown"
    assert catch(lambda: registry.resolve(f"runs:/{'0' * 32}/net")).slug == "model-unknown"
    assert catch(lambda: registry.pull(f"runs:/{logged.run_id}/other", tmp_path / "a")).slug == "model-corrupt"
    assert catch(lambda: registry.pull(f"models:/{logged.model_id}/other", tmp_path / "b")).slug == "model-corrupt"


def test_one_that_was_never_finished_is_refused():
    client = mlflow.MlflowClient()
    model = client.create_logged_model("0", name="half")
    error = catch(lambda: MlflowRegistry().resolve(f"models:/{model.model_id}"))
    assert (error.slug, "PENDING" in error.why) == ("model-corrupt", True)


def test_a_part_of_a_version_is_named_by_its_path(logged, wrapper, tmp_path):
    info = mlflow.pyfunc.log_model(
        name="wrapped",
        python_model=wrapper,
        artifacts={"net": logged.model_uri},
        pip_requirements=["onnxruntime"],
        registered_model_name="wrapped",
    )
    mlflow.MlflowClient().set_registered_model_alias("wrapped", "champion", "1")
    error = catch(lambda: pull("models:/wrapped/1", tmp_path / "whole"))
    assert error.slug == "model-unsupported"
    path = error.hint.partition("add ")[2].partition(" ")[0]
    for number, uri in enumerate(("models:/wrapped/1", "models:/wrapped@champion", f"models:/{info.model_id}")):
        found, flavor = pull(f"{uri}{path}", tmp_path / f"part{number}")
        assert (found.name, flavor.format) == ("", "onnx")
        assert found.tags == {}
    assert find_registry("models:/wrapped@champion").resolve(f"models:/wrapped@champion{path}").uri == (
        f"models:/wrapped/1{path}"
    )


@pytest.mark.attack(
    what="a link in a version leads out of it, and a URI names what is behind",
    who="registry",
    stopped_by="what a path means must be in the version's own folder",
)
def test_a_link_out_of_a_version_is_not_followed(logged, tmp_path):
    (tmp_path / "mlruns" / "secret").mkdir(parents=True, exist_ok=True)
    place = MlflowRegistry().pull(f"models:/{logged.model_id}", tmp_path / "a")
    assert place
    from kedro_hone.adaptors.registries.mlflow.places import join_path

    (tmp_path / "a" / "out").symlink_to("/etc")
    assert catch(lambda: join_path(tmp_path / "a", "out/passwd")).slug == "files-elsewhere"


@pytest.mark.parametrize("path", ["", "/model.onnx"])
def test_a_recipe_that_names_no_model_for_the_winner_ends_before_the_pull(logged, tmp_path, monkeypatch, path):
    uri = f"models:/{logged.model_id}{path}"
    run = RunFolder(root=tmp_path / "runs", run_id="1", project=tmp_path)
    monkeypatch.setattr(MlflowRegistry, "pull", None)
    error = catch(lambda: pull_source(read_recipe({"model": {"uri": uri}}), Store(tmp_path / "store"), run))
    assert (error.slug, uri in error.why) == ("recipe-invalid", True)
    assert "hone.publish.name" in error.hint


def test_publishing_needs_a_name(logged, make_winner, prove):
    uri = f"models:/{logged.model_id}"
    error = catch(lambda: find_name(find_target(uri, uri=None, name=None), uri))
    assert (error.slug, "hone.publish.name" in error.hint) == ("recipe-invalid", True)
    assert find_name(find_target(uri, uri=None, name="fast"), uri) == "fast"
