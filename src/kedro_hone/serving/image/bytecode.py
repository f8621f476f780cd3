"""Bytecode of modules in an image: without it, each start compiles all that a server imports, for ten seconds.

Equal sources give equal bytecode. It names the module's path in the image, and no path of this machine.
"""

from __future__ import annotations

import importlib.util
import marshal
import sys
import warnings
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Final

from kedro_hone.serving.image.archives import Content, Tree

_UNCHECKED: Final = (1).to_bytes(4, "little")
"""The flags of a file that is valid for ever: nothing in an image changes (PEP 552)."""
_WITHOUT_REFERENCES: Final = 2
"""The version of ``marshal`` before references. What refers to what depends on all that the process compiled before."""


def add_bytecode(tree: Tree) -> dict[PurePosixPath, Content]:
    """Return files with the bytecode of each module among them that compiles; it is computed when it is written."""
    return {**tree, **dict(_list_bytecode(tree))}


def compile_module(content: Content, place: PurePosixPath) -> bytes | None:
    """Return the bytecode of a module at a path below the root of an image.

    It is None if the module is not valid: packages have files for other versions of Python, and templates.
    """
    source = read_content(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            code = compile(source, f"/{place}", "exec", dont_inherit=True, optimize=0)
        except (SyntaxError, ValueError):
            return None
    head = importlib.util.MAGIC_NUMBER + _UNCHECKED + importlib.util.source_hash(source)
    return head + marshal.dumps(code, _WITHOUT_REFERENCES)


def read_content(content: Content) -> bytes:
    """Return the bytes of a file in a tree."""
    if isinstance(content, Path):
        return content.read_bytes()
    return (content if isinstance(content, bytes) else content()) or b""


def _list_bytecode(tree: Mapping[PurePosixPath, Content]) -> Iterator[tuple[PurePosixPath, Content]]:
    for place, content in tree.items():
        if place.suffix == ".py":
            name = f"{place.stem}.{sys.implementation.cache_tag}.pyc"
            yield place.parent / "__pycache__" / name, partial(compile_module, content, place)
