"""A connection to the Hub: every call has a time limit, is retried if useful, and raises errors for people.

``huggingface_hub`` reads ``HF_ENDPOINT``, ``HF_TOKEN``, ``HF_HUB_CACHE``, ``HF_HUB_OFFLINE``,
``HF_HUB_DOWNLOAD_TIMEOUT``, ``HF_HUB_ETAG_TIMEOUT`` and others itself; its settings are not changed here. It waits for
most responses without a limit, and sleeps as long as a ``Retry-After`` requests: hence the limit here.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from huggingface_hub import HfApi, constants

from hone_runtime.errors import HoneError
from kedro_hone import __version__
from kedro_hone.adaptors.registries.huggingface import failures
from kedro_hone.adaptors.registries.huggingface.guard import Guard
from kedro_hone.adaptors.registries.huggingface.references import Reference
from kedro_hone.adaptors.registries.patience import run_within

T = TypeVar("T")

PATIENCE_SECONDS: Final = 45.0
"""Time limit in seconds for the Hub's response to one call, including all its attempts."""
STALL_SECONDS: Final = 120.0
"""How many seconds a download may make no progress."""
SLOWEST_UPLOAD: Final = 125_000
"""The average speed in bytes per second that an upload must reach: 1 Mbit/s."""
LONGEST_WAIT: Final = 30.0
"""The longest ``Retry-After``, in seconds, that is waited for; a longer one is an error that contains it."""
_TRIES: Final = 3
_BUSY: Final = frozenset({408, 429, 500, 502, 503, 504})
_BROKEN: Final = frozenset({"ConnectError", "ReadError", "RemoteProtocolError", "UncheckedError"})
"""The names of connection errors, for any HTTP client that huggingface_hub uses."""


class Connection:
    """The Hub from the environment's settings, with the user's token and cache."""

    def __init__(self) -> None:
        self.api = HfApi(endpoint=constants.ENDPOINT, library_name="kedro-hone", library_version=__version__)

    @property
    def endpoint(self) -> str:
        """The Hub's address, without a trailing slash."""
        return str(self.api.endpoint)

    @property
    def offline(self) -> bool:
        """Whether ``HF_HUB_OFFLINE`` forbids requests."""
        return bool(constants.is_offline_mode())

    def find_folder(self, name: str) -> Path:
        """Return the folder of a repository in huggingface_hub's cache, which may not exist."""
        return Path(constants.HF_HUB_CACHE).expanduser() / f"models--{name.replace('/', '--')}"

    def request(
        self,
        call: Callable[[], T],
        place: Reference,
        *,
        tries: int = _TRIES,
        patience: float | None = None,
        progress: Callable[[], object] = lambda: None,
    ) -> T:
        """Return the result of a call of huggingface_hub, retried if the Hub is busy, within a time limit.

        Args:
            call: The call.
            place: The reference that the call is about.
            tries: The largest number of attempts.
            patience: The time limit of all attempts together, in seconds.
            progress: Returns a value that changes while the call progresses; each change restarts the time limit.

        Raises:
            HoneError: The failure, as returned by ``failures.explain``.
        """
        patience = PATIENCE_SECONDS if patience is None else patience
        end = time.monotonic() + patience
        while True:
            tries, guard = tries - 1, Guard()
            try:
                return run_within(max(end - time.monotonic(), 0.1), partial(guard.run, call), progress=progress)
            except Exception as error:
                guard.left = True
                pause = _find_pause(error) if tries else None
                if pause is None or time.monotonic() + pause > end:
                    raise failures.explain(error, place, endpoint=self.endpoint, last=guard.status) from error
                time.sleep(pause)

    def explain(self, error: BaseException, place: Reference) -> HoneError:
        """Return the error for people for an exception that huggingface_hub raised or returned."""
        return failures.explain(error, place, endpoint=self.endpoint)


def _find_pause(error: BaseException) -> float | None:
    """Return the seconds to wait before a retry; None if a retry is useless, or the wait is too long."""
    status = failures.read_status(error)
    if status is None:
        return 1.0 if type(error).__name__ in _BROKEN else None
    requested = failures.read_wait(error)
    return None if status not in _BUSY or (requested or 0) > LONGEST_WAIT else (1.0 if requested is None else requested)
