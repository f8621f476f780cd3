"""What can be written to the loopback Hub: repositories, large files, commits, pull requests and tags."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from typing import Any

from hub_server import state
from hub_server.exchange import Exchange, RefusalError


class Writing(Exchange):
    """The requests that write."""

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
        return content.sha256 if state.is_large(path, content.size) else content.name_blob(path)

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
