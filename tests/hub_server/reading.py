"""What can be read from the loopback Hub: repositories, trees, files, references and accounts."""

from __future__ import annotations

import re
import time

from hub_server import state
from hub_server.exchange import BLOCK, Exchange, RefusalError


class Reading(Exchange):
    """The requests that read."""

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
        etag = content.sha256 if large else content.name_blob(path)
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
            self._send_file(content, start)

    def _send_file(self, content: state.Content, start: int) -> None:
        fault, size = self.fault, content.size - start
        left = size if fault is None or fault.cut is None else min(fault.cut, size)
        with content.open() as stream:
            stream.seek(start)
            while left > 0 and (data := stream.read(min(BLOCK, left))):
                left -= len(data)
                self.wfile.write(data)
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
