"""A GitHub of comments and check runs, on loopback: stateful, and held to GitHub's description of its API.

What breaks the description in a request is answered 422, as GitHub does; an answer that breaks it fails the test.
"""

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
COMMENTS = "/repos/{owner}/{repo}/issues/{issue_number}/comments"
COMMENT = "/repos/{owner}/{repo}/issues/comments/{comment_id}"
CHECKS = "/repos/{owner}/{repo}/check-runs"
DISPATCHES = "/repos/{owner}/{repo}/dispatches"
PLACES = {
    "/user": "/user",
    "/repos/o/r/issues/7/comments": COMMENTS,
    r"/repos/o/r/issues/comments/(\d+)": COMMENT,
    "/repos/o/r/check-runs": CHECKS,
    "/repos/o/r/dispatches": DISPATCHES,
}
NEEDS = {
    f"GET {COMMENTS}": "read",
    f"POST {COMMENTS}": "comments",
    f"PATCH {COMMENT}": "comments",
    f"POST {CHECKS}": "checks",
    f"POST {DISPATCHES}": "contents",
}
BOT = {"login": "github-actions[bot]", "type": "Bot", "id": 1}
DENIED = (403, {"message": "Resource not accessible by integration"})
MISSING = (404, {"message": "Not Found"})
TIME = "2026-11-20T09:50:47Z"
PAGE = 30


@dataclass
class GitHub:
    """What the server knows.

    Attributes:
        url: Where it is.
        user: Whose token it is; None for a job's own token, which may not ask.
        permissions: What the token may do: ``read`` comments, or write ``comments``, ``checks`` or ``contents``.
        comments: Of the pull request, oldest first.
        checks: The bodies of the check runs.
        dispatches: The bodies of the repository's dispatches.
        refusal: What every call that writes gets, if anything.
        calls: Method and path of every call.
        faults: What of our own answers breaks GitHub's description.
    """

    url: str = ""
    user: dict[str, Any] | None = None
    permissions: set[str] = field(default_factory=lambda: {"read", "comments", "checks", "contents"})
    comments: list[dict[str, Any]] = field(default_factory=list)
    checks: list[dict[str, Any]] = field(default_factory=list)
    dispatches: list[dict[str, Any]] = field(default_factory=list)
    refusal: tuple[int, Any] | None = None
    calls: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def add_comment(self, body: str, user: dict[str, Any]) -> dict[str, Any]:
        number = len(self.comments) + 1
        place = {"url": f"{self.url}/repos/o/r/issues/comments/{number}", "issue_url": f"{self.url}/repos/o/r/issues/7"}
        names = {"id": number, "node_id": f"IC_{number}", "html_url": f"{self.url}/o/r/pull/7#issuecomment-{number}"}
        times = {"created_at": TIME, "updated_at": TIME}
        self.comments.append({**names, **place, **times, "body": body, "user": self._describe_user(user)})
        return self.comments[-1]

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        path, _, query = path.partition("?")
        self.calls.append(f"{method} {path}")
        found = ((place, re.fullmatch(pattern, path)) for pattern, place in PLACES.items())
        place, match = next(((place, match) for place, match in found if match), ("", None))
        operation = f"{method} {place}"
        if match is None or operation not in CONTRACT:
            return MISSING
        if method != "GET" and self.refusal:
            return self.refusal
        if NEEDS.get(operation, "") not in {"", *self.permissions}:
            return DENIED
        if "request" in CONTRACT[operation]:
            check_request(CONTRACT[operation]["request"], body)
        number = int(match[1]) if match.groups() else 0
        status, answer = self._read(place, query) if method == "GET" else self._write(place, body, number=number)
        if status < 300 and "answer" in CONTRACT[operation]:
            errors = jsonschema.Draft202012Validator(CONTRACT[operation]["answer"]).iter_errors(answer)
            self.faults += [f"{operation}: {error.message}" for error in errors]
        return status, answer

    def _read(self, place: str, query: str) -> tuple[int, Any]:
        if place == "/user":
            return (200, self._describe_user(self.user, whole=True)) if self.user else DENIED
        page = read_page(query)
        return 200, self.comments[(page - 1) * PAGE : page * PAGE]

    def _write(self, place: str, body: Any, *, number: int) -> tuple[int, Any]:
        if place == COMMENTS:
            return 201, self.add_comment(body["body"], self.user or BOT)
        if place == COMMENT and number <= len(self.comments):
            self.comments[number - 1]["body"] = body["body"]
            return 200, self.comments[number - 1]
        if place == CHECKS:
            self.checks.append(body)
            return 201, self._describe_check(body)
        if place == DISPATCHES:
            self.dispatches.append(body)
            return 204, None
        return MISSING

    def _describe_check(self, body: dict[str, Any]) -> dict[str, Any]:
        number = len(self.checks)
        url = f"{self.url}/repos/o/r/check-runs/{number}"
        output = {"text": None, **body["output"], "annotations_count": 0, "annotations_url": f"{url}/annotations"}
        output["annotations_count"] = len(output.pop("annotations", ()))
        unset = dict.fromkeys(("external_id", "app", "check_suite", "details_url", "html_url"))
        names = {"id": number, "node_id": f"CR_{number}", "url": url, "pull_requests": []}
        return {**unset, **names, "started_at": TIME, "completed_at": TIME, **body, "output": output}

    def _describe_user(self, user: dict[str, Any], *, whole: bool = False) -> dict[str, Any]:
        lists = "followers following gists starred subscriptions organizations repos events received_events"
        links = {f"{name}_url": f"{self.url}/users/{user['id']}/{name}" for name in ("avatar", *lists.split())}
        names = {"node_id": f"U_{user['id']}", "gravatar_id": "", "site_admin": False}
        names |= {"url": f"{self.url}/users/{user['id']}", "html_url": f"{self.url}/{user['id']}"}
        more: dict[str, Any] = dict.fromkeys(("bio", "blog", "company", "email", "hireable", "location", "name"))
        more |= dict.fromkeys(("followers", "following", "public_gists", "public_repos"), 0)
        return {**links, **names, **(more | {"created_at": TIME, "updated_at": TIME} if whole else {}), **user}


def read_page(query: str) -> int:
    return int((re.search(r"(?<!per_)page=(\d+)", query) or "01")[1])


def check_request(schema: Any, body: Any) -> None:
    """Raise for what GitHub answers 422 to: its description, and the lengths that it documents in prose only."""
    jsonschema.validate(body, schema)
    assert len(body.get("body", "")) <= 65_536
    assert len(body.get("output", {}).get("summary", "")) <= 65_535


@contextmanager
def serve_github() -> Iterator[GitHub]:
    """Serve one; fails at the end where an answer broke GitHub's description."""
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
            page = read_page(query)
            if path.endswith("issues/7/comments") and self.command == "GET" and len(state.comments) > page * PAGE:
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
    assert state.faults == []
