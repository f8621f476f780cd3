"""The process of a job: it looks up the version in its registry, and optimizes, hands over or approves it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import yaml
from github import Auth, Github, GithubException, GithubRetry, RateLimitExceededException

from hone_runtime.contract.registries import find_registry
from hone_runtime.contract.registry import UNASKED
from hone_runtime.errors import HoneError
from hone_runtime.values.base import Value
from kedro_hone.events.approval import ImagePlace, approve_winner
from kedro_hone.events.job import Approve, HandOver, Optimize, Task
from kedro_hone.events.outcomes import SKIPPED
from kedro_hone.report.result_file import note_result

_LARGEST_PAYLOAD: Final = 60_000
"""In bytes: GitHub accepts 65,535 (https://docs.github.com/rest/repos/repos#create-a-repository-dispatch-event)."""

_LIMITED, _SERVER_ERRORS = 429, 500
_HINTS: Final = {
    "registry-denied": "The repository must exist, and the token in secrets.github be allowed to write its contents.",
    "registry-limited": "The job is tried again by itself, after a pause.",
    "registry-unreachable": "The job is tried again by itself, after a pause. Behind a proxy, set HTTPS_PROXY; for a "
    "server of your own, GITHUB_API_URL.",
}

_RETRIES: Final = 4
_PATIENCE_SECONDS: Final = 30
"""How long the client waits while GitHub limits the rate; the job itself can wait longer."""


class _Given(Value):
    """The part of a job that its process gets, in ``job.json``; no two claims of a job have the same ``changed``."""

    id: int
    uri: str
    task: Task
    changed: float


def run_job(folder: Path, *, project: Path, token: str, find_places: Callable[[Path], Sequence[ImagePlace]]) -> None:
    """Do the task in ``job.json``, and end the process; a run replaces it.

    Args:
        folder: The job's folder.
        project: The root of the Kedro project.
        token: GitHub's token, for jobs that are handed over.
        find_places: Returns where the project's recipes push the image of a winner.

    Raises:
        HoneError: As raised by the registry, or ``registry-unreachable`` if GitHub does not respond.
        SystemExit: With ``SKIPPED`` if the version is a winner already; with 0 if it was handed over or approved.
    """
    job = _Given.model_validate_json((folder / "job.json").read_bytes())
    if isinstance(job.task, Approve):
        publication = approve_winner(job.uri, project=project, alias=job.task.alias, places=find_places(project))
        note_result(published=publication.uri, message=f"The alias {publication.alias!r} points to it.")
        sys.exit(0)
    info = find_registry(job.uri, project=project).resolve(job.uri)
    if info.is_optimized and not job.task.asked:
        note_result(message=f"{info.uri} is a winner of kedro-hone: no event optimizes it again.")
        sys.exit(SKIPPED)
    if isinstance(job.task, HandOver):
        hand_over(job.uri, job.task, token=token, job=str(job.id))
        note_result(message=f"Handed over to the workflows of {job.task.repository}.")
        sys.exit(0)
    options = folder / "run.yml"
    options.write_text(yaml.safe_dump({"run": list_options(job.uri, job.task)}))
    sys.stdout.flush()
    if not job.task.asked:
        os.environ[UNASKED] = "1"
    os.execv(sys.executable, [sys.executable, "-m", "kedro_hone", "run", "--config", str(options)])  # noqa: S606


def list_options(uri: str, task: Optimize) -> dict[str, Any]:
    """Return the options of ``kedro run``, in the form of its ``--config``: no value passes through a shell."""
    own = task.recipe.get("model")
    recipe = {**task.recipe, "model": {**(own if isinstance(own, dict) else {}), "uri": uri}}
    options: dict[str, Any] = {"params": {"hone": recipe}}
    return options | ({"env": task.env} if task.env else {})


def hand_over(uri: str, task: HandOver, *, token: str, job: str) -> None:
    """Start the workflows of a repository that wait for a ``repository_dispatch``.

    The client retries while GitHub limits the rate, or fails; if the response to an accepted event is lost, GitHub gets
    it twice. The payload has ``model``, ``recipe`` (as JSON), ``env`` and ``job``: GitHub accepts at most ten keys.

    Args:
        uri: The version.
        task: The workflows, and their recipe.
        token: GitHub's token.
        job: The job's number, usable as the name of a ``concurrency`` group.

    Raises:
        HoneError: ``registry-unreachable``, ``registry-limited`` or ``registry-denied``; ``rules-invalid``: the
            recipe is too long.
    """
    payload = {"model": uri, "recipe": json.dumps(task.recipe), "env": task.env or "", "job": job}
    if len(json.dumps(payload)) > _LARGEST_PAYLOAD:
        why = f"It has over {_LARGEST_PAYLOAD} bytes, and GitHub takes no more."
        hint = "Put it into the workflow's own project, and name its `env` in the rule."
        raise HoneError("rules-invalid", "The rule's recipe cannot be handed over to GitHub.", why=why, hint=hint)
    place = os.environ.get("GITHUB_API_URL", "https://api.github.com")
    retry = GithubRetry(total=_RETRIES, max_rate_limit_wait=_PATIENCE_SECONDS)
    client = Github(auth=Auth.Token(token), base_url=place, lazy=True, timeout=20, retry=retry)
    name = task.repository
    event = {"event_type": task.event_type, "client_payload": payload}
    try:  # the repository's own method returns False if GitHub refuses, without its reason
        client.requester.requestJsonAndCheck("POST", f"/repos/{name}/dispatches", input=event)
    except GithubException as error:
        raise _explain(error, name) from error
    except OSError as error:  # of requests, too
        raise _make_error("registry-unreachable", name, f"{type(error).__name__}: {error}") from error


def _explain(error: GithubException, repository: str) -> HoneError:
    limited = isinstance(error, RateLimitExceededException) or error.status == _LIMITED
    denied = not limited and error.status < _SERVER_ERRORS
    slug = "registry-limited" if limited else "registry-denied" if denied else "registry-unreachable"
    return _make_error(slug, repository, f"It responded {error.status}: {error.data}")


def _make_error(slug: str, repository: str, why: str) -> HoneError:
    return HoneError(
        slug,
        f"The event could not be handed over to the workflows of {repository}.",
        why=f"{why[:500]}.",
        hint=_HINTS[slug],
    )
