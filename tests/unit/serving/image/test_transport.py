from __future__ import annotations

import base64
import json

import pytest
from container_registry import serve
from hypothesis import given, settings
from hypothesis import strategies as st

from kedro_hone.serving.image.credentials import Credentials
from kedro_hone.serving.image.transport import RegistryError, Transport

BASIC = base64.b64encode(b"ada:lovelace").decode()


def connect(base: str, *, basic: str = "", refresh: str = "") -> Transport:
    credentials = Credentials(basic=basic, refresh=refresh)
    return Transport(base, credentials=credentials, scope="repository:a/b:pull", direct=True)


@pytest.mark.parametrize(
    ("credentials", "sent"), [({"basic": BASIC}, f"Basic {BASIC}"), ({}, ""), ({"refresh": "r"}, "")]
)
def test_a_token_is_fetched_where_it_is_asked_for(credentials: dict[str, str], sent: str) -> None:
    def answer(method: str, path: str, authorization: str) -> tuple[int, dict[str, str], bytes]:
        if path.startswith("/token"):
            return 200, {}, json.dumps({"access_token": "t0k3n"}).encode()
        if authorization != "Bearer t0k3n":
            challenge = 'Bearer realm="http://{}/token",service="reg",scope="repository:a/b:pull"'
            return 401, {"WWW-Authenticate": challenge.replace("{}", host[0])}, b""
        return 200, {}, b"fine"

    host = [""]
    with serve(answer) as (base, seen):
        host[0] = base.removeprefix("http://")
        assert connect(base, **credentials).send("GET", "/v2/").read() == b"fine"
    method, path, authorization = seen[1]
    assert authorization == sent
    assert method == ("POST" if "refresh" in credentials else "GET")
    assert "refresh" in credentials or "scope=repository%3Aa%2Fb%3Apull" in path


def test_basic_credentials_are_sent_only_when_asked_for() -> None:
    def answer(method: str, path: str, authorization: str) -> tuple[int, dict[str, str], bytes]:
        return (200, {}, b"") if authorization else (401, {"WWW-Authenticate": 'Basic realm="x"'}, b"")

    with serve(answer) as (base, seen):
        connect(base, basic=BASIC).send("HEAD", "/v2/a").read()
        assert [one[2] for one in seen] == ["", f"Basic {BASIC}"]


@pytest.mark.attack(
    what="a registry that redirects a download elsewhere, to read the user's credentials there",
    who="network",
    stopped_by="credentials are sent to the registry's own host only",
)
def test_credentials_do_not_follow_a_redirect() -> None:
    with serve(lambda *_: (200, {}, b"stored")) as (storage, seen):

        def answer(method: str, path: str, authorization: str) -> tuple[int, dict[str, str], bytes]:
            if not authorization:
                return 401, {"WWW-Authenticate": 'Basic realm="x"'}, b""
            return 307, {"Location": f"{storage}/blob"}, b""

        with serve(answer) as (base, _):
            assert connect(base, basic=BASIC).send("GET", "/v2/a").read() == b"stored"
        assert seen == [("GET", "/blob", "")]


@pytest.mark.parametrize("realm", ["Basic realm={}", 'Bearer realm="{}/token",service="x"'])
def test_a_server_that_is_redirected_to_gets_no_credentials_for_the_asking(realm: str) -> None:
    with serve(lambda *_: (200, {}, b'{"token": "t"}')) as (thief, stolen):
        with serve(lambda *_: (401, {"WWW-Authenticate": realm.format(thief)}, b"")) as (storage, _):

            def answer(method: str, path: str, authorization: str) -> tuple[int, dict[str, str], bytes]:
                return 307, {"Location": f"{storage}/blob"}, b""

            with serve(answer) as (base, _), pytest.raises(RegistryError, match="401"):
                connect(base, basic=BASIC).send("GET", "/v2/a")
        assert stolen == []


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://127.0.0.1/x"])
def test_a_redirect_leads_to_no_file(target: str) -> None:
    with serve(lambda *_: (302, {"Location": target}, b"")) as (base, _), pytest.raises(RegistryError):
        connect(base).send("GET", "/v2/a")
    with pytest.raises(RegistryError, match="HTTPS"):
        connect("https://registry.example.org").resolve(target)


def test_uploads_stay_on_https() -> None:
    with pytest.raises(RegistryError, match="HTTPS"):
        connect("https://registry.example.org").resolve("http://registry.example.org/upload")


def test_a_refusal_has_the_registrys_words_and_no_secret() -> None:
    body = json.dumps({"errors": [{"code": "DENIED", "message": "no\n::error::right token=abcdefgh"}]}).encode()
    with serve(lambda *_: (403, {}, body)) as (base, _), pytest.raises(RegistryError) as refused:
        connect(base, basic=BASIC).send("PUT", "/v2/a", body=lambda: b"x")
    assert refused.value.status == 403
    assert not refused.value.is_passing
    assert "DENIED: no\\n::error::right" in str(refused.value)
    assert "abcdefgh" not in str(refused.value)


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"errors": 3}', b'{"errors": ["x"]}', b"\xff"])
def test_a_refusal_in_another_form_has_its_status(body: bytes) -> None:
    with serve(lambda *_: (503, {}, body)) as (base, _), pytest.raises(RegistryError, match="503") as refused:
        connect(base).send("GET", "/v2/a")
    assert refused.value.is_passing


def test_nobody_there_is_an_error_without_a_status() -> None:
    with serve(lambda *_: (200, {}, b"")) as (base, _):
        pass
    with pytest.raises(RegistryError) as refused:
        connect(base).send("GET", "/v2/")
    assert refused.value.status == 0
    assert refused.value.is_passing


NAMES = st.sampled_from(("token", "access_token", "errors", "code", "message"))
JSON = st.recursive(
    st.none() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None)
@given(JSON.map(lambda one: json.dumps(one).encode()) | st.binary(max_size=30) | st.just(b"[" * 100_000))
def test_whatever_a_registry_answers_is_an_error_of_a_registry(content: bytes) -> None:
    def answer(_method: str, path: str, authorization: str) -> tuple[int, dict[str, str], bytes]:
        if path.startswith("/token"):
            return 200, {}, content
        if path.startswith("/refused") or authorization:
            return 400, {}, content
        return 401, {"WWW-Authenticate": f'Bearer realm="{place[0]}/token"'}, b""

    place = [""]
    with serve(answer) as (base, _):
        place[0] = base
        for path in ("/v2/", "/refused"):
            with pytest.raises(RegistryError):
                connect(base).send("GET", path)


@pytest.mark.parametrize(
    "place", ["http://[", "http://[x]/", "http://h:port/", "http://a..b/", "http://\x01/", "//[::1"]
)
def test_a_place_that_is_no_url_is_an_error_of_a_registry(place: str) -> None:
    with serve(lambda *_: (307, {"Location": place}, b"")) as (base, _), pytest.raises(RegistryError):
        connect(base).send("GET", "/v2/")
    with serve(lambda *_: (202, {"Location": place}, b"")) as (base, _), pytest.raises(RegistryError):
        connect(base).send("GET", place)
