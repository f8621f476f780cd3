"""Write small nets as ONNX whose tensors have layouts of all kinds; run as a script, since torch must not be forked.

``images/`` takes images with three channels first and returns a map of the same layout and a vector, ``last/`` takes
such with the channels last. ``bert/`` takes whole numbers of 64 bits, and returns a vector for each word.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import nn

HEIGHT, WIDTH, LENGTH = 10, 14, 12


class Images(nn.Module):
    """Convolutions with a branch around them, and a part of each of two kinds of normalization and pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6)
        self.second, self.third = nn.Conv2d(6, 6, 3, padding=1, groups=3), nn.Conv2d(6, 4, 1)
        self.head = nn.Linear(4 * (HEIGHT // 2) * (WIDTH // 2), 5)

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.relu(self.norm(self.first(image)))
        x = x + torch.sigmoid(self.second(x)) * x.mean((2, 3), keepdim=True)
        shown = self.third(x)
        return shown, self.head(nn.functional.max_pool2d(shown, 2).flatten(1))


class Last(Images):
    """The same of images with their channels last; the map alone."""

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return super().forward(image.permute(0, 3, 1, 2))[0]


def make_bert() -> nn.Module:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
        vocab_size=50,
        attn_implementation="sdpa",
    )
    return BertModel(config, add_pooling_layer=False)


class Bert(nn.Module):
    """BERT without the objects that it returns."""

    def __init__(self) -> None:
        super().__init__()
        self.bert = make_bert()

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return self.bert(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state


def main(out: Path) -> None:
    torch.manual_seed(0)
    image, rows = torch.rand(2, 3, HEIGHT, WIDTH), {"image": {0: "batch"}}
    write(Images(), (image,), out / "images", dims=rows, outputs=["map", "scores"])
    write(Last(), (image.permute(0, 2, 3, 1).contiguous(),), out / "last", dims=rows, outputs=["map"])
    words = torch.randint(1, 50, (2, LENGTH))
    text = {0: "batch", 1: torch.export.Dim("length", min=2, max=64)}
    dims = {"input_ids": text, "attention_mask": text}
    write(Bert(), (words, torch.ones_like(words)), out / "bert", dims=dims, outputs=["words"])


def write(model: nn.Module, example: tuple[torch.Tensor, ...], out: Path, *, dims: dict, outputs: list[str]) -> None:
    out.mkdir()
    with torch.no_grad():
        for parameter in model.parameters():  # so that no activation is nearly constant
            parameter.mul_(2)
    torch.onnx.export(
        model.eval(),
        example,
        out / "model.onnx",
        dynamic_shapes=dims,
        input_names=[*dims],
        output_names=outputs,
        external_data=False,
        verbose=False,
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
