"""Versions on the Hub are commits: look them up by a URI, and distinguish sources from winners.

A winner's commit has ``hone.json``, with its tags and the digest of the author's files at that time. If these files
have changed since, the author has continued, and the commit is a source again.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any, Final

from hone_runtime.contract.registry import NewVersions, VersionInfo, explain_skipped
from hone_runtime.contract.tags import SOURCE
from hone_runtime.errors import HoneError
from hone_runtime.text import clean_text
from hone_runtime.values.base import Value
from hone_runtime.values.regular import LARGEST_FILE, read_regular
from kedro_hone.adaptors.registries.huggingface.connection import Connection
from kedro_hone.adaptors.registries.huggingface.files import TAGS
from kedro_hone.adaptors.registries.huggingface.references import COMMIT, Reference, read_uri
from kedro_hone.adaptors.registries.huggingface.snapshots import Snapshot, fetch_file, find_snapshot
from kedro_hone.sources.files import make_corrupt

_UNREACHABLE: Final = "registry-unreachable"
_OF_ONE: Final = frozenset({"model-unknown", "version-unknown", "registry-denied", "model-corrupt", _UNREACHABLE})
"""Errors of a single repository in a list; all others concern the Hub, or this machine."""


class Published(Value):
    """The content of ``hone.json``, about a winner.

    Attributes:
        files: All its files, as signed, with their paths.
        added: Files that the author has elsewhere, such as a tokenizer's, and that the publication added here.
        authors: The digest of the author's files next to it.
    """

    tags: dict[str, str]
    files: tuple[str, ...]
    added: tuple[str, ...] = ()
    authors: str


def find_source(hub: Connection, uri: str) -> str:
    """Return the URI of the commit from which the winner at the end of a branch was made; else the URI itself."""
    reference = read_uri(uri)
    if COMMIT.fullmatch(reference.revision) or reference.revision.startswith("refs/"):
        return uri
    published = read_published(hub, find_snapshot(hub, reference))
    source = "" if published is None else published.tags.get(SOURCE, "")
    if not source.startswith(f"hf://{reference.name}@"):
        return uri
    is_tag = not hub.offline and reference.revision in read_aliases(hub, reference.name)
    return uri if is_tag else source


def read_published(hub: Connection, snapshot: Snapshot, *, stale: bool = False) -> Published | None:
    """Return the content of ``hone.json``; None if absent, or if the author has changed the model since.

    The file is cached. With ``stale`` its content is returned even if the author has changed the model.

    Raises:
        HoneError: ``model-corrupt``: the file cannot be read.
    """
    if TAGS not in snapshot.files:
        return None
    if snapshot.files[TAGS].size > LARGEST_FILE:
        raise make_corrupt(Path(TAGS), f"it is larger than {LARGEST_FILE >> 20} MiB")
    path = fetch_file(hub, snapshot, TAGS)
    try:
        published = Published.model_validate_json(read_regular(path))
    except (OSError, ValueError) as error:
        raise make_corrupt(Path(TAGS), f"it does not describe a winner ({type(error).__name__})") from error
    return published if stale or published.authors == snapshot.digest_authors(without=published.added) else None


def describe(hub: Connection, snapshot: Snapshot, published: Published | None) -> VersionInfo:
    """Return the description of a commit; for a winner, the git tags that point to it are looked up."""
    known = {} if published is None or hub.offline else read_aliases(hub, snapshot.name)
    aliases = tuple(sorted(alias for alias, sha in known.items() if sha == snapshot.sha))
    tags = {} if published is None else published.tags
    return VersionInfo(uri=snapshot.reference.uri, name=snapshot.name, version=snapshot.sha, aliases=aliases, tags=tags)


def read_aliases(hub: Connection, name: str) -> dict[str, str]:
    """Return the commit that each git tag of a repository points to; empty if there is no such repository."""
    try:
        refs = hub.request(lambda: hub.api.list_repo_refs(name), Reference(name))
    except HoneError as error:
        if error.slug != "model-unknown":
            raise
        return {}
    return {tag.name: tag.target_commit for tag in refs.tags}


def list_arrivals(hub: Connection, cursor: str | None) -> NewVersions:
    """Return the newest commit, if new, of each model of the token's account and organizations; oldest first.

    The Hub has no list of all commits: of several commits between two calls only the last one is found. A repository
    that cannot be read, such as a gated one, is skipped until it can be.
    """
    everywhere = Reference("")
    account = hub.request(hub.api.whoami, everywhere)
    seen: dict[str, str] = json.loads(cursor) if cursor else {}
    models: list[Any] = []
    for owner in [account["name"], *(org["name"] for org in account.get("orgs") or ())]:
        models += hub.request(partial(_list_models, hub, owner), everywhere)
    heads = {model.id: model.sha for model in models}
    infos, skipped = [], {}
    for model in sorted(models, key=lambda one: (one.last_modified, one.id)):
        if seen.get(model.id) == model.sha:
            continue
        reference = Reference(model.id, model.sha)
        try:
            snapshot = find_snapshot(hub, reference)
            info = describe(hub, snapshot, read_published(hub, snapshot))
        except HoneError as error:
            if error.slug not in _OF_ONE:
                raise
            if error.slug == _UNREACHABLE:
                hub.request(hub.api.whoami, everywhere)  # raises if the Hub itself fails
            skipped[clean_text(reference.uri)] = explain_skipped(error)
            heads.pop(model.id)
            heads |= {model.id: seen[model.id]} if model.id in seen else {}
        else:
            infos.append(info.model_copy(update={"created": model.last_modified.timestamp()}))
    return NewVersions(tuple(infos), json.dumps(heads, sort_keys=True), skipped)


def _list_models(hub: Connection, owner: str) -> list[Any]:
    return list(hub.api.list_models(author=owner, sort="last_modified", full=True))
