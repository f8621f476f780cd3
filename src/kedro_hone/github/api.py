"""What is written to GitHub: one comment, and one check run."""

from __future__ import annotations

from typing import Final, Literal

from github import Auth, Github, GithubException
from github.IssueComment import IssueComment

from kedro_hone.github.context import Context

Conclusion = Literal["success", "neutral", "failure"]
_DENIED: Final = (401, 403, 404)  # the statuses for a token of a job that asks for its user


def open_client(context: Context, *, token: str) -> Github:
    """Return a client of GitHub's API, without a request."""
    # The toolkit's own client gives PyGithub the token in a way that is deprecated.
    return Github(auth=Auth.Token(token), base_url=context.api, lazy=True)


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
    ours = (one for one in issue.get_comments() if (one.body or "").startswith(marker) and _is_own(one, own))
    last = next(ours, None)
    text = f"{marker}\n{body}"
    if last is None:
        issue.create_comment(text)
    else:
        last.edit(text)


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


def _is_own(comment: IssueComment, login: str) -> bool:
    """Return whether the step wrote a comment: others could write the marker, too."""
    return comment.user is not None and comment.user.login == login  # None: the author has left GitHub
