"""One digest over all files of a published version, including those besides the winner's own.

``hone-files.json`` is a manifest of every other file of a version, with the name of its model. A registry stores its
digest as the tag ``hone.files``. A signature covers it too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from hone_runtime.contract.tags import FILES
from hone_runtime.errors import HoneError
from hone_runtime.signing.policy import UNSIGNED, VERSION_FILES
from hone_runtime.text import begin_sentence
from hone_runtime.values.manifest import Manifest
from hone_runtime.values.regular import read_regular

_TAGS: Final = "hone.json"
_APART: Final = UNSIGNED | {VERSION_FILES}
_LEFT_BY_TOOLS: Final = re.compile(r"README\.md|LICEN[CS]E[\w.]*|\.(git|cache|dvc)(/.*)?|\.gitattributes|\.gitignore")
"""Files that copying tools leave in folders; they are never read."""


def write_version_files(folder: Path, *, model: str) -> str:
    """Write the manifest of a version's folder, complete except for the signature; return its digest."""
    manifest = Manifest.measure(folder, {"model": model}, without=_APART)
    manifest.write(folder / VERSION_FILES)
    return manifest.digest


def check_version_files(
    folder: Path, *, due: str | None = None, read: Mapping[Path, str] = MappingProxyType({})
) -> dict[Path, str]:
    """Compare every file of a version with its manifest, and the manifest with the registry's tag.

    A version without a manifest is older than this feature: nothing is compared, unless the registry has a digest of
    the manifest.

    Args:
        folder: The downloaded version.
        due: The registry's digest; if None, the one in ``hone.json``.
        read: Digests of files that were read already.

    Returns:
        The digests of the files that were read, including the given ones.

    Raises:
        HoneError: ``model-corrupt``: a file was changed, added or removed, or the manifest was changed.
    """
    place, due = folder / VERSION_FILES, due or _read_tag(folder)
    if due is None and not (place.exists() or place.is_symlink()):
        return dict(read)
    try:
        manifest = Manifest.read(place)
        extra = frozenset(name for name in manifest.list_odd(folder) if _LEFT_BY_TOOLS.fullmatch(name))
        difference = manifest.find_difference(folder, without=_APART | extra, read=read)
    except FileNotFoundError as error:
        raise _explain(f"{VERSION_FILES} is missing, but the registry has a digest of it.") from error
    except (OSError, ValueError) as error:
        raise _explain(f"{VERSION_FILES} cannot be compared with the files: {error!s:.300}.") from error
    if difference:
        raise _explain(f"{begin_sentence(difference)}.")
    if due not in {None, manifest.digest}:
        raise _explain(f"The digest over all its files is {manifest.digest}, and the registry has {due}.")
    return {**read, **{folder / name: file.digest for name, file in manifest.files.items()}}


def _read_tag(folder: Path) -> str | None:
    """Return the digest in the tags of a folder, as stored by the registries of plain paths and of the Hub."""
    try:
        document = json.loads(read_regular(folder / _TAGS))
    except (OSError, ValueError, RecursionError):
        return None
    tags = document.get("tags", document) if isinstance(document, dict) else None
    found = tags.get(FILES) if isinstance(tags, dict) else None
    return found if isinstance(found, str) else None


def _explain(why: str) -> HoneError:
    return HoneError(
        "model-corrupt",
        "The version differs from what was published.",
        why=why,
        hint="Pull or download it again; if that does not help, publish it again.",
    )
