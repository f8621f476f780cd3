"""The artifact store: it contains the results of the steps, by the digest of their content.

::

    objects/<hex>/files/…          the files of an artifact, read-only
    objects/<hex>/artifact.json    its manifest, next to the files so that no toolchain sees it
    steps/<key>.json               the result of a step's key: see StepRecord
    values/<key>.json              any JSON value, with a digest of it and of its key
    trees/<key>/files/…            any folder: samples, reference outputs, the evidence
    tmp/                           work in progress; everything else is complete, also after a kill

Two processes may work at once, and a reader never sees an incomplete file. If machines share a remote store, the local
one is its cache. Sealed folders are looked up here first, and uploaded when they are made. JSON files are only read
from and written to the remote store.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from heapq import nlargest
from pathlib import Path
from typing import Any, Final, TypeVar

from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.base import Json
from hone_runtime.values.digest import digest_json
from hone_runtime.values.manifest import (
    FILES,
    Manifest,
    UnsealableError,
    measure_files,
    read_sealed,
    seal_files,
    share_files,
)
from hone_runtime.values.outcome import Failed
from hone_runtime.values.regular import read_regular
from kedro_hone.core.store.disk import Disk, dump_json, explain_disk_errors
from kedro_hone.core.store.remote import Remote
from kedro_hone.core.store.steps import StepRecord

_Found = TypeVar("_Found")

MOST_RECORDS: Final = 1000
"""The most records of steps that are read to estimate how long steps take."""


class Store:
    """The artifact store in a local folder, made when missing; the cache of the remote store, if there is one.

    Attributes:
        root: The local folder.
        notes: The folder of tuning records and of counted choices: the root, unless the cache was moved.

    Raises:
        HoneError: ``store-full`` or ``store-read-only``, from here and from every method that writes;
            ``store-unreachable``, if there is a remote store.
    """

    def __init__(self, root: Path, *, remote: Remote | None = None, notes: Path | None = None) -> None:
        self._disk, self._remote = Disk(root), remote
        self._shared: Disk | Remote = remote or self._disk
        self.root = self._disk.root
        self.notes = notes or self.root

    def move_cache(self, folder: Path) -> Store:
        """Return the store with its cache below another folder; unchanged if it is not a shared store."""
        if self._remote is None:
            return self
        name = digest_json(self._remote.url).removeprefix("sha256:")
        return Store(folder / name, remote=self._remote, notes=self.notes)

    def workspace(self) -> AbstractContextManager[Path]:
        """Make an empty folder on the store's file system, removed at the end."""
        return self._disk.make_folder()

    def seal(self, folder: Path, *, parent: Artifact | None = None, **attributes: Any) -> Artifact:
        """Seal a folder as a read-only artifact. Equal files and attributes are stored once, as one artifact.

        The folder is moved if it is in a ``workspace`` of this store, and copied otherwise; links to files inside it
        are replaced by the files.

        Args:
            folder: The files.
            parent: The artifact that it was made from: files that are equal in both are stored on the disk once.
            **attributes: Fields of ``Artifact``: at least its format, inputs and outputs.

        Raises:
            UnsealableError: The folder has no file, or something in it is neither a file nor a folder, or is a link
                that leads out of it.
        """
        unsealed = Artifact(digest="", **attributes)
        shared = None if parent is None else _name("objects", parent.digest)
        return unsealed.model_copy(
            update={"digest": self._store_folder(folder, attributes=unsealed.manifest(), shared=shared)}
        )

    def find_artifact(self, digest: str) -> Artifact | None:
        """Return an artifact by its digest; None if it is missing, or a file of it is missing or truncated."""
        with suppress(ValueError, TypeError):
            manifest = self._find(_name("objects", digest))
            if manifest is not None and manifest.digest == digest:
                return Artifact(digest=digest, **manifest.attributes)
        return None

    def locate(self, artifact: Artifact) -> Path:
        """Return the folder of an artifact's files.

        Raises:
            HoneError: ``store-missing``: it is not in this store, or damaged.
        """
        if self.find_artifact(artifact.digest) is None:
            raise self._explain_missing(f"the artifact {artifact.digest} ({artifact.format})")
        return self.root / _name("objects", artifact.digest) / FILES

    def measure(self, artifact: Artifact) -> int:
        """Return the size of an artifact's files in bytes; raises as ``locate``."""
        manifest = self._find(_name("objects", artifact.digest))
        if manifest is None:
            raise self._explain_missing(f"the artifact {artifact.digest} ({artifact.format})")
        return sum(file.size for file in manifest.files.values())

    def store_tree(self, key: str, folder: Path) -> Path:
        """Store a folder of files under a key, moved or copied as by ``seal``, and return its new, read-only path.

        A folder that is already there stays, since it was made from the same inputs.

        Raises:
            UnsealableError: Something in it is neither a file nor a folder, or leads out.
        """
        name = _name("trees", key)
        self._store_folder(folder, attributes={"tree": name.partition("/")[2]}, tree=name)
        return self.root / name / FILES

    def find_tree(self, key: str) -> Path | None:
        """Return the path of the files stored under a key; None if absent, or if one is missing or truncated."""
        name = _name("trees", key)
        return self.root / name / FILES if self._find(name) else None

    def locate_tree(self, key: str) -> Path:
        """Return the path of the files stored under a key.

        Raises:
            HoneError: ``store-missing``: they are absent or damaged.
        """
        folder = self.find_tree(key)
        if folder is None:
            raise self._explain_missing(f"the files of {key}")
        return folder

    def find(self, key: str) -> StepRecord | None:
        """Return the earlier result of a step's key.

        None as in ``read_value``, or if its artifact is missing, damaged, or different from the one in the record.
        """

        def parse(content: Json) -> StepRecord:
            record = StepRecord.model_validate(content)
            if record.facts.key != key:
                raise ValueError("it is the record of another key")
            return record

        record = self._read(_name("steps", key, ".json"), parse)
        if record and isinstance(record.outcome, Artifact):
            kept = self.find_artifact(record.outcome.digest)
            if kept is None or kept.manifest() != record.outcome.manifest():
                return None
        return record

    def record(self, key: str, record: StepRecord) -> None:
        """Store the result of a step's key. A transient failure is not stored: the next run may succeed."""
        if not (isinstance(record.outcome, Failed) and record.outcome.failure.transient):
            self._shared.write(_name("steps", key, ".json"), dump_json(record.model_dump(mode="json")))

    def read_records(self) -> list[StepRecord]:
        """Return the newest records of steps in the local folder, up to ``MOST_RECORDS``; none from a remote store.

        Invalid records are left out. Whether an artifact still exists is not checked.
        """
        records: list[StepRecord] = []
        for path in nlargest(MOST_RECORDS, (self.root / "steps").glob("*.json"), key=_read_time):
            with suppress(OSError, ValueError):
                records.append(StepRecord.model_validate_json(read_regular(path)))
        return records

    def read_value(self, key: str, parse: Callable[[Json], _Found] = lambda value: value) -> _Found | None:
        """Return a JSON value, parsed by ``parse``.

        None if absent, or if it is damaged, belongs to another key, or cannot be parsed. It is then removed: another
        version of kedro-hone may have written it.
        """
        name = _name("values", key, ".json")

        def unwrap(content: Json) -> _Found:
            if not isinstance(content, dict) or content != _wrap(name, content.get("value")):
                raise ValueError("it is the value of another key")
            return parse(content["value"])

        return self._read(name, unwrap)

    def write_value(self, key: str, value: Json) -> None:
        """Store a JSON value under a key, replacing any earlier one."""
        name = _name("values", key, ".json")
        self._shared.write(name, dump_json(_wrap(name, json.loads(json.dumps(value)))))

    def _read(self, name: str, parse: Callable[[Json], _Found]) -> _Found | None:
        """Return the content of a JSON file; None if absent, or if it is damaged, and then removed."""
        content = self._shared.read(name)
        try:
            return None if content is None else parse(json.loads(content))
        except (ValueError, TypeError, LookupError, RecursionError):  # truncated, not text, too deep, of another key …
            self._shared.remove(name)
            return None

    def _find(self, name: str) -> Manifest | None:
        """Return the manifest of a sealed folder, downloaded if needed; None if no intact one has this name."""
        manifest = read_sealed(self.root / name)
        if manifest is not None or self._remote is None:
            return manifest
        with self.workspace() as stage:
            if self._remote.pull(name, stage):
                self._disk.place(stage, name)
        return read_sealed(self.root / name)

    def _store_folder(
        self, folder: Path, *, attributes: Json, tree: str | None = None, shared: str | None = None
    ) -> str:
        """Seal a folder, as the tree of this name or otherwise as an artifact, upload it, and return its digest.

        Files that are equal to those of ``shared``, a folder of the store, become links to them.
        """
        with self.workspace() as stage:
            self._disk.bring(folder, stage)
            if tree is None and not measure_files(stage / FILES):
                raise UnsealableError(f"{folder} holds no file")
            with explain_disk_errors(self.root):
                if shared is not None:
                    share_files(stage / FILES, self.root / shared)
                digest = seal_files(stage, attributes)
            name = tree or _name("objects", digest)
            self._disk.place(stage, name)
        if self._remote is not None:
            self._remote.push(self.root / name, name)
        return digest

    def _explain_missing(self, what: str) -> HoneError:
        why = (
            "A node needs the output of an earlier one. The store was emptied or damaged since then, or is a "
            "different one."
        )
        hint = "Run all pipelines again. What the store still has is reused."
        return HoneError("store-missing", f"The store in {self.root} does not contain {what}.", why=why, hint=hint)


def _read_time(path: Path) -> int:
    """Return when a file was written, in nanoseconds since 1970; 0 if it is gone."""
    with suppress(OSError):
        return path.lstat().st_mtime_ns
    return 0


def _wrap(name: str, value: Json) -> dict[str, Json]:
    """Return a value as it is written: with a digest of it and of its name, so that it is not mistaken for another."""
    return {"value": value, "digest": digest_json([name, value])}


def _name(room: str, key: str, ending: str = "") -> str:
    name = key.removeprefix("sha256:")
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}", name):
        raise ValueError(f"{key!r:.80} is not a key: use at most 200 letters, digits, dashes, dots and underscores")
    return f"{room}/{name}{ending}"
