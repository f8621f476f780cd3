"""Failures of the Hub as errors for people: one table from exceptions to slugs, and one from slugs to texts."""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping
from typing import Any, Final

from huggingface_hub import constants, errors, get_token

from hone_runtime.errors import HoneError
from kedro_hone.adaptors.registries.huggingface.references import Reference
from kedro_hone.adaptors.registries.patience import StalledError

_SLUGS: Final[tuple[tuple[type[BaseException], frozenset[int] | None, str], ...]] = (
    (errors.OfflineModeIsEnabled, None, "registry-offline"),
    (errors.LocalTokenNotFoundError, None, "registry-denied"),
    (OSError, frozenset({errno.ENOSPC, errno.EDQUOT}), "store-full"),
    (OSError, frozenset({errno.EACCES, errno.EPERM, errno.EROFS}), "store-read-only"),
    (Exception, frozenset({413, 507}), "registry-full"),
    (Exception, frozenset({401, 403}), "registry-denied"),
    (errors.RepositoryNotFoundError, None, "model-unknown"),
    (errors.RevisionNotFoundError, None, "version-unknown"),
    (Exception, frozenset({409, 412}), "registry-moved"),
    (Exception, frozenset({429}), "registry-limited"),
    (BaseException, None, "registry-unreachable"),
)
"""The first matching row applies: the kind of exception, the response's status or errno (None for any), the slug."""
_CACHE: Final = (
    "The cache of huggingface_hub in {cache} cannot be written.",
    "{said}",
    "Free space there, or let HF_HUB_CACHE name a folder that can be written; then run again.",
)
_TEXTS: Final[Mapping[str, tuple[str, str, str]]] = {
    "registry-offline": (
        "{uri} cannot be reached offline.",
        "HF_HUB_OFFLINE is set: publishing needs the Hub, and so does what the cache in {cache} does not have.",
        "Run once with HF_HUB_OFFLINE=0, or name a commit that the cache has.",
    ),
    "registry-denied": (
        "The Hub at {endpoint} denies access{to}; nothing was written.",
        "{said}{token}",
        "Check the name, HF_TOKEN and what its account may do, and, for a gated model, the terms on {endpoint}/{name}.",
    ),
    "registry-full": (
        "The Hub takes no more files for {uri}; nothing was committed.",
        "{said}",
        "Free storage of the account, or request more; then run `kedro-hone run --pipelines publish`.",
    ),
    "registry-moved": (
        "{name} has changed since it was optimized; nothing was pushed.",
        "{said}",
        "Run again for the current model, or name another target in hone.publish.uri.",
    ),
    "registry-limited": (
        "The Hub at {endpoint} takes no more requests for now.",
        "{said}",
        "Wait, and run again: what was downloaded and built is kept. With HF_TOKEN set the Hub allows more.",
    ),
    "registry-unreachable": (
        "The Hub at {endpoint} does not respond as it should.",
        "{said}",
        "Check the network and HF_ENDPOINT, then run again: whole files are kept. HF_HUB_OFFLINE=1 reads the cache.",
    ),
    "model-unknown": (
        "The Hub has no model {name!r}.",
        "The Hub does not show private repositories to other accounts.",
        "Check the name and, where it is private, that HF_TOKEN belongs to an account that may read it.",
    ),
    "version-unknown": (
        "{name!r} has no revision {revision!r}.",
        "There is no such branch, tag or commit.",
        "Name a branch, a tag or a commit that {endpoint}/{name}/tree/main shows.",
    ),
    "store-full": _CACHE,
    "store-read-only": _CACHE,
}
_QUOTA: Final = re.compile(r"storage (limit|quota)|quota|LFS (limit|budget)|space (left|exceeded)", re.IGNORECASE)
_MAY_BE_FULL: Final = frozenset({None, 400, 402, 403})
"""For these statuses, only the text of the response shows that the storage of an account is full."""
_LONGEST: Final = 400


def explain(error: BaseException, place: Reference, *, endpoint: str, last: int | None = None) -> HoneError:
    """Return the error for people for an exception of huggingface_hub.

    Args:
        error: The exception.
        place: The reference that the call was about.
        endpoint: The Hub's address.
        last: The status of the last error response, for a call that took too long.
    """
    error = _unwrap(error)
    code = read_status(error) or getattr(error, "errno", None)
    reason = _quote(error)
    if isinstance(error, StalledError) and last is not None:
        code, reason = last, f"{reason} Its last response had the status {last}."
    slug = next(slug for kind, codes, slug in _SLUGS if isinstance(error, kind) and (codes is None or code in codes))
    if place.writes and code in _MAY_BE_FULL and _QUOTA.search(reason):
        slug = "registry-full"
    if slug == "registry-unreachable" and constants.is_offline_mode():
        slug = "registry-offline"
    if (seconds := read_wait(error)) is not None:
        reason += f" It requests a wait of {seconds:g} seconds."
    return describe(slug, place, reason, endpoint=endpoint)


def describe(slug: str, place: Reference, reason: str, *, endpoint: str = "") -> HoneError:
    """Return the error for a slug, with a reason, one sentence or several."""
    facts = {
        **place._asdict(),
        "said": reason,
        "endpoint": endpoint,
        "uri": place.uri,
        "to": f" to {place.uri}" if place.name else "",
        "cache": constants.HF_HUB_CACHE,
        "token": ""
        if get_token()
        else " No token is set; without one the Hub also denies access to models that do not exist.",
    }
    what, why, hint = (text.format(**facts) for text in _TEXTS[slug])
    return HoneError(slug, what, why=why, hint=hint)


def read_status(error: BaseException) -> int | None:
    """Return the status of an error's response; None if absent."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    return status if isinstance(status, int) else None


def read_wait(error: BaseException) -> float | None:
    """Return the seconds in a response's ``Retry-After``; None if absent."""
    response: Any = getattr(error, "response", None)
    text = "" if response is None else str(response.headers.get("Retry-After", ""))
    return float(text) if text.isdecimal() else None


def _unwrap(error: BaseException) -> BaseException:
    """Return the original error: huggingface_hub wraps errors of threads, and those after which it tried its cache."""
    while isinstance(error, RuntimeError | errors.LocalEntryNotFoundError) and error.__cause__ is not None:
        error = error.__cause__
    return error


def _quote(error: BaseException) -> str:
    """Return the text of an error, as one line of limited length."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = " ".join(lines[:4]) or type(error).__name__
    if not isinstance(error, errors.HfHubHTTPError | StalledError | OSError):
        text = f"{type(error).__name__}: {text}"
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
