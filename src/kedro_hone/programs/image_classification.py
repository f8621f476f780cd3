"""Images and class labels. One file, numpy only, so that it can be handed to any toolchain's worker by path."""

from __future__ import annotations

import warnings
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
NAMES = "name the classes in the order of the model's outputs: program.options.classes"
FROM_ZERO = "count from 0; subtract 1 from each label, or name the classes in order: program.options.classes"


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
        One int64 for each row; text where the model's output is text and no classes are named.

    Raises:
        LabelsMismatchError: They are not classes of the model.
    """
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise LabelsMismatchError(f"labels have shape {labels.shape}; one class for each row is needed")
    output = next((spec for spec in outputs if options["output"] in (None, spec["name"])), None)
    classes = count_classes(output)
    if options["classes"]:
        return number_names(labels, options["classes"], classes)
    text = labels.dtype.kind not in "biuf"
    if output is not None and output["dtype"] == "str":
        if not text or not all(isinstance(label, str) for label in labels):
            raise LabelsMismatchError(f"the model's output {output['name']!r} is text, and not all labels are; {NAMES}")
        return labels.astype(np.str_)
    if text:
        raise LabelsMismatchError(f"labels are text, such as {str(labels[0])!r}, not class numbers; {NAMES}")
    numbers = read_numbers(labels)
    if classes:
        check_range(numbers, classes)
    return numbers


def count_classes(output: dict[str, Any] | None) -> int | None:
    """Return how many classes an output tells of, or None: one that names the class itself does not say."""
    shape = output["shape"] if output else []
    if output is None or len(shape) != 2 or not isinstance(shape[1], int):
        return None
    if shape[1] == 1:
        return 2 if np.dtype(output["dtype"]).kind == "f" else None
    return int(shape[1])


def number_names(labels: Array, names: list[Any], classes: int | None) -> Array:
    """Return the number of each name of a class.

    Raises:
        LabelsMismatchError: The model has more classes or fewer, or a label is no name of one.
    """
    if classes not in (None, len(names)):
        raise LabelsMismatchError(f"the option classes names {len(names)} classes, and the model has {classes}")
    numbers = {str(name): number for number, name in enumerate(names)}
    unknown = sorted({str(label) for label in labels} - set(numbers))
    if unknown:
        raise LabelsMismatchError(f"label {unknown[0]!r} is not among the option classes")
    return np.array([numbers[str(label)] for label in labels], dtype=np.int64)


def read_numbers(labels: Array) -> Array:
    """Return numbers as int64, with a warning where they are floats.

    Raises:
        LabelsMismatchError: One is missing, or no whole number.
    """
    if labels.dtype.kind == "f":
        rows = np.flatnonzero(~np.isfinite(labels))
        if rows.size:
            raise LabelsMismatchError(f"row {rows[0]} has no label ({labels[rows[0]]})")
        rows = np.flatnonzero(labels != np.floor(labels))
        if rows.size:
            raise LabelsMismatchError(f"row {rows[0]} has the label {labels[rows[0]]}, which is no class number")
        warnings.warn(f"the labels are {labels.dtype}; they are whole, and are taken as class numbers", stacklevel=2)
    return labels.astype(np.int64)


def check_range(labels: Array, classes: int) -> None:
    """Refuse labels that are not among so many classes."""
    if not labels.size or (labels.min() >= 0 and labels.max() < classes):
        return
    if labels.min() >= 1 and labels.max() == classes:
        raise LabelsMismatchError(
            f"labels run from {int(labels.min())} to {classes}, and the model's {classes} classes {FROM_ZERO}"
        )
    worst = labels.min() if labels.min() < 0 else labels.max()
    raise LabelsMismatchError(f"label {int(worst)} is not one of the model's {classes} classes (0 to {classes - 1})")


def check_start(predictions: Array, labels: Array) -> None:
    """Refuse labels that seem to count from 1: far more of them are right when 1 is subtracted."""
    if not labels.size or labels.dtype.kind != "i" or labels.min() < 1 or labels.min() == labels.max():
        return
    right, shifted = np.mean(predictions == labels), np.mean(predictions == labels - 1)
    if shifted > 0.5 and shifted > 2 * right:
        raise LabelsMismatchError(
            f"the predictions are the labels less 1 in {shifted:.0%} of the rows, and the labels in {right:.0%}: "
            f"the model's classes {FROM_ZERO}"
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
        One int64 for each row; -1, which is never right, where the scores are not finite. Text where the output is text
        and no classes are named.
    """
    options = OPTIONS | options
    scores = find_scores(outputs, options)
    scores = scores.reshape(len(scores), -1)
    if scores.shape[1] > 1:
        classes = scores.argmax(axis=1)
    elif scores.dtype.kind == "U":
        return decode_names(scores[:, 0], options)
    elif scores.dtype.kind in "biu":  # the model names the class itself
        classes = scores[:, 0].astype(np.int64)
    else:
        classes = (scores[:, 0] > (0.5 if options["scores"] == "probabilities" else 0.0)).astype(np.int64)
    return np.where(np.isfinite(scores).all(axis=1), classes, -1)


def decode_names(names: Array, options: dict[str, Any]) -> Array:
    """Return the numbers of a model's text predictions, -1 for an unknown one; the text where no classes are named."""
    if not options["classes"]:
        return names
    numbers = {str(name): number for number, name in enumerate(options["classes"])}
    return np.array([numbers.get(str(name), -1) for name in names], dtype=np.int64)


def probabilities(outputs: dict[str, Array], options: dict[str, Any]) -> Array:
    """Return the probability of each class, as (rows, classes), for the metrics that need it."""
    options = OPTIONS | options
    scores = find_scores(outputs, options)
    if scores.dtype.kind == "U":
        raise LabelsMismatchError("the output is text; name the one with the probabilities: program.options.output")
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
    """Refuse labels that are not among the classes that the model returned, or that count from another number.

    Raises:
        LabelsMismatchError: There is such a label, or the labels count from 1.
    """
    options = OPTIONS | options
    scores, labels = find_scores(outputs, options), targets["target"]
    if scores.dtype.kind == "U" and labels.dtype.kind != "U" and not options["classes"]:
        raise LabelsMismatchError(f"the model's output is text, and the labels are numbers; {NAMES}")
    classes = int(np.prod(scores.shape[1:]))
    if scores.dtype.kind == "f" or classes > 1:
        check_range(labels, max(classes, 2))
    check_start(decode(outputs, options), labels)


def score(predictions: Array, targets: dict[str, Array], options: dict[str, Any]) -> Array:  # noqa: ARG001 - part of every program
    """Return 1 for each row that is right, else 0."""
    return np.equal(predictions, targets["target"]).astype(np.float64)


def metric(predictions: Array, targets: dict[str, Array], options: dict[str, Any]) -> float:
    """Return the share of rows that are right."""
    return float(score(predictions, targets, options).mean())
