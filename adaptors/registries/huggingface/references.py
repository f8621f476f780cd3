"""References to the Hub: parse a URI or a target's name, and check which names the Hub accepts."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from huggingface_hub.utils import HFValidationError, validate_repo_id

from hone_runtime.errors import HoneError

MAIN: Final = "main"
_URI: Final = re.compile(r"hf:/+(?P<name>[^/@]+/[^/@]+?)(?:@(?P<revision>[^@]+?))?/?")
COMMIT: Final = re.compile(r"^[0-9a-f]{40}$")
_REF: Final = re.compile(r"(?![./-])(?!.*(\.\.|//|@\{|\.lock(/|$)))[A-Za-z0-9._/+-]+(?<![./])")
"""Names of branches and tags that git accepts, with only the characters allowed in a URI."""
_NO_REVISION: Final = re.compile(r"^-|(^|/)\.?(/|$)|\.\.|[\x00-\x20\x7f-\x9f~^:?*\[\\]")
"""Parts that git accepts in no name: a revision becomes a path in the cache of huggingface_hub."""


class Reference(NamedTuple):
    """A repository, a revision of it, and whether it is the target of a publication."""

    name: str
    revision: str = ""
    writes: bool = False

    @property
    def uri(self) -> str:
        """Its URI, as in a recipe."""
        return f"hf://{self.name}" + (f"@{self.revision}" if self.revision else "")


def read_uri(uri: str) -> Reference:
    """Return the reference of a URI; without a revision it is ``main``.

    Raises:
        HoneError: ``registry-unknown``: it is not an ``hf://`` URI.
    """
    match = _URI.fullmatch(uri)
    problem = find_problem(name=match["name"], alias=None) if match else "It names no owner, or no repository."
    if match and _NO_REVISION.search(match["revision"] or MAIN):
        problem = "Git takes no branch or tag of this name."
    if match is None or problem:
        raise HoneError(
            "registry-unknown",
            f"{uri!r} is not a URI of the Hugging Face Hub.",
            why=problem,
            hint="Write hf://<owner>/<name>@<revision>: a branch, a tag, a commit or refs/pr/<number>.",
        )
    return Reference(match["name"], match["revision"] or MAIN)


def read_target(name: str) -> Reference:
    """Return the repository and the branch to publish to: ``owner/name`` or ``owner/name@branch``."""
    repository, _, branch = name.partition("@")
    return Reference(repository, branch or MAIN, writes=True)


def find_problem(*, name: str | None, alias: str | None) -> str:
    """Return why the Hub refuses a repository's name, with or without a branch, or a tag; empty if it accepts both."""
    if name is not None:
        repository, _, branch = name.partition("@")
        try:
            validate_repo_id(repository)
        except HFValidationError as error:
            return f"hone.publish: {error}"
        if repository.count("/") != 1:
            return f"hone.publish: a repository of the Hub is <owner>/<name>, and this is {repository!r}."
        if branch and (problem := _find_problem_of_ref(branch)):
            return f"hone.publish.uri: {problem}"
    problem = "" if alias is None else _find_problem_of_ref(alias)
    return f"hone.publish.alias: {problem}" if problem else ""


def _find_problem_of_ref(name: str) -> str:
    if COMMIT.fullmatch(name):
        return f"{name!r} is a commit, and a tag or branch must not look like one."
    taken = name == "HEAD" or name.startswith("refs/")
    return "" if _REF.fullmatch(name) and not taken else f"git takes no tag or branch of the name {name!r}."
