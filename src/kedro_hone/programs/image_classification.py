"""Images and class labels. One file, numpy only, so that it can be handed to any toolchain's worker by path."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

METRIC = "accuracy"
HIGHER_IS_BETTER = True

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

IMAGES = ("images", "image", "x", "features", "data", "input")
LABELS = ("labels", "label", "target", "targets", "y")


class UnreadableError(ValueError):
    """The data are not what this program expects."""

    slug = "data-unreadable"


class LabelsMismatchError(ValueError):
    """The labels do not fit the model's outputs."""

    slug = "labels-mismatch"


def prepare(data: dict[str, Array], job: dict[str, Any]) -> tuple[dict[str, Array], dict[str, Array]]:
    """Turn images into the model's input.

    Args:
        data: Arrays by name, rows first: images as (rows, height, width) or with channels, and labels.
        job: ``input`` with the model's ``inputs`` and ``outputs``, and ``program`` with the ``options``.

    Returns:
        The feeds by input, and the labels as ``target`` (nothing when the data have none).

    Raises:
        UnreadableError: An input has no array.
        LabelsMismatchError: The labels are not classes of the model.
    """
    options = OPTIONS | job["program"]["options"]
    specs = job["input"]["inputs"]
    feeds = {}
    for spec in specs:
        aliases = IMAGES if len(specs) == 1 else ()
        images = find_array(data, spec["name"], arrays=options["arrays"], aliases=aliases)
        if images is None:
            raise UnreadableError(f"no array for the model's input {spec['name']!r}; the data have {', '.join(data)}")
        feeds[spec["name"]] = _prepare_images(images, spec["shape"], options)
    labels = find_array(data, "target", arrays=options["arrays"], aliases=LABELS)
    if labels is None:
        return feeds, {}
    return feeds, {"target": read_labels(labels, job["input"].get("outputs", []), options)}


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
    """Lay one number for each channel along the channels' axis: the first axis of the image that fits, or the last."""
    numbers = np.atleast_1d(np.asarray(values, dtype=np.float32))
    axes = {"last": (1,), "first": (len(shape) - 1,), None: (1, len(shape) - 1)}[moved]
    axis = next((axis for axis in axes if numbers.size in (1, shape[axis])), None)
    if axis is None:
        raise UnreadableError(
            f"mean or std has {numbers.size} numbers, and images of shape {shape[1:]} have other channels"
        )
    return numbers.reshape([-1 if axis == at else 1 for at in range(len(shape))])


def find_array(data: dict[str, Array], name: str, *, arrays: dict[str, str], aliases: tuple[str, ...]) -> Array | None:
    """Find the array of an input or of the target: as the options name it, else by its own name or a usual one."""
    if name in arrays:
        if arrays[name] not in data:
            raise UnreadableError(f"the option arrays names {arrays[name]!r}; the data have {', '.join(data)}")
        return data[arrays[name]]
    return next((data[known] for known in (name, *aliases) if known in data), None)


def read_labels(labels: Array, outputs: list[dict[str, Any]], options: dict[str, Any]) -> Array:
    """Return labels as class numbers, checked against what is known of the model's outputs.

    Args:
        labels: Numbers, or names of classes.
        outputs: The specifications of the model's outputs.
        options: This program's options.

    Returns:
        One int64 for each row.

    Raises:
        LabelsMismatchError: They are not classes of the model.
    """
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise LabelsMismatchError(f"labels have shape {labels.shape}; one class for each row is needed")
    if options["classes"]:
        numbers = {str(name): number for number, name in enumerate(options["classes"])}
        unknown = sorted({str(label) for label in labels} - set(numbers))
        if unknown:
            raise LabelsMismatchError(f"label {unknown[0]!r} is not among the option classes")
        return np.array([numbers[str(label)] for label in labels], dtype=np.int64)
    if labels.dtype.kind not in "biuf" or not np.array_equal(labels, np.floor(labels)):
        raise LabelsMismatchError(
            f"labels are {labels.dtype}, not class numbers; name the classes in the option classes"
        )
    known = [spec["shape"] for spec in outputs if options["output"] in (None, spec["name"])][:1]
    if known and len(known[0]) == 2 and isinstance(known[0][1], int):
        check_range(labels, max(known[0][1], 2))
    return labels.astype(np.int64)


def check_range(labels: Array, classes: int) -> None:
    """Refuse labels that are not among so many classes."""
    if labels.size and not (labels.min() >= 0 and labels.max() < classes):
        worst = labels.min() if labels.min() < 0 else labels.max()
        raise LabelsMismatchError(
            f"label {int(worst)} is not one of the model's {classes} classes (0 to {classes - 1})"
        )


def find_scores(outputs: dict[str, Array], options: dict[str, Any]) -> Array:
    """Return the output that holds the classes."""
    name = options["output"] or next(iter(outputs))
    if name not in outputs:
        raise LabelsMismatchError(f"the option output names {name!r}; the model has {', '.join(outputs)}")
    return outputs[name]


def count_rows(data: dict[str, Array], options: dict[str, Any]) -> int | None:
    """Return how many rows will be right or wrong, before there is a model: so many must prove the gate's limit."""
    labels = find_array(data, "target", arrays=(OPTIONS | options)["arrays"], aliases=LABELS)
    return None if labels is None else len(labels)


def decode(outputs: dict[str, Array], options: dict[str, Any]) -> Array:
    """Turn the model's outputs into classes.

    Args:
        outputs: Arrays by name, rows first.
        options: This program's options.

    Returns:
        One int64 for each row; -1, which is never right, where the scores are not finite.
    """
    options = OPTIONS | options
    scores = find_scores(outputs, options)
    scores = scores.reshape(len(scores), -1)
    if scores.shape[1] > 1:
        classes = scores.argmax(axis=1)
    elif scores.dtype.kind in "biu":  # the model names the class itself
        classes = scores[:, 0].astype(np.int64)
    else:
        classes = (scores[:, 0] > (0.5 if options["scores"] == "probabilities" else 0.0)).astype(np.int64)
    return np.where(np.isfinite(scores).all(axis=1), classes, -1)


def probabilities(outputs: dict[str, Array], options: dict[str, Any]) -> Array:
    """Return the probability of each class, as (rows, classes), for the metrics that need it."""
    options = OPTIONS | options
    scores = find_scores(outputs, options)
    scores = scores.reshape(len(scores), -1).astype(np.float64)
    logits = options["scores"] == "logits"
    if scores.shape[1] == 1:
        positive = 1 / (1 + np.exp(-scores)) if logits else scores
        return np.concatenate([1 - positive, positive], axis=1)
    if not logits:
        return scores
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def check(outputs: dict[str, Array], targets: dict[str, Array], options: dict[str, Any]) -> None:
    """Refuse labels that are not among the classes that the model returned.

    Raises:
        LabelsMismatchError: There is such a label.
    """
    scores = find_scores(outputs, OPTIONS | options)
    classes = int(np.prod(scores.shape[1:]))
    if scores.dtype.kind == "f" or classes > 1:
        check_range(targets["target"], max(classes, 2))


def score(predictions: Array, targets: dict[str, Array], options: dict[str, Any]) -> Array:  # noqa: ARG001 - part of every program
    """Return 1 for each row that is right, else 0."""
    return np.equal(predictions, targets["target"]).astype(np.float64)


def metric(predictions: Array, targets: dict[str, Array], options: dict[str, Any]) -> float:
    """Return the share of rows that are right."""
    return float(score(predictions, targets, options).mean())
