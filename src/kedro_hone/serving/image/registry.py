"""One repository of a registry, by the distribution API of the Open Container Initiative, version 1.1.

Source: https://github.com/opencontainers/distribution-spec, "spec.md".
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import IO, Final, TypeVar

from kedro_hone.serving.image.blobs import Blobs
from kedro_hone.serving.image.credentials import find_credentials
from kedro_hone.serving.image.descriptors import DOCKER_LIST, DOCKER_MANIFEST, INDEX, MANIFEST, Descriptor, digest_bytes
from kedro_hone.serving.image.references import Reference
from kedro_hone.serving.image.transport import Answer, RegistryError, Transport

_ACCEPT: Final = {"Accept": ", ".join((MANIFEST, INDEX, DOCKER_MANIFEST, DOCKER_LIST))}
_PAUSES: Final = (0.5, 1.0, 2.0, 4.0)
"""Seconds before each further attempt: a registry that restarts is waited for, one that is gone is not."""
_CHUNK: Final = 1 << 20
_T = TypeVar("_T")


class Repository:
    """A repository, which is read, and written if ``push`` is true.

    Args:
        reference: Any image in it.
        push: Whether it is written.
        insecure: Whether a registry that is not on this machine may be reached without TLS.
        pauses: The seconds before each further attempt.
    """

    def __init__(
        self, reference: Reference, *, push: bool = False, insecure: bool = False, pauses: tuple[float, ...] = _PAUSES
    ) -> None:
        local = reference.is_loopback
        base = f"{'http' if insecure or local else 'https'}://{reference.address}"
        scope = f"repository:{reference.repository}:pull{',push' if push else ''}"
        credentials = find_credentials(reference.host)
        self._transport = Transport(base, credentials=credentials, scope=scope, direct=local)
        self._path, self._pauses = f"/v2/{reference.repository}", pauses

    def has_blob(self, blob: Descriptor) -> bool:
        """Return whether the repository has a blob."""
        path, accepted = f"{self._path}/blobs/{blob.digest}", frozenset({200, 404})
        answer = self._repeat(lambda: self._transport.send("HEAD", path, accepted=accepted))
        answer.stream.close()
        return answer.status == 200

    def push_blob(self, blob: Descriptor, path: Path) -> None:
        """Send a blob; after a connection is cut, from where the registry has it.

        Raises:
            RegistryError: It is refused, or there is no answer.
        """
        upload = _Upload(self._transport, self._path, blob, path)
        self._repeat(upload.run)

    def read_manifest(self, name: str) -> tuple[bytes, str] | None:
        """Return a manifest by its tag or digest, with its media type; None if absent."""
        path, accepted = f"{self._path}/manifests/{name}", frozenset({200, 404})
        answer = self._repeat(lambda: self._transport.send("GET", path, headers=_ACCEPT, accepted=accepted))
        content = answer.read()
        if answer.status == 404:
            return None
        if name.startswith("sha256:") and digest_bytes(content) != name:
            raise RegistryError(f"{path} has another digest", status=400)
        return content, answer.headers.get_content_type()

    def put_manifest(self, name: str, content: bytes, media_type: str) -> bool:
        """Write a manifest under a tag or its digest; return whether the registry lists it as a referrer."""
        path, headers = f"{self._path}/manifests/{name}", {"Content-Type": media_type}
        accepted = frozenset({200, 201, 202})
        answer = self._repeat(
            lambda: self._transport.send("PUT", path, headers=headers, body=lambda: content, accepted=accepted)
        )
        answer.read()
        return "OCI-Subject" in answer.headers

    def pull_blob(self, blob: Descriptor, blobs: Blobs) -> None:
        """Write a blob to a folder of blobs, unless it is there.

        Raises:
            RegistryError: It is absent, or other bytes came.
        """
        if not blobs.has(blob):
            self._repeat(lambda: self._pull_once(blob, blobs))

    def _pull_once(self, blob: Descriptor, blobs: Blobs) -> None:
        answer = self._transport.send("GET", f"{self._path}/blobs/{blob.digest}")
        digest, size = hashlib.sha256(), 0
        with answer.stream as source, blobs.make_file() as path:
            with path.open("wb") as target:
                while chunk := _read(source):
                    size += len(chunk)
                    if size > blob.size:
                        break
                    digest.update(chunk)
                    target.write(chunk)
            if size != blob.size or f"sha256:{digest.hexdigest()}" != blob.digest:
                raise RegistryError(f"the blob {blob.digest} came with other bytes")
            blobs.place(path, blob.digest)

    def _repeat(self, attempt: Callable[[], _T]) -> _T:
        """Return the result of an attempt, which is repeated while its error may pass."""
        for pause in self._pauses:
            try:
                return attempt()
            except RegistryError as error:
                if not error.is_passing:
                    raise
            time.sleep(pause)
        return attempt()


_LOST: Final = frozenset({400, 404, 416})
"""Answers to the rest of an upload that a registry has lost: Docker's may drop one whose connection ended."""


class _Upload:
    """The upload of one blob, which continues where it was cut."""

    def __init__(self, transport: Transport, repository: str, blob: Descriptor, path: Path) -> None:
        self._transport, self._repository, self._blob, self._path = transport, repository, blob, path
        self._place = ""
        """Where the registry receives the rest; empty before it named a place."""

    def run(self) -> None:
        """Send what the registry lacks, and complete the blob; begin again if it has lost the upload meanwhile."""
        goes_on = bool(self._place)
        try:
            self._complete()
        except RegistryError as error:
            if not (goes_on and error.status in _LOST):
                raise
            self._place = ""
            self._complete()

    def _complete(self) -> None:
        offset = self._find_offset()
        if offset < self._blob.size:
            self._send(offset)
        joint = "&" if "?" in self._place else "?"
        headers = {"Content-Length": "0"}
        try:
            answer = self._transport.send(
                "PUT",
                f"{self._place}{joint}digest={self._blob.digest}",
                headers=headers,
                body=lambda: b"",
                accepted=frozenset({201, 204}),
            )
        except RegistryError as error:
            if error.status:
                self._place = ""  # whatever it received is not the blob: begin again
            raise
        answer.read()

    def _find_offset(self) -> int:
        """Return how many bytes the registry has; begin an upload if there is none."""
        if self._place:
            answer = self._transport.send("GET", self._place, accepted=frozenset({200, 204, *range(400, 500)}))
            answer.read()
            if answer.status < 400:
                self._place = answer.headers.get("Location", self._place)
                _, _, last = answer.headers.get("Range", "").partition("-")
                return min(int(last) + 1, self._blob.size) if re.fullmatch("[1-9][0-9]{0,17}", last) else 0
        accepted = frozenset({202})
        answer = self._transport.send("POST", f"{self._repository}/blobs/uploads/", body=lambda: b"", accepted=accepted)
        self._follow(answer)
        return 0

    def _send(self, offset: int) -> None:
        size = self._blob.size
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(size - offset)}
        if offset:
            headers["Content-Range"] = f"{offset}-{size - 1}"

        def open_rest() -> IO[bytes]:
            stream = self._path.open("rb")
            stream.seek(offset)
            return stream

        self._follow(
            self._transport.send("PATCH", self._place, headers=headers, body=open_rest, accepted=frozenset({202}))
        )

    def _follow(self, answer: Answer) -> None:
        answer.read()
        self._place = self._transport.resolve(answer.headers.get("Location", ""))


def _read(stream: IO[bytes]) -> bytes:
    try:
        return stream.read(_CHUNK)
    except (OSError, HTTPException) as error:
        raise RegistryError(f"the connection ended: {error}") from error
