"""Annotations: the recipe's line of each gate that does not hold."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal, NamedTuple

import yaml
from github_action_toolkit import error, warning
from github_action_toolkit.print_messages import escape_data

from kedro_hone.core.text import clean_text
from kedro_hone.core.values.decision import Verdict
from kedro_hone.core.values.judgement import Judged
from kedro_hone.report.evidence import Evidence

MOST: Final = 10
"""GitHub shows so many annotations of a kind of each step."""


class Annotation(NamedTuple):
    """One remark.

    Attributes:
        level: ``failure`` or ``warning``.
        path: The file, relative to the workspace.
        line: Its line, from 1.
        title: The gate.
        message: Why it does not hold.
    """

    level: Literal["failure", "warning"]
    path: str
    line: int
    title: str
    message: str


def list_annotations(evidence: Evidence, recipes: list[Path], workspace: Path) -> list[Annotation]:
    """Return a remark for each gate that stood against a better verdict, at the gate's line in the recipe.

    Args:
        evidence: What was judged.
        recipes: Where the gates may be written, the deciding file first.
        workspace: The folder that paths are relative to.
    """
    if evidence.verdict not in (Verdict.FAIL, Verdict.INCONCLUSIVE):
        return []
    lines = dict(_find_gates([path for path in reversed(recipes) if path.is_file()]))
    found: dict[str, Annotation] = {}
    for row in evidence.gates:
        if row.judgement not in (Judged.FAILS, Judged.UNDECIDED) or row.name in found or not lines:
            continue
        path, line = lines.get(row.name) or lines[""]
        fails = evidence.verdict is Verdict.FAIL and row.judgement is Judged.FAILS
        place = path.relative_to(workspace).as_posix() if path.is_relative_to(workspace) else path.name
        against = f", against {row.against}" if row.against else ""
        title, message = f"{evidence.verdict.value}: {row.name}", clean_text(f"{row.candidate}{against}: {row.reason}")
        found[row.name] = Annotation("failure" if fails else "warning", place, line, clean_text(title), message[:2000])
    return list(found.values())[:MOST]


def print_annotations(annotations: list[Annotation]) -> None:
    """Print them as commands for GitHub's runner."""
    for one in annotations:
        command = error if one.level == "failure" else warning
        # The toolkit escapes the properties and leaves the message as it is.
        command(escape_data(one.message), title=one.title, file=one.path, line=one.line)


def print_warning(message: str) -> None:
    """Print a warning that belongs to no file."""
    warning(escape_data(clean_text(message)), title="kedro-hone")


def _find_gates(recipes: list[Path]) -> Iterator[tuple[str, tuple[Path, int]]]:
    """Yield each gate's name with its file and line, and an empty name with those of the whole section."""
    for path in recipes:
        try:
            root = yaml.compose(path.read_text(), Loader=yaml.SafeLoader)
        except yaml.YAMLError:
            continue  # Kedro refused it before: there is no verdict that it could have a part in
        hone = dict(_list_children(root)).get("hone")
        if hone is None:
            continue
        key, section = hone
        yield "", (path, key.start_mark.line + 1)
        gates = dict(_list_children(section)).get("gates")
        if gates is not None:
            yield "", (path, gates[0].start_mark.line + 1)
            for name, (place, _) in _list_children(gates[1]):
                yield name, (path, place.start_mark.line + 1)


def _list_children(node: yaml.Node | None) -> list[tuple[str, tuple[yaml.Node, yaml.Node]]]:
    if not isinstance(node, yaml.MappingNode):
        return []
    return [(re.sub(r"\s", " ", str(key.value)), (key, value)) for key, value in node.value]
