"""The pipelines: how the nodes are connected, and nothing else."""
