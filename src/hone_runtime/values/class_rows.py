"""How the rows of one class changed between right and wrong."""

from __future__ import annotations

from pydantic import Field

from hone_runtime.values.base import Value


class ClassRows(Value):
    """The rows of one class, by what the source and a candidate predict for them."""

    name: str = Field(description="The class.")
    n: int = Field(description="The number of its rows.")
    right: int = Field(description="Rows that the source predicts right.")
    lost: int = Field(description="Rows that only the source predicts right.")
    gained: int = Field(description="Rows that only the candidate predicts right.")
