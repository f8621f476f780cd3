"""The difference of an output that no metric reads from the source's."""

from __future__ import annotations

from pydantic import Field

from hone_runtime.values.base import Value


class Unscored(Value):
    """One output, on the rows of the search split; for the batch size or shape with the most differing rows."""

    output: str = Field(description="Its name.")
    largest: float = Field(description="Largest difference over the source's largest value; 0 for text.")
    rows: int = Field(description="How many rows differ by more than rounding.")
    of: int = Field(description="How many rows there are.")

    def describe(self) -> str:
        """Return this difference as a sentence."""
        if not self.rows:
            return f"Output {self.output}, which no metric scores: as the source's in all {self.of:,} rows."
        share = f"{self.rows:,} of {self.of:,} rows ({self.rows / self.of:.2%})"
        return (
            f"Output {self.output}, which no metric scores: other numbers than the source's in {share}, "
            f"the largest difference {self.largest:.3g} of its largest value."
        )
