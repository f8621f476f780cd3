"""Layers of an image, written once for the same files and found again by the digest of what they are made of."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from hone_runtime.values.digest import digest_file, digest_json
from kedro_hone.serving.image.archives import DIFF_ID, Content, Tree, write_layer
from kedro_hone.serving.image.blobs import Blobs
from kedro_hone.serving.image.bytecode import read_content
from kedro_hone.serving.image.descriptors import Descriptor, digest_bytes

_VERSION: Final = 1
"""It changes whenever other bytes are written for the same files."""


def make_layer(tree: Tree, blobs: Blobs, *, key: str | None = None) -> Descriptor:
    """Return the layer of some files, which is written unless the blobs have it.

    Args:
        tree: The files by their paths below the root of the image.
        blobs: Where the layer is written to.
        key: What determines the files; by default they are read.
    """
    key = key or digest_json([(str(place), _digest(tree[place])) for place in sorted(tree)])
    name = digest_json([_VERSION, key]).removeprefix("sha256:")
    if found := blobs.read_note(name):
        return found
    with blobs.make_file() as path:
        layer = write_layer(tree, path)
        blobs.place(path, layer.digest)
    blobs.write_note(name, layer)
    return layer


def read_diff_id(layer: Descriptor) -> str:
    """Return the digest of the uncompressed archive of one of our layers."""
    return (layer.annotations or {})[DIFF_ID]


def _digest(content: Content) -> str:
    return digest_file(content) if isinstance(content, Path) else digest_bytes(read_content(content))
