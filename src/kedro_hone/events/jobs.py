"""What the process of a job does: it asks the registry whether the version is a source, and runs, or hands over."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from github import Auth, Github, GithubException, GithubRetry

from kedro_hone.core.contract.aliases import approve
from kedro_hone.core.contract.registry import find_registry
from kedro_hone.core.errors import HoneError
from kedro_hone.core.values.base import Json
from kedro_hone.events.running import SKIPPED
from kedro_hone.report.result_file import note_result

_LARGEST_PAYLOAD: Final = 60_000
"""Bytes: GitHub takes 65,535 (https://docs.github.com/rest/repos/repos#create-a-repository-dispatch-event)."""

_RETRIES: Final = 4
_PATIENCE_SECONDS: Final = 30
"""How long the client waits where GitHub limits the rate; the job itself can wait for longer."""


def run_job(folder: Path, *, project: Path, token: str) -> None:
    """Do what ``job.json`` says, and end the process; a run replaces it.

    Args:
        folder: The job's.
        project: The root of the Kedro project.
        token: GitHub's, for jobs that are handed over.

    Raises:
        HoneError: What the registry raises, or ``registry-unreachable`` where GitHub does not respond.
        SystemExit: With ``SKIPPED`` where the version is a winner already; with 0 where it was handed over.
    """
    job = json.loads((folder / "job.json").read_bytes())
    uri, told = job["uri"], job["told"]
    registry = find_registry(uri, project=project)
    if told.get("approve"):
        publication = approve(registry, uri)
        note_result(published=publication.uri, message=f"The alias {publication.alias!r} points to it.")
        sys.exit(0)
    info = registry.resolve(uri)
    if info.is_optimized and not told.get("asked"):
        note_result(message=f"{info.uri} is a winner of kedro-hone: no event optimizes it again.")
        sys.exit(SKIPPED)
    if dispatch := told.get("dispatch"):
        hand_over(uri, told, dispatch, token=token)
        note_result(message=f"Handed over to the workflows of {dispatch['repository']}.")
        sys.exit(0)
    options = folder / "run.yml"
    options.write_text(yaml.safe_dump({"run": list_options(uri, told)}))
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", "kedro_hone", "run", "--config", str(options)])  # noqa: S606


def list_options(uri: str, told: Mapping[str, Json]) -> dict[str, Any]:
    """Return the options of ``kedro run``, as its ``--config`` takes them: nothing passes through a shell."""
    recipe = dict(told.get("recipe") or {})
    recipe["model"] = {**recipe.get("model", {}), "uri": uri}
    options: dict[str, Any] = {"params": {"hone": recipe}}
    return options | ({"env": told["env"]} if told.get("env") else {})


def hand_over(uri: str, told: Mapping[str, Json], dispatch: Mapping[str, str], *, token: str) -> None:
    """Start the workflows of a repository that wait for a ``repository_dispatch``.

    The client retries while GitHub limits the rate, or fails. The payload has ``model``, ``recipe`` (as JSON) and
    ``env``: GitHub takes ten keys at most.

    Raises:
        HoneError: ``registry-unreachable``, ``registry-limited`` or ``registry-denied``; ``rules-invalid``: the
            recipe is too long.
    """
    payload = {"model": uri, "recipe": json.dumps(told.get("recipe") or {}), "env": told.get("env") or ""}
    if len(json.dumps(payload)) > _LARGEST_PAYLOAD:
        why = f"It has over {_LARGEST_PAYLOAD} bytes, and GitHub takes no more."
        hint = "Put it into the workflow's own project, and name its `env` in the rule."
        raise HoneError("rules-invalid", "The rule's recipe cannot be handed over to GitHub.", why=why, hint=hint)
    place = os.environ.get("GITHUB_API_URL", "https://api.github.com")
    retry = GithubRetry(total=_RETRIES, max_rate_limit_wait=_PATIENCE_SECONDS)
    client = Github(auth=Auth.Token(token), base_url=place, lazy=True, timeout=20, retry=retry)
    try:
        repository = client.get_repo(dispatch["repository"])
        taken = repository.create_repository_dispatch(dispatch["event_type"], payload)
    except GithubException as error:
        raise _explain(error, dispatch["repository"]) from error
    except OSError as error:  # of requests, too
        raise _make_error("registry-unreachable", dispatch["repository"], f"{type(error).__name__}: {error}") from error
    if not taken:
        why = "It takes no event with this token, or there is no such repository"
        raise _make_error("registry-denied", dispatch["repository"], why)


def _explain(error: GithubException, repository: str) -> HoneError:
    limited = error.status in {403, 429}  # what is denied raises nothing
    slug = "registry-limited" if limited else "registry-unreachable"
    return _make_error(slug, repository, f"It responded {error.status}: {error.data}")


def _make_error(slug: str, repository: str, why: str) -> HoneError:
    return HoneError(
        slug,
        f"The event could not be handed over to the workflows of {repository}.",
        why=f"{why[:500]}.",
        hint="The token in secrets.github must be allowed to write contents of the repository.",
    )
