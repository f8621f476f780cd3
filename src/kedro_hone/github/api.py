"""What is written to GitHub: one comment, and a check run."""

from __future__ import annotations

from typing import Final, Literal

from github import Auth, Github, GithubException
from github.IssueComment import IssueComment
from github.Repository import Repository

from kedro_hone.github.context import Context

Conclusion = Literal["success", "neutral", "failure"]
_DENIED: Final = (401, 403, 404)  # what a token of a job that is not a person's gets where it asks who it is


class Talk:
    """What one job says on GitHub. To make one asks GitHub nothing."""

    def __init__(self, context: Context, *, token: str) -> None:
        """Keep what requests need.

        Args:
            context: The job.
            token: What may read and write comments, or write checks, or both.
        """
        self._context = context
        # The toolkit's own client gives PyGithub the token in a way that is deprecated.
        self._client = Github(auth=Auth.Token(token), base_url=context.api, lazy=True)
        self._repository: Repository = self._client.get_repo(context.repository)
        self._comment: IssueComment | None = None

    def find_comment(self, *, marker: str, author: str) -> str | None:
        """Find the comment of the last run, which ``write_comment`` then updates, and return its body.

        Args:
            marker: What its body begins with.
            author: Who wrote it, where the token may not ask whose it is.

        Returns:
            None where there is no comment, or no pull request.

        Raises:
            GithubException: GitHub refuses.
        """
        if self._context.pull_request is None:
            return None
        own = _find_login(self._client) or author
        comments = self._repository.get_issue(self._context.pull_request).get_comments()
        ours = (one for one in comments if (one.body or "").startswith(marker) and _is_own(one, own))
        self._comment = next(ours, None)
        return None if self._comment is None else self._comment.body

    def write_comment(self, body: str) -> None:
        """Write the body into the comment that was found, or into a first one.

        Raises:
            GithubException: GitHub refuses.
        """
        if self._comment is not None:
            self._comment.edit(body)
        elif self._context.pull_request is not None:
            self._comment = self._repository.get_issue(self._context.pull_request).create_comment(body)

    def write_check(self, *, name: str, title: str, summary: str, conclusion: Conclusion) -> None:
        """Write a check run that is complete.

        It has no annotations: the job's own are shown at the same lines.

        Raises:
            GithubException: GitHub refuses.
        """
        check = {
            "name": name,
            "head_sha": self._context.commit,
            "details_url": self._context.run_url,
            "status": "completed",
            "conclusion": conclusion,
            "output": {"title": title[:255], "summary": summary},
        }
        # PyGithub's own method reads the answer, and fails where it has no check suite, which GitHub allows.
        self._client.requester.requestJsonAndCheck("POST", f"/repos/{self._context.repository}/check-runs", input=check)


def _find_login(client: Github) -> str | None:
    """Return whose token it is; None for a job's own token, which may not ask."""
    try:
        return str(client.get_user().login)
    except GithubException as error:
        if error.status in _DENIED:
            return None
        raise


def _is_own(comment: IssueComment, login: str) -> bool:
    """Whether we wrote a comment: others could write the marker too, and figures that were never measured."""
    return comment.user is not None and comment.user.login == login  # None: who wrote it has left GitHub
