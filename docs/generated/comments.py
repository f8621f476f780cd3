"""The comment on a pull request, of the tests' sample run: what stands before its folded parts."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

_TESTS = Path(__file__).parents[2] / "tests"


def quote_comment() -> str:
    """Return the comment as a block of Markdown."""
    sys.path[:0] = [str(_TESTS), str(_TESTS / "unit" / "report")]
    render = import_module("kedro_hone.report.rendering").render_markdown
    shown = render(import_module("sample").make_evidence()).partition("<details>")[0]
    return f"```markdown\n{shown.strip()}\n```"
