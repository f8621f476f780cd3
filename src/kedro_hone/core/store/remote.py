"""A store that many machines share, on any storage that fsspec reaches; each machine's local store is its cache.

It has the layout of the local store. A sealed folder is uploaded file by file and its manifest last: a folder with a
manifest is complete. Downloads are compared with the manifest byte for byte before they are used, and the manifest with
the name. Each file appears at once or not at all, by fsspec's transactions, which on an object storage are single or
multipart uploads (https://filesystem-spec.readthedocs.io/en/latest/features.html#transactions).
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import IO, Final

from fsspec.core import url_to_fs
from fsspec.utils import get_protocol

from hone_runtime.contract.plugins import describe_exception
from hone_runtime.errors import HoneError
from hone_runtime.values.base import Json
from hone_runtime.values.manifest import FILES, MANIFEST, Manifest

_WITH_FOLDERS: Final = frozenset({"sftp", "ssh", "ftp", "smb", "hdfs", "webhdfs"})
"""Protocols for which a folder must be made before its files. On an object storage the same call would create a bucket.
"""


class Remote:
    """A shared store.

    The URL is such as ``s3://bucket/folder``; the package that fsspec needs for its protocol has to be installed. The
    options are those of its fsspec file system: credentials, an endpoint. Options that are not given are read from the
    file system's own defaults, such as ``AWS_ACCESS_KEY_ID`` or ``~/.aws``.

    Raises:
        HoneError: ``store-unreachable``, from here and from every method.
    """

    def __init__(self, url: str, options: Mapping[str, Json] | None = None) -> None:
        self.url, self._given = url, options
        with self._explain():
            # An instance of its own: a transaction belongs to the instance, and fsspec would share it between threads.
            self._files, self._root = url_to_fs(url, skip_instance_cache=True, **(options or {}))
            self._protocol = get_protocol(url)

    def __reduce__(self) -> tuple[object, ...]:
        """Open it again in another process: fsspec would share one instance between that process's threads."""
        return type(self), (self.url, self._given)

    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None if absent."""
        with self._explain(), suppress(FileNotFoundError):
            return bytes(self._files.cat_file(self._locate(name)))
        return None

    def write(self, name: str, content: bytes) -> None:
        """Write a file at once, replacing any earlier one."""
        self._upload(name, BytesIO(content))

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        with self._explain(), suppress(FileNotFoundError):
            self._files.rm_file(self._locate(name))

    def push(self, place: Path, name: str) -> None:
        """Upload a sealed folder of the local store, unless it is there with the manifest of its name."""
        if _read_manifest(self.read(f"{name}/{MANIFEST}"), name):
            return
        self.remove(f"{name}/{MANIFEST}")
        for file in (*(f"{FILES}/{file}" for file in Manifest.read(place / MANIFEST).files), MANIFEST):
            with (place / file).open("rb") as source:
                self._upload(f"{name}/{file}", source)

    def pull(self, name: str, stage: Path) -> bool:
        """Download a sealed folder into an empty one, and return whether each byte is as it was sealed.

        A folder that is damaged, or sealed under another name, is removed, so that it can be made and uploaded again.
        """
        content = self.read(f"{name}/{MANIFEST}")
        if content is None:
            return False
        manifest = _read_manifest(content, name)
        if manifest is None or not self._download(name, manifest, stage / FILES):
            self.remove(f"{name}/{MANIFEST}")
            return False
        (stage / MANIFEST).write_bytes(content)
        for path in stage.rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o444)
        return True

    def _download(self, name: str, manifest: Manifest, folder: Path) -> bool:
        for file in manifest.files:
            if not _is_safe_name(file, manifest.files):
                return False
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            with self._explain(), suppress(FileNotFoundError):
                self._files.get_file(self._locate(f"{name}/{FILES}/{file}"), str(folder / file))
        return manifest.find_difference(folder) is None

    def _upload(self, name: str, source: IO[bytes]) -> None:
        path = self._locate(name)
        with self._explain(), self._files.transaction:
            if self._protocol in _WITH_FOLDERS:
                self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
            with self._files.open(path, "wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)

    def _locate(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}"

    @contextmanager
    def _explain(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            # Every file system raises exceptions of its own: of botocore, aiohttp, paramiko …
            what, why = f"The store {self.url} cannot be used.", describe_exception(error)
            hint = (
                "Check the URL, the network and the credentials, and that the package for its protocol is installed "
                "(s3fs for s3://, gcsfs for gs://, adlfs for abfs://). What was finished is kept."
            )
            raise HoneError("store-unreachable", what, why=why, hint=hint) from error


def _read_manifest(content: bytes | None, name: str) -> Manifest | None:
    """Return the manifest that was uploaded under a name; None if it is missing, damaged or belongs to another name."""
    with suppress(ValueError):
        manifest = Manifest.model_validate_json(content or b"")
        return manifest if manifest.is_of(name) else None
    return None


def _is_safe_name(name: str, others: Collection[str]) -> bool:
    """Whether a file name of an untrusted manifest is valid: inside the folder, and not inside another file."""
    path = PurePosixPath(name)
    leads_out = path.is_absolute() or ".." in path.parts
    odd = "\0" in name or str(path) != name or name == "."
    too_long = any(len(part.encode()) > 255 for part in path.parts)  # bytes, on the usual file systems
    return not (leads_out or odd or too_long or {*map(str, path.parents)} & {*others})
