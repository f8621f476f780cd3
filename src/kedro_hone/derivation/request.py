"""What a person asks of ``kedro-hone optimize``: the values of its arguments, parsed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from hone_runtime.errors import HoneError
from hone_runtime.text import hide_secrets, suggest
from hone_runtime.values.samples import SPLITS

WHOLE: Final = ""
"""The name of a file that is divided into splits, among the data of a request."""
BUDGETS: Final = ("quick", "default", "thorough")
"""The names of budgets."""
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?) ?(s|m|min|h|)")
_SECONDS: Final = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600}
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


@dataclass(frozen=True, kw_only=True)
class Request:
    """The arguments of ``kedro-hone optimize``.

    Attributes:
        source: The model's URI, or its absolute path.
        data: Absolute paths or URLs by the split's name; one file alone has the name ``WHOLE``. Empty without data.
        target: The column or array of the labels, or of the numbers to predict.
        group: The column whose rows of one value stay in one split.
        task: A program's name; None if it is derived.
        inputs: Names of columns or arrays by the names of the model's inputs.
        classes: Names of the classes, in the order of the model's outputs.
        options: Further options of the program.
        shapes: Sizes by the names of dimensions, for each shape that is asked for; empty if they are derived.
        max_drop: The largest drop of the metric, from 0 to 1; None for the least that the rows can prove.
        settings: Other keys of the recipe, by their dotted names, such as ``gates.speedup``.
    """

    source: str
    data: Mapping[str, str] = field(default_factory=dict)
    target: str | None = None
    group: str | None = None
    task: str | None = None
    inputs: Mapping[str, str] = field(default_factory=dict)
    classes: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    shapes: tuple[Mapping[str, int], ...] = ()
    max_drop: float | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


def make_absolute(place: str, folder: Path) -> str:
    """Return a place of a model or of data that means the same in another folder: URIs are not changed."""
    return place if _SCHEME.match(place) else str((folder / Path(place).expanduser()).resolve())


def refuse_secrets(value: Any, flag: str) -> None:
    """Raise ``option-invalid`` if a text in a value of the command line contains a secret, such as a URL's password."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for one in value:
            refuse_secrets(one, flag)
    elif isinstance(value, str) and hide_secrets(value) != value:
        why = "It would be written into the recipe or the catalog of a project, and into its evidence."
        hint = "Give it to the registry or the file system by its variables, or write ${oc.env:NAME} into the project."
        raise _explain(f"{flag} has a URL with a password.", why, hint)


def read_data(given: Iterable[str], folder: Path) -> dict[str, str]:
    """Return the data of a request by split, from ``FILE`` or ``SPLIT=FILE``, each once.

    Raises:
        HoneError: ``option-invalid``: a split is unknown or named twice, or a file stands next to named splits.
    """
    found: dict[str, str] = {}
    for one in given:
        refuse_secrets(one, "--data")
        name, separator, place = one.partition("=")
        if not separator or name not in (*SPLITS, "training"):
            name, place = WHOLE, one
        if name in found:
            what = f"--data names {f'the split {name}' if name else 'a file without a split'} twice."
            why = "One file is divided into three splits; several files need a split's name each."
            raise _explain(what, why, f"Write {' '.join(f'--data {split}=FILE' for split in SPLITS)}.")
        found[name] = make_absolute(place, folder)
    if WHOLE in found and len(found) > 1:
        why = "A file without a name is divided into all three splits."
        raise _explain("--data has named splits and a file without a name.", why, "Name all splits, or none.")
    if found and WHOLE not in found and (missing := [name for name in SPLITS if name not in found]):
        why = f"There are: {', '.join(found)}. Named splits are used as they are."
        hint = f"Add {' '.join(f'--data {split}=FILE' for split in missing)}, or give one file without a name."
        raise _explain(f"--data lacks the split {missing[0]}.", why, hint)
    return found


def read_pairs(given: Iterable[str], flag: str) -> dict[str, str]:
    """Return texts of the form ``NAME=VALUE`` as a mapping.

    Raises:
        HoneError: ``option-invalid``.
    """
    pairs = {}
    for one in given:
        name, separator, value = one.partition("=")
        if not (name and separator and value):
            raise _explain(f"{flag} {one} has no name or no value.", "It is a name, =, and a value.", f"{flag} x=y")
        pairs[name] = value
    return pairs


def read_values(given: Iterable[str], flag: str) -> dict[str, Any]:
    """Return texts of the form ``NAME=VALUE`` as a mapping, each value parsed as YAML.

    Raises:
        HoneError: ``option-invalid``.
    """
    try:
        return {name: yaml.safe_load(value) for name, value in read_pairs(given, flag).items()}
    except yaml.YAMLError as error:
        hint = "Quote text with special characters."
        raise _explain(f"A value of {flag} cannot be read.", str(error), hint) from None


def read_shape(text: str) -> dict[str, int]:
    """Return the sizes of a shape such as ``batch=64,length=128``; without a batch it is 1.

    Raises:
        HoneError: ``option-invalid``.
    """
    sizes = read_pairs(text.split(","), "--shape")
    if bad := next((f"{name}={size}" for name, size in sizes.items() if not size.isdecimal() or not int(size)), None):
        why = "A size is a whole number from 1, and a shape is a list of sizes."
        raise _explain(f"--shape has {bad}.", why, "Write, say, --shape batch=64,length=128.")
    return {"batch": 1, **{name: int(size) for name, size in sizes.items()}}


def read_share(text: str, flag: str) -> float:
    """Return ``1%`` or ``0.01`` as a number.

    Raises:
        HoneError: ``option-invalid``: it is no number, or not between 0 and 1.
    """
    try:
        number = float(text.rstrip("% ")) / (100 if text.rstrip().endswith("%") else 1)
    except ValueError:
        number = -1.0
    if not 0 < number < 1:
        why = "It is a share above 0 and below 1, as a number or in percent."
        raise _explain(f"{flag} is {text}.", why, f"Write {flag} 1%, or {flag} 0.01.")
    return number


def read_budget(text: str) -> float | str:
    """Return the budget of a search: ``90``, ``90s``, ``10m`` or ``1.5h`` in seconds, or the name of a budget.

    Raises:
        HoneError: ``option-invalid``.
    """
    if text in BUDGETS:
        return text
    if (found := _DURATION.fullmatch(text.strip())) and float(found[1]) > 0:
        return float(found[1]) * _SECONDS[found[2]]
    why = f"It is a time, or one of {', '.join(BUDGETS)}."
    hint = f"{suggest(text, BUDGETS)}Write, say, --budget 10m, or --budget 600 in seconds."
    raise _explain(f"--budget is {text}.", why, hint)


def _explain(what: str, why: str, hint: str) -> HoneError:
    return HoneError("option-invalid", what, why=why, hint=hint)
