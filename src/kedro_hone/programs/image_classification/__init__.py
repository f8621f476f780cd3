"""Images with or without channels, and class numbers or names; the class with the largest score is predicted.

Workers of any toolchain may run it: it imports numpy only.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..shared.arrays import Array, find_array, read_inputs
from ..shared.classes import HIGHER_IS_BETTER, METRIC, Classes, metric, score
from ..shared.errors import UnreadableError
from ..shared.labels import LABELS, read_targets

__all__ = [
    "HIGHER_IS_BETTER", "METRIC", "OPTIONS", "check", "count_rows", "decode", "find_doubt", "metric", "prepare",
    "probabilities", "score",
]  # fmt: skip

OPTIONS: dict[str, Any] = {
    "arrays": {},  # input of the model, or "target": the name of its array in the data
    "classes": None,  # names of the classes in the order of the model's outputs, where the labels are text
    "channels": None,  # "last" when the data have channels last and the model wants them first; "first" the other way
    "scale": None,  # multiplies the pixels, before mean and std
    "mean": None,  # subtracted from each channel
    "std": None,  # divides each channel
    "output": None,  # the output that holds the classes; the first one when empty
    "scores": "logits",  # or "probabilities": what that output holds
}

_CLASSES = Classes(OPTIONS)
count_rows, decode, probabilities = _CLASSES.count_rows, _CLASSES.decode, _CLASSES.probabilities
check, find_doubt = _CLASSES.check, _CLASSES.find_doubt

IMAGES = ("images", "image", "x", "features", "data", "input")
"""The usual names of the images' array."""


def prepare(data: dict[str, Array], job: dict[str, Any]) -> tuple[dict[str, Array], dict[str, Array]]:
    """Turn images, as (rows, height, width) or with channels, into the model's input, and labels into ``target``.

    Raises:
        UnreadableError: An input has no array.
        LabelsMismatchError: The labels are not classes of the model.
    """
    options = OPTIONS | job["program"]["options"]
    specs = job["input"]["inputs"]
    images = read_inputs(data, specs, options["arrays"], kind="array", aliases=IMAGES)
    feeds = {spec["name"]: _prepare_images(images[spec["name"]], spec["shape"], options) for spec in specs}
    labels = find_array(data, "target", arrays=options["arrays"], aliases=LABELS)
    return feeds, read_targets(labels, job, options)


def _prepare_images(images: Array, shape: list[int | str], options: dict[str, Any]) -> Array:
    if images.dtype.kind not in "biuf":
        raise UnreadableError(f"images are {images.dtype}, not numbers")
    if images.ndim == 3 and len(shape) == 4:
        images = images[:, None] if options["channels"] != "first" and shape[1] == 1 else images[..., None]
    elif options["channels"] == "last":
        images = np.moveaxis(images, -1, 1)
    elif options["channels"] == "first":
        images = np.moveaxis(images, 1, -1)
    if all(options[name] is None for name in ("scale", "mean", "std")):
        return images
    images = images.astype(np.float32) * np.float32(1 if options["scale"] is None else options["scale"])
    if options["mean"] is not None:
        images = images - _spread(options["mean"], images.shape, options["channels"])
    if options["std"] is not None:
        images = images / _spread(options["std"], images.shape, options["channels"])
    return images


def _spread(values: Any, shape: tuple[int, ...], moved: str | None) -> Array:
    """Return one number for each channel along the channels' axis: the first one that fits, else the last."""
    numbers = np.atleast_1d(np.asarray(values, dtype=np.float32))
    axes = {"last": (1,), "first": (len(shape) - 1,), None: (1, len(shape) - 1)}[moved]
    axis = next((axis for axis in axes if numbers.size in (1, shape[axis])), None)
    if axis is None:
        why = f"mean or std has {numbers.size} numbers, and images of shape {shape[1:]} have other channels"
        raise UnreadableError(why)
    return numbers.reshape([-1 if axis == at else 1 for at in range(len(shape))])
