"""The class of a winner whose source was a Transformers model: it has the name and arguments of the source's class.

Imported only for such winners: transformers takes a second or two to import.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from hone_runtime.interfaces.pretrained import find_class
from hone_runtime.learner.generation import GeneratingLearner, is_generating
from hone_runtime.learner.pretrained import PretrainedLearner
from hone_runtime.learner.sentences import SentenceLearner
from hone_runtime.values.artifact import Artifact


def make_pretrained(
    artifact: Artifact, files: Path, *, threads: int | None, skip_padding: bool | None = None
) -> PretrainedLearner:
    """Return a winner as an object of a class with the name of the source's class.

    ``pipeline`` compares the name of a model's class with those that fit its task, and ``generate`` reads the arguments
    of ``forward``: so both are those of the source's class.

    Raises:
        HoneError, ImportError, ValueError: As in ``Learner``.
    """
    source = find_class(str(artifact.metadata["transformers"].get("class")))
    options: dict[str, Any] = {"interface": "transformers", "threads": threads, "skip_padding": skip_padding}
    if source is None:
        return PretrainedLearner(artifact, files, **options)

    def forward(self: PretrainedLearner, *args: Any, **kwargs: Any) -> Any:
        """Return the result of the source's ``forward``."""
        return self(*args, **kwargs)

    forward.__signature__ = inspect.signature(source.forward)  # type: ignore[attr-defined]  # inspect reads it
    members = {
        "forward": forward,
        "__module__": __name__,
        "__doc__": PretrainedLearner.__doc__,
        "main_input_name": source.main_input_name,
        "base_model_prefix": source.base_model_prefix,
        "input_modalities": getattr(source, "input_modalities", ("text",)),
    }
    base: type[PretrainedLearner] = PretrainedLearner
    if artifact.metadata["transformers"].get("modules"):
        base = SentenceLearner
    if is_generating(source, artifact):
        base = GeneratingLearner
        members["prepare_inputs_for_generation"] = source.prepare_inputs_for_generation
    made: type[PretrainedLearner] = type(source.__name__, (base,), members)
    return made(artifact, files, **options)
