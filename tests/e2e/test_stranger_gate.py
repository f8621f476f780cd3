"""A gate of somebody else: one file, and the recipe, its reference, decision, evidence and reports follow."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from small_project import FAST

from hone_runtime.values.judgement import GateOutcome
from hone_runtime.values.measurement import Latency
from kedro_hone.core.gates import Measurements

ROOT = Path(__file__).parents[2]
GATE = '''
"""How large the files are, compared with the source's."""

from pydantic import Field

from kedro_hone.core.gates import Gate, judge_at_most


def judge(limit, candidate, source):
    ratio = candidate.size_bytes / source.size_bytes
    subject = f"the size of {candidate.id}"
    return [
        judge_at_most(
            name="size_ratio",
            candidate=candidate.id,
            measured=ratio,
            limit=limit,
            unit="times",
            subject=subject,
            verb="is",
        )
    ]


GATE = Gate(
    name="size_ratio",
    takes=float | None,
    field=Field(default=None, gt=0, description="The files must not be larger than so many times the source's."),
    judge=judge,
    relative=True,
    asks="at most {limit:g} times as large",
)
'''
SHORT = {"shop.convert": {"enabled": False}, "shop.slow": {"enabled": False}}
BLOCK = re.compile(r"^```python[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def read_files(root: Path) -> dict[str, str]:
    files = (path for path in root.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return {str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def list_changes(before: dict[str, str], after: dict[str, str]) -> list[str]:
    return sorted(path for path in before | after if before.get(path) != after.get(path))


@pytest.fixture
def copied(tmp_path):
    """A copy of the source, the tests and the documentation, to which a file is added."""
    copy = tmp_path / "copied"
    for name in ("src", "docs", "tests"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("README.md", "CONTRIBUTING.md", "pyproject.toml"):
        shutil.copy(ROOT / name, copy)
    return copy


@pytest.mark.nightly
def test_one_file_in_the_package_is_a_gate(copied, project):
    before = read_files(copied)
    (copied / "src/kedro_hone/search/gates/size_ratio.py").write_text(GATE.lstrip())
    assert list_changes(before, read_files(copied)) == ["src/kedro_hone/search/gates/size_ratio.py"]

    before = read_files(copied)
    variables = project.variables | {"PYTHONPATH": str(copied / "src")}
    subprocess.run([sys.executable, "docs/generate.py"], cwd=copied, env=variables, check=True)
    assert list_changes(before, read_files(copied)) == ["docs/reference/recipe.md"]
    assert (
        "| `size_ratio` | number, over 0 |  | The files must not" in (copied / "docs/reference/recipe.md").read_text()
    )

    project.environment["PYTHONPATH"] = f"{copied / 'src'}:{ROOT / 'tests'}"
    check_run(project)


@pytest.mark.nightly
def test_one_file_and_one_line_in_a_project_are_a_gate(project):
    package = project.root / "src" / "shop"
    before = read_files(project.root)
    (package / "gates.py").write_text(GATE.lstrip())
    settings = package / "settings.py"
    lines = "from kedro_hone.core.gates import register_gate\nfrom shop.gates import GATE\n\nregister_gate(GATE)\n"
    settings.write_text(settings.read_text() + lines)
    assert list_changes(before, read_files(project.root)) == ["src/shop/gates.py", "src/shop/settings.py"]

    check_run(project)


def check_run(project):
    """Run with the gate, which the only faster candidate misses."""
    project.set(adaptors=SHORT, gates={"size_ratio": 0.001})
    done = project.run()
    assert "no candidate is at most 0.001 times as large and 1.05 times as fast and good enough" in " ".join(
        done.output.split()
    )
    evidence = project.evidence
    assert (evidence["verdict"], evidence["recipe"]["gates"]["size_ratio"]) == ("KEEP", 0.001)
    rows = {row["name"]: row for row in evidence["gates"] if row["candidate"] == FAST}
    assert rows["size_ratio"]["judgement"] == "fails"
    assert rows["size_ratio"]["measured"] == pytest.approx(
        project.candidate(FAST)["size_bytes"] / project.candidate("source")["size_bytes"]
    )
    assert rows["drop"]["judgement"] == "not asked"
    latest = project.work / "latest"
    assert "<code>size_ratio</code>" in (latest / "report.html").read_text()
    assert rows["size_ratio"]["reason"].split(" is ")[1] in (latest / "report.md").read_text()


def test_the_gate_of_the_guide_works_and_so_does_its_test(tmp_path, monkeypatch):
    module, test = BLOCK.findall((ROOT / "docs/how-to/write-a-gate.md").read_text())
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "p99.py").write_text(module)
    monkeypatch.syspath_prepend(tmp_path)
    names: dict[str, object] = {}
    exec(compile(test, "test.py", "exec"), names)  # noqa: S102 - our own page

    unknown = Measurements(id="a", latency=(Latency(shape="batch1", p50_ms=1.0, n=9),))
    (judgement,) = names["GATE"].evaluate(2.5, unknown, unknown)
    assert judgement.judgement is GateOutcome.UNDECIDED
