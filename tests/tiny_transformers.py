"""Small models of Transformers with random weights, saved as their authors save them; run as a program for each kind.

``python tiny_transformers.py FOLDER KIND…`` writes a folder for each kind. A process of its own keeps the tests free of
the library's long import.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "on", "a", "mat", "and", "slept")
VOCABULARY = 100
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}

BERT = ("classifier", "tokens", "answers", "masked", "encoder")
KINDS = (*BERT, "squeeze", "roberta", "distilbert", "causal", "writer", "llama", "wide", "seq2seq", "image", "speech")


def write_models(folder: Path, *kinds: str) -> Path:
    """Write models below a folder, in a process of its own, and return the folder."""
    wanted = [kind for kind in kinds if not (folder / kind / "config.json").exists()]
    if wanted:
        quiet = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "TORCHAO_FORCE_SKIP_LOADING_SO_FILES": "1"}
        command = [sys.executable, "-W", "ignore", __file__, str(folder), *wanted]
        done = subprocess.run(command, env={**os.environ, **quiet}, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder


def main(folder: Path, kinds: list[str]) -> None:
    import torch

    for kind in kinds:
        torch.manual_seed(7)
        model = make(kind)
        with torch.no_grad():
            for name, parameter in model.named_parameters():  # so that what is in the mask is seen in the result
                if kind not in {"writer", "wide"} and "norm" not in name.lower():
                    parameter.mul_(4)
        model.eval().save_pretrained(folder / kind)
        if kind == "image":
            import transformers

            size = {"height": 32, "width": 32}
            transformers.ViTImageProcessor(size=size).save_pretrained(folder / kind)
        elif kind == "speech":
            write_speech(folder / kind)
        else:
            make_tokenizer().save_pretrained(folder / kind)


def make(kind: str):  # noqa: C901, PLR0911 - one for each kind
    import transformers as t

    text = {"vocab_size": VOCABULARY, "max_position_embeddings": 64}
    bert = {"classifier": "SequenceClassification", "tokens": "TokenClassification", "answers": "QuestionAnswering"}
    if kind in bert:
        return getattr(t, f"BertFor{bert[kind]}")(
            t.BertConfig(**SMALL, **text, num_labels=3 if kind != "answers" else 2)
        )
    if kind == "masked":
        return t.BertForMaskedLM(t.BertConfig(**SMALL, **text))
    if kind == "encoder":
        return t.BertModel(t.BertConfig(**SMALL, **text))
    if kind == "squeeze":
        groups = {f"{name}_groups": 1 for name in ("q", "k", "v", "post_attention", "intermediate", "output")}
        return t.SqueezeBertModel(t.SqueezeBertConfig(**SMALL, **text, **groups, embedding_size=32))
    if kind == "roberta":
        config = t.RobertaConfig(**SMALL, vocab_size=VOCABULARY, max_position_embeddings=66, type_vocab_size=1)
        return t.RobertaForSequenceClassification(config)
    if kind == "distilbert":
        sizes = {"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 64}
        return t.DistilBertForSequenceClassification(t.DistilBertConfig(**sizes, **text))
    if kind == "causal":
        return t.GPT2LMHeadModel(t.GPT2Config(vocab_size=VOCABULARY, n_positions=64, n_embd=32, n_layer=2, n_head=2))
    if kind == "writer":  # of a size that is used: 4.8 million parameters
        return t.GPT2LMHeadModel(t.GPT2Config(vocab_size=VOCABULARY, n_positions=64, n_embd=256, n_layer=6, n_head=4))
    if kind == "llama":
        return t.LlamaForCausalLM(t.LlamaConfig(**SMALL, vocab_size=VOCABULARY, num_key_value_heads=1))
    if kind == "wide":  # with several blocks of weights in a row, which have scales of their own
        sizes = {**SMALL, "hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 4}
        return t.LlamaForCausalLM(t.LlamaConfig(**sizes, vocab_size=VOCABULARY, num_key_value_heads=4))
    if kind == "seq2seq":
        sizes = {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 2, "num_heads": 2}
        return t.T5ForConditionalGeneration(t.T5Config(**sizes, vocab_size=VOCABULARY, decoder_start_token_id=0))
    if kind == "image":
        return t.ViTForImageClassification(t.ViTConfig(**SMALL, image_size=32, patch_size=8, num_labels=4))
    convolutions = {"conv_dim": (16, 16), "conv_stride": (5, 4), "conv_kernel": (10, 8)}
    positions = {"num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 2}
    return t.Wav2Vec2ForCTC(t.Wav2Vec2Config(**SMALL, **convolutions, **positions, vocab_size=12))


def make_tokenizer():
    import transformers
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    words = [*WORDS, *(f"w{number}" for number in range(VOCABULARY - len(WORDS)))]
    tokenizer = Tokenizer(models.WordPiece({word: place for place, word in enumerate(words)}, unk_token=WORDS[1]))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    ends = [("[CLS]", 2), ("[SEP]", 3)]
    tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", ends)
    special = {"unk": "[UNK]", "pad": "[PAD]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
    named = {f"{name}_token": word for name, word in special.items()}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=64, **named)


def write_speech(folder: Path) -> None:
    import json

    import transformers

    letters = ["<pad>", "<s>", "</s>", "<unk>", "|", *"abcdefg"]
    (folder / "vocab.json").write_text(json.dumps({letter: place for place, letter in enumerate(letters)}))
    tokenizer = transformers.Wav2Vec2CTCTokenizer(str(folder / "vocab.json"))
    extractor = transformers.Wav2Vec2FeatureExtractor(return_attention_mask=False)
    transformers.Wav2Vec2Processor(feature_extractor=extractor, tokenizer=tokenizer).save_pretrained(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
