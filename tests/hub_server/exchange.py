"""A request to the loopback Hub and its response: faults, rights, and what was asked; the routes are elsewhere."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import parse_qs, unquote, urlsplit

from hub_server import state
from hub_server.faults import Fault

BLOCK = 64 * 1024
GONE = "Repository not found"


@dataclass
class Hub:
    """A Hub that runs: its repositories, tokens and faults, and what was asked of it.

    Attributes:
        folder: Where uploaded large files are kept, by their digest.
        requests: The line of each request, in order: method, path and query.
        quota: Bytes of large files that it takes; None for no limit.
    """

    folder: Path
    url: str = ""
    repositories: dict[str, state.Repository] = field(default_factory=dict)
    tokens: dict[str, state.Token] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    quota: int | None = None
    lock: threading.RLock = field(default_factory=threading.RLock)
    closed: threading.Event = field(default_factory=threading.Event)

    def add(self, name: str, files: dict[str, bytes | Path], **rights: bool) -> state.Repository:
        """Make a repository with one commit of these files on ``main``."""
        repository = self.repositories[name] = state.Repository(name, **rights)
        repository.commit(dict(files), title="the model")
        return repository

    def find_fault(self, line: str) -> Fault | None:
        """Return the fault that is due at a request, and count it."""
        with self.lock:
            fault = next((one for one in self.faults if one.fits(line)), None)
            if fault is not None:
                fault.times -= 1
            return fault

    def count(self, pattern: str) -> int:
        """Return how many requests a pattern finds."""
        return sum(re.search(pattern, line) is not None for line in self.requests)


class RefusalError(Exception):
    """A response that is an error."""

    def __init__(self, status: int, message: str, code: str = "") -> None:
        super().__init__(message)
        self.status, self.message, self.code = status, message, code


def refuse(status: int, message: str, code: str = "") -> NoReturn:
    """Raise the response that is an error."""
    raise RefusalError(status, message, code)


class Exchange(BaseHTTPRequestHandler):
    """One connection; each request is answered by the first route that fits."""

    protocol_version = "HTTP/1.1"
    hub: Hub
    fault: Fault | None
    routes: tuple[tuple[str, str, Callable[..., None]], ...]

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def answer(self) -> None:
        """Answer one request, or fail as a test asked for."""
        parts = urlsplit(self.path)
        self.query = parse_qs(parts.query)
        line = f"{self.command} {unquote(parts.path)}" + (f"?{parts.query}" if parts.query else "")
        self.hub.requests.append(line + (f" {self.headers['Range']}" if "Range" in self.headers else ""))
        self.fault = self.hub.find_fault(line)
        with suppress(BrokenPipeError, ConnectionResetError):
            if self.fault is None or not self._fail_first(self.fault):
                self._route(unquote(parts.path))

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = answer  # noqa: N815 - http.server names them

    def _fail_first(self, fault: Fault) -> bool:
        """Do what a fault asks for before the Hub's own work; return whether that was all."""
        if fault.call and fault.cut is None and not fault.after:
            fault.call()
        if fault.hang:
            self.hub.closed.wait(fault.hang)
            self.close_connection = True
            return True
        if fault.status is None:
            return False
        self.body()
        self.send(fault.status, fault.body, **dict(fault.headers))
        return True

    def _route(self, path: str) -> None:
        try:
            for method, pattern, function in self.routes:
                if self.command in method and (match := re.fullmatch(pattern, path)):
                    function(self, *match.groups())
                    return
            refuse(404, f"no such page: {path}")
        except RefusalError as refusal:
            self.body()
            named = {"X-Error-Message": refusal.message}
            named |= {"X-Error-Code": refusal.code} if refusal.code else {}
            self.send(refusal.status, {"error": refusal.message}, **named)

    def send(self, status: int, body: Any = None, **headers: str) -> None:
        """Send a response: bytes as they are, anything else as JSON."""
        data = body if isinstance(body, bytes) else json.dumps({} if body is None else body).encode()
        if self.fault and self.fault.after:
            if self.fault.call:
                self.fault.call()
            self.close_connection = True
            return
        self.send_response(status)
        for name, value in ({"Content-Type": "application/json", "Content-Length": str(len(data))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def body(self) -> bytes:
        """Return the request's body, read once; it must be read, or the connection cannot be used again."""
        return b"".join(self.blocks())

    def blocks(self) -> Iterator[bytes]:
        """Yield the request's body in blocks."""
        if self.headers.get("Transfer-Encoding") == "chunked":
            while count := int(self.rfile.readline(), 16):
                yield self.rfile.read(count)
                self.rfile.readline()
            self.rfile.readline()
        else:
            left = int(self.headers.get("Content-Length") or 0)
            while left > 0 and (data := self.rfile.read(min(BLOCK, left))):
                left -= len(data)
                yield data
        del self.headers["Transfer-Encoding"], self.headers["Content-Length"]

    # Rights

    def token(self) -> state.Token | None:
        """Return who asks; a token that nobody knows is refused, as the Hub does."""
        text = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if not text:
            return None
        if text not in self.hub.tokens:
            raise RefusalError(401, "Invalid credentials in Authorization header")
        return self.hub.tokens[text]

    def find(self, name: str, *, write: bool = False, content: bool = False) -> state.Repository:
        """Return a repository that the caller may use in this way."""
        token, repository = self.token(), self.hub.repositories.get(name)
        if repository is None or (repository.private and not (token and token.owns(name))):
            raise (
                RefusalError(404, GONE, "RepoNotFound") if token else RefusalError(401, "Invalid username or password.")
            )
        if write and token is None:
            raise RefusalError(401, "Invalid username or password.")
        if write and token and (token.role != "write" or not token.owns(name)):
            opens = "create_pr" in self.query and token.role == "write"
            if not opens:
                raise RefusalError(403, "You don't have the rights to write to this repository")
        if content and repository.gated and not (token and (token.owns(name) or name in token.accepted)):
            text = "Access to this model is restricted, ask for access on its page."
            raise RefusalError(403 if token else 401, text, "GatedRepo")
        return repository

    def find_commit(self, repository: state.Repository, revision: str) -> str:
        """Return the commit of a revision."""
        sha = repository.find(revision)
        if sha is None:
            raise RefusalError(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        return sha
