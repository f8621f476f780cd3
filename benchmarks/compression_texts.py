"""The classifier of texts of ``compression.py``: sentences that are generated, and a BERT that is trained on them.

A sentence has one or two clauses. The mood of a clause is that of its adjective, and a negation turns it round. After
``but`` a clause counts twice, before it once; after ``although`` it is the other way round. The label is the sign of
the sum.
"""

from __future__ import annotations

import importlib
import json
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

LENGTH, LABELS = 16, ("negative", "neutral", "positive")
SPLITS = {"train": 12_000, "calibration": 256, "search": 800, "gate": 3000}
"""The rows of each split. The gate's 3,000 rows can prove a drop of two points if some percent of them change."""
CUT = 4000
"""How many sentences of the training split it has the beginnings of, too."""
WRONG = 0.03
"""The share of labels that are drawn at random."""
EPOCHS, BATCH, RATE = 5, 64, 3e-4


def _list(words: str) -> list[str]:
    return words.split()


SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
NOUNS = _list(
    """film plot actor scene music book story hotel room meal service waiter phone screen battery driver engine seat
    game level lesson teacher museum garden train ticket ending voice camera script"""
)
VERBS = ("was", "is", "seemed", "felt", "looked", "remained")
NEGATIONS = ("not", "never", "hardly")
DEGREES = ("very", "really", "quite", "so", "rather", "truly")
ADJECTIVES = {
    -1: _list(
        """bad dull awful poor boring broken dirty rude weak noisy ugly late stale bland slow clumsy cheap sad tired
        cruel messy vague harsh grim"""
    ),
    0: _list(
        """red green tall local round wooden early small grey plain modern square annual digital narrow long rural
        single common usual urban spoken public brief"""
    ),
    1: _list(
        """good great lovely superb clean kind bright fresh clever funny quick fine warm elegant charming calm brave
        honest splendid smart tasty gentle rich neat"""
    ),
}
JOINS = {"and": (1, 1), "but": (1, 2), "although": (2, 1)}
"""How much each of two clauses counts, by the word between them."""


def draw_sentence(draw: random.Random) -> tuple[str, int]:
    """Return a sentence and its label."""
    text, mood = _draw_clause(draw)
    if draw.random() < 0.8:
        join = draw.choice([*JOINS])
        second, other = _draw_clause(draw)
        text, mood = f"{text} {join} {second}", JOINS[join][0] * mood + JOINS[join][1] * other
    if draw.random() < WRONG:
        mood = draw.choice((-1, 0, 1))
    return text, int(np.sign(mood)) + 1


def _draw_clause(draw: random.Random) -> tuple[str, int]:
    mood = draw.choice((-1, 0, 1))
    negated, stressed = draw.random() < 0.4, draw.random() < 0.4
    words = ["the", draw.choice(NOUNS), draw.choice(VERBS)]
    words += [draw.choice(NEGATIONS)] if negated else []
    words += [draw.choice(DEGREES)] if stressed else []
    return " ".join([*words, draw.choice(ADJECTIVES[mood])]), -mood if negated else mood


def list_words() -> list[str]:
    """Return the vocabulary."""
    adjectives = [word for words in ADJECTIVES.values() for word in words]
    return [*SPECIAL, "the", *JOINS, *NOUNS, *VERBS, *NEGATIONS, *DEGREES, *adjectives]


def draw_splits() -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each split; no sentence is in two."""
    draw, found = random.Random(0), dict[str, int]()  # noqa: S311 - sentences
    while len(found) < sum(SPLITS.values()):
        found.update([draw_sentence(draw)])
    rows = [{"text": text, "label": LABELS[label]} for text, label in found.items()]
    ends = np.cumsum([*SPLITS.values()])
    return {name: rows[end - count : end] for (name, count), end in zip(SPLITS.items(), ends, strict=True)}


def write_splits(folder: Path) -> None:
    """Write ``splits/*.jsonl``; only those that are judged have labels.

    The rows of the training split are followed by beginnings of them: a learner cuts texts, so these must be learned.
    """
    (folder / "splits").mkdir(parents=True, exist_ok=True)
    splits = draw_splits()
    used, draw = {row["text"] for rows in splits.values() for row in rows}, random.Random(1)  # noqa: S311 - as above
    words = [row["text"].split() for row in splits["train"][:CUT]]
    cut = dict.fromkeys(" ".join(each[: draw.randint(1, len(each) - 1)]) for each in words)
    splits["train"] = [*splits["train"], *({"text": text} for text in cut if text not in used)]
    for name, rows in splits.items():
        kept = ("text", "label") if name in {"search", "gate"} else ("text",)
        lines = (json.dumps({key: row[key] for key in kept}) + "\n" for row in rows)
        (folder / "splits" / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")


def encode(rows: list[dict[str, Any]]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the tokens' numbers, the mask and the labels of rows."""
    numbers = {word: number for number, word in enumerate(list_words())}
    ids = torch.zeros(len(rows), LENGTH, dtype=torch.long)
    for place, row in enumerate(rows):
        words = ["[CLS]", *row["text"].split(), "[SEP]"]
        ids[place, : len(words)] = torch.tensor([numbers[word] for word in words])
    return ids, (ids > 0).long(), torch.tensor([LABELS.index(row["label"]) for row in rows])


def train(folder: Path) -> float:
    """Write a trained model and its tokenizer as a folder of Transformers; return the accuracy on the search split."""
    import transformers as t  # noqa: PLC0415 - slow to import

    torch.manual_seed(0)
    named = dict(enumerate(LABELS))
    sizes = {"hidden_size": 128, "num_hidden_layers": 6, "num_attention_heads": 4, "intermediate_size": 512}
    config = t.BertConfig(
        **sizes,
        vocab_size=len(list_words()),
        max_position_embeddings=LENGTH,
        initializer_range=0.05,  # with BERT's own 0.02, and with dropout, such a narrow network learns no negation
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        id2label=named,
        label2id={label: number for number, label in named.items()},
    )
    network, splits = t.BertForSequenceClassification(config), draw_splits()
    ids, mask, labels = encode(splits["train"])
    optimizer = torch.optim.AdamW(network.parameters(), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, RATE, total_steps=EPOCHS * -(-len(ids) // BATCH), pct_start=0.2
    )
    for epoch in range(EPOCHS):
        network.train()
        for rows in torch.randperm(len(ids)).split(BATCH):
            optimizer.zero_grad()
            network(ids[rows], attention_mask=mask[rows], labels=labels[rows]).loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            schedule.step()
        accuracy = _measure(network, splits["search"])
        print(f"text: epoch {epoch + 1}, accuracy {accuracy:.4f} on the search split", flush=True)
    network.eval().save_pretrained(folder)
    _import_tests("text_models").save_tokenizer(folder, list_words())
    return accuracy


def _measure(network: torch.nn.Module, rows: list[dict[str, Any]]) -> float:
    ids, mask, labels = encode(rows)
    with torch.inference_mode():
        found = network.eval()(ids, attention_mask=mask).logits.argmax(1)
    return float((found == labels).double().mean())


def _import_tests(name: str) -> Any:
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    return importlib.import_module(name)
