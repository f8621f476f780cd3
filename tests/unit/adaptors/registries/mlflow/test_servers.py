from __future__ import annotations

import pytest
from mlflow.exceptions import RestException

from hone_runtime.errors import HoneError
from kedro_hone.adaptors.registries.mlflow import connection
from kedro_hone.adaptors.registries.mlflow.servers import Server, read_server


@pytest.mark.parametrize(
    ("text", "version", "has"),
    [("2.20.3", (2, 20), False), ("3.0.0rc1", (3, 0), True), ("3.17.2", (3, 17), True), ("", None, True)],
)
def test_logged_models_came_with_the_third_version(text, version, has):
    server = Server(text)
    assert (server.version, server.has_logged_models) == (version, has)
    assert bool(server.explain_missing_models()) is not has


def test_a_file_and_what_does_not_respond_say_no_version():
    assert read_server("sqlite:///a.db") == Server()
    assert read_server("http://127.0.0.1:9") == Server()


def test_what_a_server_does_not_know_is_told_with_its_version(monkeypatch):
    monkeypatch.setattr(connection, "read_server", lambda _: Server("2.1.1"))
    unknown = {"error_code": "ENDPOINT_NOT_FOUND", "message": "there is no such endpoint"}
    with pytest.raises(HoneError) as caught, connection.explain_errors("http://127.0.0.1:9"):
        raise RestException(unknown)
    assert caught.value.slug == "registry-refused"
    assert caught.value.why.startswith("The server is MLflow 2.1.1. ")
    assert "aliases need MLflow 2.3" in caught.value.hint
