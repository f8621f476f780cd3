"""Annotations of the job: a remark at the recipe's line of each gate that is not passed, and warnings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import yaml
from github_action_toolkit import error, warning
from github_action_toolkit.print_messages import escape_data

from hone_runtime.text import clean_text
from hone_runtime.values.decision import Verdict
from hone_runtime.values.judgement import GateOutcome
from kedro_hone.report.evidence import Evidence

_MOST: Final = 10
"""GitHub shows at most this many annotations of a kind for each step."""


def annotate_gates(evidence: Evidence, recipes: Sequence[Path], workspace: Path) -> None:
    """Print a remark for each gate that prevented a better verdict, at the gate's line in the recipe.

    Args:
        evidence: The evidence of the run.
        recipes: The files that may contain the gates, the deciding file first.
        workspace: The folder that paths are relative to.
    """
    lines = dict(_find_gates([path for path in reversed(recipes) if path.is_file()]))
    if evidence.verdict not in (Verdict.FAIL, Verdict.INCONCLUSIVE) or not lines:
        return
    rows = [row for row in evidence.gates if row.judgement in (GateOutcome.FAILS, GateOutcome.UNDECIDED)]
    first = {row.name: row for row in reversed(rows)}
    for name in list(dict.fromkeys(row.name for row in rows))[:_MOST]:
        row, (path, line) = first[name], lines.get(name) or lines[""]
        annotate = error if evidence.verdict is Verdict.FAIL and row.judgement is GateOutcome.FAILS else warning
        place = path.relative_to(workspace).as_posix() if path.is_relative_to(workspace) else path.name
        against = f", against {row.against}" if row.against else ""
        message, title = f"{row.candidate}{against}: {row.reason}", clean_text(f"{evidence.verdict.value}: {name}")
        # The toolkit escapes the properties, but not the message.
        annotate(escape_data(clean_text(message)[:2000]), title=title, file=place, line=line)


def print_warning(message: str) -> None:
    """Print a warning without a file."""
    warning(escape_data(clean_text(message)), title="kedro-hone")


def _find_gates(recipes: Sequence[Path]) -> Iterator[tuple[str, tuple[Path, int]]]:
    """Yield each gate's name with its file and line, and an empty name with those of the whole section."""
    for path in recipes:
        try:
            root = yaml.compose(path.read_text(), Loader=yaml.SafeLoader)
        except yaml.YAMLError:
            continue  # Kedro refused it before, so it has no effect on the verdict
        if hone := dict(_list_children(root)).get("hone"):
            yield "", (path, hone[0].start_mark.line + 1)
            if gates := dict(_list_children(hone[1])).get("gates"):
                yield "", (path, gates[0].start_mark.line + 1)
                for name, (key, _) in _list_children(gates[1]):
                    yield name, (path, key.start_mark.line + 1)


def _list_children(node: yaml.Node | None) -> list[tuple[str, tuple[yaml.Node, yaml.Node]]]:
    if not isinstance(node, yaml.MappingNode):
        return []
    return [(re.sub(r"\s", " ", str(key.value)), (key, value)) for key, value in node.value]
