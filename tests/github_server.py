"""A GitHub of comments and check runs, on loopback: stateful, and strict about what it is sent."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jsonschema

CONTRACT = json.loads((Path(__file__).parent / "unit" / "github" / "contract.json").read_text())["operations"]
BOT = {"login": "github-actions[bot]", "type": "Bot", "id": 1}
DENIED = (403, {"message": "Resource not accessible by integration"})


@dataclass
class GitHub:
    """What the server knows.

    Attributes:
        url: Where it is.
        user: Whose token it is; None for a job's own token, which may not ask.
        writable: Whether the token may write.
        comments: Of the pull request, oldest first.
        checks: The bodies of the check runs.
        dispatches: The bodies of the repository's dispatches.
        refusal: What every call gets, if anything.
        calls: Method and path of every call.
    """

    url: str = ""
    user: dict[str, Any] | None = None
    writable: bool = True
    comments: list[dict[str, Any]] = field(default_factory=list)
    checks: list[dict[str, Any]] = field(default_factory=list)
    dispatches: list[dict[str, Any]] = field(default_factory=list)
    refusal: tuple[int, Any] | None = None
    calls: list[str] = field(default_factory=list)

    def add_comment(self, body: str, user: dict[str, Any]) -> dict[str, Any]:
        number = len(self.comments) + 1
        url = f"{self.url}/repos/o/r/issues/comments/{number}"
        self.comments.append({"id": number, "url": url, "body": body, "user": user})
        return self.comments[-1]

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        path, _, query = path.partition("?")
        self.calls.append(f"{method} {path}")
        if method == "GET":
            return self._read(path, query)
        if self.refusal or not self.writable:
            return self.refusal or DENIED
        if method == "POST" and path == "/repos/o/r/dispatches":
            self._check("POST /repos/{owner}/{repo}/dispatches", body)
            self.dispatches.append(body)
            return 204, None
        return self._write(method, path, body)

    def _write(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        if method == "POST" and path == "/repos/o/r/issues/7/comments":
            self._check("POST /repos/{owner}/{repo}/issues/{issue_number}/comments", body)
            return 201, self.add_comment(body["body"], self.user or BOT)
        if method == "PATCH" and (found := re.fullmatch(r"/repos/o/r/issues/comments/(\d+)", path)):
            self._check("PATCH /repos/{owner}/{repo}/issues/comments/{comment_id}", body)
            comment = self.comments[int(found[1]) - 1]
            comment["body"] = body["body"]
            return 200, comment
        if method == "POST" and path == "/repos/o/r/check-runs":
            self._check("POST /repos/{owner}/{repo}/check-runs", body)
            self.checks.append(body)
            return 201, {"id": len(self.checks), "url": f"{self.url}{path}/1", **body}
        return 404, {"message": "Not Found"}

    def _read(self, path: str, query: str) -> tuple[int, Any]:
        if path == "/user":
            return (200, self.user) if self.user else DENIED
        if path == "/repos/o/r/issues/7":
            return 200, {"number": 7, "url": f"{self.url}{path}", "comments": len(self.comments)}
        if path == "/repos/o/r/issues/7/comments":
            page = int((re.search(r"(?<!per_)page=(\d+)", query) or "01")[1])
            return 200, self.comments[(page - 1) * 30 : page * 30]
        return 404, {"message": "Not Found"}

    def _check(self, operation: str, body: Any) -> None:
        jsonschema.validate(body, CONTRACT[operation])
        assert len(body.get("body", "")) <= 65_536
        assert len(body.get("output", {}).get("summary", "")) <= 65_535


@contextmanager
def serve_github() -> Iterator[GitHub]:
    """Serve one; what breaks the contract is answered 422, as GitHub does."""
    state = GitHub()

    class Handler(BaseHTTPRequestHandler):
        def handle_one(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(size)) if size else None
            try:
                status, answer = state.answer(self.command, self.path, body)
            except (AssertionError, jsonschema.ValidationError) as error:
                status, answer = 422, {"message": str(error)[:500]}
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            path, _, query = self.path.partition("?")
            page = int((re.search(r"(?<!per_)page=(\d+)", query) or "01")[1])
            if path.endswith("issues/7/comments") and self.command == "GET" and len(state.comments) > page * 30:
                self.send_header("Link", f'<{state.url}{path}?page={page + 1}>; rel="next"')
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PATCH = handle_one  # noqa: N815 - names of the base class

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        state.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield state
        server.shutdown()
