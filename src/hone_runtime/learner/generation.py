"""``generate`` for winners whose source was a language model: transformers' own loops around the winner's call.

If the compiled model has a cache of keys and values, each step runs the new tokens only; else the whole sequence.
The loops, the logits processors and the random numbers are transformers' own. So the tokens equal the source's
wherever the logits do.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers
from transformers.modeling_outputs import BaseModelOutput

from hone_runtime.interfaces.pretrained import REFUSED, find_output_class, make_binding
from hone_runtime.learner.generation_cache import SessionCache, has_cache
from hone_runtime.learner.pretrained import PretrainedLearner
from hone_runtime.sessions.key_values import IDS, MASK, POSITIONS
from hone_runtime.values.artifact import Artifact


def is_generating(source: Any, artifact: Artifact) -> bool:
    """Return whether a class has transformers' general ``generate``, and the winner computes all that it requires."""
    general = getattr(source, "generate", None) is transformers.GenerationMixin.generate
    takes = {spec.name for spec in artifact.inputs}
    gives = {spec.name for spec in artifact.outputs}
    config = artifact.metadata["transformers"].get("config") or {}
    needs = {IDS, "decoder_input_ids"} if config.get("is_encoder_decoder") else {IDS}
    return general and source.can_generate() and needs <= takes and "logits" in gives


class _Postponed(BaseModelOutput):  # type: ignore[misc]  # transformers has no types
    """The encoder's inputs in place of its outputs: the winner runs the encoder at each step."""


class GeneratingLearner(PretrainedLearner, transformers.GenerationMixin):  # type: ignore[misc]  # as above
    """A winner with ``generate``."""

    _is_stateful = False

    def __init__(self, artifact: Artifact, files: Path, **options: Any) -> None:
        """Open a sealed artifact as ``PretrainedLearner`` does."""
        super().__init__(artifact, files, **options)
        if self.generation_config is None:
            self.generation_config = transformers.GenerationConfig.from_model_config(self.config)
        self._takes = {spec.name for spec in artifact.inputs}
        self._bind = make_binding(artifact)
        self._by_default = self.config.return_dict is not False
        self._has_cache = has_cache(artifact, self._session)
        self._output_class = find_output_class(artifact.metadata["transformers"])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the result of the source's ``forward`` without a cache."""
        if args:
            kwargs = self._bind(args, kwargs)
        return_dict, keep = kwargs.pop("return_dict", None), kwargs.pop("logits_to_keep", None)
        cache = kwargs.get("past_key_values")
        if isinstance(cache, SessionCache) and cache.owner is self:  # only generate makes one
            logits = cache.advance(kwargs[IDS], kwargs.get(MASK), kwargs.get(POSITIONS))
            return self._output_class(logits=_select_columns(logits, keep), past_key_values=cache)
        if isinstance(postponed := kwargs.get("encoder_outputs"), _Postponed):
            kwargs.pop("encoder_outputs")
            kwargs[IDS] = postponed.last_hidden_state
        back = None
        if POSITIONS not in self._takes and (positions := kwargs.pop(POSITIONS, None)) is not None:
            back = _align(kwargs, positions)
        output = self._call(return_dict=True, **kwargs)
        if back is not None:
            _move_back(output, back)
        output["logits"] = _select_columns(output["logits"], keep)
        return output if (self._by_default if return_dict is None else return_dict) else output.to_tuple()

    def can_generate(self) -> bool:
        """Return True: the winner has ``generate``."""
        return True

    def _prepare_generation_config(self, *args: Any, **kwargs: Any) -> Any:
        config, rest = super()._prepare_generation_config(*args, **kwargs)
        config.use_cache, config.cache_implementation = self._has_cache and config.use_cache is not False, None
        return config, rest

    def _prepare_cache_for_generation(
        self, generation_config: Any, model_kwargs: dict[str, Any], *_: Any, **__: Any
    ) -> None:
        if model_kwargs.get("past_key_values") is not None:
            raise ValueError(f"past_key_values is not supported: {REFUSED['past_key_values']}")
        if generation_config.use_cache:
            limit = (self.artifact.metadata["transformers"].get("limits") or {}).get("length")
            model_kwargs["past_key_values"] = SessionCache(self, self._session, limit)

    def _prepare_text_encoder_decoder_kwargs_for_generation(
        self, inputs_tensor: Any, model_kwargs: dict[str, Any], **_: Any
    ) -> dict[str, Any]:
        return model_kwargs | {"encoder_outputs": _Postponed(last_hidden_state=inputs_tensor)}

    def get_experts_implementation(self) -> dict[str, str]:
        """Return an empty dictionary: the implementation of experts is fixed by the compilation."""
        return {}

    @staticmethod
    def is_remote_code() -> bool:
        """Return False: no code of the model's author is run."""
        return False


def _select_columns(logits: Any, keep: Any) -> Any:
    """Return the logits of the last columns, or of those that a tensor lists; all for 0 and None."""
    if keep is None or (isinstance(keep, int) and keep == 0):
        return logits
    return logits[:, slice(-keep, None) if isinstance(keep, int) else keep]


def _align(kwargs: dict[str, Any], positions: Any) -> Any:
    """Shift each row of the inputs to start at its first token, if positions count from there.

    The model counts positions from the first column. Padding on the left, as in ``generate``, is moved to the right,
    where no token of a causal model attends to it.

    Returns:
        For each row and column of the inputs, the column with its result; None if nothing was moved.

    Raises:
        ValueError: The positions do not match the tokens.
    """
    ids = kwargs[IDS]
    mask = kwargs.get(MASK)
    mask = torch.ones_like(ids) if mask is None else mask
    columns = torch.arange(ids.shape[1])
    real = mask.bool()
    positions = positions.expand(ids.shape)
    if bool((positions == columns)[real].all()):
        return None
    first = real.int().argmax(1, keepdim=True)
    if not bool((positions == columns - first)[real].all()) or not bool((real == (columns >= first)).all()):
        raise ValueError(f"{POSITIONS} is not supported: {REFUSED[POSITIONS]}")
    forth = (columns + first) % ids.shape[1]
    kwargs[IDS], kwargs[MASK] = ids.gather(1, forth), mask.gather(1, forth)
    return (columns - first) % ids.shape[1]


def _move_back(output: Any, back: Any) -> None:
    """Move the logits back to the columns of their tokens."""
    logits = output["logits"]
    output["logits"] = logits.gather(1, back[..., None].expand(logits.shape))
