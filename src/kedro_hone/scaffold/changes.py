"""Changes of files that add and never replace, shown before they are made."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from stat import S_IMODE

from hone_runtime.errors import HoneError
from kedro_hone.core.store.disk import write_file


@dataclass(frozen=True)
class Change:
    """A file with what is added at its end.

    Attributes:
        path: The file, which need not exist.
        before: Its text; None if there is no such file.
        added: The text that is added, with line feeds.
    """

    path: Path
    before: str | None
    added: str

    @property
    def after(self) -> str:
        """The whole text, in the file's own kind of line ends."""
        before = self.before or ""
        end = "\r\n" if "\r\n" in before else "\n"
        gap = end if before and not before.endswith("\n") else ""
        return before + gap + self.added.replace("\n", end)


def read_change(path: Path, added: str, *, gap: str = "") -> Change:
    """Return the change that adds a text to a file, after ``gap`` if the file has text already.

    Raises:
        HoneError: ``project-unreadable``: the file is no UTF-8, or cannot be read.
    """
    try:
        before = path.read_bytes().decode() if path.exists() else None
    except (OSError, UnicodeDecodeError) as error:
        hint = "Save it as UTF-8, or write the lines by hand: Add to a Kedro project in the documentation has them."
        raise HoneError("project-unreadable", f"{path} cannot be read.", why=str(error), hint=hint) from error
    return Change(path, before, (gap if before and before.strip() else "") + added)


def format_diff(changes: Iterable[Change], root: Path) -> str:
    """Return the unified diff of all changes, with paths relative to a root."""
    lines: list[str] = []
    for change in changes:
        name = change.path.relative_to(root).as_posix()
        old = (change.before or "").splitlines(keepends=True)
        new = change.after.splitlines(keepends=True)
        made, kept = "/dev/null" if change.before is None else f"a/{name}", f"b/{name}"
        lines += difflib.unified_diff(old, new, made, kept) if new else (f"--- {made}", f"+++ {kept}")  # an empty file
    return "".join(line.rstrip("\r\n") + "\n" for line in lines)


def apply_changes(changes: Iterable[Change]) -> None:
    """Write the files, each at once; links and the modes of files stay.

    Raises:
        HoneError: ``project-unreadable``: a file was changed since it was read; those before it are written.
    """
    for change in changes:
        now = change.path.read_bytes().decode() if change.path.exists() else None
        if now != change.before:
            hint = "Run `kedro hone init` again: it adds only what is missing."
            raise HoneError(
                "project-unreadable", f"{change.path} was changed.", why="Another program wrote it.", hint=hint
            )
        path = change.path.resolve()  # a link stays one: the file that it names is written
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, change.after.encode(), mode=S_IMODE(path.stat().st_mode) if path.exists() else None)
