"""The HTTP side of the loopback Hub: routes, rights, faults, and how files are sent."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
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


class Handler(BaseHTTPRequestHandler):
    """One connection; each request is answered by the first route that fits."""

    protocol_version = "HTTP/1.1"
    hub: Hub
    fault: Fault | None

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
            for method, pattern, function in ROUTES:
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

    # Reading

    def show(self, name: str, revision: str = "main") -> None:
        """Describe a repository at a revision."""
        repository = self.find(name)
        sha = self.find_commit(repository, revision)
        self.send(200, repository.describe(sha, blobs="blobs" in self.query))

    def list_models(self) -> None:
        """List the repositories of an author, the last changed first."""
        token, author = self.token(), self.query.get("author", [""])[0]
        seen = [one for one in self.hub.repositories.values() if not one.private or (token and token.owns(one.name))]
        rows = [one.describe(one.head, blobs=False) for one in seen if one.name.startswith(f"{author}/")]
        self.send(200, sorted(rows, key=lambda row: row["lastModified"], reverse=True))

    def show_tree(self, name: str, revision: str) -> None:
        """List the files at a revision."""
        repository = self.find(name)
        commit = repository.commits[self.find_commit(repository, revision)]
        self.send(200, [state.describe_entry(path, one) for path, one in sorted(commit.files.items())])

    def show_commits(self, name: str, revision: str) -> None:
        """List the commits of a revision, newest first."""
        repository = self.find(name)
        rows = [
            {"id": one.sha, "title": one.title, "message": one.message, "date": one.created, "authors": []}
            for one in repository.history(self.find_commit(repository, revision))
        ]
        self.send(200, rows)

    def show_refs(self, name: str) -> None:
        """List branches, tags and pull requests."""
        repository = self.find(name)

        def listed(prefix: str, skip: str) -> list[dict[str, str]]:
            rows = [(ref, sha) for ref, sha in repository.refs.items() if ref.startswith(prefix)]
            return [{"name": ref.removeprefix(skip), "ref": ref, "targetCommit": sha} for ref, sha in rows]

        kinds = {"branches": ("refs/heads/",) * 2, "tags": ("refs/tags/",) * 2, "converts": ("refs/convert/",) * 2}
        kinds |= {"pullRequests": ("refs/pr/", "refs/")} if "include_prs" in self.query else {}
        self.send(200, {kind: listed(*prefixes) for kind, prefixes in kinds.items()})

    def download(self, name: str, rest: str) -> None:
        """Send a file, from where a ``Range`` says."""
        repository = self.find(name, content=True)
        sha, path = state.read_revision(repository, rest)
        if sha is None:
            raise RefusalError(404, f"Invalid rev id: {rest}", "RevisionNotFound")
        content = repository.commits[sha].files.get(path)
        if content is None:
            raise RefusalError(404, "Entry not found", "EntryNotFound")
        large = state.is_large(path, content.size)
        etag = content.sha256 if large else content.oid
        headers = {"X-Repo-Commit": sha, "ETag": f'"{etag}"', "Accept-Ranges": "bytes"}
        headers |= {"X-Linked-ETag": f'"{etag}"', "X-Linked-Size": str(content.size)} if large else {}
        start = 0
        if wanted := re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", "")):
            start = int(wanted[1])
            headers["Content-Range"] = f"bytes {start}-{content.size - 1}/{content.size}"
        self.send_response(206 if wanted else 200)
        headers |= {"Content-Type": "application/octet-stream", "Content-Length": str(content.size - start)}
        for key, value in headers.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self._send_file(content.read()[start:])

    def _send_file(self, data: bytes) -> None:
        fault = self.fault
        end = len(data) if fault is None or fault.cut is None else fault.cut
        for begin in range(0, min(end, len(data)), BLOCK):
            self.wfile.write(data[begin : min(begin + BLOCK, end)])
            self.wfile.flush()
            if fault and fault.pause:
                time.sleep(fault.pause)
        if fault and fault.cut is not None:
            if fault.call:
                fault.call()
            self.close_connection = True

    def say_who(self) -> None:
        """Say whose token it is."""
        token = self.token()
        if token is None:
            raise RefusalError(401, "Invalid username or password.")
        orgs = [{"name": name, "type": "org"} for name in token.orgs]
        access = {"accessToken": {"role": token.role}}
        self.send(200, {"type": "user", "name": token.user, "orgs": orgs, "auth": access})

    # Writing

    def check_card(self) -> None:
        """Say that the metadata of a model card is valid where it is between two lines of dashes."""
        text = json.loads(self.body())["content"]
        wrong = [] if text.startswith("---\n") else [{"message": "there is no metadata"}]
        self.send(200, {"errors": wrong, "warnings": []})

    def create(self) -> None:
        """Make an empty repository."""
        asked, token = json.loads(self.body()), self.token()
        if token is None or token.role != "write":
            raise RefusalError(403 if token else 401, "You don't have the rights to create a model")
        name = f"{asked.get('organization') or token.user}/{asked['name']}"
        if not token.owns(name):
            raise RefusalError(403, f"You don't have the rights to create a model under {name}")
        if name in self.hub.repositories:
            raise RefusalError(409, "You already created this model repo")
        private = asked.get("visibility") == "private" or bool(asked.get("private"))
        self.hub.repositories[name] = state.Repository(name, private=private)
        self.send(200, {"url": f"{self.hub.url}/{name}"})

    def prepare_upload(self, name: str, revision: str) -> None:
        """Say which files are to be uploaded as large ones."""
        repository = self.find(name, write=True)
        there = repository.commits[self.find_commit(repository, revision)].files
        rows = [
            {
                "path": one["path"],
                "uploadMode": "lfs" if state.is_large(one["path"], one["size"]) else "regular",
                "shouldIgnore": False,
                "oid": self._name_remote(there.get(one["path"]), one["path"]),
            }
            for one in json.loads(self.body())["files"]
        ]
        self.send(200, {"files": rows})

    def _name_remote(self, content: state.Content | None, path: str) -> str | None:
        if content is None:
            return None
        return content.sha256 if state.is_large(path, content.size) else content.oid

    def plan_large(self, name: str) -> None:
        """Say where large files are to be put; those that are there already need not be."""
        self.find(name)  # who may only propose uploads, too; whether to a commit is asked before and after
        token = self.token()
        if token is None or token.role != "write":
            raise RefusalError(403 if token else 401, "You don't have the rights to write to this repository")
        rows = []
        for one in json.loads(self.body())["objects"]:
            row = {"oid": one["oid"], "size": one["size"]}
            place = f"{self.hub.url}/_lfs/{one['oid']}"
            if self.hub.quota is not None and one["size"] > self.hub.quota:
                row["error"] = {"code": 507, "message": "Private repository storage limit reached"}
            elif not (self.hub.folder / one["oid"]).exists():
                row["actions"] = {"upload": {"href": place}, "verify": {"href": f"{place}/verify"}}
            rows.append(row)
        self.send(200, {"transfer": "basic", "objects": rows})

    def take_large(self, oid: str) -> None:
        """Keep a large file, if it is what its digest says."""
        place = self.hub.folder / f"{oid}.{threading.get_ident()}"
        digest = hashlib.sha256()
        with place.open("wb") as stream:
            for data in self.blocks():
                digest.update(data)
                stream.write(data)
                if self.fault and self.fault.cut is not None and stream.tell() >= self.fault.cut:
                    if self.fault.call:
                        self.fault.call()
                    self.close_connection = True
                    return
        if digest.hexdigest() != oid:
            raise RefusalError(400, "The file is not what its digest says")
        place.rename(self.hub.folder / oid)
        self.send(200)

    def verify_large(self, oid: str) -> None:
        """Say whether a large file has arrived."""
        self.body()
        if not (self.hub.folder / oid).exists():
            raise RefusalError(404, "There is no such object")
        self.send(200)

    def commit(self, name: str, revision: str) -> None:
        """Make a commit, or a pull request with one, all of it or nothing."""
        repository = self.find(name, write=True)
        rows = [json.loads(line) for line in self.body().splitlines() if line.strip()]
        head = rows[0]["value"]
        with self.hub.lock:
            tip, proposes = self.find_commit(repository, revision), "create_pr" in self.query
            parent = head.get("parentCommit")
            if parent and not proposes and not tip.startswith(parent):
                raise RefusalError(412, "A commit has happened since. Please refresh and try again.")
            base = self.find_commit(repository, parent) if parent and proposes else tip
            files = self._read_operations(rows[1:], repository.commits[base].files)
            ref = f"refs/pr/{len(repository.pulls) + 1}" if proposes else f"refs/heads/{revision}"
            texts = {"title": head["summary"], "message": head.get("description", "")}
            sha = repository.commit(files, ref=ref, parent=base, **texts)
            said = {"success": True, "commitOid": sha, "commitUrl": f"{self.hub.url}/{name}/commit/{sha}"}
            if proposes:
                token = self.token()
                pull = state.PullRequest(len(repository.pulls) + 1, head["summary"], token.user if token else "")
                repository.pulls.append(pull)
                said["pullRequestUrl"] = f"{self.hub.url}/{name}/discussions/{pull.number}"
        self.send(200, said)

    def _read_operations(self, rows: list[Any], there: Any) -> dict[str, state.Content | None]:
        files: dict[str, state.Content | None] = {}
        for row in rows:
            value, path = row["value"], row["value"]["path"]
            if row["key"] == "file":
                files[path] = state.Content(base64.b64decode(value["content"]))
            elif row["key"] == "lfsFile":
                place = self.hub.folder / value["oid"]
                known = next((one for one in there.values() if one.sha256 == value["oid"]), None)
                if not place.exists() and known is None:
                    raise RefusalError(400, f"The large file of {path} was never uploaded")
                files[path] = known or state.Content(place)
            elif row["key"] == "deletedFile":
                if path not in there:
                    raise RefusalError(404, "A file with this name doesn't exist", "EntryNotFound")
                files[path] = None
        return files

    def tag(self, name: str, revision: str) -> None:
        """Make a tag."""
        repository = self.find(name, write=True)
        ref = f"refs/tags/{json.loads(self.body())['tag']}"
        if ref in repository.refs:
            raise RefusalError(409, "Tag already exists")
        repository.refs[ref] = self.find_commit(repository, revision)
        self.send(200)

    def remove_tag(self, name: str, tag: str) -> None:
        """Remove a tag."""
        repository = self.find(name, write=True)
        if repository.refs.pop(f"refs/tags/{tag}", None) is None:
            raise RefusalError(404, f"Invalid rev id: {tag}", "RevisionNotFound")
        self.send(200)

    def show_discussions(self, name: str) -> None:
        """List the pull requests, newest first; there are no other discussions."""
        repository = self.find(name)
        wanted = self.query.get("status", [""])[0]
        rows = [
            {
                "num": one.number,
                "title": one.title,
                "author": {"name": one.author},
                "createdAt": state.now(),
                "status": one.status,
                "repo": {"name": name, "type": "model"},
                "isPullRequest": True,
            }
            for one in reversed(repository.pulls)
            if not wanted or (wanted == "open") == (one.status == "open")
        ]
        self.send(200, {"discussions": rows, "count": len(rows), "start": 0})


_NAME = r"([^/]+/[^/]+)"
ROUTES: tuple[tuple[str, str, Callable[..., None]], ...] = (
    ("GET", r"/api/whoami-v2", Handler.say_who),
    ("GET", r"/api/models", Handler.list_models),
    ("POST", r"/api/repos/create", Handler.create),
    ("POST", r"/api/validate-yaml", Handler.check_card),
    ("GET", rf"/api/models/{_NAME}", Handler.show),
    ("GET", rf"/api/models/{_NAME}/revision/(.+)", Handler.show),
    ("GET", rf"/api/models/{_NAME}/tree/(.+)", Handler.show_tree),
    ("GET", rf"/api/models/{_NAME}/commits/(.+)", Handler.show_commits),
    ("GET", rf"/api/models/{_NAME}/refs", Handler.show_refs),
    ("GET", rf"/api/models/{_NAME}/discussions", Handler.show_discussions),
    ("POST", rf"/api/models/{_NAME}/preupload/(.+)", Handler.prepare_upload),
    ("POST", rf"/api/models/{_NAME}/commit/(.+)", Handler.commit),
    ("POST", rf"/api/models/{_NAME}/tag/(.+)", Handler.tag),
    ("DELETE", rf"/api/models/{_NAME}/tag/(.+)", Handler.remove_tag),
    ("POST", rf"/{_NAME}\.git/info/lfs/objects/batch", Handler.plan_large),
    ("PUT", r"/_lfs/([0-9a-f]{64})", Handler.take_large),
    ("POST", r"/_lfs/([0-9a-f]{64})/verify", Handler.verify_large),
    ("GET HEAD", rf"/{_NAME}/resolve/(.+)", Handler.download),
)


@contextmanager
def serve(folder: Path) -> Iterator[Hub]:
    """Yield a Hub that runs on a free port of the loopback device until the end."""
    folder.mkdir(parents=True, exist_ok=True)
    hub = Hub(folder)

    class Connection(Handler):
        pass

    Connection.hub = hub
    server = ThreadingHTTPServer(("127.0.0.1", 0), Connection)
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.closed.set()
        server.shutdown()
        server.server_close()
        thread.join()
