"""Layers: archives with fixed owners, times and modes, so that equal files give equal digests.

The digest of a layer depends on zlib, too: another zlib may compress other bytes. The digest of the uncompressed
archive, the *diff id*, depends on the files alone.
"""

from __future__ import annotations

import hashlib
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final

from hone_runtime.values.regular import open_regular
from kedro_hone.serving.image.descriptors import LAYER, Descriptor

Content = Path | bytes | Callable[[], bytes | None]
"""A file, its content, or what computes the content when it is written; None leaves the file out."""
Tree = Mapping[PurePosixPath, Content]
"""Files by their paths below the root of an image."""

DIFF_ID: Final = "org.kedro-hone.diff-id"
"""The annotation with the digest of the uncompressed archive, in descriptors of our own layers."""
_HEADER: Final = bytes.fromhex("1f8b08 00 00000000 00 ff")
"""Of gzip: no name, no time, no operating system."""
_LEVEL: Final = 1
_BLOCK: Final = 512
_CHUNK: Final = 1 << 20


def write_layer(tree: Tree, path: Path) -> Descriptor:
    """Write the layer of some files, and return its descriptor.

    Every folder is readable by all, and so is every file; nothing is executable: an image starts its interpreter.
    """
    with path.open("wb") as stream:
        gzip = _Gzip(stream)
        for chunk in _archive(tree):
            gzip.write(chunk)
        return gzip.close()


def _archive(tree: Tree) -> Iterator[bytes]:
    """Yield the bytes of a tar archive: files in the order of their paths, each folder before its files."""
    folders = set[PurePosixPath]()
    for place in sorted(tree):
        content = tree[place]
        found = content if isinstance(content, bytes | Path) else content()
        if found is None:
            continue
        for folder in reversed(place.parents[:-1]):
            if folder not in folders:
                folders.add(folder)
                yield _format_header(folder, size=0, kind=tarfile.DIRTYPE)
        yield from _archive_file(place, found)
    yield bytes(2 * _BLOCK)


def _archive_file(place: PurePosixPath, content: Path | bytes) -> Iterator[bytes]:
    if isinstance(content, bytes):
        size = len(content)
        yield _format_header(place, size=size)
        yield content
    else:
        with open_regular(content) as stream:
            size = left = stream.seek(0, 2)
            stream.seek(0)
            yield _format_header(place, size=size)
            while left and (chunk := stream.read(min(left, _CHUNK))):
                left -= len(chunk)
                yield chunk
            if left:
                raise OSError(f"{content} became shorter while it was read")
    yield bytes(-size % _BLOCK)


def _format_header(place: PurePosixPath, *, size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    info = tarfile.TarInfo(str(place))
    info.type, info.size, info.mode = kind, size, 0o755 if kind == tarfile.DIRTYPE else 0o644
    return info.tobuf(tarfile.PAX_FORMAT)


class _Gzip:
    """Compresses to a stream, and computes both digests."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self._pending = stream, bytearray()
        self._compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
        self._plain, self._packed = hashlib.sha256(), hashlib.sha256()
        self._checksum, self._length, self._size = 0, 0, 0
        self._emit(_HEADER)

    def write(self, data: bytes) -> None:
        """Add data; they are compressed in large pieces, since there are many small files."""
        self._pending += data
        if len(self._pending) >= _CHUNK:
            self._flush()

    def close(self) -> Descriptor:
        """Write the rest, and return the descriptor of what was written."""
        self._flush()
        self._emit(self._compressor.flush())
        self._emit(self._checksum.to_bytes(4, "little") + (self._length & 0xFFFF_FFFF).to_bytes(4, "little"))
        return Descriptor(
            media_type=LAYER,
            digest=f"sha256:{self._packed.hexdigest()}",
            size=self._size,
            annotations={DIFF_ID: f"sha256:{self._plain.hexdigest()}"},
        )

    def _flush(self) -> None:
        data, self._pending = bytes(self._pending), bytearray()
        self._plain.update(data)
        self._checksum, self._length = zlib.crc32(data, self._checksum), self._length + len(data)
        self._emit(self._compressor.compress(data))

    def _emit(self, data: bytes) -> None:
        self._packed.update(data)
        self._size += len(data)
        self._stream.write(data)
