"""Keys of the recipe in errors, translated to the flags of ``kedro hone optimize``, whose users write no recipe."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Final

from hone_runtime.errors import HoneError, read_lines
from kedro_hone.recipe.schema import Recipe

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
        "program-unknown": "Name it by --task NAME, or leave that out.",
        "toolchain-unknown": "Name them by --toolchains A,B.",
    }
)
"""The flag for an error whose hint names no key."""

_PHRASES: Final = tuple(
    (re.compile(pattern), text)
    for pattern, text in (
        (r"(?:name it in the recipe: )?program\.options\.arrays: \{([^:{}]+): ([^{}]+)\}", r"name it: --input \1=\2"),
        (r"trust: \[([\w-]+)\](?: to the recipe)?", r"--trust \1"),
        (r"and the recipe does not trust (it|them)", r"and no --trust allows \1"),
        (r"hone\.shapes: \{\w+: \{(\w+): (\w+)\}\}", r"--shape \1=\2"),
        (r" to the recipe: hone\.model\.inputs: (\[.*\])", r": --set 'model.inputs=\1'"),
        (r"[Ss]et hone\.publish\.enabled to false", "leave --publish out"),
        (r"\b([Ss])et hone\.(model\.[a-z_]+) to (?!the )([\w-]+)", r"\1et it by --set \2=\3"),
        (r"\b([Ss])et hone\.(model\.[a-z_]+) to", r"\1et --set \2=… to"),
        (r"Correct `program\.options` in the recipe", "Correct what --option sets"),
        (r"the program's option `arrays` maps", "--input maps"),
        (r"the program's options `output` and `classes`", "--option output=… and --classes A,B"),
        (
            r"Correct the recipe in conf/\*/parameters\.yml or in --params; Recipe in the documentation lists all keys",
            "Correct that flag; --set takes any key that Recipe in the documentation lists",
        ),
        (r"(path|address) in conf/base/catalog\.yml", r"\1 of --data"),
        (
            r"; `kedro hone check` looks for all of them at once, and builds",
            "; --dry-run looks for all of them, and builds",
        ),
        (r"`kedro(?:-hone)? run`", "the same command"),
        (r"Name one of these in the recipe's shapes, or leave it out", "Name one of these by --shape, or leave it out"),
        (r", then commit the change where DVC tracks them", ", or give one file, which is divided: --data FILE"),
        (r" (?:in|of) the recipe\b(?!')", ""),
    )
)
"""What is written in another way on a command line, not only under another name. The first ones come first."""

_SECTIONS: Final = "|".join(Recipe.model_fields)
_PLAIN: Final = "|".join(re.escape(key) for key in sorted(FLAGS, reverse=True) if "." in key)
_KEY: Final = re.compile(
    rf"(?<![\w./=-])`?(?:hone\.(?P<full>(?:{_SECTIONS})(?:\.[a-z_]+)*)"
    rf"|(?P<plain>(?:program\.(?:options|metric)|gates|publish)(?:\.[a-z_]+)*|{_PLAIN})(?![\w/]))`?"
)
"""A key after ``hone.``; or without it, one that cannot be the name of a file, such as ``model.onnx``."""


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
    """Return a sentence with flags in place of the keys of a recipe."""
    for pattern, replacement in _PHRASES:
        text = pattern.sub(replacement, text)
    return _KEY.sub(lambda found: find_flag(found["full"] or found["plain"]), text)


def find_flag(key: str) -> str:
    """Return the flag by which a key is set, such as ``--set gates.size_mb=…``."""
    if key in FLAGS:
        return FLAGS[key]
    option = key.removeprefix("program.options.")
    return f"--set {key}=…" if option == key else f"--option {option}=…"
