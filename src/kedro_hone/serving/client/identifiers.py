"""Names of tensors and models as names in Python and in ``.proto`` files: valid, unique, and the same in both."""

from __future__ import annotations

import keyword
import re
import unicodedata
from collections.abc import Collection, Sequence
from typing import Final

_FIRST: Final = "tensor"
"""Before a name that starts with a digit, and in place of one without a letter or digit."""


def make_identifiers(names: Sequence[str], *, reserved: Collection[str]) -> dict[str, str]:
    """Return an identifier for each name: ASCII, without leading underscores, and unique.

    A name that is one already keeps it, as far as that is possible. Protobuf ignores case and underscores where it
    compares names of fields in JSON, so two identifiers differ in more than these.

    Args:
        names: The names, each once.
        reserved: Identifiers that have another meaning where these are used.
    """
    cleaned = {name: clean_identifier(name, reserved=reserved) for name in names}
    found: dict[str, str] = {}
    taken: set[str] = set()
    for name in sorted(names, key=lambda name: (cleaned[name] != name, names.index(name))):
        made, number = cleaned[name], 1
        while _fold(made) in taken:
            number += 1
            made = f"{cleaned[name]}_{number}"
        taken.add(_fold(made))
        found[name] = made
    return {name: found[name] for name in names}


def clean_identifier(name: str, *, reserved: Collection[str] = (), first: str = _FIRST) -> str:
    """Return a name as an identifier, which may equal that of another name.

    Args:
        name: Any text.
        reserved: Identifiers that get an underscore at the end, like Python's keywords.
        first: Before a name that starts with a digit, and in place of an empty one.
    """
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    made = re.sub(r"\W+", "_", plain if plain.strip() else name, flags=re.ASCII).strip("_")
    if not made or made[0].isdigit():
        made = f"{first}_{made}".rstrip("_")
    return f"{made}_" if keyword.iskeyword(made) or made in reserved else made


def make_class_name(identifier: str) -> str:
    """Return an identifier as the first part of a class's name: ``text_net`` as ``TextNet``."""
    return "".join(part[:1].upper() + part[1:] for part in identifier.split("_"))


def _fold(identifier: str) -> str:
    return identifier.replace("_", "").lower()
