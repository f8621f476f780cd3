"""What a server in the Hub's place may make huggingface_hub do: neither leave its cache, nor fill memory or disk.

``huggingface_hub`` 2.4 keeps a download under the name that the response's ``ETag`` says, also where that is a path;
reads what is no file into the memory, whatever its size; and goes on with what nobody waits for any more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

from huggingface_hub import constants, get_token
from huggingface_hub.utils import _http, get_session, tqdm

LARGEST_REPLY: Final = 64 << 20
"""Bytes of what a call reads that is no file, such as the names of all files; that of 100,000 is half as large."""
_SPARE: Final = 64 << 20
"""Bytes that a download may receive beyond twice its size: what is lost with a connection is sent again."""
_LOCK: Final = threading.Lock()


class HostileReplyError(Exception):
    """A response that no Hub sends."""


class Call(threading.Thread):
    """A thread that makes one call of huggingface_hub.

    Attributes:
        left: Nobody waits for it any more; it ends at the next response.
        taken: Bytes that it has read of what is no file.
    """

    def __init__(self, target: Callable[[], None]) -> None:
        super().__init__(target=target, name="hone-hub", daemon=True)
        self.left = False
        self.taken = 0


class Silent(tqdm):  # type: ignore[misc]  # its base has no types
    """No progress bar: the run has a display of its own, and a program that loads a winner has its own, too."""

    most: float = float("inf")

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **{key: value for key, value in named.items() if key != "name"} | {"disable": True})
        self.received = 0.0

    def update(self, n: float | None = 1) -> bool | None:
        """Count what was received.

        Raises:
            HostileReplyError: It is more than the file has.
        """
        self.received += n or 0
        if self.received > self.most:
            raise HostileReplyError(f"A file has no end: {self.received:.0f} bytes of it were sent.")
        return None


def count_to(size: int) -> type[Silent]:
    """Return the progress bar of a file of so many bytes, which ends a download that has no end."""
    return type("Silent", (Silent,), {"most": 2 * size + _SPARE})


def guard_session() -> None:
    """Let huggingface_hub check what it receives, in this process, whenever it opens a session."""
    with _LOCK:
        client = get_session()
        if check not in client.event_hooks["response"]:
            _add_hook(client)
            _http._GLOBAL_CLIENT_FACTORY = partial(_make_client, _http._GLOBAL_CLIENT_FACTORY)  # noqa: SLF001 - setting it by set_client_factory would close the session of other threads


def _make_client(make: Callable[[], Any]) -> Any:
    client = make()
    _add_hook(client)
    return client


def _add_hook(client: Any) -> None:
    hooks = client.event_hooks
    client.event_hooks = {
        **hooks,
        "request": [*hooks["request"], keep_token],
        "response": [*hooks["response"], check],
    }


def keep_token(request: Any) -> None:
    """Take the user's token out of a request to another place than the Hub: a redirect, or the next page of a list.

    Only of our own calls: others in this process may use another Hub with the same token.
    """
    if not isinstance(threading.current_thread(), Call):
        return
    said, token = request.headers.get("Authorization", ""), get_token()
    if token and said.endswith(token) and _read_origin(str(request.url)) != _read_origin(constants.ENDPOINT):
        del request.headers["Authorization"]


def _read_origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def check(response: Any) -> None:
    """Check a response before huggingface_hub reads it.

    Raises:
        HostileReplyError: Its tag is a path, it is too large, or nobody waits for it.
    """
    if response.request.method == "HEAD":
        _check_tag(response.headers.get("X-Linked-Etag") or response.headers.get("ETag") or "")
    call = threading.current_thread()
    if not isinstance(call, Call):  # it is of others in this process
        return
    if call.left:
        response.close()
        raise HostileReplyError("It came too late.")
    is_file = not str(response.request.url).startswith(f"{constants.ENDPOINT}/api/")
    if not is_file or response.is_redirect or response.is_error:
        _read(response, call)


def _check_tag(tag: str) -> None:
    name = tag.lstrip("W/").strip('"')  # as huggingface_hub makes a name of it
    if name.startswith("/") or ".." in name.split("/") or "\0" in name:
        raise HostileReplyError(f"It names {name[:80]!r} as the place of a file.")


def _read(response: Any, call: Call) -> None:
    """Read a body within the bound, as httpx2 does without one."""
    parts = []
    for part in response.iter_bytes():
        parts.append(part)
        call.taken += len(part)
        if call.taken > LARGEST_REPLY or call.left:
            response.close()
            raise HostileReplyError(f"It sent more than {LARGEST_REPLY >> 20} MiB that are no file.")
    response._content = b"".join(parts)  # noqa: SLF001 - where read() puts it and looks for it
