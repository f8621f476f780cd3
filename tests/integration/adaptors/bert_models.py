"""Write a small BERT with random weights as ONNX in three ways that importers fail on; run as a script.

``raw/model.onnx`` is TorchScript's export, whose shapes are computed by operators. ``dynamo/model.onnx`` is that of the
newer exporter, in opset 20 and IR 10 with its weights in a file of their own. ``domains/model.onnx`` is the first one
with the nine opset domains that ONNX Runtime's tools write. All take ``ids`` and ``mask`` (batch, 16).
"""

from __future__ import annotations

import sys
from pathlib import Path

import onnx
import torch
from transformers import BertConfig, BertForSequenceClassification

LENGTH = 16
DOMAINS = (
    *("ai.onnx.ml", "ai.onnx.training", "ai.onnx.preview.training", "com.microsoft", "com.microsoft.experimental"),
    *("com.microsoft.nchwc", "org.pytorch.aten", "com.ms.internal.nhwc"),
)


class Classifier(torch.nn.Module):
    """Token ids and their mask to logits."""

    def __init__(self) -> None:
        super().__init__()
        sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
        config = BertConfig(**sizes, vocab_size=100, num_labels=4, max_position_embeddings=64)
        config._attn_implementation = "eager"  # there is no other way to choose it
        self.bert = BertForSequenceClassification(config)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.bert(input_ids=ids, attention_mask=mask).logits


def main(folder: Path) -> None:
    torch.manual_seed(0)
    model, ids = Classifier().eval(), torch.randint(1, 100, (2, LENGTH))
    feeds, names = (ids, torch.ones_like(ids)), {"input_names": ["ids", "mask"], "output_names": ["logits"]}
    for name in ("raw", "dynamo", "domains"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    free = {name: {0: "batch"} for name in ("ids", "mask", "logits")}
    path = str(folder / "raw" / "model.onnx")
    torch.onnx.export(model, feeds, path, dynamo=False, opset_version=17, dynamic_axes=free, **names)
    batch = torch.export.Dim("batch")
    path = str(folder / "dynamo" / "model.onnx")
    torch.onnx.export(model, feeds, path, dynamo=True, opset_version=20, dynamic_shapes=({0: batch},) * 2, **names)
    raw = onnx.load(folder / "raw" / "model.onnx")
    raw.opset_import.extend(onnx.helper.make_opsetid(domain, 1) for domain in DOMAINS)
    onnx.save(raw, folder / "domains" / "model.onnx")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
