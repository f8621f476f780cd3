from __future__ import annotations

import pytest

from kedro_hone.events.event import Event, Kind
from kedro_hone.events.job import Approve
from kedro_hone.events.service import find_mlflow


def make_event(uri="models:/digits/1", name="digits", kind=Kind.VERSION_CREATED, **more):
    return Event(**{"kind": kind, "uri": uri, "name": name, "delivery": "", **more})


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({}, "data/mlflow.db, since MLFLOW_TRACKING_URI is not set"),
        ({"MLFLOW_TRACKING_URI": "http://127.0.0.1:5000"}, "http://127.0.0.1:5000"),
        ({"MLFLOW_TRACKING_URI": "http://a", "MLFLOW_REGISTRY_URI": "http://b"}, "http://b"),
        ({"MLFLOW_TRACKING_URI": "https://me:pass@word@models.example.org/x?sig=y"}, "https://models.example.org"),
        ({"MLFLOW_TRACKING_URI": "http://[::1"}, "the value of MLFLOW_TRACKING_URI"),
        ({"MLFLOW_TRACKING_URI": "sqlite:////srv/me@corp/mlflow.db"}, "sqlite:////srv/me@corp/mlflow.db"),
        ({"MLFLOW_TRACKING_URI": "mssql+pyodbc:///?odbc_connect=x%3BPWD%3Dy"}, "mssql+pyodbc"),
        ({"MLFLOW_TRACKING_URI": "databricks://dapi123"}, "databricks"),
        ({"MLFLOW_TRACKING_URI": "me:word@host"}, "me"),
        ({"MLFLOW_TRACKING_URI": "//me:word@host"}, "the value of MLFLOW_TRACKING_URI"),
    ],
)
def test_the_registry_is_named(variables, said):
    assert find_mlflow(variables) == said


def test_a_version_that_a_webhook_and_the_sweep_tell_of_is_one_request(service):
    (told,), (found,) = (service.choose(make_event(version=version)) for version in ("", "1"))
    assert told.key == found.key


def test_a_path_holds_another_version_tomorrow(open_service):
    service = open_service(rules=[{"name": "folder", "models": "*"}])
    (one,), (other,) = (service.choose(make_event("models/matrix", version=digest)) for digest in ("a", "b"))
    assert one.key != other.key


@pytest.mark.parametrize(("value", "count"), [("true", 1), ("True", 1), ("false", 0), ("", 0)])
def test_a_tag_approves_a_winner(service, value, count):
    event = make_event("models:/digits/2", kind=Kind.TAG_SET, key="hone.approved", value=value)
    requests = service.choose(event)
    assert [one.task for one in requests] == [Approve()] * count


def test_a_winner_of_another_name_than_its_source_is_approved_too(service):
    event = make_event("models:/digits-fast/2", "digits-fast", kind=Kind.TAG_SET, key="hone.approved", value="true")
    assert len(service.choose(event)) == 1


def test_a_winner_is_approved_again_where_somebody_says_so_again(service):
    first, again, second = (
        service.choose(make_event(kind=Kind.TAG_SET, key="hone.approved", value="true", delivery=name))
        for name in ("mlflow:1", "mlflow:1", "mlflow:2")
    )
    assert first[0].key == again[0].key != second[0].key


def test_another_recipe_of_the_project_is_another_request(open_service):
    service = open_service()
    (one,) = service.choose(make_event())
    service._recipes = lambda: {"digits": "another recipe"}
    (other,) = service.choose(make_event())
    assert one.key != other.key


def test_a_name_that_the_configuration_would_resolve_starts_nothing(open_service):
    service = open_service(rules=[{"name": "all", "models": "*"}])
    assert service.choose(make_event("models:/${oc.env:HOME}/1", "${oc.env:HOME}")) == ()
