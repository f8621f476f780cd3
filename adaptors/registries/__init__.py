"""Registries: where versions of models come from and go to; one contract, one module each."""
