"""The Action's second step: say the verdict in the job, in a comment and in a check run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from github import GithubException
from github_action_toolkit import JobSummary, info
from requests import RequestException

from kedro_hone.core.contract.proof import EVIDENCE
from kedro_hone.core.contract.registry import Publication
from kedro_hone.core.errors import ExitCode, HoneError
from kedro_hone.core.text import clean_text, hide_secrets
from kedro_hone.github import comment
from kedro_hone.github.annotations import list_annotations, print_annotations, print_warning
from kedro_hone.github.api import Conclusion, Talk
from kedro_hone.github.context import Context, read_context
from kedro_hone.github.figures import Figures, find_figures, read_figures
from kedro_hone.github.identity import make_marker, name_check
from kedro_hone.github.inputs import Inputs, hold_publishing, read_inputs
from kedro_hone.github.outputs import write_output
from kedro_hone.report import wording
from kedro_hone.report.evidence import Evidence, parse_evidence
from kedro_hone.report.files import read_publication
from kedro_hone.report.rendering import render_markdown
from kedro_hone.report.view import View

_FAILING: Final = {
    "fail": {ExitCode.FAIL},
    "inconclusive": {ExitCode.FAIL, ExitCode.INCONCLUSIVE},
    "never": set[ExitCode](),
}
_VERDICTS: Final = (ExitCode.SUCCESS, ExitCode.FAIL, ExitCode.INCONCLUSIVE)


def report() -> int:
    """Write outputs, summary, annotations, comment and check run.

    The variables ``HONE_CODE`` and ``HONE_FOLDER`` are the outputs of ``run``, which writes none where it refuses its
    inputs; ``HONE_BASE`` is the evidence of the base branch, if it exists; ``GITHUB_TOKEN`` may be empty.

    Returns:
        The job's exit code: that of the run where the verdict is to fail it, or where there is no verdict; else 0.

    Raises:
        HoneError: ``action-input-invalid``, ``evidence-unreadable``.
    """
    context, inputs = read_context(), read_inputs()
    code, folder = int(os.environ.get("HONE_CODE") or ExitCode.INPUT), os.environ.get("HONE_FOLDER", "")
    if not folder or code not in _VERDICTS:
        body = comment.explain_absence(code, context.run_url)
        _tell(context, inputs, body=body, conclusion="failure", title="No verdict")
        return code or ExitCode.BUG
    evidence = parse_evidence((context.workspace / folder / EVIDENCE).read_bytes())
    ends = code if code in _FAILING[inputs.fail_on] else 0
    recipes = _list_recipes(inputs, context.workspace)
    published = read_publication(context.workspace / folder)
    _write_outputs(evidence, published, folder)
    print_annotations(list_annotations(evidence, recipes, context.workspace))
    if held := _explain_hold(inputs, context):
        print_warning(f"Not published: {held}")
    calm: Conclusion = "success" if code == ExitCode.SUCCESS else "neutral"
    _tell(
        context,
        inputs,
        body=render_markdown(evidence, published),
        figures=read_figures(evidence, commit=context.commit),
        title=clean_text(f"{evidence.verdict.value}: {View(evidence).headline}"),
        conclusion="failure" if ends else calm,
    )
    return ends


def _tell(
    context: Context,
    inputs: Inputs,
    *,
    body: str,
    title: str,
    conclusion: Conclusion,
    figures: Figures | None = None,
) -> None:
    """Write the summary always, and comment and check where the token allows it; where one is refused, the other."""
    talk = _open(context)
    marker, last = make_marker(context), None
    comments = talk is not None and inputs.comment == "true"
    if talk and comments:
        with _warn_of_refusals("comment", "pull-requests: write") as refused:
            last = talk.find_comment(marker=marker, author=inputs.comment_author)
        comments = not refused  # where the last one cannot be found, another would be written at each push
    if figures is not None:
        base = None if context.pull_request is None else _read_base(context)
        before = find_figures(last) if last else None
        note = _explain_hold(inputs, context)
        body = comment.compose_body(body, figures, base=base, last=before, note=note, run_url=context.run_url)
    JobSummary().add_raw(body, add_eol=True).write(overwrite=True)  # the file is this step's own
    if talk and comments:
        with _warn_of_refusals("comment", "pull-requests: write"):
            talk.write_comment(comment.seal_comment(body, marker=marker, figures=figures))
    if talk:
        with _warn_of_refusals("check run", "checks: write"):
            name, summary = name_check(inputs, context), body[: comment.LIMIT - 1]
            talk.write_check(name=name, title=title, summary=summary, conclusion=conclusion)


def _open(context: Context) -> Talk | None:
    token = os.environ.get("GITHUB_TOKEN", "")
    if context.foreign:
        info("The pull request comes from a fork: its jobs may not comment, so the job's summary is all there is.")
        return None
    if not token:
        info("There is no token: the job's summary is all there is.")
        return None
    return Talk(context, token=token)


@contextmanager
def _warn_of_refusals(what: str, permission: str) -> Iterator[list[Exception]]:
    """Make a warning of what GitHub refuses, or of a GitHub that cannot be reached; it is in the list afterwards."""
    refused: list[Exception] = []
    try:
        yield refused
    except (GithubException, RequestException) as error:
        refused.append(error)
        said = f"{error.status}: {error.message}" if isinstance(error, GithubException) else repr(error)
        needs = f"It needs `{permission}`; the job's summary has the report"
        print_warning(hide_secrets(f"GitHub took no {what} ({said}). {needs}."))


def _explain_hold(inputs: Inputs, context: Context) -> str:
    """Return why nothing is published though it was asked for; empty where it is, or was not asked for."""
    held = hold_publishing(inputs, context) != inputs
    return "`publish: on-pass` publishes from the default branch only, and this is not of it." if held else ""


def _read_base(context: Context) -> Figures | None:
    """Return the figures of the base branch's last run, as a cache brought them."""
    named = os.environ.get("HONE_BASE", "")
    path = context.workspace / named
    if not named or not path.is_file():
        return None
    try:
        return read_figures(parse_evidence(path.read_bytes()), commit="")
    except HoneError as error:  # of another version of kedro-hone, whose verdict this run does not depend on
        print_warning(f"The base branch's result is left out. {error.why}")
        return None


def _list_recipes(inputs: Inputs, workspace: Path) -> list[Path]:
    own = sorted((workspace / inputs.project).glob("conf/base/parameters*.y*ml"))
    return [*([workspace / inputs.recipe] if inputs.recipe else []), *own]


def _write_outputs(evidence: Evidence, published: Publication | None, path: str) -> None:
    ratio = evidence.speedup.ratio if evidence.speedup else None
    drop = evidence.subject_quality[0].drop.estimate if evidence.subject_quality else None
    values = {
        "verdict": evidence.verdict.value,
        "winner": wording.format_candidate(evidence, evidence.winner.candidate) if evidence.winner else "",
        "speedup": "" if ratio is None else f"{ratio.estimate:.4g}",
        "speedup-low": "" if ratio is None else f"{ratio.low:.4g}",
        "accuracy-drop": "" if drop is None else f"{drop:.6g}",
        "published-uri": published.uri if published else "",
        "report-path": f"{path}/report.html",
    }
    for name, value in values.items():
        write_output(name, clean_text(value))
