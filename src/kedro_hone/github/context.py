"""The job that the Action runs in: its description by GitHub's runner, and the outputs for the runner."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from github_action_toolkit import EventPayload

from hone_runtime.errors import HoneError

_BY_REF: Final = ("push", "workflow_dispatch")
"""The events of one branch or tag, named in their payload: merged means on the default branch."""
_OF_DEFAULT_BRANCH: Final = ("schedule", "repository_dispatch")
"""The events that GitHub starts for the default branch only."""


@dataclass(frozen=True, slots=True)
class Context:
    """One job.

    Attributes:
        repository: Such as ``owner/name``.
        commit: The commit of the check run: for a pull request its head, and not the tested merge.
        pull_request: Its number; None for any other event.
        foreign: Whether the pull request comes from another repository: its jobs have no secrets.
        merged: Whether the event is known to be of code on the default branch. An event that is not on the list does
            not count: a comment on a fork's pull request starts a job with the secrets of the default branch.
        api: The URL of GitHub's API.
        run_url: The URL of the job's log and the report.
        workspace: The folder of the user's checkout.
        step: A digest of the step's inputs and the job's leg of the matrix, which identifies its comment.
        leg: The values of the matrix, such as ``gpu, 3.11``; empty for a job without one.
    """

    repository: str
    commit: str
    pull_request: int | None
    foreign: bool
    merged: bool
    api: str
    run_url: str
    workspace: Path
    step: str
    leg: str


def read_context() -> Context:
    """Read the runner's description of its job.

    Raises:
        HoneError: ``action-input-invalid`` under ``pull_request_target``, which gives untrusted code access to the
            secrets.
    """
    event = EventPayload()
    name = event.get_event_name()
    if name == "pull_request_target":
        raise HoneError(
            "action-input-invalid",
            "The action does not run under pull_request_target.",
            why="The pull request's code would run with the secrets and the write access of your repository.",
            hint="Use pull_request; for pull requests of forks the documentation shows two workflows.",
        )
    payload = event.get_payload()
    pull: dict[str, Any] = payload.get("pull_request") or {}
    ran: dict[str, Any] = payload.get("workflow_run") or {}
    repository = os.environ["GITHUB_REPOSITORY"]
    head: dict[str, Any] = pull.get("head") or {}
    origin = head.get("repo") if pull else ran.get("head_repository")
    server = os.environ.get("GITHUB_SERVER_URL", "https://github.com")
    return Context(
        repository=repository,
        commit=head.get("sha") or os.environ["GITHUB_SHA"],
        pull_request=pull.get("number"),
        # The repository of a head is null if the fork was deleted.
        foreign=bool(pull or ran) and (origin or {}).get("full_name") != repository,
        merged=_is_merged(name, payload),
        api=os.environ.get("GITHUB_API_URL", "https://api.github.com"),
        run_url=f"{server}/{repository}/actions/runs/{os.environ['GITHUB_RUN_ID']}",
        workspace=Path(os.environ["GITHUB_WORKSPACE"]),
        step=os.environ.get("HONE_ID", ""),
        leg=os.environ.get("HONE_LEG", ""),
    )


def _is_merged(name: str, payload: dict[str, Any]) -> bool:
    """Return whether an event is of the default branch, according to both its payload and the runner."""
    if name in _OF_DEFAULT_BRANCH:
        return True
    branch = (payload.get("repository") or {}).get("default_branch")
    ref = f"refs/heads/{branch}"
    return name in _BY_REF and bool(branch) and payload.get("ref") == ref == os.environ.get("GITHUB_REF", ref)


def write_output(name: str, value: object) -> None:
    """Write one output of the step unchanged, between two unpredictable lines that no value can contain.

    The toolkit's ``set_output`` escapes the value, which only workflow commands need: ``%`` would become ``%25``.
    https://docs.github.com/actions/reference/workflow-commands-for-github-actions#multiline-strings
    """
    delimiter = secrets.token_hex(16)
    with Path(os.environ["GITHUB_OUTPUT"]).open("a", encoding="utf-8") as stream:
        stream.write(f"{name}<<{delimiter}\n{value}\n{delimiter}\n")
