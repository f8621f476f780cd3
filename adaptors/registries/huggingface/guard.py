"""Guard huggingface_hub against a hostile server: it must not write outside its cache, nor fill memory or disk.

``huggingface_hub`` 2.4 stores a download under the name in the response's ``ETag``, even if that is a path. It reads
other responses into memory, whatever their size, and sends the token to the next page of a list, on any host. A process
has only one session, to which hooks are added during our calls; they check only those calls.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from huggingface_hub import constants, get_token
from huggingface_hub.utils import get_session, tqdm

T = TypeVar("T")

LARGEST_REPLY: Final = 64 << 20
"""Limit in bytes of a response that is not a file, such as a list of all files; one of 100,000 needs half of it."""
SPARE: Final = 64 << 20
"""Bytes that a download may receive beyond twice its size: data lost with a connection are sent again."""
_LOCK: Final = threading.Lock()
_PORTS: Final = {"http": 80, "https": 443}


class HostileReplyError(Exception):
    """A response that the real Hub would not send."""


class UncheckedError(Exception):
    """The connection was lost, and huggingface_hub opened another session, without the hooks."""


class Guard:
    """The checks of one call of huggingface_hub.

    Attributes:
        left: The call was abandoned, and ends at the next response.
        status: The status of the last error response; None if absent.
        thread: The thread of the call.
    """

    def __init__(self) -> None:
        self.left = False
        self.status: int | None = None
        self.thread, self._taken = 0, 0

    def run(self, call: Callable[[], T]) -> T:
        """Return the result of a call; its requests and responses are checked, in this thread.

        Raises:
            HostileReplyError: A response could not come from the real Hub.
            UncheckedError: A response may have been unchecked.
        """
        self.thread, client = threading.get_ident(), get_session()
        with _LOCK:
            hooks = client.event_hooks
            client.event_hooks = {
                "request": [*hooks["request"], self.withhold_token],
                "response": [*hooks["response"], self.check],
            }
        try:
            result = call()
            check_session(self.thread)
            return result
        finally:
            with _LOCK:
                own = (self.withhold_token, self.check)
                client.event_hooks = {
                    kind: [hook for hook in hooks if hook not in own] for kind, hooks in client.event_hooks.items()
                }

    def withhold_token(self, request: Any) -> None:
        """Remove the user's token from a request to another host: a redirect, or the next page of a list."""
        if threading.get_ident() != self.thread:
            return
        token = get_token()
        is_own = _read_origin(str(request.url)) == _read_origin(constants.ENDPOINT)
        if token and not is_own and request.headers.get("Authorization", "").endswith(token):
            del request.headers["Authorization"]

    def check(self, response: Any) -> None:
        """Check a response before huggingface_hub reads it.

        Raises:
            HostileReplyError: Its tag is a path, it is too large, or its call was abandoned.
        """
        if threading.get_ident() != self.thread:
            return
        if self.left:
            response.close()
            raise HostileReplyError("It came too late.")
        if response.request.method == "HEAD":
            _check_tag(response.headers.get("X-Linked-Etag") or response.headers.get("ETag") or "")
        if response.is_error:
            self.status = int(response.status_code)
        is_reply = response.request.method != "GET" or str(response.request.url).startswith(
            f"{constants.ENDPOINT}/api/"
        )
        if is_reply or response.is_redirect or response.is_error:
            self._read(response)

    def _read(self, response: Any) -> None:
        """Read a body up to the limit; httpx2 itself has none."""
        parts = []
        for part in response.iter_bytes():
            parts.append(part)
            self._taken += len(part)
            if self._taken > LARGEST_REPLY or self.left:
                response.close()
                raise HostileReplyError(f"It sent a reply of more than {LARGEST_REPLY >> 20} MiB that is not a file.")
        response._content = b"".join(parts)  # noqa: SLF001 - read() stores and reads it there


def check_session(thread: int) -> None:
    """Check that the hooks for a thread are in the session that huggingface_hub uses now.

    Raises:
        UncheckedError: They are not.
    """
    owners = (getattr(hook, "__self__", None) for hook in get_session().event_hooks["response"])
    if not any(isinstance(owner, Guard) and owner.thread == thread for owner in owners):
        raise UncheckedError("The connection was lost.")


class Bar(tqdm):  # type: ignore[misc]  # its base has no types
    """No progress bar: a run has its own display, and so may a program that loads a winner.

    It is constructed before the first byte of a file is written. So the session and the file's size are checked then.
    """

    most: float = float("inf")

    def __init__(self, *args: Any, **named: Any) -> None:
        check_session(threading.get_ident())
        super().__init__(*args, **{key: value for key, value in named.items() if key != "name"} | {"disable": True})
        self.received = 0.0

    def update(self, n: float | None = 1) -> bool | None:
        """Count the received bytes.

        Raises:
            HostileReplyError: More bytes than the file's size were received.
        """
        self.received += n or 0
        if self.received > self.most:
            raise HostileReplyError(f"A file has no end: {self.received:.0f} bytes of it were sent.")
        return None


def count_to(size: int) -> type[Bar]:
    """Return the progress bar for a file of ``size`` bytes, which stops an endless download."""
    return type("Bar", (Bar,), {"most": 2 * size + SPARE})


def _read_origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme)


def _check_tag(tag: str) -> None:
    name = tag.lstrip("W/").strip('"')  # as huggingface_hub derives the file name
    if name.startswith("/") or ".." in name.split("/") or "\0" in name:
        raise HostileReplyError(f"It names {name[:80]!r} as the place of a file.")
