"""Converts images to a model's input by its own processor: resized, rescaled and normalized as by its author."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..shared.arrays import Array
from ..shared.errors import BadOptionError, EmptyError, UnreadableError
from ..shared.pretrained import load_image_processor, open_image

_CHUNK = 64  # images that are processed at once


def process(images: Array, job: dict[str, Any]) -> Array | None:
    """Return the model's input, (rows, channels, height, width) or channels last, or None if options make it.

    Raises:
        UnreadableError: A row contains no image.
        TokenizerMissingError: The processor cannot be opened.
        BadOptionError: The processor is requested, but the model has none, or its input is not an image.
    """
    options, spec = job["program"]["options"], job["input"]["inputs"][0]
    asked, files = options["processor"], images.dtype.kind == "O"
    scaled = any(options[name] is not None for name in ("scale", "mean", "std"))
    usual = (files or images.dtype == np.uint8) and not scaled and "path" in job["input"]
    if not (usual if asked is None else asked):
        return None
    processor = load_image_processor(job, options)
    if not len(images):
        raise EmptyError("there is no image")
    shape = spec["shape"]
    if processor is None or len(shape) != 4:
        if asked or files:
            raise BadOptionError(
                "there are files of images, or processor: true, and the model has no processor of images"
            )
        return None
    last = shape[3] in {1, 3} and shape[1] not in {1, 3}
    gray = shape[3 if last else 1] == 1
    parts = [
        processor(
            images=_list_images(images[at : at + _CHUNK], at, gray=gray),
            return_tensors="np",
            input_data_format="channels_last",
        )
        for at in range(0, len(images), _CHUNK)
    ]
    pixels = np.concatenate([np.asarray(part["pixel_values"]) for part in parts])
    return np.moveaxis(pixels, 1, -1) if last else pixels


def _list_images(images: Array, first: int, *, gray: bool) -> list[Array]:
    """Return images with channels last: three channels, unless the model takes gray images."""
    rows = []
    for row, image in enumerate(images, first):
        content = image.get("bytes") if isinstance(image, dict) else image
        pixels = open_image(content, row) if isinstance(content, bytes) else np.asarray(content)
        if pixels.ndim == 3 and pixels.shape[2] not in {1, 3} and pixels.shape[0] in {1, 3}:
            pixels = np.moveaxis(pixels, 0, -1)
        if pixels.ndim == 2:
            pixels = pixels[..., None]
        if pixels.ndim != 3 or pixels.dtype.kind not in "uif":
            raise UnreadableError(f"row {row} contains no image")
        rows.append(np.repeat(pixels, 3, axis=2) if pixels.shape[2] == 1 and not gray else pixels)
    return rows
