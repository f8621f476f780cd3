from __future__ import annotations

import contextlib
import json

import pytest
from deliveries import CREATED, NOW, PUSHED, SECRET, SHA, sign
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kedro_hone.events.deliveries import (
    ForgedError,
    UnreadableError,
    check_hub,
    check_mlflow,
    read_hub,
    read_mlflow,
)
from kedro_hone.events.event import Kind


def test_a_signature_as_mlflow_makes_it():
    body = json.dumps(CREATED).encode()
    assert check_mlflow(sign(body), body, secret=SECRET, now=NOW) == "d-1"


def test_a_signature_of_an_older_mlflow_is_named():
    with pytest.raises(ForgedError, match="an older MLflow"):
        check_mlflow({**sign(b"body"), "x-mlflow-signature": "sha256=00"}, b"body", secret=SECRET, now=NOW)


@pytest.mark.parametrize("tag", ["mlflow.prompt.is_prompt", "mlflow.prompt.text", "_mlflow_prompt_type"])
def test_a_prompt_is_no_model(tag):
    version = {"name": "greeting", "version": "2"}
    created = {"entity": "model_version", "action": "created", "data": {**version, "tags": {tag: "true"}}}
    tagged = {"entity": "model_version_tag", "action": "set", "data": {**version, "key": tag, "value": "x"}}
    assert read_mlflow(json.dumps(created).encode(), delivery="d") == ()
    assert read_mlflow(json.dumps(tagged).encode(), delivery="d") == ()


@pytest.mark.parametrize(
    "headers",
    [
        {},
        sign(b"other"),
        sign(b"body", secret=SECRET[1:]),
        sign(b"body", stamp=str(int(NOW) - 301)),
        sign(b"body", stamp=str(int(NOW) + 301)),
        sign(b"body", stamp="9" * 400),
        sign(b"body", stamp="soon"),
        {**sign(b"body"), "x-mlflow-delivery-id": "d-2"},
        {**sign(b"body"), "x-mlflow-signature": "ünsigned"},
    ],
)
def test_what_is_forged_or_old_is_refused(headers):
    with pytest.raises(ForgedError):
        check_mlflow(headers, b"body", secret=SECRET, now=NOW)


@pytest.mark.parametrize("missing", [False, True], ids=["empty", "missing"])
def test_a_delivery_without_an_id_would_be_the_same_as_each_other_one(missing):
    headers = sign(b"body", delivery="")
    if missing:
        del headers["x-mlflow-delivery-id"]
    with pytest.raises(UnreadableError, match="x-mlflow-delivery-id"):
        check_mlflow(headers, b"body", secret=SECRET, now=NOW)


def test_the_hub_sends_its_secret():
    check_hub({"x-webhook-secret": SECRET}, secret=SECRET)
    for headers in ({}, {"x-webhook-secret": "guessed"}, {"x-webhook-secret": ""}, {"x-webhook-secret": "ü"}):
        with pytest.raises(ForgedError):
            check_hub(headers, secret=SECRET)


@pytest.mark.parametrize(
    ("entity", "action", "more", "said"),
    [
        ("model_version", "created", {}, (Kind.VERSION_CREATED, "", "")),
        ("model_version_alias", "created", {"alias": "candidate"}, (Kind.ALIAS_SET, "candidate", "")),
        ("model_version_tag", "set", {"key": "optimize", "value": "yes"}, (Kind.TAG_SET, "optimize", "yes")),
    ],
)
def test_what_mlflow_says(entity, action, more, said):
    body = json.dumps({"entity": entity, "action": action, "data": {"name": "clf", "version": "2", **more}}).encode()
    (event,) = read_mlflow(body, delivery="d-1")
    assert (event.uri, (event.kind, event.key, event.value)) == ("models:/clf/2", said)
    assert event.delivery == "mlflow:d-1"


def test_what_is_of_no_version_says_nothing():
    assert (
        read_mlflow(b'{"entity": "registered_model", "action": "created", "data": {"name": "x"}}', delivery="d") == ()
    )
    assert read_mlflow(b'{"entity": ["a"], "action": {}}', delivery="d") == ()


def test_a_push_to_the_main_branch():
    (event,) = read_hub(json.dumps(PUSHED).encode(), delivery="d")
    assert (event.kind, event.uri) == (Kind.VERSION_CREATED, f"hf://org/clf@{SHA}")


@pytest.mark.parametrize(
    "changes",
    [
        {"repo": {"type": "dataset", "name": "org/clf"}},
        {"updatedRefs": [{"ref": "refs/pr/1", "newSha": SHA}]},
        {"updatedRefs": [{"ref": "refs/heads/main", "newSha": None}]},
        {"updatedRefs": None},
    ],
)
def test_what_is_no_push_to_a_model_says_nothing(changes):
    assert read_hub(json.dumps(PUSHED | changes).encode(), delivery="d") == ()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b"\xff",
        b"[" * 100_000,
        json.dumps(CREATED | {"data": None}).encode(),
        json.dumps(CREATED | {"data": {"name": "a/../b", "version": "1"}}).encode(),
        json.dumps(CREATED | {"data": {"name": "a", "version": "1@x"}}).encode(),
        json.dumps(CREATED | {"data": {"name": "a\n", "version": "1"}}).encode(),
        json.dumps(CREATED | {"data": {"name": "a" * 501, "version": "1"}}).encode(),
    ],
)
def test_what_cannot_be_read_is_refused(body):
    with pytest.raises(UnreadableError):
        read_mlflow(body, delivery="d")


@pytest.mark.parametrize("sha", ["main", "A" * 40, "0" * 39, "../" + "0" * 37, 7])
def test_a_commit_that_is_none_is_refused(sha):
    pushed = PUSHED | {"updatedRefs": [{"ref": "refs/heads/main", "newSha": sha}]}
    with pytest.raises(UnreadableError):
        read_hub(json.dumps(pushed).encode(), delivery="d")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(suppress_health_check=[HealthCheck.too_slow])  # on a busy machine
@given(
    st.fixed_dictionaries(
        {}, optional=dict.fromkeys(("entity", "action", "data", "repo", "updatedRefs", "event"), JSON)
    )
)
def test_any_json_is_read_or_refused(told):
    for read in (read_mlflow, read_hub):
        with contextlib.suppress(UnreadableError):
            assert isinstance(read(json.dumps(told).encode(), delivery="d"), tuple)
