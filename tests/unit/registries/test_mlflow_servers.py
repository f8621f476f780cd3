from __future__ import annotations

import pytest

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
