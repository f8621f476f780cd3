"""Images with or without channels, and class numbers or names; the class with the largest score is predicted."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..shared import classes
from ..shared.arrays import Array, Arrays, read_inputs
from ..shared.errors import UnreadableError
from ..shared.pretrained import check_head, list_labels, read_config
from .processor import process

OPTIONS: dict[str, Any] = {
    "arrays": {},  # input of the model, or "target": the name of its array in the data
    "classes": None,  # names of the classes in the order of the model's outputs, if the labels are text
    "channels": None,  # "last" if the data have channels last and the model first; "first" for the opposite
    "scale": None,  # multiplies the pixels, before mean and std
    "mean": None,  # subtracted from each channel
    "std": None,  # divides each channel
    "processor": None,  # whether the model's own processor makes the input; by default if it has one, see prepare
    "tokenizer": None,  # absolute path of the folder with the processor, if the model's files have none
    "output": None,  # the output with the scores of the classes; the first one if empty
    "scores": "logits",  # or "probabilities": the kind of these scores
    "positive": None,  # the class that metrics of one class, such as recall, are computed for; 1 of 0 and 1
}

METRIC, HIGHER_IS_BETTER = classes.METRIC, classes.HIGHER_IS_BETTER
check, decode, find_doubt = classes.check, classes.decode, classes.find_doubt
count_classes, count_rows = classes.count_classes, classes.count_rows
metric, probabilities, score = classes.metric, classes.probabilities, classes.score

IMAGES = ("images", "image", "x", "features", "data", "input")  # the usual names of their array


def prepare(data: Arrays, job: dict[str, Any]) -> tuple[Arrays, Arrays]:
    """Turn images, as (rows, height, width) or with channels, into the model's input, and labels into ``target``.

    If the model has a ``preprocessor_config.json``, and the images are ``uint8`` or files of images, they are resized,
    rescaled and normalized by it, unless an option sets the scale of pixels. Names of classes are those of the model's
    ``config.json`` if the options have none.

    Raises:
        TokenizerMissingError: The processor cannot be opened.
        TaskMismatchError: The model is for another task.
        UnreadableError: An input has no array.
        LabelsMismatchError: The labels are not classes of the model.
    """
    options, specs = job["program"]["options"], job["input"]["inputs"]
    config = read_config(job, options) if "path" in job["input"] else {}
    check_head(job, config, "image-classification")
    images = read_inputs(data, specs, options["arrays"], kind="array", aliases=IMAGES)
    made = process(images[specs[0]["name"]], job) if len(specs) == 1 else None
    if made is not None:
        feeds = {specs[0]["name"]: made}
    else:
        feeds = {spec["name"]: _prepare_images(images[spec["name"]], spec["shape"], options) for spec in specs}
    labels = classes.find_labels(data, options)
    if labels is not None and labels.dtype.kind not in "biuf" and not options["classes"]:
        options = {**options, "classes": list_labels(config)}
    return feeds, classes.read_targets(labels, job, options)


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
    return images if options["std"] is None else images / _spread(options["std"], images.shape, options["channels"])


def _spread(values: Any, shape: tuple[int, ...], moved: str | None) -> Array:
    """Return one number for each channel along the channels' axis: the first one that fits, otherwise the last."""
    numbers = np.atleast_1d(np.asarray(values, dtype=np.float32))
    last = len(shape) - 1
    for axis in {"last": (1,), "first": (last,)}.get(moved or "", (1, last)):
        if numbers.size in (1, shape[axis]):
            return np.expand_dims(numbers, [at for at in range(len(shape)) if at != axis])
    why = f"mean or std has {numbers.size} numbers, and images of shape {shape[1:]} have other channels"
    raise UnreadableError(why)
