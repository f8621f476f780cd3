"""The Action's second step: the verdict in the job, in a comment and in a check run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from github import Auth, Github, GithubException
from github_action_toolkit import JobSummary, info
from requests import RequestException

from hone_runtime.contract.proof import EVIDENCE
from hone_runtime.errors import ExitCode, HoneError
from hone_runtime.text import clean_text, hide_secrets
from kedro_hone.github.annotations import annotate_gates, print_warning
from kedro_hone.github.api import Conclusion, write_check, write_comment
from kedro_hone.github.context import Context, read_context, write_output
from kedro_hone.github.inputs import Inputs, disable_publishing, format_check, read_inputs
from kedro_hone.report.evidence import parse_evidence
from kedro_hone.report.files import read_publication
from kedro_hone.report.rendering import JobRemarks, render_markdown
from kedro_hone.report.view import View

_FAILING: Final = {
    "fail": {ExitCode.FAIL},
    "inconclusive": {ExitCode.FAIL, ExitCode.INCONCLUSIVE, ExitCode.DRAFT},
    "never": set[ExitCode](),
}
_VERDICTS: Final = (ExitCode.SUCCESS, ExitCode.FAIL, ExitCode.INCONCLUSIVE, ExitCode.DRAFT)
_CAUSES: Final = {ExitCode.INPUT: "the recipe or an input is wrong", ExitCode.BUG: "a bug of kedro-hone"}
_UNPUBLISHED: Final = "`publish: on-pass` publishes from the default branch only, and this run is not from it."


def report() -> int:
    """Write outputs, summary, annotations, comment and check run.

    The variables ``HONE_CODE`` and ``HONE_FOLDER`` are the outputs of ``run``, which writes none if it refuses its
    inputs. ``HONE_BASE`` and ``HONE_LAST`` are folders with the evidence of the base branch and of the last push, if it
    is in a cache. ``GITHUB_TOKEN`` may be empty.

    Returns:
        The job's exit code: that of the run if the verdict fails the job, or if there is no verdict; otherwise 0.

    Raises:
        HoneError: ``action-input-invalid``, ``evidence-unreadable``.
    """
    context, inputs = read_context(), read_inputs()
    code, folder = int(os.environ.get("HONE_CODE") or ExitCode.INPUT), os.environ.get("HONE_FOLDER", "")
    if not folder or code not in _VERDICTS:
        cause = _CAUSES.get(code, "see the log")  # type: ignore[call-overload]  # an IntEnum's member is an int
        log = f"[The job's log]({context.run_url})"
        body = f"## ❗ No verdict\n\n`kedro run` ended with exit code {code}: {cause}. {log}\n"
        _publish(context, inputs, body=body, title="No verdict", conclusion="failure")
        return code or ExitCode.BUG
    place = context.workspace / folder
    view = View(parse_evidence((place / EVIDENCE).read_bytes()), read_publication(place))
    _write_outputs(view, folder)
    own = sorted((context.workspace / inputs.project).glob("conf/base/parameters*.y*ml"))
    recipes = [context.workspace / inputs.recipe] if inputs.recipe else []
    annotate_gates(view.evidence, [*recipes, *own], context.workspace)
    note = "" if disable_publishing(inputs, context) == inputs else _UNPUBLISHED
    if note:
        print_warning(f"Not published: {note}")
    (base, _), (last, commit) = _read_cached(context, "HONE_BASE"), _read_cached(context, "HONE_LAST")
    job = JobRemarks(base=base, last=last, last_commit=commit, note=note, log_url=context.run_url)
    ends = code if code in _FAILING[inputs.fail_on] else 0
    calm: Conclusion = "success" if code == ExitCode.SUCCESS else "neutral"
    _publish(
        context,
        inputs,
        body=render_markdown(view.evidence, view.publication, job=job),
        title=clean_text(f"{view.evidence.verdict.value}: {view.headline}"),
        conclusion="failure" if ends else calm,
    )
    return ends


def _publish(context: Context, inputs: Inputs, *, body: str, title: str, conclusion: Conclusion) -> None:
    """Always write the summary, and also comment and check if the token allows it, each independently."""
    JobSummary().add_raw(body, add_eol=True).write(overwrite=True)  # the file is this step's own
    token = os.environ.get("GITHUB_TOKEN", "")
    if context.foreign or not token:
        fork = "The pull request comes from a fork: its jobs may not comment"
        info(f"{fork if context.foreign else 'There is no token'}, so the job's summary is all there is.")
        return
    # The toolkit's own client passes the token to PyGithub in a deprecated way.
    client = Github(auth=Auth.Token(token), base_url=context.api, lazy=True)
    number = context.pull_request
    if number is not None and inputs.comment == "true":
        with _warn_of_refusals("comment", "pull-requests: write"):
            write_comment(client, context, number=number, body=body, author=inputs.comment_author)
    with _warn_of_refusals("check run", "checks: write"):
        name = format_check(inputs, context)
        write_check(client, context, name=name, title=title, summary=body, conclusion=conclusion)


@contextmanager
def _warn_of_refusals(what: str, permission: str) -> Iterator[None]:
    """Print a warning if GitHub refuses, or cannot be reached."""
    try:
        yield
    except (GithubException, RequestException) as error:
        cause = f"{error.status}: {error.message}" if isinstance(error, GithubException) else repr(error)
        needs = f"It needs `{permission}`; the job's summary has the report"
        print_warning(hide_secrets(f"GitHub took no {what} ({cause}). {needs}."))


def _read_cached(context: Context, variable: str) -> tuple[View | None, str]:
    """Return another run's result, restored from a cache to a folder, and its commit, which is the file's name."""
    named = os.environ.get(variable, "") if context.pull_request is not None else ""
    path = next((one for one in (context.workspace / named).glob("*.json") if named and one.is_file()), None)
    try:
        return (View(parse_evidence(path.read_bytes())), path.stem) if path else (None, "")
    except HoneError as error:  # from another version of kedro-hone; this run's verdict does not depend on it
        print_warning(f"An earlier result is not part of the comparison. {error.why}")
        return None, ""


def _write_outputs(view: View, folder: str) -> None:
    evidence, published = view.evidence, view.publication
    ratio = evidence.speedup.ratio if evidence.speedup else None
    drop = evidence.subject_quality[0].drop.estimate if evidence.subject_quality else None
    values = {
        "verdict": evidence.verdict.value,
        "winner": view.winner,
        "speedup": "" if ratio is None else f"{ratio.estimate:.4g}",
        "speedup-low": "" if ratio is None else f"{ratio.low:.4g}",
        "accuracy-drop": "" if drop is None else f"{drop:.6g}",
        "published-uri": published.uri if published else "",
        "report-path": f"{folder}/report.html",
    }
    for name, value in values.items():
        write_output(name, clean_text(value))
