"""The cache of one ``generate``: a ``Cache`` for transformers' loops, whose keys and values are in a session."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import torch
import transformers

from hone_runtime.sessions.key_values import IDS, MASK, POSITIONS
from hone_runtime.values.artifact import Artifact


def has_cache(artifact: Artifact, session: Any) -> bool:
    """Return whether a winner was compiled with a cache of keys and values, and its runtime can continue with one."""
    return artifact.has_cache and hasattr(session, "start") and not artifact.static_shapes


class SessionCache(transformers.Cache):  # type: ignore[misc]  # transformers has no types
    """Keys and values of sequences that grow together; only the session of ``owner`` can read them.

    Attributes:
        owner: The learner that the cache belongs to.
    """

    is_compileable = False

    def __init__(self, owner: Any, session: Any, limit: int | None) -> None:
        """Start without columns; ``limit`` is the number of positions that the model has."""
        super().__init__(layers=[])
        self.owner, self._limit = owner, limit
        self._kept = session.start()
        self._order: Any = None

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Return the number of cached columns, the same in every layer."""
        del layer_idx
        return int(self._kept.length)

    def reorder_cache(self, beam_idx: Any) -> None:
        """Reorder the rows, as beam search does; this takes effect at the next step."""
        self._order = beam_idx if self._order is None else self._order[beam_idx]

    batch_select_indices = reorder_cache

    def crop(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse to remove columns.

        Raises:
            ValueError: Always.
        """
        raise ValueError("the compiled model's cache cannot be cropped, so there is no assisted decoding")

    def advance(self, ids: Any, mask: Any, positions: Any) -> Any:
        """Return the logits of new columns.

        Args:
            ids: The new columns (rows, columns).
            mask: The mask of all columns; None if all are real tokens.
            positions: The positions of the new columns; None counts them from the first column.

        Raises:
            ValueError: The model has too few positions for this number of columns.
        """
        whole = self.get_seq_length() + ids.shape[1]
        if self._limit is not None and whole > self._limit:
            raise ValueError(f"the model has {self._limit} positions, and the sequence has {whole} tokens")
        mask = torch.ones(len(ids), whole, dtype=torch.int64) if mask is None else mask
        feeds = {IDS: _lower(ids), MASK: _lower(mask)}
        if positions is not None:
            feeds[POSITIONS] = _lower(positions.expand(ids.shape))
        order, self._order = self._order, None
        logits = self._kept.advance(feeds, None if order is None else _lower(order))["logits"]
        return torch.from_numpy(logits)


def _lower(value: Any) -> np.ndarray[Any, Any]:
    array: np.ndarray[Any, Any] = value.to(torch.int64).contiguous().numpy()
    return array
