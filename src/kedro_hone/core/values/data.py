"""Values that describe the user's data."""

from __future__ import annotations

from kedro_hone.core.values.base import Value


class TrackedFile(Value):
    """A file or directory that DVC tracks, at a pinned git revision, as a verified copy on this machine.

    Attributes:
        path: The copy, absolute and read-only.
        source: Its path in its repository.
        repo: The repository as the catalog names it: a folder or the URL of a git repository.
        rev: The revision as the catalog names it.
        resolved_rev: The commit that the revision names.
        md5: What DVC recorded of the content; it ends in ``.dir`` for a directory.
    """

    path: str
    source: str
    repo: str
    rev: str
    resolved_rev: str
    md5: str
