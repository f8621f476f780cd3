"""A winner whose source was a sentence-transformers model with all its modules: texts in, embeddings out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import transformers

from hone_runtime.learner.pretrained import PretrainedLearner
from hone_runtime.values.prompts import PROMPTS, find_default_prompt, includes_prompt
from hone_runtime.values.regular import read_regular

EMBEDDING: Final = "sentence_embedding"
_LARGEST: Final = 1 << 20
"""Size limit of a configuration in bytes."""


class SentenceLearner(PretrainedLearner):
    """A winner that computes embeddings; it needs Transformers for tokens, but not sentence-transformers."""

    def encode(
        self,
        sentences: str | Sequence[str],
        *,
        batch_size: int = 32,
        prompt: str | None = None,
        normalize_embeddings: bool = False,
    ) -> np.ndarray[Any, Any]:
        """Return the embedding of each text like ``SentenceTransformer.encode``: an array of float32.

        Args:
            sentences: Texts (rows, numbers), or one text (numbers).
            batch_size: Texts per call; texts of similar length are grouped.
            prompt: Text put before each text; by default the model's own default prompt.
            normalize_embeddings: Whether embeddings are scaled to length 1, if the model itself does not do that.

        Raises:
            OSError: No tokenizer was published with the winner.
            ValueError: There is a prompt, and the source's pooling excludes its tokens.
        """
        texts = [sentences] if isinstance(sentences, str) else list(sentences)
        before = self._prompt if prompt is None else prompt
        if before and not self._takes_prompt():
            why = "which this model was compiled without: how many these are is not an input of it"
            raise ValueError(f"the source's pooling leaves out the tokens of a prompt, {why}; give prompt=''")
        texts = [before + text for text in texts]
        texts = [text.lower() for text in texts] if self._config.get("do_lower_case") else texts
        order = sorted(range(len(texts)), key=lambda row: -len(texts[row]))
        width = int(self.artifact.outputs[0].shape[1])
        found = np.zeros((len(texts), width), np.float32)
        for start in range(0, len(texts), batch_size):
            rows = order[start : start + batch_size]
            found[rows] = self.run(self._tokenize([texts[row] for row in rows]))[EMBEDDING]
        if normalize_embeddings:
            found /= np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-12)
        return found[0] if isinstance(sentences, str) else found

    def _tokenize(self, texts: list[str]) -> dict[str, np.ndarray[Any, Any]]:
        most = self._config.get("max_seq_length")
        limit = self.artifact.metadata["transformers"].get("limits", {}).get("length")
        known = [size for size in (most, limit, self._tokenizer.model_max_length) if isinstance(size, int)]
        names = [spec.name for spec in self.artifact.inputs]
        tokens = self._tokenizer(
            texts,
            padding=True,
            truncation=True,
            max_length=min(known),
            return_tensors="np",
            return_token_type_ids="token_type_ids" in names,
            return_attention_mask=True,
        )
        return {spec.name: tokens[spec.name].astype(spec.dtype) for spec in self.artifact.inputs}

    @cached_property
    def _tokenizer(self) -> Any:
        return transformers.AutoTokenizer.from_pretrained(
            self.name_or_path, local_files_only=True, trust_remote_code=False
        )

    @cached_property
    def _config(self) -> dict[str, Any]:
        return self._read("sentence_bert_config.json")

    @cached_property
    def _prompt(self) -> str:
        return find_default_prompt(self._read(PROMPTS))

    def _takes_prompt(self) -> bool:
        modules = self.artifact.metadata["transformers"]["modules"]
        return all(includes_prompt(row["config"]) for row in modules if row["kind"] == "Pooling")

    def _read(self, name: str) -> dict[str, Any]:
        """Return a file that was published with the winner; empty if absent."""
        try:
            found = json.loads(read_regular(Path(self.name_or_path) / name, limit=_LARGEST))
        except FileNotFoundError:
            return {}
        return found if isinstance(found, dict) else {}
