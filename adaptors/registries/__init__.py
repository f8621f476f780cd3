"""Registries: where versions of models come from and go to; one contract, one folder each."""
