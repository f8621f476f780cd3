"""The exception by which a worker's functions refuse a model.

Standard library only, Python 3.8 and later.
"""

from __future__ import annotations


class UnsuitedError(Exception):
    """A model is refused.

    Attributes:
        slug: The slug of the error for people; empty if it has none of its own.
    """

    def __init__(self, why: str, slug: str = "") -> None:
        """``why`` is the reason, a clause without the model's name."""
        super().__init__(why)
        self.slug = slug
