"""What is written to GitHub: one comment, and one check run."""

from __future__ import annotations

from typing import Final, Literal

from github import Github, GithubException

from kedro_hone.github.context import Context

Conclusion = Literal["success", "neutral", "failure"]
_DENIED: Final = (401, 403, 404)  # the statuses for a token of a job that asks for its user


def write_comment(client: Github, context: Context, *, number: int, body: str, author: str) -> None:
    """Write the step's comment on a pull request, in place of its last one if there is one.

    Args:
        client: The client.
        context: The job.
        number: The pull request's.
        body: What to write, below a hidden line by which the comment is found again.
        author: Whose comments are the step's, if the token may not ask for its user.

    Raises:
        GithubException: GitHub refuses.
    """
    marker, own = f"<!-- kedro-hone:report {context.step} -->", _find_login(client) or author
    issue = client.get_repo(context.repository).get_issue(number)
    # Others could write the marker, too. An author who has left GitHub is None.
    written = (one for one in issue.get_comments() if one.user is not None and one.user.login == own)
    last = next((one for one in written if (one.body or "").startswith(marker)), None)
    write = issue.create_comment if last is None else last.edit
    write(f"{marker}\n{body}")


def write_check(
    client: Github, context: Context, *, name: str, title: str, summary: str, conclusion: Conclusion
) -> None:
    """Write a complete check run of the job's commit, without annotations: the job's own are at the same lines.

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
    # PyGithub's own method reads the answer, and fails if it has no check suite, which GitHub allows.
    client.requester.requestJsonAndCheck("POST", f"/repos/{context.repository}/check-runs", input=check)


def _find_login(client: Github) -> str | None:
    """Return the user of the token; None for a job's own token, which may not ask."""
    try:
        return str(client.get_user().login)
    except GithubException as error:
        if error.status in _DENIED:
            return None
        raise
