"""Generate parts of the documentation from the code; ``--check`` only checks whether they are up to date.

Whole pages: ``docs/adaptors/``. Parts of pages, between a mark ``begin NAME`` and a mark ``end NAME``: see ``PARTS``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from generated import adaptors, attacks, commands, errors, estimators, inputs, programs, recipe, runs

ROOT = Path(__file__).resolve().parent.parent
ADAPTORS = ROOT / "docs" / "adaptors"

EXAMPLE = ("adaptor.py", "worker/hone_fp16/__init__.py", "requirements.in", "test_fp16.py")


def quote(folder: Path, name: str) -> str:
    """Return a file of a folder as a block of code with its name."""
    path = folder / name
    language = "python" if path.suffix == ".py" else "text"
    return f'```{language} title="{name}"\n{path.read_text().strip()}\n```'


PARTS: dict[str, dict[str, Callable[[], str]]] = {
    "CONTRIBUTING.md": {"support": adaptors.describe_support},
    "docs/index.md": {"toolchains": lambda: adaptors.list_toolchains("adaptors")},
    "docs/reference/attacks.md": {"attacks": attacks.list_attacks},
    "docs/concepts/data.md": {"programs": programs.describe_programs},
    "docs/errors/index.md": {"errors": errors.list_errors},
    "docs/reference/cli.md": {"commands": commands.describe_commands},
    "docs/reference/estimators.md": {"estimators": estimators.list_estimators},
    "docs/reference/exit-codes.md": {"codes": errors.list_codes},
    "docs/reference/inputs.md": {"inputs": inputs.list_conversions},
    "docs/reference/recipe.md": {"keys": recipe.describe_keys},
    "docs/write-an-adaptor.md": {name: partial(quote, ROOT / "docs" / "examples" / "fp16", name) for name in EXAMPLE},
}


def main() -> int:
    """Write the parts that are out of date, or list them.

    Returns:
        The exit code: 1 if something is out of date and ``--check`` is given.
    """
    pages = {**read_parts(), **{ADAPTORS / name: text for name, text in adaptors.make_pages().items()}}
    pages[ROOT / "docs" / "images" / "terminal.svg"] = runs.draw_terminal()
    stale = [path for path, text in pages.items() if not path.is_file() or path.read_text() != text]
    gone = [path for path in ADAPTORS.glob("*.md") if path not in pages]
    if "--check" in sys.argv:
        for path in (*stale, *gone):
            print(f"{path.relative_to(ROOT)} is not current: run python docs/generate.py")
        return 1 if stale or gone else 0
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(pages[path])
    for path in gone:
        path.unlink()
    return 0


def read_parts() -> dict[Path, str]:
    """Return the pages written by hand, with their generated parts updated."""
    pages = {}
    for name, parts in PARTS.items():
        text = (ROOT / name).read_text()
        for part, make in parts.items():
            text = fill(text, part, make())
        pages[ROOT / name] = text
    return pages


def fill(text: str, part: str, body: str) -> str:
    """Return a page with one part replaced.

    Args:
        text: The page.
        part: The part's name.
        body: The text between its marks.

    Returns:
        The page.

    Raises:
        ValueError: The page has no such part.
    """
    begin, end = f"<!-- begin {part}: written by docs/generate.py -->\n", f"<!-- end {part} -->"
    head, found, rest = text.partition(begin)
    _, closed, tail = rest.partition(end)
    if not (found and closed):
        raise ValueError(f"no marks of the part {part!r}")
    return f"{head}{begin}\n{body.strip()}\n\n{end}{tail}"


if __name__ == "__main__":
    sys.exit(main())
