"""The slices of the gate split: its rows divided by the values of one column, and the limit in each of them."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from hone_runtime.values.base import Value


class SliceLimit(Value):
    """The recipe's key ``gates.slices``."""

    model_config = ConfigDict(allow_inf_nan=False)

    by: str = Field(
        min_length=1,
        max_length=255,
        description="The column or array of the data whose values divide the rows; `label` for the program's labels.",
    )
    drop: float = Field(gt=0, description="The drop's upper end must stay under this in each slice.")


class SliceRows(Value):
    """The size of one slice."""

    name: str = Field(description="The value of the column that divides the rows.")
    n: int = Field(ge=1, description="The number of its rows.")


class Slices(Value):
    """The division of the gate split's rows by one column."""

    by: str = Field(description="The column or array of the data, or `label`.")
    digest: str = Field(description="The key of the tree in the store.")
    sizes: tuple[SliceRows, ...] = Field(description="The slices, in the order of their numbers.")

    @property
    def codes(self) -> str:
        """Name of the ``.npz`` in that tree with the number of each row's slice, as ``codes`` (int64)."""
        return "codes.npz"
