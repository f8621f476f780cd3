"""What goes wrong with the Hub, as errors for people: by the exception of huggingface_hub, or a response's status."""

from __future__ import annotations

import errno
import re
from typing import Any, Final, NamedTuple

from huggingface_hub import constants, errors, get_token

from kedro_hone.core.errors import HoneError

_SPENT: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_UNWRITABLE: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_QUOTA: Final = re.compile(r"storage (limit|quota)|quota|LFS (limit|budget)|space (left|exceeded)", re.IGNORECASE)
_FULL: Final = frozenset({413, 507})
_MAY_BE_FULL: Final = frozenset({None, 400, 402, 403})
_DENIED: Final = frozenset({401, 403})
_MOVED: Final = frozenset({409, 412})
_TOO_MANY: Final = 429
_LIMITED: Final = re.compile(r"HTTP Error 429\b|Rate limited")
"""How huggingface_hub logs a limit (``utils/_http.py``); a port or a digest in its line may hold the same digits."""
_LONGEST: Final = 400


class Place(NamedTuple):
    """What a call is about: a repository at a revision, and whether it writes there."""

    name: str
    revision: str = ""
    writes: bool = False

    @property
    def uri(self) -> str:
        """The URI of it, as a recipe names it."""
        return f"hf://{self.name}" + (f"@{self.revision}" if self.revision else "")


class StalledError(Exception):
    """A call took longer than it may; ``heard`` is what huggingface_hub said last, such as why it tries again."""

    def __init__(self, seconds: float, heard: str = "") -> None:
        super().__init__(f"It sent nothing for {seconds:g} seconds." + (f" {heard}" if heard else ""))
        self.limited = _LIMITED.search(heard) is not None


def explain(error: BaseException, place: Place, *, endpoint: str) -> HoneError:
    """Return the error for people of what huggingface_hub raised at a place of a Hub."""
    error = _unwrap(error)
    said, status = _quote(error), read_status(error)
    if isinstance(error, errors.OfflineModeIsEnabled | errors.LocalEntryNotFoundError) and constants.is_offline_mode():
        found = explain_offline(place)
    elif isinstance(error, OSError) and error.errno in _SPENT | _UNWRITABLE:
        found = _explain_cache(error)
    elif status in _FULL or (status in _MAY_BE_FULL and place.writes and _QUOTA.search(said)):
        found = _explain_full(place, said)
    elif status in _DENIED or isinstance(error, errors.LocalTokenNotFoundError):
        found = _explain_denied(error, place, said, endpoint)
    elif isinstance(error, errors.RepositoryNotFoundError | errors.RevisionNotFoundError):
        found = _explain_unknown(error, place, endpoint)
    elif status in _MOVED:
        found = explain_moved(place.name, said)
    elif status == _TOO_MANY or (isinstance(error, StalledError) and error.limited):
        found = _explain_limited(error, said, endpoint)
    else:
        found = _explain_unreachable(said, endpoint)
    return found


def explain_offline(place: Place) -> HoneError:
    """Return the error for what ``HF_HUB_OFFLINE`` forbids to ask for, and the cache does not hold."""
    cache = constants.HF_HUB_CACHE
    return HoneError(
        "registry-offline",
        f"{place.uri} cannot be {'published to' if place.writes else 'read'} offline.",
        why="HF_HUB_OFFLINE is set, and "
        + ("publishing needs the Hub." if place.writes else f"the cache in {cache} does not hold all of it."),
        hint="Run once with HF_HUB_OFFLINE=0" + ("." if place.writes else ", or name a commit that the cache holds."),
    )


def explain_moved(name: str, why: str) -> HoneError:
    """Return the error for a repository that has other content than the one that was optimized."""
    return HoneError(
        "registry-moved",
        f"{name} moved on since it was optimized; nothing was pushed.",
        why=why,
        hint="Run `kedro run` again, which optimizes what is there now; or name another repository or branch in "
        "hone.publish.uri.",
    )


def read_status(error: BaseException) -> int | None:
    """Return the status of the response that an error is about, if it is about one."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    return status if isinstance(status, int) else None


def read_wait(error: BaseException) -> float | None:
    """Return how many seconds a response asks to wait for, if it does."""
    response: Any = getattr(error, "response", None)
    text = "" if response is None else str(response.headers.get("Retry-After", ""))
    return float(text) if text.isdecimal() else None


def _unwrap(error: BaseException) -> BaseException:
    """Return what happened: huggingface_hub wraps errors of its threads, and those that its cache was asked after."""
    while isinstance(error, RuntimeError | errors.LocalEntryNotFoundError) and error.__cause__ is not None:
        error = error.__cause__
    return error


def _explain_full(place: Place, said: str) -> HoneError:
    return HoneError(
        "registry-full",
        f"The Hub takes no more files for {place.uri}; nothing was committed.",
        why=said,
        hint="Free storage of the account, or ask for more; then run `kedro run --pipelines publish`.",
    )


def _explain_denied(error: BaseException, place: Place, said: str, endpoint: str) -> HoneError:
    known = bool(get_token())
    if isinstance(error, errors.GatedRepoError):
        hint = f"Accept its terms on {endpoint}/{place.name} with the account that HF_TOKEN is of."
    elif place.writes:
        hint = "Set HF_TOKEN to a token with the right to write to this repository. Nothing was committed."
    elif known:
        hint = "Check that HF_TOKEN is valid, and of an account that may read this repository."
    else:
        hint = "Check the name; where it is private, set HF_TOKEN to a token of an account that may read it."
    lacks = "" if known else " No token is set; without one the Hub says so of what does not exist, too."
    what = f"The Hub at {endpoint} denies access{f' to {place.uri}' if place.name else ''}."
    return HoneError("registry-denied", what, why=said + lacks, hint=hint)


def _explain_unknown(error: BaseException, place: Place, endpoint: str) -> HoneError:
    if isinstance(error, errors.RepositoryNotFoundError):
        why = "A repository that is private does not show itself to others either."
        hint = "Check the name and, where it is private, that HF_TOKEN is of an account that may read it."
        return HoneError("model-unknown", f"The Hub has no model {place.name!r}.", why=why, hint=hint)
    what, why = f"{place.name!r} has no revision {place.revision!r}.", "There is no such branch, tag or commit."
    hint = f"Name a branch, a tag or a commit that {endpoint}/{place.name}/tree/main shows."
    return HoneError("version-unknown", what, why=why, hint=hint)


def _explain_limited(error: BaseException, said: str, endpoint: str) -> HoneError:
    seconds = read_wait(error)
    return HoneError(
        "registry-limited",
        f"The Hub at {endpoint} takes no more requests for now.",
        why=said + ("" if seconds is None else f" It asks to wait for {seconds:g} seconds."),
        hint="Wait, and run again: what was downloaded and built is kept. With HF_TOKEN set the Hub allows more.",
    )


def _explain_unreachable(why: str, endpoint: str) -> HoneError:
    return HoneError(
        "registry-unreachable",
        f"The Hub at {endpoint} does not respond as it should.",
        why=why,
        hint="Check the network and HF_ENDPOINT, then run again: what was downloaded is kept. HF_HUB_OFFLINE=1 "
        "reads the cache alone.",
    )


def _explain_cache(error: OSError) -> HoneError:
    what = f"The cache of huggingface_hub in {constants.HF_HUB_CACHE} cannot be written."
    slug = "store-full" if error.errno in _SPENT else "store-read-only"
    hint = "Free space there, or let HF_HUB_CACHE name a folder that can be written; then run again."
    return HoneError(slug, what, why=str(error), hint=hint)


def _quote(error: BaseException) -> str:
    """Return what an error says, in one line of a bounded length."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = " ".join(lines[:4]) or type(error).__name__
    if not isinstance(error, errors.HfHubHTTPError | StalledError | OSError):
        text = f"{type(error).__name__}: {text}"
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
