"""Speech and its transcript; the text from the most likely letter of each frame (CTC), and the share of wrong words."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ..shared.arrays import Array, Arrays, choose_best, find_array
from ..shared.errors import BadOptionError
from ..shared.pieces import read_text, write_table
from ..shared.pretrained import load_feature_extractor, load_tokenizer, read_config
from ..shared.ratios import SumMetric, measure_share
from ..shared.text import check_task, choose_feeds, find_output, find_texts
from .sound import read_sounds
from .words import count_edits

METRIC = "word_error_rate"
HIGHER_IS_BETTER = False

OPTIONS: dict[str, Any] = {
    "arrays": {},  # "audio", or "target": the name of its column in the data
    "rate": None,  # samples per second of the data; by default the processor's
    "length": None,  # samples of each row, to which rows are padded and cut; by default the longest row of the split
    "case": None,  # "lower" or "upper": how texts are compared; by default unchanged
    "tokenizer": None,  # absolute path of the folder with the tokenizer and the processor, if the model has none
    "output": None,  # the output with the letters of each frame; by default the first one of three dimensions
}

SOUNDS, TEXTS = ("speech", "input_values", "samples", "array"), ("text", "sentence", "transcript", "transcription")


def prepare(data: Arrays, job: dict[str, Any]) -> tuple[Arrays, Arrays]:
    """Turn sounds into the model's input by its processor; ``reference`` is the transcript, ``frames`` how many count.

    Raises:
        UnreadableError: There are no sounds.
        TaskMismatchError: The model does not predict letters.
        TokenizerMissingError: The model has no processor or no tokenizer.
        BadOptionError: The data have another rate than the model, or an option has no such value.
    """
    options = job["program"]["options"]
    if options["case"] not in {None, "lower", "upper"}:
        raise BadOptionError(f"case is {options['case']!r}, and there are lower and upper")
    check_task(job, options, task="speech-recognition", rank=3)
    extractor, config = load_feature_extractor(job, options), read_config(job, options)
    column = find_array(data, "audio", arrays=options["arrays"], aliases=SOUNDS)
    sounds = read_sounds(column, list(data), rate=int(extractor.sampling_rate), given=options["rate"])
    length = _choose_length(sounds, job, options)
    made = extractor(
        [sound[:length] for sound in sounds],
        sampling_rate=extractor.sampling_rate,
        padding="max_length" if length else True,
        **({"max_length": length} if length else {}),
        return_attention_mask=True,
        return_tensors="np",
    )
    arrays = {name: np.asarray(made[name]) for name in made}
    arrays |= {"attention_mask": arrays["attention_mask"].astype(np.int64)} if "attention_mask" in arrays else {}
    feeds = choose_feeds(arrays, job)
    texts = find_texts(data, "target", options, TEXTS)
    if texts is None:
        return feeds, {}
    tokenizer = load_tokenizer(job, options)
    frames = [_count_frames(min(len(sound), length or len(sound)), config) for sound in sounds]
    blank = np.array([tokenizer.pad_token_id if tokenizer.pad_token_id is not None else -1])
    own = {"reference": np.array(texts, dtype=np.str_), "frames": np.array(frames), "table_blank": blank}
    return feeds, {**own, **write_table(tokenizer)}


def _choose_length(sounds: list[Array], job: dict[str, Any], options: dict[str, Any]) -> int | None:
    """Return the number of samples of each row, or None for that of the longest; a warning counts cut rows."""
    shape: list[Any] = next((spec["shape"] for spec in job["input"]["inputs"] if spec["name"] == "input_values"), [])
    fixed = shape[1] if len(shape) == 2 and isinstance(shape[1], int) else None
    length = options["length"] or fixed
    if fixed not in {None, length}:
        raise BadOptionError(f"length is {length}, and the model's input has {fixed} samples")
    if length and (long := sum(len(sound) > length for sound in sounds)):
        warnings.warn(f"{long} of {len(sounds)} rows are longer than {length} samples and were cut", stacklevel=2)
    return length


def _count_frames(samples: int, config: dict[str, Any]) -> int:
    """Return how many frames a model's convolutions make from some samples; any number if it has none."""
    kernels, strides = config.get("conv_kernel"), config.get("conv_stride")
    if not (isinstance(kernels, list) and isinstance(strides, list)):
        return np.iinfo(np.int32).max
    for kernel, stride in zip(kernels, strides, strict=False):
        samples = max(0, (samples - kernel) // stride + 1)
    return samples


def decode(outputs: Arrays, options: dict[str, Any]) -> Array:
    """Return the most likely letter of each frame, as (rows, frames); -1 if the largest score is not finite."""
    scores = find_output(outputs, options["output"], rank=3)
    return choose_best(scores)


def read_transcripts(predictions: Array, targets: Arrays, options: dict[str, Any]) -> list[str]:
    """Return the text of each row: repeated letters are merged, then blanks removed (CTC)."""
    texts, blank = [], int(targets["table_blank"][0])
    for letters, frames in zip(predictions, targets["frames"], strict=True):
        own = letters[:frames]
        first = np.ones(len(own), dtype=bool)
        first[1:] = own[1:] != own[:-1]
        texts.append(_fold(read_text(own[first & (own != blank)], targets), options))
    return texts


def _fold(text: str, options: dict[str, Any]) -> str:
    """Return a text without white space around it, in the case in which texts are compared."""
    plain = text.strip()
    return plain if options["case"] is None else plain.lower() if options["case"] == "lower" else plain.upper()


def tally(predictions: Array, targets: Arrays, options: dict[str, Any]) -> Array:
    """Return for each row how many words are wrong, missing or extra, and how many the transcript has."""
    rows = []
    for given, said in zip(read_transcripts(predictions, targets, options), targets["reference"], strict=True):
        words = _fold(str(said), options).split()
        rows.append((count_edits(given.split(), words), len(words)))
    return np.array(rows, dtype=np.float64)


def total(sums: Array, options: dict[str, Any]) -> float:  # noqa: ARG001 - part of every program
    """Return the share of words that are wrong, missing or extra, from the sums over rows."""
    return measure_share(sums[0], sums[1])


_OWN = SumMetric(tally=tally, total=total)
metric, score = _OWN.metric, _OWN.score


def find_doubt(outputs: Arrays, targets: Arrays, options: dict[str, Any]) -> str | None:
    """Return a doubt if nearly all words are wrong."""
    wrong = metric(decode(outputs, options), targets, options)
    if wrong < 0.9:
        return None
    return f"the word error rate is {wrong:.2f}: check the rate of the sounds, and upper and lower case (option case)"


def _tally_letters(predictions: Array, targets: Arrays, options: dict[str, Any]) -> Array:
    pairs = zip(read_transcripts(predictions, targets, options), targets["reference"], strict=True)
    texts = ((given, _fold(str(said), options)) for given, said in pairs)
    return np.array([(count_edits(list(given), list(said)), len(said)) for given, said in texts], dtype=np.float64)


METRICS = {"character_error_rate": SumMetric(tally=_tally_letters, total=total, HIGHER_IS_BETTER=False)}
"""The same for characters."""
