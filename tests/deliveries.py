"""Webhooks as MLflow and the Hub send them, and the rules and secrets of a service that takes them."""

from __future__ import annotations

import base64
import hashlib
import hmac

from kedro_hone.events.job import JobRequest, Optimize

NOW, SECRET, SHA = 1795168247.0, "s3cret", "0123456789abcdef0123456789abcdef01234567"
CREATED = {
    "entity": "model_version",
    "action": "created",
    "timestamp": "2026-11-20T09:50:47.147492+00:00",
    "data": {"name": "clf", "version": "2", "source": "models:/m-8e4ba11b", "run_id": None, "tags": {}},
}
PUSHED = {
    "event": {"action": "update", "scope": "repo.content"},
    "repo": {"type": "model", "name": "org/clf", "head_sha": SHA},
    "updatedRefs": [{"ref": "refs/heads/main", "oldSha": "0" * 40, "newSha": SHA}],
    "webhook": {"id": "x", "version": 3},
}


def sign(body, *, stamp=str(int(NOW)), delivery="d-1", secret=SECRET):
    digest = hmac.new(secret.encode(), f"{delivery}.{stamp}.".encode() + body, hashlib.sha256).digest()
    return {
        "x-mlflow-delivery-id": delivery,
        "x-mlflow-timestamp": stamp,
        "x-mlflow-signature": "v1," + base64.b64encode(digest).decode(),
    }


SECRETS = {
    "mlflow": "the secret of mlflow",
    "huggingface": "the secret of the hub",
    "token": "the token of people",
    "github": "the token of github",
}
RULES = [
    {"name": "digits", "models": "digits", "events": ["version_created", "alias_set:candidate"]},
    {"name": "hub", "models": "hf://org/*", "recipe": {"threads": 1}},
    {
        "name": "handed",
        "models": "handed-*",
        "dispatch": {"repository": "o/r"},
    },
]


def make_job(uri="models:/digits/1", **changes):
    given = {"rule": "all", "task": Optimize(), "device": "cpu", "hardware": "h"}
    return JobRequest.make(uri=uri, **{**given, **changes})
