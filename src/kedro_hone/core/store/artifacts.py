"""The artifact store: a folder that holds what the steps made, by the digest of its content.

::

    objects/<hex>/files/…          the files of an artifact, read-only
    objects/<hex>/artifact.json    its manifest, next to the files so that no toolchain sees it
    steps/<key>.json               what a step's key gave: see StepRecord
    values/<key>.json              any JSON value
    trees/<key>/files/…            any folder: samples, reference outputs
    tmp/                           what is being made; everything else is complete, also after a kill

Everything is renamed into place inside one file system, after its bytes have reached the disk. So two processes may
work at once, and a reader never sees an incomplete file.

Where machines share a remote store, the local one is its cache: sealed folders are looked up here first and uploaded
when they are made; steps and values are only read and written there.
"""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from pydantic import ValidationError

from kedro_hone.core.errors import HoneError
from kedro_hone.core.store.disk import Temporary, explain_disk_errors, sync_path, sync_tree, write_json
from kedro_hone.core.store.manifest import FILES, Manifest, is_unharmed, read_sealed, seal_files
from kedro_hone.core.store.remote import Remote
from kedro_hone.core.store.sealing import UnsealableError, copy_tree, measure_files
from kedro_hone.core.store.steps import StepRecord, step_key
from kedro_hone.core.values.artifact import Artifact, Shape, TensorSpec
from kedro_hone.core.values.base import Format, Json
from kedro_hone.core.values.device import CPU, Device
from kedro_hone.core.values.outcome import Failed

__all__ = ["StepRecord", "Store", "UnsealableError", "step_key"]


class Store:
    """The artifact store in a local folder. Opening it removes what killed processes left in ``tmp``.

    Args:
        root: The folder; made when missing.
        remote: The store that machines share, if there is one.

    Raises:
        HoneError: ``store-full`` or ``store-read-only``, from here and from every method that writes.
    """

    def __init__(self, root: Path, *, remote: Remote | None = None) -> None:
        self.root, self._remote = root.absolute(), remote
        self._objects, self._steps = self.root / "objects", self.root / "steps"
        self._values, self._trees = self.root / "values", self.root / "trees"
        with explain_disk_errors(self.root):
            for folder in (self._objects, self._steps, self._values, self._trees):
                folder.mkdir(parents=True, exist_ok=True)
            self._temporary = Temporary(self.root / "tmp")

    def seal(
        self,
        folder: Path,
        *,
        format: Format,  # noqa: A002  (the word of the domain)
        inputs: Sequence[TensorSpec],
        outputs: Sequence[TensorSpec],
        runtime: str | None = None,
        device: Device = CPU,
        run_options: Mapping[str, Json] | None = None,
        static_shapes: Sequence[Shape] = (),
        metadata: Mapping[str, Json] | None = None,
    ) -> Artifact:
        """Make a folder an artifact. The same files with the same attributes are the same artifact, kept once.

        Args:
            folder: The files. It is moved if it is in a ``workspace`` of this store, and copied otherwise. Links to
                files inside it are replaced by the files.
            format: What kind of files they are.
            inputs: The tensors that the model takes.
            outputs: The tensors that it returns.
            runtime: The toolchain that opens it, if it can run.
            device: Where it computes.
            run_options: Options for the runtime.
            static_shapes: The shapes it was specialized for.
            metadata: What the adaptors noted.

        Returns:
            The artifact; its files are read-only.

        Raises:
            UnsealableError: The folder has no file, or something in it is neither a file nor a folder, or leads out.
            HoneError: ``store-full`` or ``store-read-only``.
        """
        unsealed = Artifact(
            format=format,
            digest="",
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            runtime=runtime,
            device=device,
            run_options=dict(run_options or {}),
            static_shapes=tuple(static_shapes),
            metadata=dict(metadata or {}),
        )
        with explain_disk_errors(self.root), self._temporary.make_folder() as stage:
            self._bring(folder, stage / FILES)
            if not measure_files(stage / FILES):
                raise UnsealableError(f"{folder} holds no file")
            digest = seal_files(stage, unsealed.manifest())
            self._keep(stage, self._objects / _check_key(digest))
        return unsealed.model_copy(update={"digest": digest})

    def find_artifact(self, digest: str) -> Artifact | None:
        """Return an artifact by its digest; None when it is missing, or a file of it is missing or cut short.

        Args:
            digest: ``sha256:…``.
        """
        manifest = self._find_sealed(self._objects / _check_key(digest))
        if manifest is None or manifest.digest != digest:
            return None
        try:
            return Artifact(digest=digest, **manifest.attributes)
        except (ValidationError, TypeError):
            return None

    def locate(self, artifact: Artifact) -> Path:
        """Return the folder of an artifact's files.

        Raises:
            HoneError: ``store-missing``: it is not in this store, or damaged.
        """
        if self.find_artifact(artifact.digest) is None:
            raise self._explain_missing(f"the artifact {artifact.digest} ({artifact.format})")
        return self._objects / _check_key(artifact.digest) / FILES

    def measure(self, artifact: Artifact) -> int:
        """Return the size of an artifact's files in bytes.

        Raises:
            HoneError: ``store-missing``.
        """
        return sum(measure_files(self.locate(artifact)).values())

    def verify(self, digest: str) -> bool:
        """Tell whether an artifact is there with every byte that was sealed: slow, since all of it is read.

        Args:
            digest: ``sha256:…``.
        """
        return self.find_artifact(digest) is not None and is_unharmed(self._objects / _check_key(digest))

    def find(self, key: str) -> StepRecord | None:
        """Return what a step's key gave before.

        Args:
            key: From ``step_key``.

        Returns:
            The record. None when there is none, when it is damaged (it is removed then), or when its artifact is
            missing or damaged.
        """
        path = self._steps / f"{_check_key(key)}.json"
        content = self._read_json(path)
        if content is None:
            return None
        try:
            record = StepRecord.model_validate(content)
        except ValidationError:
            self._discard(path)
            return None
        lost = isinstance(record.outcome, Artifact) and self.find_artifact(record.outcome.digest) is None
        return None if lost else record

    def record(self, key: str, record: StepRecord) -> None:
        """Keep what a step's key gave. A transient failure is not kept: the next run may succeed.

        Args:
            key: From ``step_key``.
            record: What it gave.

        Raises:
            HoneError: ``store-full`` or ``store-read-only``.
        """
        if isinstance(record.outcome, Failed) and record.outcome.failure.transient:
            return
        self._write_json(self._steps / f"{_check_key(key)}.json", record.model_dump(mode="json"))

    def read_value(self, key: str) -> Json | None:
        """Return a JSON value, or None when there is none or it is damaged (it is removed then)."""
        return self._read_json(self._values / f"{_check_key(key)}.json")

    def write_value(self, key: str, value: Json) -> None:
        """Keep a JSON value under a key, in place of what was there.

        Raises:
            HoneError: ``store-full`` or ``store-read-only``.
        """
        self._write_json(self._values / f"{_check_key(key)}.json", value)

    def keep_tree(self, key: str, folder: Path) -> Path:
        """Keep a folder of files under a key; one that is already there stays, since it was made from the same inputs.

        Args:
            key: Where it is found again.
            folder: The files; moved or copied as by ``seal``.

        Returns:
            Where the files are now, read-only.

        Raises:
            UnsealableError: Something in it is neither a file nor a folder, or leads out.
            HoneError: ``store-full`` or ``store-read-only``.
        """
        with explain_disk_errors(self.root), self._temporary.make_folder() as stage:
            self._bring(folder, stage / FILES)
            seal_files(stage, None)
            return self._keep(stage, self._trees / _check_key(key)) / FILES

    def find_tree(self, key: str) -> Path | None:
        """Return where the files kept under a key are; None when there are none, or one is missing or cut short."""
        place = self._trees / _check_key(key)
        return place / FILES if self._find_sealed(place) else None

    def locate_tree(self, key: str) -> Path:
        """Return where the files kept under a key are.

        Raises:
            HoneError: ``store-missing``: there are none, or they are damaged.
        """
        folder = self.find_tree(key)
        if folder is None:
            raise self._explain_missing(f"the files of {key}")
        return folder

    @contextmanager
    def workspace(self) -> Iterator[Path]:
        """Make an empty folder on the store's file system, removed at the end.

        Yields:
            The folder.

        Raises:
            HoneError: ``store-full`` or ``store-read-only``, when it cannot be made.
        """
        with ExitStack() as stack:
            with explain_disk_errors(self.root):  # and not what the caller does inside
                folder = stack.enter_context(self._temporary.make_folder())
            yield folder

    def _bring(self, folder: Path, target: Path) -> None:
        """Move or copy a folder to where it is sealed."""
        source = folder.absolute()
        if not source.is_dir():
            raise UnsealableError(f"{folder} is no folder")
        if self._temporary.root in source.parents and not any(path.is_symlink() for path in source.rglob("*")):
            source.chmod(0o755)  # or a folder that a worker made read-only could not be moved
            source.rename(target)
        else:
            # What is sealed already never changes, so a second artifact of the same files shares them.
            copy_tree(source, target, share=self._objects in source.parents)

    def _place(self, stage: Path, place: Path) -> Path:
        """Move a complete folder to its place, unless the same one is there already and intact."""
        sync_tree(stage)
        while True:
            try:
                stage.rename(place)
            except OSError as error:
                if error.errno not in {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR}:
                    raise
            else:
                sync_path(place.parent)
                return place
            if is_unharmed(place):
                return place
            with self._temporary.make_folder() as bin_, suppress(FileNotFoundError):
                place.rename(bin_ / "damaged")

    def _keep(self, stage: Path, place: Path) -> Path:
        """Move a complete folder to its place, and upload it where machines share a store."""
        self._place(stage, place)
        if self._remote is not None:
            self._remote.push(place, self._name(place))
        return place

    def _find_sealed(self, place: Path) -> Manifest | None:
        """Return the manifest of a place, downloaded before where machines share a store."""
        manifest = read_sealed(place)
        if manifest is not None or self._remote is None:
            return manifest
        with explain_disk_errors(self.root), self._temporary.make_folder() as stage:
            if self._remote.pull(self._name(place), stage):
                self._place(stage, place)
        return read_sealed(place)

    def _explain_missing(self, what: str) -> HoneError:
        return HoneError(
            "store-missing",
            f"The store in {self.root} does not hold {what}.",
            why="A node asked for what an earlier one made. The store was emptied or damaged since, or is another one.",
            hint="Run the whole line again: `kedro run`. What the store still holds is reused.",
        )

    def _read_json(self, path: Path) -> Json | None:
        try:
            content = path.read_bytes() if self._remote is None else self._remote.read(self._name(path))
            return None if content is None else json.loads(content)
        except FileNotFoundError:
            return None
        except ValueError:  # cut short, or not even text
            self._discard(path)
            return None

    def _write_json(self, path: Path, value: Json) -> None:
        if self._remote is not None:
            self._remote.write(self._name(path), json.dumps(value, indent=1, sort_keys=True).encode())
            return
        with explain_disk_errors(self.root), self._temporary.make_folder() as folder:
            write_json(path, value, temporary=folder / path.name)

    def _discard(self, path: Path) -> None:
        if self._remote is not None:
            self._remote.remove(self._name(path))
            return
        with explain_disk_errors(self.root):
            path.unlink(missing_ok=True)

    def _name(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()


def _check_key(key: str) -> str:
    name = key.removeprefix("sha256:")
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", name):
        raise ValueError(f"{key!r} is no key: use letters, digits, dashes, dots and underscores")
    return name
