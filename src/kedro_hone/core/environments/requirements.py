"""Requirements: whether the installed versions satisfy the ranges of a toolchain."""

from __future__ import annotations

import re
import site
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from hone_runtime.worker.interpreter import read_version

_PARSING = threading.Lock()
"""Markers are parsed by ``ast.literal_eval``. All threads of an interpreter share its depth counter: if two threads
parse at the same time, CPython 3.11 raises ``SystemError: AST constructor recursion depth mismatch``."""
_HARMLESS = re.compile(r"(-i|-f|--(extra-)?index-url|--find-links|--pre|--prefer-binary|--only-binary)\b")
"""Options of a requirements file that name indexes or folders, not requirements."""


def read_lines(path: Path) -> tuple[str, ...]:
    """Return the lines of a requirements file without comments and blank lines, continuations joined.

    Raises:
        OSError: It cannot be read.
    """
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = (line.partition(" #")[0].split() for line in text.splitlines() if not line.lstrip().startswith("#"))
    return tuple(" ".join(words) for words in lines if words)


def read_pins(path: Path) -> tuple[str, ...]:
    """Return the requirements of a lock, without its options and hashes; raises as ``read_lines``."""
    return tuple(line.partition(" --")[0] for line in read_lines(path) if not line.startswith("-"))


def list_versions(python: Path) -> dict[str, str]:
    """Return the installed versions in a virtual environment of our version of Python, by canonical name, sorted.

    Nothing is started, so it works even if the interpreter cannot be started any more.
    """
    packages = python.parents[1] / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    found = metadata.distributions(path=[str(packages)])
    return sort_versions(filter(None, map(read_version, found)))


def sort_versions(found: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return versions by the canonical names of their distributions, sorted."""
    return dict(sorted((str(canonicalize_name(name)), str(version)) for name, version in found))


def explain_unsatisfied(
    lines: Iterable[str], versions: Mapping[str, str], *, markers: Mapping[str, str] | None = None
) -> str | None:
    """Return why some requirements (from ``read_lines``) are not satisfied, or None when they are.

    Markers are honoured; ``markers`` are those of another interpreter, as far as they differ from this one's. The
    requirements of the required distributions are left to the installer. ``versions`` are the installed ones by
    canonical name.
    """
    for line in lines:
        if _HARMLESS.match(line):
            continue
        requirement = _read_requirement(line)
        if isinstance(requirement, str):
            return requirement
        if requirement.marker is not None and not requirement.marker.evaluate(dict(markers or {})):
            continue
        version = versions.get(canonicalize_name(requirement.name))
        if version is None:
            return f"{requirement.name} is not installed"
        if not requirement.specifier.contains(version, prereleases=True):
            return f"{requirement.name}{requirement.specifier} is needed, and {version} is installed"
    return None


def find_closure(lines: Iterable[str], *, folders: Sequence[str] | None = None) -> dict[str, str]:
    """Return the installed versions of direct and indirect requirements, by canonical name, sorted.

    Only packages that a worker of this interpreter can import count, not those in ``PYTHONPATH`` or the user's folder.
    With ``folders``, it is the packages there, of an interpreter of the same version.
    """
    folders = site.getsitepackages() if folders is None else list(folders)
    pending = [one for one in map(_read_requirement, lines) if isinstance(one, Requirement)]
    seen: set[tuple[str, frozenset[str]]] = set()
    versions: dict[str, str] = {}
    while pending:
        requirement = pending.pop()
        name, extras = canonicalize_name(requirement.name), frozenset(requirement.extras)
        installed = metadata.distributions(name=requirement.name, path=folders)
        found = next(((one, version) for one in installed if (version := read_version(one))), None)
        if (name, extras) in seen or found is None:
            continue
        seen.add((name, extras))
        distribution, (_, versions[name]) = found
        needs = map(_parse, distribution.requires or ())
        wanted = {"", *extras}
        pending += [one for one in needs if not one.marker or any(one.marker.evaluate({"extra": x}) for x in wanted)]
    return dict(sorted(versions.items()))


def _read_requirement(line: str) -> Requirement | str:
    """Return a requirement, or why the line is not one."""
    try:
        return _parse(line)
    except InvalidRequirement as error:
        return f"the line {line!r} is not a requirement: {str(error).splitlines()[0]}"


def _parse(text: str) -> Requirement:
    with _PARSING:
        return Requirement(text)
