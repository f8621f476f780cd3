"""Webhooks of MLflow and of the Hugging Face Hub: their signatures, and the events in them.

MLflow signs ``<delivery id>.<timestamp>.<body>`` with HMAC-SHA256 (https://mlflow.org/docs/latest/ml/webhooks/). The
registry of a Databricks workspace signs the body (https://docs.databricks.com/mlflow/model-registry-webhooks.html). The
Hub sends its secret in plain text (https://huggingface.co/docs/hub/webhooks), so TLS is required.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Mapping
from typing import Any, Final

from hone_runtime.contract.tags import SOURCE
from kedro_hone.events.event import Event, Kind

WINDOW: Final = 300.0
"""Seconds by which the sender's clock and ours may differ; an older delivery may be a replayed one."""
_SIGNATURE, _TIMESTAMP, _DELIVERY = "x-mlflow-signature", "x-mlflow-timestamp", "x-mlflow-delivery-id"
_WORKSPACE = "x-databricks-signature"
_SECRET = "x-webhook-secret"  # noqa: S105 - the name of a header
_BRANCH: Final = "refs/heads/main"


class ForgedError(ValueError):
    """A delivery that was not signed with the secret."""


class UnreadableError(ValueError):
    """A delivery without a readable event."""


def check_mlflow(headers: Mapping[str, str], body: bytes, *, secret: str, now: float) -> str:
    """Check the signature of a delivery of MLflow, and return its id.

    A delivery of a Databricks workspace has no id and no time: the same body is the same delivery.

    Args:
        headers: The headers by name in lower case.
        body: The body as received.
        secret: The webhook's secret.
        now: Seconds since 1970.

    Raises:
        ForgedError: The signature is missing or wrong, or the time is too far from now.
        UnreadableError: It has no id: all such deliveries would count as the same.
    """
    if _WORKSPACE in headers and _SIGNATURE not in headers:
        wanted = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        if not hmac.compare_digest(wanted.encode(), headers[_WORKSPACE].encode()):
            raise ForgedError("its signature was made with another secret")
        return f"workspace-{hashlib.sha256(body).hexdigest()}"
    delivery, stamp, given = (headers.get(name, "") for name in (_DELIVERY, _TIMESTAMP, _SIGNATURE))
    signed = f"{delivery}.{stamp}.".encode() + body
    wanted = "v1," + base64.b64encode(hmac.new(secret.encode(), signed, hashlib.sha256).digest()).decode()
    if not hmac.compare_digest(wanted.encode(), given.encode()):
        if given.startswith("sha256="):
            raise ForgedError("its signature has the form of an older MLflow: update the server that sends it")
        raise ForgedError("its signature is missing, or was made with another secret")
    if not (stamp.isdecimal() and abs(now - int(stamp[:12])) <= WINDOW):
        raise ForgedError(
            f"it was signed at {stamp[:12]!r}, over {WINDOW:.0f} s from {now:.0f}: are both clocks right?"
        )
    if not delivery:
        raise UnreadableError(f"it has no id in {_DELIVERY}; does a proxy leave out the header?")
    return delivery


def check_hub(headers: Mapping[str, str], *, secret: str) -> None:
    """Check the secret of a delivery of the Hub.

    Raises:
        ForgedError: It is missing or wrong.
    """
    if not hmac.compare_digest(secret.encode(), headers.get(_SECRET, "").encode()):
        raise ForgedError("its secret is missing, or another one")


def read_mlflow(body: bytes, *, delivery: str) -> tuple[Event, ...]:
    """Return the event in a delivery of MLflow; none if it is not about a version, or about a winner.

    Raises:
        UnreadableError: It is not JSON, or lacks the model or the version.
    """
    given = _read(body)
    if given.get("event") == "MODEL_VERSION_CREATED":  # of a workspace of Databricks
        created = {"entity": "model_version", "action": "created"}
        given = {**created, "data": {"name": given.get("model_name"), "version": given.get("version")}}
    data = given.get("data")
    kinds = {
        ("model_version", "created"): (Kind.VERSION_CREATED, "", ""),
        ("model_version_alias", "created"): (Kind.ALIAS_SET, "alias", ""),
        ("model_version_tag", "set"): (Kind.TAG_SET, "key", "value"),
    }
    entity, action = given.get("entity"), given.get("action")
    if not (isinstance(entity, str) and isinstance(action, str) and (entity, action) in kinds):
        return ()
    kind, key, value = kinds[entity, action]
    if not isinstance(data, dict):
        raise UnreadableError("it has no data")
    name, version = _take(data, "name"), _take(data, "version")
    if not re.fullmatch("[1-9][0-9]*", version) or set(name) & set("/:@"):  # another form of a number is another key
        raise UnreadableError("it names no version of a model")
    tags = data.get("tags")
    if kind is Kind.VERSION_CREATED and isinstance(tags, dict) and SOURCE in tags:
        return ()  # a winner: no event optimizes it again
    if _is_of_prompt({*(tags if isinstance(tags, dict) else ()), _take(data, key) if key else ""}):
        return ()
    event = Event(
        kind=kind,
        uri=f"models:/{name}/{version}",
        name=name,
        key=_take(data, key) if key else "",
        value=str(data.get(value) or "")[:1000] if value else "",
        delivery=f"mlflow:{delivery}",
    )
    return (event,)


def _is_of_prompt(tags: set[str]) -> bool:
    """Return whether the tags are those of a prompt, which MLflow stores as a model version."""
    return any(tag.startswith(("mlflow.prompt.", "_mlflow_prompt_")) for tag in tags)


def read_hub(body: bytes, *, delivery: str) -> tuple[Event, ...]:
    """Return the new commits on the main branch of a model in a delivery of the Hub; empty for all others.

    Args:
        body: The body as received.
        delivery: An id of our own: the Hub sends none, and if a person resends a delivery, the body is the same.

    Raises:
        UnreadableError: It is not JSON, or lacks the repository or the commit.
    """
    given = _read(body)
    repository, refs = given.get("repo"), given.get("updatedRefs") or []
    if not isinstance(repository, dict) or not isinstance(refs, list):
        raise UnreadableError("it names no repository")
    if repository.get("type") != "model":
        return ()
    name = _take(repository, "name")
    news = [ref for ref in refs if isinstance(ref, dict) and ref.get("ref") == _BRANCH and ref.get("newSha")]
    shas = [_take(ref, "newSha") for ref in news]
    if any(len(sha) != 40 or set(sha) - set("0123456789abcdef") for sha in shas) or set(name) & set(":@"):
        raise UnreadableError("it names no commit of a repository")
    return tuple(
        Event(kind=Kind.VERSION_CREATED, uri=f"hf://{name}@{sha}", name=name, delivery=f"hf:{delivery}:{sha}")
        for sha in shas
    )


def _read(body: bytes) -> dict[str, Any]:
    try:
        given = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise UnreadableError("it is not JSON") from error
    if not isinstance(given, dict):
        raise UnreadableError("it is not a JSON object")
    return given


def _take(data: Mapping[str, Any], key: str) -> str:
    value = data.get(key)
    if not isinstance(value, str) or not 0 < len(value) <= 500 or not value.isprintable():
        raise UnreadableError(f"its {key!r} is missing, or no text")
    return value
