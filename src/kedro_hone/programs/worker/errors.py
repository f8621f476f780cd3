"""What the worker of programs raises about data and metrics, to be shown to people."""

from __future__ import annotations


class ReportedError(ValueError):
    """A split cannot be used, or a metric cannot be computed.

    Attributes:
        slug: The error's slug.
        what: What happened; the text says why.
    """

    def __init__(self, slug: str, what: str, why: str) -> None:
        super().__init__(why)
        self.slug, self.what = slug, what
