"""What a folder lacks: a whole small project, or the lines by which a Kedro project takes kedro-hone."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hone_runtime.errors import HoneError
from hone_runtime.values.samples import SPLITS
from kedro_hone.scaffold.changes import Change, read_change
from kedro_hone.scaffold.texts import (
    LISTEN,
    MERGE,
    REGISTRY,
    STAR,
    WORKFLOW,
    write_entries,
    write_recipe,
)

PLACEHOLDER: Final = "models:/NAME/1"
_OURS: Final = "hone"
_MERGED: Final = frozenset({"HOOKS", "DISABLE_HOOKS_FOR_PLUGINS", "*"})


@dataclass(frozen=True)
class Addition:
    """What to add.

    Attributes:
        source: The model's URI or path; a placeholder if empty.
        data: The path or URL of a split, by the split's name; ``data/<split>.csv`` for others.
        github: Whether to add a workflow of GitHub.
        listen: Whether to add the rules of ``kedro hone listen``.
    """

    source: str = ""
    data: Mapping[str, str] = field(default_factory=dict)
    github: bool = False
    listen: bool = False


def plan_changes(root: Path, addition: Addition) -> list[Change]:
    """Return what is to be added to a folder; nothing if it has all already.

    Args:
        root: The root of a Kedro project, or any other folder, which then gets ``conf/``.
        addition: What to add.

    Raises:
        HoneError: ``project-unreadable``: a file is no UTF-8, or no Python.
    """
    package = find_package(root)
    conf = root / "conf" / "base"
    changes = [*_add_recipe(conf, addition), *_add_entries(conf, addition)]
    if package is None:
        changes += _add_file(root / "conf" / "local" / ".gitkeep", "")
    else:
        changes += [*_add_settings(package / "settings.py"), *_add_registry(package / "pipeline_registry.py")]
    if addition.listen:
        changes += _add_file(conf / "listen.yml", LISTEN)
    if addition.github:
        changes += _add_file(root / ".github" / "workflows" / "hone.yml", WORKFLOW)
    return changes


def find_package(root: Path) -> Path | None:
    """Return the folder of a Kedro project's package; None for a folder without a Kedro project."""
    path = root / "pyproject.toml"
    if not path.is_file():
        return None
    settings = tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {}).get("kedro")
    if settings is None:
        return None
    return root / str(settings.get("source_dir", "src")) / str(settings["package_name"])


def _add_recipe(conf: Path, addition: Addition) -> Iterator[Change]:
    files = _list_files(conf, "parameters")
    if not any(_find_keys(file, [_OURS]) for file in files):
        yield read_change(
            _choose_file(conf, "parameters", files), write_recipe(addition.source or PLACEHOLDER), gap="\n"
        )


def _add_entries(conf: Path, addition: Addition) -> Iterator[Change]:
    files = _list_files(conf, "catalog")
    known = {name for file in files for name in _find_keys(file, SPLITS)}
    if missing := [name for name in SPLITS if name not in known]:
        paths = {name: addition.data.get(name, "") for name in missing}
        yield read_change(_choose_file(conf, "catalog", files), write_entries(paths), gap="\n")


def _add_settings(path: Path) -> Iterator[Change]:
    change = read_change(path, "")
    text = change.before or ""
    if "kedro_hone.settings" not in text:
        added = MERGE if _list_names(text, path) & _MERGED else STAR
        yield read_change(path, added, gap="\n")


def _add_registry(path: Path) -> Iterator[Change]:
    change = read_change(path, "")
    if change.before is not None and "kedro_hone.pipeline_registry" not in change.before:
        yield read_change(path, REGISTRY, gap="\n\n")


def _add_file(path: Path, text: str) -> Iterator[Change]:
    if not path.exists():
        yield Change(path, None, text)


def _list_files(conf: Path, kind: str) -> list[Path]:
    """Return the files that Kedro reads for a kind of configuration: ``kind*``, ``kind*/**`` and ``**/kind*``."""
    found = (path for path in conf.rglob("*") if path.suffix in {".yml", ".yaml", ".json"})
    return sorted(path for path in found if any(part.startswith(kind) for part in path.relative_to(conf).parts))


def _choose_file(conf: Path, kind: str, files: Iterable[Path]) -> Path:
    """Return the one file of a kind, or a file of our own beside those of a team that has several or a folder."""
    usual = conf / f"{kind}.yml"
    return conf / f"{kind}_{_OURS}.yml" if {*files} - {usual} else usual


def _find_keys(path: Path, names: Iterable[str]) -> list[str]:
    """Return which keys a file has at its top; it is read as text, since it may be a template."""
    text = read_change(path, "").before or ""
    return [name for name in names if re.search(rf"""^(?:{{\s*)?["']?{name}["']?\s*:""", text, re.MULTILINE)]


def _list_names(text: str, path: Path) -> set[str]:
    """Return the names that a Python file assigns or imports anywhere; ``*`` for an import of all names."""
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        hint = "Mend it, and run `kedro hone init` again."
        raise HoneError("project-unreadable", f"{path} is no Python.", why=str(error), hint=hint) from error
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom | ast.Import))
    return names | {alias.asname or alias.name for node in imports for alias in node.names}
