"""Open a sealed artifact as a learner of the class for its interface."""

from __future__ import annotations

from pathlib import Path

from hone_runtime.learner.model import Interface, Learner
from hone_runtime.values.artifact import Artifact


def open_learner(
    artifact: Artifact,
    files: Path,
    *,
    interface: Interface | None = None,
    threads: int | None = None,
    skip_padding: bool | None = None,
) -> Learner:
    """Return a sealed artifact as an object of the class for its interface; otherwise like ``Learner``."""
    called = interface or artifact.metadata.get("interface")
    if called == "sklearn" and isinstance(artifact.metadata.get("sklearn"), dict):
        from hone_runtime.learner.estimators import make_estimator  # noqa: PLC0415 - others do without it

        return make_estimator(artifact, files, threads=threads)
    if called == "keras" and "keras" in artifact.metadata:
        from hone_runtime.learner.keras import KerasLearner  # noqa: PLC0415 - others do without it

        return KerasLearner(artifact, files, threads=threads)
    if called != "transformers" or "transformers" not in artifact.metadata:
        return Learner(artifact, files, interface=interface, threads=threads, skip_padding=skip_padding)
    from hone_runtime.learner.classes import make_pretrained  # noqa: PLC0415 - it imports transformers

    return make_pretrained(artifact, files, threads=threads, skip_padding=skip_padding)
