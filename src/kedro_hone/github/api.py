"""Output to GitHub: one comment, and one check run."""

from __future__ import annotations

from typing import Final, Literal

from github import Github, GithubException

from kedro_hone.github.context import Context

Conclusion = Literal["success", "neutral", "failure"]
_DENIED: Final = (401, 403, 404)  # the statuses if a job's token requests its user


def write_comment(client: Github, context: Context, *, number: int, body: str, author: str) -> None:
    """Write the step's comment on a pull request, replacing its last one if there is one.

    Args:
        client: The client.
        context: The job.
        number: The number of the pull request.
        body: The text, written below a hidden line that identifies the comment.
        author: The author of the step's comments, if the token may not request its user.

    Raises:
        GithubException: GitHub refuses.
    """
    marker, own = f"<!-- kedro-hone:report {context.step} -->", _find_login(client) or author
    issue = client.get_repo(context.repository).get_issue(number)
    # Other users could write the marker, too. An author who has left GitHub is None.
    written = (one for one in issue.get_comments() if one.user is not None and one.user.login == own)
    last = next((one for one in written if (one.body or "").startswith(marker)), None)
    write = issue.create_comment if last is None else last.edit
    write(f"{marker}\n{body}")


def write_check(
    client: Github, context: Context, *, name: str, title: str, summary: str, conclusion: Conclusion
) -> None:
    """Write a complete check run for the job's commit, without annotations: the job has them at the same lines.

    Raises:
        GithubException: GitHub refuses.
    """
    check = {
        "name": name,
        "head_sha": context.commit,
        "details_url": context.run_url,
        "status": "completed",
        "conclusion": conclusion,
        "output": {"title": title[:255], "summary": summary},
    }
    # PyGithub's own method parses the response, and fails without a check suite, which GitHub allows.
    client.requester.requestJsonAndCheck("POST", f"/repos/{context.repository}/check-runs", input=check)


def _find_login(client: Github) -> str | None:
    """Return the user of the token; None for a job's own token, which may not request it."""
    try:
        return str(client.get_user().login)
    except GithubException as error:
        if error.status in _DENIED:
            return None
        raise
