"""The values that flow through the pipelines: immutable, and JSON on the disk."""
