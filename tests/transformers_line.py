"""Projects whose source is a small model of Transformers, from pull to publish; and calls of what they published.

As a program, ``python transformers_line.py FOLDER KIND``, it trains one of them for seconds: ``text``, a BERT of six
narrow layers, which tells Python's own reference (``pydoc_data``) from scikit-learn's descriptions of its data sets;
``seq2seq``, a T5 that writes a text's first word; ``image``, a ViT that tells four of scikit-learn's digits apart.
"""

from __future__ import annotations

import importlib.resources
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tiny_transformers
from small_project import Project, copy_project
from tiny_transformers import WORDS

TOOLCHAINS = ["pytorch", "onnxruntime"]
ON = ("pytorch.export", "pytorch.onnx", "onnxruntime.session")
ROWS = {"calibration": 4, "search": 16, "gate": 40}
TEXTS = ("the cat sat on a mat and slept", "a mat and the cat", "and slept on the mat on the cat")
DROPS = {"accuracy": 0.25, "perplexity": 50.0, "exact_match": 0.25}

QUIET = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "TORCHAO_FORCE_SKIP_LOADING_SO_FILES": "1"}


def read_texts() -> list[dict[str, Any]]:
    """Return pieces of twelve words of two shipped texts, in turns, with the text's number as the label."""
    import pydoc_data.topics

    descriptions = importlib.resources.files("sklearn.datasets") / "descr"
    wholes = (
        " ".join(pydoc_data.topics.topics[name] for name in ("assignment", "class", "import", "try", "with")),
        " ".join(path.read_text() for path in sorted(descriptions.iterdir(), key=str) if path.name.endswith(".rst")),
    )
    pieces = []
    for whole in wholes:
        words = re.findall(r"[a-z]{2,}", whole.lower())
        pieces.append([" ".join(words[place : place + 12]) for place in range(0, len(words) - 12, 12)])
    return [{"text": text, "label": label} for pair in zip(*pieces, strict=False) for label, text in enumerate(pair)]


def read_digits() -> tuple[np.ndarray, np.ndarray]:
    """Return images (rows, 32, 32, 3) of the digits 0 to 3, and their labels."""
    from sklearn.datasets import load_digits

    given = load_digits(n_class=4)
    images = np.kron(given.images * 15, np.ones((1, 4, 4))).astype(np.uint8)
    return np.repeat(images[..., None], 3, axis=3), given.target


def fit(model: Any, steps: int, **feeds: Any) -> None:
    """Train a model on rows that it is given together."""
    import torch

    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(steps):
        optimizer.zero_grad()
        model(**feeds).loss.backward()
        optimizer.step()
    model.eval()


def train(folder: Path, kind: str) -> None:
    """Train a model of a kind on other rows than those of the splits, and save it with its tokenizer or processor."""
    import torch
    import transformers

    torch.manual_seed(1)
    if kind == "text":
        train_text(folder)
        return
    model = tiny_transformers.make(kind)
    if kind == "image":
        images, labels = read_digits()
        processor = transformers.ViTImageProcessor(size={"height": 32, "width": 32})
        known = slice(sum(ROWS.values()), 400)
        fit(
            model,
            100,
            pixel_values=processor(list(images[known]), return_tensors="pt").pixel_values,
            labels=torch.tensor(labels[known]),
        )
    else:
        processor = tiny_transformers.make_tokenizer()
        rows = draw_words(512, seed=1)
        feeds = processor([row["text"] for row in rows], return_tensors="pt", padding=True)
        targets = processor([row["target"] for row in rows], return_tensors="pt").input_ids
        fit(model, 150, input_ids=feeds.input_ids, attention_mask=feeds.attention_mask, labels=targets)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)


def draw_words(count: int, *, seed: int) -> list[dict[str, Any]]:
    """Return texts of a few words, each with its first word as the target."""
    draw = np.random.default_rng(seed)
    made = [draw.choice(WORDS[5:], size=draw.integers(4, 9)) for _ in range(count)]
    return [{"text": " ".join(words), "target": str(words[0])} for words in made]


def train_text(folder: Path) -> None:
    """Train the classifier on all but the last pieces, and save it with its tokenizer."""
    import torch
    import transformers as t
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    rows = read_texts()[: -sum(ROWS.values())]
    tokenizer = Tokenizer(models.WordLevel(unk_token="[UNK]"))  # noqa: S106 - a word
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    special = ["[PAD]", "[UNK]"]
    trainer = trainers.WordLevelTrainer(vocab_size=800, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator((row["text"] for row in rows), trainer)
    fast = t.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=32, pad_token=special[0], unk_token=special[1]
    )
    sizes = {"hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64, "max_position_embeddings": 32}
    names = {"id2label": {0: "python", 1: "data"}, "label2id": {"python": 0, "data": 1}}
    model = t.BertForSequenceClassification(
        t.BertConfig(**sizes, **names, num_hidden_layers=6, vocab_size=len(fast), hidden_dropout_prob=0.0)
    )
    feeds = fast([row["text"] for row in rows], return_tensors="pt", padding=True)
    labels = torch.tensor([row["label"] for row in rows])
    fit(model, 40, **feeds, labels=labels)
    model.save_pretrained(folder)
    fast.save_pretrained(folder)


def train_model(folder: Path, kind: str) -> Path:
    """Train a model of a kind in a process of its own, and return its folder."""
    command = [sys.executable, "-W", "ignore", __file__, str(folder), kind]
    done = subprocess.run(command, env={**os.environ, **QUIET}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def make_rows(kind: str) -> list[dict[str, Any]]:
    """Return rows of text for the three splits, of which no two are equal."""
    total = sum(ROWS.values())
    if kind == "text":
        return read_texts()[-total:]
    rows = draw_words(total, seed=5)
    return rows if kind == "seq2seq" else [{"text": row["text"]} for row in rows]


def write_splits(project: Project, kind: str) -> None:
    """Put the data of a kind in place of the project's."""
    for path in project.splits.glob("*"):
        path.unlink()
    suffix, place = ("npz" if kind == "image" else "jsonl"), 0
    rows = [] if kind == "image" else make_rows(kind)
    images, labels = read_digits()
    for name, count in ROWS.items():
        file = project.splits / f"{name}.{suffix}"
        if kind == "image":
            np.savez(file, images=images[place : place + count], labels=labels[place : place + count])
        else:
            file.write_text("".join(json.dumps(row) + "\n" for row in rows[place : place + count]))
        place += count
    project.track(tag="v2", suffix=suffix)
    catalog = project.root / "conf" / "base" / "catalog.yml"
    catalog.write_text(catalog.read_text().replace("rev: v1}", "rev: v2}").replace(".npz,", f".{suffix},"))


PROGRAMS = {
    "text": ("text-classification", {"length": 12}, "accuracy"),
    "causal": ("causal-language-modeling", {"length": 12}, "perplexity"),
    "seq2seq": ("sequence-to-sequence", {"length": 12, "target_length": 12}, "exact_match"),
    "image": ("image-classification", {}, "accuracy"),
}


def make_project(template: Path, folder: Path, kind: str, uri: str) -> Project:
    """Return a project with one route, from a model of Transformers to a session of ONNX Runtime."""
    from hone_runtime.contract.catalogue import read_catalogue

    project = copy_project(template, folder)
    write_splits(project, kind)
    program, options, metric = PROGRAMS[kind]
    mine = [name for name in read_catalogue().adaptors if name.partition(".")[0] in TOOLCHAINS]
    lengths = {"text": {"length": 12}, "causal": {"length": 12}, "seq2seq": {"length": 12, "decoder_length": 12}}
    project.set(
        model={"uri": uri},
        program={"name": program, "options": options},
        toolchains=TOOLCHAINS,
        adaptors={name: {"enabled": name in ON} for name in mine},
        shapes={"four": {"batch": 4, **lengths.get(kind, {})}},
        gates={"drop": DROPS[metric]},
        # Other tests run at the same time, and what a launch measures costs less than the launch; the fewer looks, the
        # less each of them is corrected for the others.
        confirm={"finalists": 1, "looks": [4, 8, 12], "rounds": 7, "burst_ms": 30.0},
    )
    project.environment |= QUIET
    return project


def read_published(project: Project) -> str:
    """Return the URI of what was published."""
    return json.loads((project.work / "latest" / "publication.json").read_text())["uri"]


CALL = """
import json, sys
import numpy as np, torch, transformers as t
import kedro_hone
uri, folder, kind = sys.argv[1:]
texts = json.loads(sys.stdin.read())
auto = {"text": "AutoModelForSequenceClassification", "causal": "AutoModelForCausalLM",
        "seq2seq": "AutoModelForSeq2SeqLM", "image": "AutoModelForImageClassification"}[kind]
source, model = getattr(t, auto).from_pretrained(folder).eval(), kedro_hone.load(uri)
if kind == "image":
    images = list(np.random.default_rng(1).integers(0, 256, size=(3, 40, 36, 3), dtype=np.uint8))
    feeds = t.AutoImageProcessor.from_pretrained(folder)(images, return_tensors="pt")
else:
    feeds = t.AutoTokenizer.from_pretrained(folder)(texts, return_tensors="pt", padding=True)
    if kind == "seq2seq":
        feeds = {name: feeds[name] for name in ("input_ids", "attention_mask")}
        feeds["decoder_input_ids"] = torch.tensor([[0, 5, 6]] * len(texts))
with torch.inference_mode():
    due, found = source(**feeds), model(**feeds)
    written = None
    if kind in ("causal", "seq2seq"):
        one = {name: feeds[name][:1] for name in ("input_ids", "attention_mask")}
        options = {"do_sample": False, "max_new_tokens": 4, "pad_token_id": 0}
        written = [each.generate(**one, **options).tolist() for each in (source, model)]
error = float((due.logits - found.logits).abs().max() / due.logits.abs().max())
print(json.dumps({"class": [type(due).__name__, type(found).__name__], "error": error, "written": written,
                  "config": [source.config.model_type, model.config.model_type]}))
"""


def call_as_source(project: Project, uri: str, source: Path, kind: str) -> dict[str, Any]:
    """Call a published model as its source is called, next to it, in a process of its own; return what it said."""
    texts = [row["text"] for row in read_texts()[-3:]] if kind == "text" else list(TEXTS)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CALL, uri, str(source), kind],
        input=json.dumps(texts),
        env=project.variables,
        cwd=project.root,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def check_call(said: dict[str, Any]) -> None:
    """Assert that a published model returned what its source did."""
    assert said["class"][0] == said["class"][1]
    assert said["config"][0] == said["config"][1]
    assert said["error"] < 1e-3
    if said["written"]:
        assert said["written"][0] == said["written"][1]


if __name__ == "__main__":
    train(Path(sys.argv[1]), sys.argv[2])
