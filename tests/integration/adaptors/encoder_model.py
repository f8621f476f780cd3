"""Write small transformers with random weights as ONNX; run as a script, since torch warns and must not be forked.

``encoder/model.onnx`` returns one ``sentence`` vector for each row, ``decoder/model.onnx`` the ``logits`` of each next
token.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

WIDTH, HEADS, LAYERS, VOCABULARY, LENGTH = 32, 4, 2, 50, 12


class Layer(nn.Module):
    """Self-attention and a feed-forward part, each with its residual and norm."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.first, self.second = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.norm, self.last = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        rows, length, _ = x.shape

        def split(part: torch.Tensor) -> torch.Tensor:
            return part.reshape(rows, length, HEADS, WIDTH // HEADS).transpose(1, 2)

        parts = (split(layer(x)) for layer in (self.query, self.key, self.value))
        attended = functional.scaled_dot_product_attention(*parts, attn_mask=mask)
        x = self.norm(x + self.out(attended.transpose(1, 2).reshape(rows, length, WIDTH)))
        return self.last(x + self.second(functional.gelu(self.first(x))))


class Encoder(nn.Module):
    """Tokens to one embedding of length 1 for each row, as sentence encoders do."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        x = self.tokens(input_ids) + self.positions(torch.arange(input_ids.shape[1]))
        for layer in self.layers:
            x = layer(x, attention_mask.bool()[:, None, None, :])
        weights = attention_mask[..., None].to(x.dtype)
        return functional.normalize((x * weights).sum(1) / weights.sum(1), dim=1)


class Decoder(Encoder):
    """Tokens to the logits of the next one at each position; each position sees only what is before it."""

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        length = torch.arange(input_ids.shape[1])
        before = (length[None, :] <= length[:, None]) & attention_mask.bool()[:, None, None, :]
        x = self.tokens(input_ids) + self.positions(length)
        for layer in self.layers:
            x = layer(x, before)
        return x @ self.tokens.weight.T


def main(out: Path) -> None:
    write(Encoder, out / "encoder", "sentence")
    write(Decoder, out / "decoder", "logits")


def write(kind: type[Encoder], out: Path, output: str) -> None:
    out.mkdir()
    torch.manual_seed(0)
    tokens = torch.randint(1, VOCABULARY, (2, LENGTH))
    dims = {0: "batch", 1: torch.export.Dim("length", min=2, max=LENGTH)}
    torch.onnx.export(
        kind().eval(),
        (tokens, torch.ones_like(tokens)),
        out / "model.onnx",
        dynamic_shapes={"input_ids": dims, "attention_mask": dims},
        input_names=["input_ids", "attention_mask"],
        output_names=[output],
        external_data=False,
        verbose=False,
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
