"""The functions behind the nodes of the pipelines: plain functions from values to values."""
