from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from kedro_hone.serving.image.credentials import find_credentials

BASIC = base64.b64encode(b"ada:lovelace").decode()


def write(path: Path, auths: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"auths": auths}))
    return path


def test_the_named_file_comes_first(tmp_path: Path) -> None:
    write(tmp_path / "docker" / "config.json", {"r.example.org": {"auth": base64.b64encode(b"other:pw").decode()}})
    named = write(tmp_path / "auth.json", {"r.example.org": {"auth": BASIC}})
    variables = {"DOCKER_CONFIG": str(tmp_path / "docker"), "REGISTRY_AUTH_FILE": str(named)}
    assert find_credentials("r.example.org", variables).basic == BASIC
    assert find_credentials("other.example.org", variables).basic == ""


@pytest.mark.parametrize(
    "auths",
    [
        {"https://index.docker.io/v1/": {"auth": BASIC}},
        {"docker.io": {"username": "ada", "password": "lovelace"}},
        {"https://docker.io": {"auth": BASIC}},
    ],
)
def test_docker_hub_has_several_names(tmp_path: Path, auths: object) -> None:
    write(tmp_path / "config.json", auths)
    assert find_credentials("docker.io", {"DOCKER_CONFIG": str(tmp_path)}).basic == BASIC


def test_a_token_to_get_tokens_is_read(tmp_path: Path) -> None:
    write(tmp_path / "config.json", {"r.example.org": {"auth": BASIC, "identitytoken": "refresh"}})
    found = find_credentials("r.example.org", {"DOCKER_CONFIG": str(tmp_path)})
    assert (found.basic, found.refresh) == ("", "refresh")


@pytest.mark.parametrize("text", ["", "[]", "{", '{"auths": []}', '{"auths": {"r.example.org": {"auth": "%%%"}}}'])
def test_a_broken_file_is_as_good_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    assert find_credentials("r.example.org", {"DOCKER_CONFIG": str(tmp_path)}).basic == ""


def test_no_value_is_shown(tmp_path: Path) -> None:
    write(tmp_path / "config.json", {"r.example.org": {"auth": BASIC}})
    assert BASIC not in repr(find_credentials("r.example.org", {"DOCKER_CONFIG": str(tmp_path)}))
