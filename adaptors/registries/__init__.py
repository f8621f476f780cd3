"""Registries: versions of models are pulled from and published to them; one contract, one folder each."""
