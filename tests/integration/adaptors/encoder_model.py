"""Write small transformers with random weights as ONNX; run as a script, since torch warns and must not be forked.

``encoder/model.onnx`` returns one ``sentence`` vector for each row, ``decoder/model.onnx`` the ``logits`` of each next
token. ``eager/model.onnx`` is the encoder with its attention step by step, exported through TorchScript, as scripts
that fuse attention expect it.
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
        attended = self.attend(*parts, mask)
        x = self.norm(x + self.out(attended.transpose(1, 2).reshape(rows, length, WIDTH)))
        return self.last(x + self.second(functional.gelu(self.first(x))))

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)


class EagerLayer(Layer):
    """The same, step by step."""

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        hidden = (1.0 - mask.to(q.dtype)) * -10000.0
        scores = q @ k.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5 + hidden
        return scores.softmax(-1) @ v


class Encoder(nn.Module):
    """Tokens to one embedding of length 1 for each row, as sentence encoders do."""

    layer = Layer

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.layers = nn.ModuleList(self.layer() for _ in range(LAYERS))

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        x = self.tokens(input_ids) + self.positions(torch.arange(input_ids.shape[1]))
        for layer in self.layers:
            x = layer(x, attention_mask.bool()[:, None, None, :])
        weights = attention_mask[..., None].to(x.dtype)
        return functional.normalize((x * weights).sum(1) / weights.sum(1), dim=1)


class EagerEncoder(Encoder):
    """The encoder whose layers attend step by step, after a norm, as BERT's do."""

    layer = EagerLayer

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.tokens(input_ids) + self.positions(torch.arange(input_ids.shape[1])))
        for layer in self.layers:
            x = layer(x, attention_mask[:, None, None, :])
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
    write_traced(EagerEncoder, out / "eager", "sentence")


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


def write_traced(kind: type[Encoder], out: Path, output: str) -> None:
    out.mkdir()
    torch.manual_seed(0)
    tokens = torch.randint(1, VOCABULARY, (2, LENGTH))
    names = ["input_ids", "attention_mask"]
    torch.onnx.export(
        kind().eval(),
        (tokens, torch.ones_like(tokens)),
        out / "model.onnx",
        dynamo=False,
        dynamic_axes={**{name: {0: "batch", 1: "length"} for name in names}, output: {0: "batch"}},
        input_names=names,
        output_names=[output],
        opset_version=17,
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
