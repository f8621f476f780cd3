"""What is written to GitHub: one comment, and a check run."""

from __future__ import annotations

from typing import Any, Final, Literal

from github import Auth, Github, GithubException
from github.IssueComment import IssueComment
from github.Repository import Repository

from kedro_hone.github.annotations import Annotation
from kedro_hone.github.context import Context

NAME: Final = "kedro-hone"
"""Of the check run."""

Conclusion = Literal["success", "neutral", "failure"]
_DENIED: Final = (401, 403, 404)  # what a token of a job that is not a person's gets where it asks who it is


class Talk:
    """What one job says on GitHub.

    Attributes:
        last: The body of the comment that the last run left; None where there is none.
    """

    def __init__(self, context: Context, *, token: str, marker: str, author: str) -> None:
        """Find the comment of the last run.

        Args:
            context: The job.
            token: What may read and write comments and checks.
            marker: What the body of the comment begins with.
            author: Who wrote it, where the token may not ask whose it is.

        Raises:
            GithubException: GitHub refuses.
        """
        self._context = context
        # The toolkit's own client gives PyGithub the token in a way that is deprecated.
        client = Github(auth=Auth.Token(token), base_url=context.api, lazy=True)
        self._repository: Repository = client.get_repo(context.repository)
        self._comment: IssueComment | None = None
        if context.pull_request is not None:
            own = _find_login(client) or author
            comments = self._repository.get_issue(context.pull_request).get_comments()
            ours = (one for one in comments if (one.body or "").startswith(marker) and _is_own(one, own))
            self._comment = next(ours, None)
        self.last = None if self._comment is None else self._comment.body

    def write_comment(self, body: str) -> None:
        """Write the body into the comment of the last run, or into a first one.

        Raises:
            GithubException: GitHub refuses.
        """
        if self._comment is not None:
            self._comment.edit(body)
        elif self._context.pull_request is not None:
            self._comment = self._repository.get_issue(self._context.pull_request).create_comment(body)

    def write_check(self, *, title: str, summary: str, conclusion: Conclusion, annotations: list[Annotation]) -> None:
        """Write a check run that is complete.

        Raises:
            GithubException: GitHub refuses.
        """
        remarks = [
            {
                "path": one.path,
                "start_line": one.line,
                "end_line": one.line,
                "annotation_level": one.level,
                "title": one.title[:255],
                "message": one.message,
            }
            for one in annotations
        ]
        output: dict[str, Any] = {"title": title[:255], "summary": summary, "annotations": remarks}
        self._repository.create_check_run(
            NAME,
            self._context.commit,
            details_url=self._context.run_url,
            status="completed",
            conclusion=conclusion,
            output=output,
        )


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
