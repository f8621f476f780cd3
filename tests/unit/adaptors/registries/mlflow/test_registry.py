from __future__ import annotations

import time

import pytest

from hone_runtime.errors import HoneError
from kedro_hone.adaptors.registries.mlflow.connection import check_sqlite, find_sqlite_file, run_bounded
from kedro_hone.adaptors.registries.mlflow.references import read_uri
from kedro_hone.adaptors.registries.mlflow.registry import MlflowRegistry
from kedro_hone.adaptors.registries.mlflow.versions import find_problem


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("models:/digits/3", ("digits", "3", None)),
        ("models:/digits@champion", ("digits", None, "champion")),
        ("models:/my model/latest", ("my model", "latest", None)),
    ],
)
def test_uris(uri, expected):
    reference = read_uri(uri)
    assert (reference.name, reference.version, reference.alias) == expected


MODEL, RUN = f"m-{'0a' * 16}", "0b" * 16


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        (f"models:/{MODEL}", {"model": MODEL}),
        (f"models:/{MODEL}/artifacts/net", {"model": MODEL, "path": "artifacts/net"}),
        (f"runs:/{RUN}/model", {"run": RUN, "path": "model"}),
        (f"runs:/{RUN}/a b/c.onnx/", {"run": RUN, "path": "a b/c.onnx"}),
        ("models:/w/3/artifacts/net", {"name": "w", "version": "3", "path": "artifacts/net"}),
        ("models:/w@a/artifacts", {"name": "w", "alias": "a", "path": "artifacts"}),
        ("models:/w/latest/x", {"name": "w", "version": "latest", "path": "x"}),
        ("models:/m-1/2", {"name": "m-1", "version": "2"}),
    ],
)
def test_what_is_not_registered_and_parts(uri, expected):
    found = {name: value for name, value in read_uri(uri)._asdict().items() if value}
    assert found == expected


@pytest.mark.attack(
    what="a URI's path leads out of the model that it is in",
    who="recipe",
    stopped_by="no part of it leads upwards, and none can be read in two ways",
)
@pytest.mark.parametrize("path", ["..", "a/../b", "./a", "a//b", "%2e%2e", "a\\b", "a?b", "a#b", "a\nb", "..%2f"])
def test_no_path_leads_elsewhere(path):
    for uri in (f"models:/{MODEL}/{path}", f"runs:/{RUN}/{path}", f"models:/w/1/{path}"):
        with pytest.raises(HoneError) as caught:
            read_uri(uri)
        assert caught.value.slug == "registry-unknown"


def test_a_name_that_is_an_id_is_no_name_of_a_model():
    assert "logged model" in find_problem(name=MODEL, alias=None)
    assert find_problem(name="m-1", alias=None) == ""


@pytest.mark.parametrize(
    ("uri", "slug"),
    [("models:/digits", "version-unknown"), ("models:/a/b/c", "registry-unknown"), ("runs:/a/b", "registry-unknown")],
)
def test_odd_uris(uri, slug):
    with pytest.raises(HoneError) as caught:
        read_uri(uri)
    assert caught.value.slug == slug


def test_sqlite_files(tmp_path):
    assert find_sqlite_file(f"sqlite:///{tmp_path}/a.db") == tmp_path / "a.db"
    assert find_sqlite_file("http://127.0.0.1:5000") is None
    check_sqlite("http://127.0.0.1:5000")
    check_sqlite(f"sqlite:///{tmp_path}/new.db")
    (tmp_path / "text.db").write_text("this is no database, but long enough to be looked at" * 10)
    (tmp_path / "folder.db").mkdir()
    for name in ("nowhere/a.db", "text.db", "folder.db"):
        with pytest.raises(HoneError) as caught:
            check_sqlite(f"sqlite:///{tmp_path}/{name}")
        assert caught.value.slug == "registry-unreachable"
    assert not (tmp_path / "nowhere").exists()


def test_where_the_store_is(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    assert MlflowRegistry(project=tmp_path).tracking_uri == "http://127.0.0.1:9"
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    assert MlflowRegistry(project=tmp_path).tracking_uri == f"sqlite:///{tmp_path}/data/mlflow.db"


def test_a_call_that_hangs_is_given_up():
    with pytest.raises(HoneError) as caught:
        run_bounded(lambda: time.sleep(60), "http://me:word@127.0.0.1:9", patience=0.05)
    assert caught.value.slug == "registry-unreachable"
    assert "word" not in str(caught.value)
    assert run_bounded(lambda: 3, "http://127.0.0.1:9", patience=600) == 3
