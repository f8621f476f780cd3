"""The workflows of GitHub and the scripts that the documentation shows."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import yaml

DOCS = Path(__file__).parents[1] / "docs" / "how-to"


def list_workflows() -> dict[str, str]:
    """Return the text of each by page and name, such as ``run-as-a-github-action/hone``; our action is pinned there."""
    found = {}
    for page in sorted(DOCS.glob("*.md")):
        for block in re.findall(r"^ *```yaml\n(.*?)^ *```$", page.read_text(), re.MULTILINE | re.DOTALL):
            text = textwrap.dedent(block)
            if re.search("^jobs:", text, re.MULTILINE):
                pinned = re.sub("<owner>/kedro-hone@v1.*", f"owner/kedro-hone@{'0' * 40} # v1", text)
                found[f"{page.stem}/{yaml.safe_load(text)['name']}"] = pinned
    return found


def read_script(page: str, title: str) -> str:
    """Return the Python file of a name that a how-to shows."""
    (block,) = re.findall(
        rf'^```python title="{title}"\n(.*?)^```$', (DOCS / page).read_text(), re.MULTILINE | re.DOTALL
    )
    return block


def read_steps(name: str) -> list[dict[str, Any]]:
    """Return the steps of a workflow's only job."""
    (job,) = yaml.safe_load(list_workflows()[name])["jobs"].values()
    return job["steps"]
