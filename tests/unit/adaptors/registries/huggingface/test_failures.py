"""What goes wrong with the Hub, by the exception of huggingface_hub or the response's status."""

from __future__ import annotations

import errno

import httpx2
import pytest
from huggingface_hub import constants, errors

from kedro_hone.adaptors.registries.huggingface.failures import explain
from kedro_hone.adaptors.registries.huggingface.references import Reference
from kedro_hone.adaptors.registries.patience import StalledError

READ, WRITE = Reference("org/model", "main"), Reference("org/model", "main", writes=True)


def respond(status, kind=errors.HfHubHTTPError, said="no", **headers):
    request = httpx2.Request("GET", "https://127.0.0.1:9/api")
    return kind(said, response=httpx2.Response(status, headers=headers, request=request))


def wrap(error):
    found = errors.LocalEntryNotFoundError("look at the cause")
    found.__cause__ = error
    return found


@pytest.mark.parametrize(
    ("error", "place", "slug"),
    [
        (respond(401), READ, "registry-denied"),
        (respond(401, errors.RepositoryNotFoundError), READ, "registry-denied"),
        (respond(403, errors.GatedRepoError), READ, "registry-denied"),
        (respond(403), WRITE, "registry-denied"),
        (respond(403, said="the storage limit is reached"), WRITE, "registry-full"),
        (respond(403, said="the storage limit is reached"), READ, "registry-denied"),
        (ValueError("Private repository storage limit reached"), WRITE, "registry-full"),
        (respond(507), WRITE, "registry-full"),
        (respond(404, errors.RepositoryNotFoundError), READ, "model-unknown"),
        (respond(404, errors.RevisionNotFoundError), READ, "version-unknown"),
        (respond(404), READ, "registry-unreachable"),
        (respond(409), WRITE, "registry-moved"),
        (respond(412), WRITE, "registry-moved"),
        (respond(429), READ, "registry-limited"),
        (wrap(respond(429)), READ, "registry-limited"),
        (respond(500), READ, "registry-unreachable"),
        (OSError(errno.ENOSPC, "full"), READ, "store-full"),
        (OSError(errno.EROFS, "read-only"), READ, "store-read-only"),
        (OSError("the size is another"), READ, "registry-unreachable"),
        (httpx2.ConnectError("refused"), READ, "registry-unreachable"),
        (errors.OfflineModeIsEnabled("offline"), READ, "registry-offline"),
        (KeyError("sha"), READ, "registry-unreachable"),
    ],
)
def test_each_has_its_slug(error, place, slug):
    assert explain(error, place, endpoint="https://127.0.0.1:9").slug == slug


@pytest.mark.parametrize(("last", "slug"), [(429, "registry-limited"), (503, "registry-unreachable")])
def test_a_call_that_took_too_long_is_explained_by_its_last_response(last, slug):
    error = explain(StalledError("It took long."), READ, endpoint="https://127.0.0.1:9", last=last)
    assert (error.slug, error.why) == (slug, f"It took long. Its last response had the status {last}.")


def test_what_the_cache_lacks_is_offline(monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert explain(KeyError("sha"), READ, endpoint="https://127.0.0.1:9").slug == "registry-offline"


def test_a_limit_says_how_long_to_wait():
    error = explain(respond(429, **{"Retry-After": "300"}), READ, endpoint="https://127.0.0.1:9")
    assert "a wait of 300 seconds" in error.why
