"""The configuration, the tokenizer and the processors in the folder of a model of transformers.

They are only read in ``prepare``: workers of toolchains have no transformers. No code in the folder is run, and nothing
is downloaded.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from .errors import BadOptionError, TaskMismatchError, TokenizerMissingError, UnreadableError

Json = dict[str, Any]

_TOKENIZERS = (
    *("tokenizer.json", "vocab.txt", "vocab.json"),
    *("tokenizer.model", "spiece.model", "sentencepiece.bpe.model"),
)
_IMAGES = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP")
_INSTALL = "the program needs transformers, which is not installed: pip install 'kedro-hone[transformers]'"

_HEADS = {
    "ForSequenceClassification": "text-classification",
    "ForTokenClassification": "token-classification",
    "ForQuestionAnswering": "question-answering",
    "ForMaskedLM": "masked-language-modeling",
    "ForCausalLM": "causal-language-modeling",
    "LMHeadModel": "causal-language-modeling",
    "ForConditionalGeneration": "sequence-to-sequence",
    "ForCTC": "speech-recognition",
    "ForImageClassification": "image-classification",
}
"""The suffixes of the classes of transformers, by task."""

_FROM_PAD = frozenset(
    {"roberta", "xlm-roberta", "xlm-roberta-xl", "roberta-prelayernorm", "camembert", "mpnet", "longformer"}
    | {"data2vec-text", "xmod", "ibert", "luke", "mluke", "esm", "layoutlmv3", "markuplm"}
)
"""Types of models with positions counted from one past the number of the padding token."""

_ENDLESS = frozenset({"t5", "mt5", "umt5", "longt5", "switch_transformers", "xlnet", "bloom", "transfo-xl"})
"""Types of models without learned positions: a number of positions in their configuration is not a limit."""


def find_folder(job: Json, options: Json) -> Path:
    """Return the folder with the tokenizer's or the processor's files: the source's, or the option ``tokenizer``.

    Raises:
        BadOptionError: The option is not a folder that the program can access.
    """
    named = options.get("tokenizer")
    folder = Path(named or job["input"]["path"])
    if named and not (folder.is_absolute() and folder.is_dir()):
        raise BadOptionError(f"tokenizer is {named!r}, which is not a folder; write its absolute path")
    return folder


def read_json(folder: Path, name: str, kind: type = dict) -> Any:
    """Return a file with a JSON object, or a list (``kind``), or an empty one if the folder lacks it.

    Raises:
        UnreadableError: It is not JSON.
    """
    try:
        found = json.loads((folder / name).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return kind()
    except (OSError, ValueError, RecursionError) as error:
        raise UnreadableError(f"the model's {name} is not JSON: {error}") from error
    return found if isinstance(found, kind) else kind()


def read_config(job: Json, options: Json) -> Json:
    """Return the model's ``config.json``, from the source or from the folder of its tokenizer; empty if absent."""
    folders = (Path(job["input"]["path"]), find_folder(job, options))
    return next((found for folder in folders if (found := dict(read_json(folder, "config.json")))), {})


def check_head(job: Json, config: Json, task: str) -> None:
    """Refuse a model if its class, from its source or its ``config.json``, is for another task.

    Raises:
        TaskMismatchError: It is.
    """
    known = job["input"].get("metadata", {}).get("transformers", {}).get("class")
    listed = config.get("architectures")
    name = str(known or (listed[0] if isinstance(listed, list) and listed else ""))
    own = next((other for ending, other in _HEADS.items() if name.endswith(ending)), task)
    if own != task:
        raise TaskMismatchError(f"the model is a {name}, which is for {own}; the program is {task}")


def list_labels(config: Json) -> list[str] | None:
    """Return the names of a classifier's classes in the order of its outputs; None if unknown."""
    names = config.get("id2label")
    if not isinstance(names, dict) or not names:
        return None
    try:
        numbers = {int(number): str(name) for number, name in names.items()}
    except ValueError:
        return None
    return [numbers[at] for at in range(len(numbers))] if numbers.keys() == {*range(len(numbers))} else None


def count_positions(config: Json) -> int | None:
    """Return how many tokens the model has positions for, or None if it is unlimited or unknown."""
    kind = config.get("model_type")
    if kind in _ENDLESS:
        return None
    names = ("max_position_embeddings", "n_positions", "n_ctx")
    found = next((config[name] for name in names if config.get(name)), None)
    if not isinstance(found, int) or found <= 0:  # -1 means relative positions
        return None
    return found - int(config.get("pad_token_id") or 0) - 1 if kind in _FROM_PAD else found


def load_tokenizer(job: Json, options: Json, *, own_side: bool = False) -> Any:
    """Return the tokenizer; it truncates and pads at the end, or with ``own_side`` pads at the side set in its files.

    Raises:
        TokenizerMissingError: There is none, it cannot be opened, or transformers is not installed.
    """
    folder = find_folder(job, options)
    # Without these files transformers makes a tokenizer with an empty vocabulary from config.json alone.
    if not any((folder / name).is_file() for name in _TOKENIZERS):
        raise TokenizerMissingError(f"none of {', '.join(_TOKENIZERS)} is among the model's files")
    tokenizer = _load("AutoTokenizer", folder, what="tokenizer")
    if len(tokenizer) == 0:
        raise TokenizerMissingError("the tokenizer has an empty vocabulary")
    tokenizer.truncation_side = "right"
    if not own_side:
        tokenizer.padding_side = "right"
    return tokenizer


def load_image_processor(job: Json, options: Json) -> Any | None:
    """Return the model's image processor, or None if it has none.

    Raises:
        TokenizerMissingError: It cannot be opened, or transformers is not installed.
    """
    folder = find_folder(job, options)
    if not any((folder / name).is_file() for name in ("preprocessor_config.json", "processor_config.json")):
        return None
    return _load("AutoImageProcessor", folder, what="image processor")


def load_feature_extractor(job: Json, options: Json) -> Any:
    """Return the processor of a model of speech.

    Raises:
        TokenizerMissingError: There is none, it cannot be opened, or transformers is not installed.
    """
    folder = find_folder(job, options)
    if not any((folder / name).is_file() for name in ("preprocessor_config.json", "processor_config.json")):
        raise TokenizerMissingError("preprocessor_config.json is not among the model's files")
    return _load("AutoFeatureExtractor", folder, what="processor")


def open_image(content: bytes, row: int) -> Any:
    """Return the pixels of the file of an image, as (height, width, 3) and ``uint8``.

    Raises:
        UnreadableError: It is not an image, or has more pixels than Pillow opens.
    """
    try:
        from PIL import Image  # noqa: PLC0415 - only files of images need it

        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(content), formats=_IMAGES) as image:
                return np.asarray(image.convert("RGB"))
    except ImportError as error:
        raise UnreadableError("files of images need Pillow: pip install pillow") from error
    except Exception as error:
        raise UnreadableError(f"row {row} is not an image that can be opened: {error}") from error


def _load(kind: str, folder: Path, *, what: str) -> Any:
    """Return an object of one of transformers' classes from a folder, without the network and without its code."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
    try:
        made = getattr(importlib.import_module("transformers"), kind)  # not installed in toolchains' workers
        return made.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)
    except ImportError as error:
        missing = getattr(error, "name", None) or ""
        raise TokenizerMissingError(_INSTALL if missing == "transformers" else f"{what}: {error}") from error
    except Exception as error:
        said = " ".join(str(error).split())
        raise TokenizerMissingError(f"the {what} cannot be opened: {type(error).__name__}: {said:.300}") from error
