"""A search, by its stages: from the source model to the verdict on its candidates."""
