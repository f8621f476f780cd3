"""zizmor finds nothing in the action and the workflows, and finds what is planted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FILES = [ROOT / "action.yml", *sorted((ROOT / ".github" / "workflows").glob("*.yml")), ROOT / ".github/dependabot.yml"]


def audit(*files):
    command = [str(Path(sys.executable).with_name("zizmor")), "--offline", "--no-progress", "--quiet", *map(str, files)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_nothing_is_found():
    done = audit(*FILES)

    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        (
            'run: |\n        "$HONE_VENV',
            'run: |\n        echo "${{ inputs.model }}"\n        "$HONE_VENV',
            "template-injection",
        ),
        ("setup-python@e797f83bcb11b83ae66e0230d6156d7c80228e7c # v6.0.0", "setup-python@v6", "unpinned-uses"),
    ],
)
def test_what_is_planted_is_found(old, new, found, tmp_path):
    text = (ROOT / "action.yml").read_text()
    assert old in text
    (tmp_path / "action.yml").write_text(text.replace(old, new))

    done = audit(tmp_path / "action.yml")

    assert done.returncode != 0
    assert found in done.stdout


def test_each_rule_of_the_owners_names_a_file():
    """GitHub says nothing of a rule whose path was renamed: its files would have no owner."""
    lines = (ROOT / ".github" / "CODEOWNERS").read_text().splitlines()
    rules = [line.split() for line in lines if line and not line.startswith("#")]
    assert rules[0][0] == "*"
    for pattern, *owners in rules:
        assert all(owner.startswith("@kedro-hone/") for owner in owners), pattern
        found = list(ROOT.glob(pattern.strip("/")))
        assert found, pattern
        assert not pattern.endswith("/") or found[0].is_dir(), pattern
