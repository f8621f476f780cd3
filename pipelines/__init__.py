"""The pipelines: how the nodes hang together, and nothing else."""
