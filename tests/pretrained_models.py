"""Tiny Transformers models for the learner's tests, exported to ONNX and sealed as a winner is."""

from __future__ import annotations

import json
from pathlib import Path

import torch

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghij", "hello", "world", "good", "bad", "it", "is"]
SIZES = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 37,
    "max_position_embeddings": 64,
    "attn_implementation": "eager",
}
TEXT = {"input_ids": ("batch", "length"), "attention_mask": ("batch", "length"), "token_type_ids": ("batch", "length")}
OPTIONAL = {"attention_mask": 1, "token_type_ids": 0}


def make_tokenizer(**kwargs):
    """Return a tokenizer of words in the vocabulary."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    numbers = {word: number for number, word in enumerate(VOCABULARY)}
    tokenizer = Tokenizer(models.WordLevel(numbers, unk_token=VOCABULARY[1]))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    special = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    names = ["input_ids", "token_type_ids", "attention_mask"]
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_input_names=names, **special, **kwargs)


def make_bert(head: str, **kwargs):
    """Return a tiny BERT with random weights and a head, such as ``BertForMaskedLM``, as it is run."""
    import transformers

    torch.manual_seed(0)
    config = transformers.BertConfig(**SIZES, **kwargs)
    return getattr(transformers, head)(config).eval()


def make_vit():
    """Return a tiny classifier of images with its example and shapes."""
    import transformers

    torch.manual_seed(0)
    sizes = {
        key: SIZES[key] for key in ("hidden_size", "num_hidden_layers", "num_attention_heads", "attn_implementation")
    }
    config = transformers.ViTConfig(image_size=16, patch_size=8, intermediate_size=37, num_labels=5, **sizes)
    examples = {"pixel_values": torch.rand(2, 3, 16, 16)}
    return (
        transformers.ViTForImageClassification(config).eval(),
        examples,
        {"pixel_values": ("batch", 3, 16, 16)},
    )


def make_ctc():
    """Return a tiny recognizer of speech with its example and shapes."""
    import transformers

    torch.manual_seed(0)
    config = transformers.Wav2Vec2Config(
        vocab_size=9,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=37,
        conv_dim=(16, 16),
        conv_stride=(5, 4),
        conv_kernel=(10, 4),
        num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=2,
        num_feat_extract_layers=2,
        attn_implementation="eager",
        apply_spec_augment=False,
    )
    examples = {"input_values": torch.randn(2, 811)}
    return transformers.Wav2Vec2ForCTC(config).eval(), examples, {"input_values": ("batch", "samples")}


def make_gpt(**kwargs):
    """Return a tiny language model with its example and shapes; its weights are large, so that tokens differ."""
    import transformers

    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=len(VOCABULARY),
        n_positions=64,
        n_embd=32,
        n_layer=2,
        n_head=2,
        initializer_range=0.5,
        attn_implementation="eager",
        bos_token_id=2,
        eos_token_id=3,
        pad_token_id=0,
        **kwargs,
    )
    ids = make_text()["input_ids"]
    examples = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    return transformers.GPT2LMHeadModel(config).eval(), examples, {name: TEXT[name] for name in examples}


def make_distilbert():
    """Return a tiny encoder without token types, whose class ignores those of a tokenizer, with example and shapes."""
    import transformers

    torch.manual_seed(0)
    config = transformers.DistilBertConfig(
        vocab_size=len(VOCABULARY), dim=32, hidden_dim=37, n_layers=2, n_heads=2, attn_implementation="eager"
    )
    text = make_text()
    examples = {name: text[name] for name in ("input_ids", "attention_mask")}
    return (
        transformers.DistilBertForSequenceClassification(config).eval(),
        examples,
        {name: TEXT[name] for name in examples},
    )


def make_t5():
    """Return a tiny sequence-to-sequence model with its example and shapes."""
    import transformers

    torch.manual_seed(0)
    config = transformers.T5Config(
        vocab_size=len(VOCABULARY),
        d_model=32,
        d_kv=16,
        d_ff=37,
        num_layers=2,
        num_heads=2,
        decoder_start_token_id=0,
        eos_token_id=3,
        initializer_factor=3.0,
        attn_implementation="eager",
    )
    text = make_text()
    examples = {
        "input_ids": text["input_ids"],
        "attention_mask": text["attention_mask"],
        "decoder_input_ids": text["input_ids"][:, :4],
    }
    shapes = {
        "decoder_input_ids": ("batch", "target"),
        **{name: TEXT[name] for name in ("input_ids", "attention_mask")},
    }
    return transformers.T5ForConditionalGeneration(config).eval(), examples, shapes


def seal(folder: Path, model, examples: dict, *, shapes: dict, task: str, optional=None, static=()):
    """Export a model to ONNX into a folder, with the metadata of its source; return its artifact and the folder.

    Args:
        folder: A new folder.
        model: A Transformers model.
        examples: Inputs, by name.
        shapes: Names or sizes of the inputs' dimensions, by name.
        task: The pipeline's task.
        optional: Inputs that may be left out, and what fills them.
        static: Sizes that the artifact is specialized for: those of the examples; any sizes when empty.
    """
    from hone_runtime.learner.manifest import write_manifest
    from hone_runtime.values.artifact import Artifact, Shape, TensorSpec
    from hone_runtime.values.manifest import Manifest

    folder.mkdir(parents=True)
    with torch.no_grad():
        found = model(**examples, **({"use_cache": False} if model.can_generate() else {}))
    results = {key: value for key, value in found.items() if isinstance(value, torch.Tensor)}

    class Plain(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, *args):
            kwargs = dict(zip(examples, args, strict=True))
            if model.can_generate():
                kwargs["use_cache"] = False
            return tuple(self.model(**kwargs)[key] for key in results)

    axes = {
        name: {axis: dim for axis, dim in enumerate(shape) if isinstance(dim, str)} for name, shape in shapes.items()
    }
    sizes = {dim: size for name, shape in shapes.items() for dim, size in zip(shape, examples[name].shape, strict=True)}
    named = {size: dim for dim, size in sizes.items() if isinstance(dim, str)}
    outputs = [
        TensorSpec(
            name=key,
            dtype=str(value.dtype).removeprefix("torch."),
            shape=tuple(named.get(size, size) for size in value.shape),
        )
        for key, value in results.items()
    ]
    for spec in outputs:
        axes[spec.name] = {axis: dim for axis, dim in enumerate(spec.shape) if isinstance(dim, str)}
    torch.onnx.export(
        Plain().eval(),
        tuple(examples.values()),
        folder / "model.onnx",
        input_names=list(examples),
        output_names=list(results),
        dynamic_axes={} if static else axes,
        dynamo=False,
    )
    kind = type(model).__name__
    about = {
        "task": task,
        "auto_class": f"AutoModelFor{kind.partition('For')[2]}" if "For" in kind else "AutoModel",
        "class": kind,
        "output_class": type(found).__name__,
        "config": json.loads(model.config.to_json_string(use_diff=False)),
        "optional": OPTIONAL if optional is None else optional,
    }
    if kind.startswith("Bert"):
        about["limits"] = {"length": model.config.max_position_embeddings}
    if model.can_generate():
        about["generation"] = json.loads(model.generation_config.to_json_string())
    artifact = Artifact(
        format="onnx",
        digest="",
        inputs=tuple(
            TensorSpec(name=name, dtype=str(value.dtype).removeprefix("torch."), shape=shapes[name])
            for name, value in examples.items()
        ),
        outputs=tuple(outputs),
        runtime="onnxruntime",
        static_shapes=tuple(Shape(name=f"shape{number}", sizes=one) for number, one in enumerate(static)),
        metadata={
            "interface": "transformers",
            "structure": {"kind": "dict", "items": [[key, key] for key in results]},
            "transformers": about,
            "threads": 1,
        },
    )
    artifact = artifact.model_copy(update={"digest": Manifest.measure(folder, artifact.manifest()).digest})
    write_manifest(folder, artifact)
    return artifact, folder


def make_text(batch=3, length=7):
    """Return ids, mask and types of sentences; all sizes differ from those of the model."""
    torch.manual_seed(1)
    ids = torch.randint(5, len(VOCABULARY), (batch, length))
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "token_type_ids": torch.zeros_like(ids)}
