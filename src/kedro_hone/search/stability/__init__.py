"""Whether the source model is a function of each row: its own trials, alone and in other batches."""
