"""The values that flow through the pipelines: immutable, and stored as JSON."""
