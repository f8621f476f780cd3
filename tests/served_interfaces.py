"""Interfaces of winners, for the tests of generated clients; a helper of tests, not a test."""

from __future__ import annotations

from pathlib import Path

from hone_runtime.learner.download import Download
from hone_runtime.values.artifact import Artifact, TensorSpec
from kedro_hone.serving.winner import ServedWinner, describe_winner

NASTY = (
    'x"""\nplanted()\n"""',
    "'''\nplanted()",
    "*/ planted() /*",
    "\\",
    "a\u2028planted()",
    "| `planted()` |",
    "{planted}",
    "x\nplanted = 1;",
)

_Side = tuple[TensorSpec, ...]


def _spec(name: str, dtype: str = "float32", *shape: int | str) -> TensorSpec:
    return TensorSpec(name=name, dtype=dtype, shape=shape)


INTERFACES: dict[str, tuple[_Side, _Side]] = {
    "two inputs": (
        (_spec("input_ids", "int64", "batch", "length"), _spec("attention_mask", "int64", "batch", "length")),
        (_spec("logits", "float32", "batch", 2),),
    ),
    "text": ((_spec("text", "str", "batch"),), (_spec("label", "<U7", "batch"),)),
    "keywords": ((_spec("class", "float32", "batch"), _spec("self", "float32", "batch")), (_spec("np"), _spec("def"))),
    "collisions": ((_spec("a:0"), _spec("a_0"), _spec("A.0"), _spec("0")), (_spec("x"), _spec("X"), _spec("x_shape"))),
    "static": ((_spec("x", "uint8", 1, 3, 8, 8),), (_spec("boxes", "float16", 1, 4),)),
    "scalars": ((_spec("t", "float64"), _spec("on", "bool")), (_spec("y", "bfloat16"),)),
    "nasty": (tuple(_spec(name, "float32", name, 3) for name in NASTY), (_spec(NASTY[0], "int8", *range(90)),)),
    "many": (tuple(_spec(f"an_input_with_a_long_name_{n}", "int32", "batch") for n in range(30)), (_spec("y"),)),
}


def make_winner(inputs: _Side, outputs: _Side, *, name: str, metadata: dict[str, object] | None = None) -> ServedWinner:
    artifact = Artifact(
        format="onnx", digest="sha256:0", inputs=inputs, outputs=outputs, runtime="onnxruntime", metadata=metadata or {}
    )
    folder = Path("/nowhere")
    download = Download(folder=folder, files=folder, artifact=artifact, version=None, name=None, vouched=False)
    return describe_winner(download, "/nowhere/secret-path", name=name)
