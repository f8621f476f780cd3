"""Write the source and the data of one model into its project, in a process of its own; for ``costs.py``."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import torch
from costs import LENGTH, NETWORKS, ONNX, SPLITS, track
from networks import NETWORKS as MAKERS

WORDS = 1000
_LABELS = {
    "mlp": "MLP",
    "resnet": "ResNet",
    "lstm": "LSTM",
    "encoder": "TransformerEncoder",
    "gpt": "GPT",
    "vit": "ViT",
}


def write(name: str, project: Path) -> None:
    """Write ``models/source`` and the splits."""
    torch.manual_seed(0)
    source = project / "models" / "source"
    source.mkdir(parents=True)
    count = sum(SPLITS.values())
    if name in NETWORKS or name in ONNX:
        make, draw = MAKERS[_LABELS[ONNX.get(name, name)]]
        network, rows = make().eval(), draw(count)
        _write_network(network, rows, source, onnx=name in ONNX)
        shutil.copyfile(Path(__file__).with_name("networks.py"), project / "networks.py")
        track(project, {"x": rows.numpy()})
        return
    track(project, _write_pretrained(name, source, count))


def _write_network(network: torch.nn.Module, rows: torch.Tensor, source: Path, *, onnx: bool) -> None:
    dynamic = ({0: torch.export.Dim("batch")},)
    if onnx:
        names = {"input_names": ["x"], "output_names": ["y"]}
        torch.onnx.export(
            network,
            (rows[:2],),
            f=source / "model.onnx",
            dynamo=True,
            dynamic_shapes=dynamic,
            external_data=False,
            **names,
        )
    else:
        torch.export.save(torch.export.export(network, (rows[:2],), dynamic_shapes=dynamic), source / "model.pt2")


def _write_pretrained(name: str, source: Path, count: int) -> dict[str, np.ndarray]:
    import transformers as t  # noqa: PLC0415 - slow to import

    ids = np.random.default_rng(0).integers(1, WORDS, size=(count, LENGTH))
    feeds = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
    if name == "bert":
        sizes = {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 1024}
        model = t.BertForSequenceClassification(t.BertConfig(**sizes, vocab_size=WORDS, num_labels=4))
        feeds["token_type_ids"] = np.zeros_like(ids)
    elif name == "gpt2":
        model = t.GPT2LMHeadModel(t.GPT2Config(vocab_size=WORDS, n_positions=64, n_embd=256, n_layer=4, n_head=4))
    else:
        sizes = {"hidden_size": 192, "num_hidden_layers": 4, "num_attention_heads": 3, "intermediate_size": 768}
        model = t.ViTForImageClassification(t.ViTConfig(**sizes, image_size=64, patch_size=16, num_labels=10))
        feeds = {"pixel_values": np.random.default_rng(0).random((count, 3, 64, 64), np.float32)}
    model.eval().save_pretrained(source)
    return feeds


if __name__ == "__main__":
    write(sys.argv[1], Path(sys.argv[2]))
