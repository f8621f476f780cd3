from __future__ import annotations

import getpass
import html
import json
import socket
from functools import partial
from pathlib import Path, PurePosixPath
from urllib.parse import quote, quote_plus

import pytest

from hone_runtime.errors import HoneError
from kedro_hone.serving.image.leaks import hide_places, read_private, refuse_leaks

PROJECT = Path("/srv/teams/fraud")
VARIABLES = {"REGISTRY_TOKEN": "s3cr3t-value", "SHORT_TOKEN": "abc", "HONE_HOME": "/var/lib/hone", "EDITOR": "ed"}
ESCAPES = [r"log:\n", r"\t", r"\u00e9", r"\x1b", "%3D", "%253D", "\x1b[0m", r"\u001b[1;32m"]


def refuse(content: bytes, *, paths: bool = True) -> str:
    with pytest.raises(HoneError) as refused:
        refuse_leaks({PurePosixPath("evidence/x.json"): content}, read_private(PROJECT, VARIABLES), paths=paths)
    assert refused.value.slug == "image-leaks"
    assert "evidence/x.json" in refused.value.why
    assert "s3cr3t-value" not in str(refused.value)
    return refused.value.why


def accept(content: bytes, *, paths: bool = True) -> None:
    refuse_leaks({PurePosixPath("x"): content}, read_private(PROJECT, VARIABLES), paths=paths)


@pytest.mark.attack(
    what="a secret of the environment, a token or a private key in a file of a published winner",
    who="nobody",
    stopped_by="every file of the winner and of kedro-hone is read before it becomes a layer",
)
@pytest.mark.parametrize(
    "planted",
    [
        b"s3cr3t-value",
        b"hf_" + b"a1" * 17,
        b"ghp_" + b"A1" * 18,
        b"github_pat_" + b"A1" * 30,
        b"glpat-" + b"A1" * 12,
        b"xoxb-" + b"1234-" * 6,
        b"AKIAIOSFODNN7EXAMPLE",
        b"ASIAIOSFODNN7EXAMPLE",
        b"-----BEGIN PRIVATE KEY-----",
        b"https://anna:hunter2hunter2@registry.example.org/x",
        b"redis://:hunter2%26x@cache:6379/0",
        b"-----BEGIN RSA PRIVATE KEY-----",
        b"-----BEGIN PGP PRIVATE KEY BLOCK-----",
    ],
)
def test_a_planted_secret_is_refused_always(planted: bytes) -> None:
    for paths in (True, False):
        refuse(b'{"a": "' + planted + b'"}', paths=paths)
        refuse(b"\x00\xff" + planted + b"\x00", paths=paths)


@pytest.mark.parametrize("token", ["ghp_" + "A1" * 18, "hf_" + "a1" * 17, "AKIAIOSFODNN7EXAMPLE"])
@pytest.mark.parametrize("before", ESCAPES)
def test_a_token_after_an_escape_is_refused(token: str, before: str) -> None:
    refuse((before + token).encode())


def test_a_token_within_a_word_is_none() -> None:
    accept(b"xhf_" + b"a1" * 17 + b" nAKIAIOSFODNN7EXAMPLE")


def test_a_secret_in_the_name_of_a_file_is_refused() -> None:
    with pytest.raises(HoneError, match="name of a file") as refused:
        refuse_leaks({PurePosixPath("s3cr3t-value.json"): b"{}"}, read_private(PROJECT, VARIABLES))
    assert "s3cr3t-value" not in str(refused.value)


WAYS = [
    json.dumps,
    partial(json.dumps, ensure_ascii=False),
    partial(quote, safe=""),
    quote_plus,
    html.escape,
    lambda text: json.dumps(json.dumps(text)),
    lambda text: json.dumps(html.escape(text)),
    lambda text: json.dumps(text).replace("/", r"\/"),
    lambda text: text.replace("&", r"\u0026").replace("<", r"\u003C"),
]


@pytest.mark.parametrize("escape", WAYS)
def test_a_secret_is_found_as_it_is_written_in_a_file(escape) -> None:
    value = 's3c&<r/et "quoted-värt'
    private = read_private(PROJECT, {"MY_API_TOKEN": value})
    with pytest.raises(HoneError, match="MY_API_TOKEN") as refused:
        refuse_leaks({PurePosixPath("x.json"): escape(value).encode()}, private)
    assert refused.value.slug == "image-leaks"


@pytest.mark.parametrize(
    "planted",
    [str(PROJECT / "x"), str(Path.home()), "/var/lib/hone/environments", f"{getpass.getuser()}@{socket.gethostname()}"],
)
def test_a_path_of_this_machine_is_refused_unless_it_is_allowed(planted: str) -> None:
    for text in ("{}", "file://{}/x", '"{}"', "It is in {}.", "\0{}\0"):
        refuse(text.format(planted).encode())
    accept(planted.encode(), paths=False)


def test_other_words_are_not_taken_for_paths_or_secrets() -> None:
    accept(f"{Path.home()}-ing /srv/teams/fraudulent x.org{Path.home()} abc ed".encode())
    accept(b"unk_token: [UNK] password: none -----BEGIN PUBLIC KEY-----")


@pytest.mark.parametrize("place", [f"{PROJECT}/x", str(Path.home()), "/var/lib/hone/environments", f"{PROJECT}"])
def test_a_text_without_its_places_is_accepted(place: str) -> None:
    private = read_private(PROJECT, {**VARIABLES, "HONE_HOME": "/var/lib/hone"})
    text = f"OSError: [Errno 30] '{place}': größer; {PROJECT}-other/x"
    hidden = hide_places(text, private)
    accept(hidden.encode())
    assert hidden.endswith(f"größer; {PROJECT}-other/x")
    assert "(the " in hidden


@pytest.mark.parametrize("escape", WAYS)
def test_a_path_is_found_as_it_is_written_in_a_file(escape, tmp_path: Path) -> None:
    private = read_private(Path("/srv/jürgen"), {})
    for text in ("/srv/jürgen/x", "Error in:\n/srv/jürgen/x"):
        with pytest.raises(HoneError, match="the project's folder"):
            refuse_leaks({PurePosixPath("x"): escape(text).encode()}, private)
    refuse_leaks({PurePosixPath("x"): escape("x.org/srv/jürgen").encode()}, private)


def test_both_paths_of_a_linked_folder_are_refused(tmp_path: Path, monkeypatch) -> None:
    folder, link = tmp_path / "real", tmp_path / "link"
    folder.mkdir()
    link.symlink_to(folder)
    private = [
        read_private(link, {}),
        read_private(folder, {"PWD": str(link)}),
        read_private(Path("/"), {"HONE_HOME": f"{link}/"}),
    ]
    monkeypatch.setenv("HOME", str(link))
    for one in (*private, read_private(Path("/"), {})):
        for path in (folder, link):
            with pytest.raises(HoneError, match=path.name):
                refuse_leaks({PurePosixPath("x"): f"{path}/a".encode()}, one)


@pytest.mark.parametrize(
    "name",
    ["ghp_" + "A1" * 18, "srv/teams/fraud/x", "opt/hone/model/srv/teams/fraud/x", "a/file:%2Fsrv%2Fteams%2Ffraud"],
)
def test_a_token_or_a_path_in_the_name_of_a_file_is_refused(name: str) -> None:
    with pytest.raises(HoneError, match="name of a file") as refused:
        refuse_leaks({PurePosixPath(name): b""}, read_private(PROJECT, VARIABLES))
    assert "ghp_" not in str(refused.value)
    if "ghp_" not in name:
        refuse_leaks({PurePosixPath(name): b""}, read_private(PROJECT, VARIABLES), paths=False)


def test_the_folders_of_an_image_are_no_paths_of_this_machine() -> None:
    refuse_leaks({PurePosixPath("opt/hone/model/x"): b""}, read_private(PROJECT, {"HONE_HOME": "/opt/hone"}))


@pytest.mark.parametrize(
    "text",
    [
        "https://user:password@host/x postgres://postgres:postgres@localhost https://me:$TOKEN@host https://a:***@host",
        "docker://ubuntu:22.04@sha256:0123 https://host:8080/path/@user http://me:${PASSWORD}@host https://a:<word>@host",
        "models:/digits@honed git@github.com:x/y s3://bucket/a@b ssh://git@github.com:22/x",
    ],
)
def test_a_url_without_a_real_password_is_accepted(text: str) -> None:
    accept(text.encode())


def test_our_own_files_have_no_token() -> None:
    source = Path(__file__).parents[4] / "src"
    files = {PurePosixPath(one.relative_to(source)): one for one in source.rglob("*") if one.is_file()}
    assert len(files) > 100
    refuse_leaks(
        {name: one for name, one in files.items() if name.suffix != ".pyc"}, read_private(PROJECT, {}), paths=False
    )
