"""The rows of the queue, as programs and the page get them: a job with its speed-up, its report and its progress."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from starlette.responses import HTMLResponse

from hone_runtime.text import clean_text
from kedro_hone.events.job import Job, State
from kedro_hone.events.page import render
from kedro_hone.events.rules import Rule
from kedro_hone.report.progress_file import read_progress
from kedro_hone.report.result_file import read_result


def describe_job(job: Job, folder: Path) -> dict[str, Any]:
    """Return the fields of a job for programs and pages, without control characters.

    Besides those of ``Job`` there are ``speed``, how much faster its winner is; ``report``, the path of its report on
    this service; both are empty if there is none; and ``progress``, null unless it is running.

    Args:
        job: The job.
        folder: The job's folder.
    """
    fields = job.model_dump(mode="json", exclude={"process", "task"})
    result = read_result(folder / "result.json")
    has_report = bool(result.folder) and Path(result.folder, "report.html").is_file()
    speed = "" if job.state is State.QUEUED else result.speed  # it waits: the file is of an earlier attempt
    report = f"/runs/{job.id}/report" if has_report else ""
    fields |= {"speed": speed, "report": report, "progress": None}
    if job.state is State.RUNNING and (progress := read_progress(folder)):
        fields["progress"] = _clean(progress.model_dump(mode="json"))
    return _clean(fields)


def find_model(uri: str) -> str:
    """Return the URI of a model without the version."""
    scheme, _, rest = uri.partition(":")
    return f"{scheme}:{rest.rpartition('/')[0]}" if scheme == "models" else uri.partition("@")[0]


def render_queue(
    jobs: Sequence[Mapping[str, Any]],
    *,
    judged: Iterable[Job],
    states: Mapping[State, int],
    rules: Sequence[Rule],
    failing: Mapping[str, str],
    model: str,
    key: str,
) -> HTMLResponse:
    """Return the page of the queue.

    Args:
        jobs: The described jobs, newest first.
        judged: The jobs with a verdict, newest first.
        states: How many jobs there are in each state.
        rules: The rules.
        failing: Why a registry could not be read, by its URI.
        model: The model whose jobs are shown; empty for all.
        key: A unique text for the form.
    """
    newest: dict[str, dict[str, Any]] = {}
    for one in judged:
        newest.setdefault(find_model(one.uri), _clean(one.model_dump(mode="json", exclude={"process", "task"})))
    names = {*newest, *(find_model(job["uri"]) for job in jobs), *filter(None, [model])}
    return render(
        "queue",
        live=True,
        jobs=jobs,
        models=dict(sorted(newest.items())),
        names=sorted(names),
        states=states,
        rules=rules,
        failing=failing,
        model=model,
        key=key,
    )


def _clean(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: clean_text(value) if isinstance(value, str) else value for name, value in fields.items()}
