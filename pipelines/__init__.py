"""The pipelines: only the connections of the nodes."""
