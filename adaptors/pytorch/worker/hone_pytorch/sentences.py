"""Sentence encoders: the modules of sentence-transformers after the encoder, without that library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from hone_runtime.worker.refusal import UnsuitedError

Json = dict[str, Any]

EMBEDDING = "sentence_embedding"
_TINY = 1e-9


class SentenceEncoder(nn.Module):  # type: ignore[misc]  # torch has no types here
    """An encoder of Transformers with the modules that follow it: tokens in, one vector for each row out.

    Attributes:
        encoder: The encoder, opened by its own class.
        config: The encoder's configuration.
    """

    def __init__(self, encoder: nn.Module, modules: Sequence[nn.Module]) -> None:
        super().__init__()
        self.encoder, self.steps, self.config = encoder, nn.ModuleList(modules), encoder.config

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, token_type_ids: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Return the embeddings of rows."""
        types = {} if token_type_ids is None else {"token_type_ids": token_type_ids}  # not every class accepts them
        tokens = self.encoder(input_ids=input_ids, attention_mask=attention_mask, **types)[0]
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        found = tokens
        for step in self.steps:
            found = step(found, mask)
        return {EMBEDDING: found}

    def set_attn_implementation(self, name: str) -> None:
        """Set the encoder's attention, like its own method."""
        self.encoder.set_attn_implementation(name)


def find_encoder(model: nn.Module) -> nn.Module:
    """Return the Transformers model itself, whose class defines the inputs."""
    return model.encoder if isinstance(model, SentenceEncoder) else model


class Pooling(nn.Module):  # type: ignore[misc]  # as above
    """Pool the vectors of tokens into one vector: by one mode, or by several modes that are concatenated."""

    def __init__(self, modes: Sequence[str]) -> None:
        super().__init__()
        if unknown := [mode for mode in modes if mode not in _POOLS]:
            raise UnsuitedError(f"pools by {unknown[0]!r:.60}, and {', '.join(_POOLS)} are known")
        self.modes = tuple(modes)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Return a vector for each row of tokens' vectors."""
        return torch.cat([_POOLS[mode](tokens, mask) for mode in self.modes], dim=-1)


def _pool_first(tokens: Tensor, mask: Tensor) -> Tensor:
    places = mask.to(torch.int32).argmax(dim=1)
    return _pick(tokens, places)


def _pool_last(tokens: Tensor, mask: Tensor) -> Tensor:
    positions = torch.arange(tokens.shape[1], dtype=torch.int64)
    return _pick(tokens, (mask.to(torch.int64) * (positions + 1)).argmax(dim=1))


def _pick(tokens: Tensor, places: Tensor) -> Tensor:
    wanted = places.to(torch.int64)[:, None, None].expand(-1, 1, tokens.shape[2])
    return torch.gather(tokens, 1, wanted).squeeze(1)


def _pool_largest(tokens: Tensor, mask: Tensor) -> Tensor:
    return tokens.masked_fill(mask[:, :, None] == 0, float("-inf")).amax(dim=1)


def _pool_mean(tokens: Tensor, mask: Tensor, power: float = 1.0) -> Tensor:
    weights = mask[:, :, None].to(tokens.dtype)
    return (tokens * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=_TINY) ** power


def _pool_weighted(tokens: Tensor, mask: Tensor) -> Tensor:
    order = mask.to(tokens.dtype).cumsum(dim=1) * mask  # counted from the first token, wherever the padding is
    weights = order[:, :, None].to(tokens.dtype)
    return (tokens * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=_TINY)


_POOLS = {
    "cls": _pool_first,
    "max": _pool_largest,
    "mean": _pool_mean,
    "mean_sqrt_len_tokens": lambda tokens, mask: _pool_mean(tokens, mask, 0.5),
    "weightedmean": _pool_weighted,
    "lasttoken": _pool_last,
}


class Dense(nn.Module):  # type: ignore[misc]  # as above
    """A linear layer with its activation, and with a residual connection if configured."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        sizes = int(config["in_features"]), int(config["out_features"])
        self.linear = nn.Linear(*sizes, bias=bool(config.get("bias", True)))
        self.activation = _make_activation(config.get("activation_function", "torch.nn.modules.activation.Tanh"))
        self.around = bool(config.get("use_residual"))
        if self.around and sizes[0] != sizes[1]:
            self.residual = nn.Linear(*sizes, bias=False)

    def forward(self, found: Tensor, mask: Tensor) -> Tensor:  # noqa: ARG002 - as of a pooling
        """Return the transformed vectors."""
        made: Tensor = self.activation(self.linear(found))
        if self.around:
            made = made + (self.residual(found) if hasattr(self, "residual") else found)
        return made


class LayerNorm(nn.Module):  # type: ignore[misc]  # as above
    """Layer normalization of the embedding."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(int(config["dimension"]))

    def forward(self, found: Tensor, mask: Tensor) -> Tensor:  # noqa: ARG002 - as of a pooling
        """Return vectors normalized to the learned mean and spread."""
        made: Tensor = self.norm(found)
        return made


class Normalize(nn.Module):  # type: ignore[misc]  # as above
    """Embeddings of length 1."""

    def forward(self, found: Tensor, mask: Tensor) -> Tensor:  # noqa: ARG002 - as of a pooling
        """Return vectors of length 1."""
        return nn.functional.normalize(found, p=2.0, dim=-1)


def _make_activation(name: object) -> nn.Module:
    last = str(name).rpartition(".")[2]
    made = getattr(nn, last, None) if str(name).startswith("torch.nn.") and last.isidentifier() else None
    if not (isinstance(made, type) and made.__module__ in {"torch.nn.modules.activation", "torch.nn.modules.linear"}):
        raise UnsuitedError(f"has the activation {name!r:.80}, which is none of torch's")
    try:
        return made()
    except TypeError as error:
        raise UnsuitedError(f"has the activation {name!r:.80}, which takes arguments") from error


def wrap(encoder: nn.Module, folder: Path, listed: Sequence[Json]) -> SentenceEncoder:
    """Return an encoder with its modules, as listed by the host: each with its kind, its path and its configuration.

    Raises:
        UnsuitedError: A module cannot be made, or its weights do not fit its configuration.
    """
    made = []
    for row in listed:
        try:
            made.append(_make(row, folder / row["path"]))
        except (UnsuitedError, KeyError, ValueError, TypeError, OSError, RuntimeError) as error:
            problem = f"has no {error}" if isinstance(error, KeyError) else " ".join(str(error).split())
            raise UnsuitedError(f"its module {row['kind']} ({row['path']}) {problem:.300}") from error
    model = SentenceEncoder(encoder, made)
    model.eval()
    return model


def _make(row: Json, folder: Path) -> nn.Module:
    kind, config = row["kind"], row["config"]
    if kind == "Pooling":
        return Pooling(row["modes"])
    if kind == "Normalize":
        return Normalize()
    module: nn.Module = Dense(config) if kind == "Dense" else LayerNorm(config)
    from safetensors.torch import load_file

    module.load_state_dict(load_file(folder / "model.safetensors"))
    return module.float()
