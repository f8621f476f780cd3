"""The pipelines of this project, and kedro-hone's."""

from kedro.framework.project import find_pipelines


def register_pipelines():
    """Return the project's own pipelines by name."""
    pipelines = find_pipelines(raise_errors=True)
    pipelines["__default__"] = sum(pipelines.values())
    return pipelines
