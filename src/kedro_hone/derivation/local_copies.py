"""Local copies of data at URLs, for the derivation of a recipe from them."""

from __future__ import annotations

import shutil
from pathlib import Path

from fsspec.core import url_to_fs
from fsspec.utils import get_protocol

from hone_runtime.errors import HoneError
from hone_runtime.values.digest import digest_json


def fetch_data(place: str, folder: Path) -> Path:
    """Return a local path of a file or folder; one at a URL is copied to the project first.

    Args:
        place: A path, relative to the project or absolute, or a URL of fsspec.
        folder: The project's root.

    Raises:
        HoneError: ``data-unreadable``.
    """
    if get_protocol(place) in {"file", "local"}:
        return folder / place
    what, checked = f"{place} cannot be read.", "Check the URL of --data, and the credentials of its file system."
    try:
        files, path = url_to_fs(place)
    except (ImportError, ValueError) as error:  # no package, or no such protocol
        hint = "Install that package, or download the file: --data FILE."
        raise HoneError("data-unreadable", what, why=f"{error}.", hint=hint) from error
    copy = folder / "data" / "fetched" / digest_json(place)[7:19] / Path(path).name
    if copy.parent.exists():
        shutil.rmtree(copy.parent)  # what an earlier run fetched may be out of date
    copy.parent.mkdir(parents=True)
    try:
        files.get(path, str(copy), recursive=files.isdir(path))
    except FileNotFoundError as error:
        raise HoneError("data-unreadable", what, why="There is no such file.", hint=checked) from error
    except (OSError, ValueError) as error:
        raise HoneError("data-unreadable", what, why=f"{str(error).rstrip('.')}.", hint=checked) from error
    return copy
