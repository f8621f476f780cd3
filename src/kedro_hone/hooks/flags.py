"""Keys of the recipe in errors, log lines and reasons, as the flags of ``kedro hone optimize``: no recipe is written.

Errors name a key as ``hone.gates.drop``, and a key with its value as YAML in backticks: ```hone.trust: [pickle]```.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Final

import yaml

from hone_runtime.errors import HoneError, read_lines
from kedro_hone.recipe.schema import Recipe
from kedro_hone.report.snippets import START

FLAGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "budget": "--budget",
        "gates.drop": "--max-drop",
        "gates.speedup": "--min-speedup",
        "model.module": "--module",
        "model.uri": "SOURCE",
        "program.name": "--task",
        "program.options": "--option",
        "program.options.arrays": "--input NAME=COLUMN",
        "program.options.classes": "--classes A,B",
        "program.options.features": "--option features=[A,B]",
        "publish.allow": "--allow",
        "publish.enabled": "--publish",
        "publish.uri": "--to",
        "shapes": "--shape",
        "toolchains": "--toolchains",
        "trust": "--trust",
    }
)
"""The flag for each key of the recipe that has one; any other key has ``--set``."""

_REMEDIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "data-missing": "Name the data by --data FILE.",
        "data-overlap": "Or give one file, which is divided: --data FILE.",
        "program-unknown": "Name it by --task NAME, or leave that out.",
        "toolchain-unknown": "Name them by --toolchains A,B.",
    }
)
"""The flag for an error whose hint names no key."""

_SECTIONS: Final = "|".join(Recipe.model_fields)
_NAME: Final = rf"hone\.(?P<{{0}}>(?:{_SECTIONS})(?:\.[a-z_](?:[a-z0-9_-]*[a-z0-9_])?)*)"
_MENTION: Final = re.compile(
    rf"(?<![\w./=-])(?:`{_NAME.format('set')}: (?P<value>[^`\n]+)`|(?P<mark>`?){_NAME.format('key')}(?![\w/])(?P=mark))"
)


def choose_words() -> Callable[[str], str]:
    """Return ``translate`` in a run of ``kedro-hone optimize``, and otherwise a function that changes nothing."""
    return translate if os.environ.get(START) else str


@contextmanager
def translate_keys() -> Iterator[None]:
    """Translate the keys in errors for the user that are raised in the block; other exceptions are not changed."""
    try:
        yield
    except Exception as error:
        known = HoneError.find(error)
        if known is None:
            raise
        hint = " ".join(filter(None, (translate(known.hint), _REMEDIES.get(known.slug))))
        why = read_lines(translate(known.why))
        raise HoneError(known.slug, translate(known.what), why=why, hint=read_lines(hint)) from error


def translate(text: str) -> str:
    """Return a text with flags in place of the keys of a recipe."""
    return _MENTION.sub(_replace, text)


def _replace(found: re.Match[str]) -> str:
    return find_flag(found["key"]) if found["key"] else write_flag(found["set"], found["value"])


def find_flag(key: str) -> str:
    """Return the flag by which a key is set, such as ``--set gates.size_mb=…``."""
    if key in FLAGS:
        return FLAGS[key]
    option = key.removeprefix("program.options.")
    return f"--set {key}=…" if option == key else f"--option {option}=…"


def write_flag(key: str, text: str) -> str:
    """Return the flag with a value, which is written as YAML; without it if names in it make it no YAML."""
    try:
        return _write_value(key, text, yaml.safe_load(text))
    except (yaml.YAMLError, AttributeError, TypeError):
        return find_flag(key)


def _write_value(key: str, text: str, value: Any) -> str:
    if key == "publish.enabled":
        return "--publish" if value else "--no-publish"
    if key in {"publish.allow", "trust"}:
        return " ".join(f"{FLAGS[key]} {_quote(str(one))}" for one in value)
    if key == "shapes":
        return " ".join("--shape " + _join_pairs(sizes) for sizes in value.values())
    if key == "program.options.arrays":
        return " ".join("--input " + _quote(f"{name}={column}") for name, column in value.items())
    flag = find_flag(key)
    quoted = _quote(text)
    return f"{flag.removesuffix('…')}{quoted}" if flag.endswith("=…") else f"{flag} {quoted}"


def _quote(text: str) -> str:
    """Return a text as one word of a shell: names of classes and columns are from the user's data."""
    return text if re.fullmatch(r"[\w.,:/=@%+…-]+", text) else shlex.quote(text)


def _join_pairs(sizes: Mapping[str, Any]) -> str:
    return _quote(",".join(f"{name}={size}" for name, size in sizes.items()))
