"""What a value was made from: the base of those that nodes hand on."""

from __future__ import annotations

from pydantic import Field

from kedro_hone.core.values.base import Value
from kedro_hone.core.values.digest import digest_json


class Made(Value):
    """A value that a node hands on, which names what it was made from: a node refuses one that does not fit the others.

    See ``kedro_hone.comparing.lineage``, where both is done.
    """

    made_from: dict[str, str] = Field(
        {}, description="Digests of all that it was made from, by name: values of the catalog, and keys of the recipe."
    )

    @property
    def identity(self) -> str:
        """``sha256:…`` by which the values that are made from this one name it."""
        return digest_json(self.model_dump(mode="json"))
