"""A connection to the Hub: every call ends within a bound, is tried again where that helps, and explains its errors.

``huggingface_hub`` reads ``HF_ENDPOINT``, ``HF_TOKEN``, ``HF_HOME``, ``HF_HUB_CACHE`` and ``HF_HUB_OFFLINE`` itself; none
of its settings is changed here. It waits without a limit for most responses, and sleeps as long as a ``Retry-After``
asks for, so that its calls are made in a thread that is not waited for any longer than is sensible.
"""

from __future__ import annotations

import errno
import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from huggingface_hub import HfApi, constants, errors, get_token

from kedro_hone import __version__
from kedro_hone.core.errors import HoneError

T = TypeVar("T")

PATIENCE_SECONDS: Final = 45.0
"""How long the Hub may take to respond to one call, all tries of it together."""
STALL_SECONDS: Final = 120.0
"""How long a download may stand still."""
SLOWEST_UPLOAD: Final = 125_000
"""Bytes a second that an upload must reach on average: 1 Mbit/s."""
LONGEST_WAIT: Final = 30.0
"""The longest ``Retry-After``, in seconds, that is waited for; a longer one is an error that says it."""
_TRIES: Final = 3
_SPENT: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_UNWRITABLE: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_QUOTA: Final = re.compile(r"storage (limit|quota)|quota|LFS (limit|budget)|space (left|exceeded)", re.IGNORECASE)
_BUSY: Final = frozenset({408, 429, 500, 502, 503, 504})


class Place(NamedTuple):
    """What a call is about, for its errors: a repository at a revision, and whether it writes."""

    name: str
    revision: str = ""
    writes: bool = False

    @property
    def uri(self) -> str:
        """The URI of it, as a recipe names it."""
        return f"hf://{self.name}" + (f"@{self.revision}" if self.revision else "")


class StalledError(Exception):
    """A call took longer than it may."""


class Connection:
    """The Hub as the environment names it, with the user's token and cache."""

    def __init__(self) -> None:
        self.api = HfApi(endpoint=constants.ENDPOINT, library_name="kedro-hone", library_version=__version__)

    @property
    def endpoint(self) -> str:
        """The Hub's address, without a slash at the end."""
        return str(self.api.endpoint)

    @property
    def offline(self) -> bool:
        """Whether ``HF_HUB_OFFLINE`` forbids requests."""
        return bool(constants.is_offline_mode())

    def find_folder(self, name: str) -> Path:
        """Return the folder of a repository in huggingface_hub's cache, which may not exist."""
        return Path(constants.HF_HUB_CACHE).expanduser() / f"models--{name.replace('/', '--')}"

    def ask(self, call: Callable[[], T], place: Place, *, tries: int = _TRIES, patience: float | None = None) -> T:
        """Return what a call of huggingface_hub returns, tried again where the Hub is busy, within a bound.

        Raises:
            HoneError: What went wrong, as ``explain`` says it.
        """
        patience = PATIENCE_SECONDS if patience is None else patience
        end = time.monotonic() + patience
        while True:
            tries -= 1
            try:
                return run_bounded(call, patience=max(end - time.monotonic(), 0.1))
            except HoneError:
                raise
            except Exception as error:
                pause = _find_pause(error) if tries else None
                if pause is None or time.monotonic() + pause > end:
                    raise self.explain(error, place) from error
                time.sleep(pause)

    def explain(self, error: BaseException, place: Place) -> HoneError:
        """Return the error for people of what huggingface_hub raised."""
        while isinstance(error, RuntimeError) and error.__cause__ is not None:  # it wraps those of its threads
            error = error.__cause__
        cause = error.__cause__ if isinstance(error, errors.LocalEntryNotFoundError) else None
        if cause is not None:
            error = cause
        response = getattr(error, "response", None)
        status = getattr(response, "status_code", None)
        if isinstance(error, errors.OfflineModeIsEnabled | errors.LocalEntryNotFoundError) and self.offline:
            return self.explain_offline(place)
        if isinstance(error, OSError) and error.errno in _SPENT | _UNWRITABLE:
            return _explain_cache(error)
        said = _quote(error)
        if status in {413, 507} or (status in {None, 400, 402, 403} and _QUOTA.search(said)):
            return HoneError(
                "registry-full",
                f"The Hub takes no more files for {place.uri}.",
                why=said,
                hint="Free storage of the account, or ask for more; then run `kedro run --pipelines publish`. Nothing "
                "was committed.",
            )
        if status in {401, 403}:
            return self._explain_denied(error, place, said)
        if isinstance(error, errors.RepositoryNotFoundError):
            why = "A repository that is private does not show itself to others either."
            hint = "Check the name and, where it is private, that HF_TOKEN is of an account that may read it."
            return HoneError("model-unknown", f"The Hub has no model {place.name!r}.", why=why, hint=hint)
        if isinstance(error, errors.RevisionNotFoundError):
            what = f"{place.name!r} has no revision {place.revision!r}."
            hint = f"Name a branch, a tag or a commit that {self.endpoint}/{place.name}/tree/main shows."
            return HoneError("version-unknown", what, why="There is no such branch, tag or commit.", hint=hint)
        if status in {409, 412}:
            return explain_moved(place.name, said)
        if status == 429:
            return HoneError(
                "registry-limited",
                f"The Hub at {self.endpoint} takes no more requests for now.",
                why=said + _say_wait(response),
                hint="Wait, and run again: what was downloaded and built is kept. With HF_TOKEN set the Hub allows more.",
            )
        return self._explain_unreachable(said)

    def explain_offline(self, place: Place) -> HoneError:
        """Return the error for what ``HF_HUB_OFFLINE`` forbids to ask for, and the cache does not hold."""
        return HoneError(
            "registry-offline",
            f"{place.uri} cannot be {'published to' if place.writes else 'read'} offline.",
            why="HF_HUB_OFFLINE is set, and publishing needs the Hub."
            if place.writes
            else f"HF_HUB_OFFLINE is set, and the cache in {constants.HF_HUB_CACHE} does not hold all of it.",
            hint="Run once with HF_HUB_OFFLINE=0, or name a commit that the cache holds.",
        )

    def _explain_denied(self, error: BaseException, place: Place, said: str) -> HoneError:
        known = bool(get_token())
        if isinstance(error, errors.GatedRepoError):
            hint = f"Accept its terms on {self.endpoint}/{place.name} with the account that HF_TOKEN is of."
        elif place.writes:
            hint = "Set HF_TOKEN to a token with the right to write to this repository. Nothing was committed."
        elif known:
            hint = "Check that HF_TOKEN is valid, and of an account that may read this repository."
        else:
            hint = "Check the name; where it is private, set HF_TOKEN to a token of an account that may read it."
        lacks = "" if known else " No token is set; without one the Hub says so of what does not exist, too."
        what = f"The Hub at {self.endpoint} denies access to {place.uri}."
        return HoneError("registry-denied", what, why=said + lacks, hint=hint)

    def _explain_unreachable(self, why: str) -> HoneError:
        return HoneError(
            "registry-unreachable",
            f"The Hub at {self.endpoint} does not respond as it should.",
            why=why,
            hint="Check the network and HF_ENDPOINT, then run again: what was downloaded is kept. With HF_HUB_OFFLINE=1 "
            "only the cache is read.",
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


def run_bounded(call: Callable[[], T], *, patience: float, progress: Callable[[], object] = lambda: None) -> T:
    """Return what a call returns, or raise what it raises; it may stand still for so many seconds.

    Args:
        call: Called in a thread of its own, which is left alone when it takes too long.
        patience: How long ``progress`` may return the same.
        progress: Something that changes while the call gets on.

    Raises:
        StalledError: It took too long.
    """
    future: Future[Any] = Future()

    def work() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            future.set_exception(error)

    threading.Thread(target=work, name="hone-hub", daemon=True).start()
    last, since = progress(), time.monotonic()
    while not wait([future], min(1.0, patience)).done:
        now = progress()
        if now != last:
            last, since = now, time.monotonic()
        elif time.monotonic() - since >= patience:
            raise StalledError(f"It sent nothing for {patience:g} seconds.")
    result: T = future.result()
    return result


def _find_pause(error: BaseException) -> float | None:
    """Return how many seconds to wait before another try; None where that does not help, or takes too long."""
    response = getattr(error, "response", None)
    if response is None:
        return 1.0 if type(error).__name__ in {"ConnectError", "ReadError", "RemoteProtocolError"} else None
    if response.status_code not in _BUSY:
        return None
    asked = _read_wait(response)
    return 1.0 if asked is None else asked if asked <= LONGEST_WAIT else None


def _read_wait(response: Any) -> float | None:
    text = str(response.headers.get("Retry-After", ""))
    return float(text) if text.isdecimal() else None


def _say_wait(response: Any) -> str:
    seconds = _read_wait(response)
    return "" if seconds is None else f" It asks to wait for {seconds:g} seconds."


def _explain_cache(error: OSError) -> HoneError:
    what = f"The cache of huggingface_hub in {constants.HF_HUB_CACHE} cannot be written."
    slug = "store-full" if error.errno in _SPENT else "store-read-only"
    hint = "Free space there, or let HF_HUB_CACHE name a folder that can be written; then run again."
    return HoneError(slug, what, why=str(error), hint=hint)


def _quote(error: BaseException) -> str:
    """Return what an error says, in one line and without an address of the documentation."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = " ".join(lines[:4]) or type(error).__name__
    if not isinstance(error, errors.HfHubHTTPError | StalledError | OSError):
        text = f"{type(error).__name__}: {text}"
    return text if len(text) <= 400 else text[:399] + "…"
