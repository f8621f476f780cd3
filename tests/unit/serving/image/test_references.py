from __future__ import annotations

import pytest

from hone_runtime.errors import HoneError
from kedro_hone.serving.image.references import read_reference, read_target

DIGEST = f"sha256:{'a' * 64}"


@pytest.mark.parametrize(
    ("text", "host", "repository", "tag"),
    [
        ("python:3.11-slim", "docker.io", "library/python", "3.11-slim"),
        ("team/digits", "docker.io", "team/digits", "latest"),
        ("registry.example.org/team/digits:4", "registry.example.org", "team/digits", "4"),
        ("localhost:5000/digits", "localhost:5000", "digits", "latest"),
        ("docker.io/python", "docker.io", "library/python", "latest"),
        ("registry-1.docker.io/team/digits:4", "docker.io", "team/digits", "4"),
        ("index.docker.io/python", "docker.io", "library/python", "latest"),
        ("Registry.Example.org:5000/team/digits", "registry.example.org:5000", "team/digits", "latest"),
        ("[::1]:5000/a/b:V1.0_x", "[::1]:5000", "a/b", "V1.0_x"),
        (f"registry.example.org/digits@{DIGEST}", "registry.example.org", "digits", DIGEST),
        (f"registry.example.org/digits:4@{DIGEST}", "registry.example.org", "digits", DIGEST),
    ],
)
def test_names_are_read_as_docker_reads_them(text: str, host: str, repository: str, tag: str) -> None:
    found = read_reference(text)
    assert (found.host, found.repository, found.tag) == (host, repository, tag)
    assert found.place == f"{host}/{repository}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Team/Digits",
        "registry.example.org/",
        "docker.io/",
        "doc\u212aer.io/team/x",
        "docker.io/:t",
        "registry.example.org/a:b:c",
        "registry.example.org/a/../b",
        "registry.example.org/a?x=1:t",
        "registry.example.org/a:t t",
        "user:pw@registry.example.org/a",
        "https://registry.example.org/a",
        "registry.example.org/a@sha256:12",
        "registry.example.org/a@",
        "reg istry.example.org/a",
        "registry.example.org/a\r\nX: y",
    ],
)
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(HoneError) as refused:
        read_reference(text)
    assert refused.value.slug == "option-invalid"


def test_nobody_pushes_to_a_digest() -> None:
    with pytest.raises(HoneError, match="digest"):
        read_target(f"registry.example.org/a@{DIGEST}")


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("localhost", True),
        ("localhost:5000", True),
        ("127.0.0.1:5000", True),
        ("127.8.0.1", True),
        ("[::1]:5000", True),
        ("localhost.example.org", False),
        ("127.0.0.1.example.org:5000", False),
        ("10.0.0.1:5000", False),
    ],
)
def test_only_this_machine_is_loopback(host: str, local: bool) -> None:
    assert read_reference(f"{host}/a:1").is_loopback is local
