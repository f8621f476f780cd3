"""A job of GitHub's runner: its variables, files and event, and the server it talks to."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from github_server import GitHub, serve_github

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))

from sample import make_evidence

from kedro_hone.report.evidence import Evidence, dump_evidence

HEAD, TOKEN, STEP = "a" * 40, "t0ken", "0123456789ab"
RECIPE = "hone:\n  model: {uri: models:/digits}\n  gates:\n    speedup: 1.05\n    drop: 0.01\n"


@dataclass
class Job:
    """One job on a pull request."""

    workspace: Path
    github: GitHub
    monkeypatch: pytest.MonkeyPatch

    def write_event(
        self,
        *,
        head: str | None = "o/r",
        name: str = "pull_request",
        title: str = "A title",
        payload: dict[str, Any] | None = None,
    ) -> None:
        repository = None if head is None else {"full_name": head}
        pull = {"number": 7, "title": title, "head": {"sha": HEAD, "ref": "x", "repo": repository}}
        path = self.workspace / "event.json"
        path.write_text(json.dumps((payload or {}) | ({"pull_request": pull} if name.startswith("pull") else {})))
        self.set(GITHUB_EVENT_NAME=name, GITHUB_EVENT_PATH=str(path))

    def write_run(self, evidence: Evidence | None = None, code: int = 0) -> None:
        folder = self.workspace / "data" / "hone" / "runs" / "one"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "evidence.json").write_text(dump_evidence(evidence or make_evidence()))
        self.set(HONE_FOLDER="data/hone/runs/one", HONE_CODE=str(code))

    def write_kept(self, kind: str, evidence: Evidence | str, commit: str = "c" * 40) -> None:
        """Write what a cache brings: the result of the base branch, or of the last push."""
        folder = self.workspace / ".kedro-hone" / kind
        folder.mkdir(parents=True)
        (folder / f"{commit}.json").write_text(evidence if isinstance(evidence, str) else dump_evidence(evidence))
        self.set(**{f"HONE_{kind.upper()}": f".kedro-hone/{kind}"})

    def set(self, **variables: Any) -> None:
        for name, value in variables.items():
            self.monkeypatch.setenv(name, str(value))

    @property
    def summary(self) -> str:
        return (self.workspace / "summary.md").read_text()

    @property
    def outputs(self) -> dict[str, str]:
        """As GitHub's runner reads them."""
        found, lines = {}, iter((self.workspace / "output").read_text().splitlines())
        for line in lines:
            name, _, delimiter = line.partition("<<")
            found[name] = "\n".join(iter(lambda: next(lines), delimiter))
        return found


@pytest.fixture
def job(tmp_path, monkeypatch):
    with serve_github() as github:
        job = Job(tmp_path, github, monkeypatch)
        (tmp_path / "conf" / "base").mkdir(parents=True)
        (tmp_path / "conf" / "base" / "parameters.yml").write_text(RECIPE)
        for name in (
            "HONE_BASE",
            "HONE_LAST",
            *(f"INPUT_{part}" for part in ("FAIL_ON", "COMMENT", "RECIPE", "MODEL", "NAME", "PARAMS")),
        ):
            monkeypatch.delenv(name, raising=False)
        job.set(GITHUB_REPOSITORY="o/r", GITHUB_SHA="b" * 40, GITHUB_RUN_ID="42", GITHUB_WORKSPACE=tmp_path)
        job.set(GITHUB_API_URL=github.url, GITHUB_TOKEN=TOKEN, GITHUB_STEP_SUMMARY=tmp_path / "summary.md")
        job.set(GITHUB_OUTPUT=tmp_path / "output", HONE_ID=STEP, HONE_LEG="")
        job.monkeypatch.delenv("GITHUB_REF", raising=False)
        job.write_event()
        yield job
