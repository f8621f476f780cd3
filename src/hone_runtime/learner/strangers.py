"""Checks of an untrusted artifact by its files alone, before a worker is imported."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, Final

from hone_runtime.errors import HoneError
from hone_runtime.values.base import Format
from hone_runtime.values.manifest import MANIFEST, measure_files
from hone_runtime.values.regular import open_regular, read_regular

_LARGEST: Final = 16 << 20
"""Size limit of a configuration in bytes."""
_PROGRAMS: Final = (".py", ".pyc", ".pyo", ".pyd", ".pyw", ".pth", ".so", ".dll", ".dylib", ".sh", ".ipynb")
_PICKLES: Final = (".pkl", ".pickle", ".pt", ".ckpt", ".joblib", ".dill", ".cloudpickle")
_PICKLE: Final = re.compile(
    rb"\x80[\x04\x05]\x95|\x80[\x02\x03][\x8ac(\]}]|\x93NUMPY.{4,40}?\|O|PK\x03\x04.{26,400}?\.pkl", re.DOTALL
)
"""The first bytes of a pickle: bare, as in NumPy's object arrays, or inside the archive of ``torch.save``."""

_PRETRAINED: Final = re.compile(
    r"(config|generation_config|tokenizer(_config)?|special_tokens_map|added_tokens|modules|normalizer"
    r"|sentence_bert_config|config_sentence_transformers|(video_)?preprocessor_config|processor_config)\.json"
    r"|vocab\.(json|txt|bpe)|merges\.txt|\w[\w.-]*\.(model|spm|tiktoken)|chat_template[\w.-]*\.(json|jinja)"
    r"|model\.safetensors|\d+_\w+/(config\.json|model\.safetensors)"
)
"""The files of a sealed Transformers model: texts, and weights in safetensors."""
_CODE_KEYS: Final = re.compile(
    r"auto_map|custom_\w+|quantization_config|compression_config|trust_remote_code|use_kernels|kernel_config"
    r"|\w*_implementation\w*|adapter_\w+|peft_\w+|use_pretrained_backbone|checkpoint_path|pretrained_cfg\w*"
)
"""Keys of a configuration by which Transformers imports, downloads or selects code. A run seals only the first, if it
is trusted, and those of quantized weights."""
_ELSEWHERE: Final = re.compile(r"(hf[-_]hub|local[-_]dir|https?|file|s3|gs):.*", re.DOTALL)
"""A text that makes timm, which Transformers calls, load a model from elsewhere."""
_ARGUMENTS: Final = ("model_args", "backbone_kwargs")
"""Keys of a configuration whose values Transformers passes to ``timm.create_model``, which passes them to hundreds of
classes. So only numbers are accepted there, and words that select a layer."""
_LOADING: Final = re.compile(r"pretrain|checkpoint|cache|cfg|config|path|file|url|hub|dir$|source|load|name")
_CHOICE: Final = re.compile(r"(\w+_)?(pool|layer|type|init|embed|mode|features|cls|fmt)")
_WORD: Final = re.compile(r"\w{,64}")
_ESTIMATORS: Final = frozenset({"skops", "xgboost", "lightgbm"})
"""The formats in which an estimator is data; all others are pickles."""
_XGBOOST: Final = re.compile(r"xgboost\.(core\.Booster|sklearn\.XGB\w+)")

_REMOTE: Final = "remote-code-not-trusted"
_UNPICKLED: Final = "pickle-not-trusted"


def refuse_strange_files(form: Format, folder: Path) -> None:
    """Refuse the files of an untrusted model if its runtime might execute any of them.

    Args:
        form: The model's format, which its toolchain declares as data.
        folder: The files, already compared with their manifest.

    Raises:
        HoneError: ``remote-code-not-trusted``, ``pickle-not-trusted``; or ``model-corrupt``: a file cannot be read, or
            does not belong to a model of this format.
    """
    try:
        names = [name for name in measure_files(folder) if name != MANIFEST]
        faults = chain(_find_programs(folder, names), _FORMATS.get(form, _find_nothing)(folder, names))
        fault = next(faults, None)
    except (OSError, ValueError, RecursionError) as error:
        raise _explain("model-corrupt", f"A file of it cannot be read: {error!s:.300}.") from error
    if fault is not None:
        raise _explain(*fault)


Faults = Iterator[tuple[str, str]]
"""Slugs, each with a sentence."""


def _find_programs(folder: Path, names: list[str]) -> Faults:
    for name in names:
        if name.lower().endswith(_PROGRAMS):
            yield _REMOTE, f"{name:.200} is its author's code."
        if name.lower().endswith(_PICKLES) or _is_pickle(folder / name):
            yield _UNPICKLED, f"{name:.200} is a pickle: reading one runs whatever is in it."


def _find_nothing(folder: Path, names: list[str]) -> Faults:  # noqa: ARG001 - as the others
    yield from ()


def _find_pretrained(folder: Path, names: list[str]) -> Faults:
    for name in names:
        if not _PRETRAINED.fullmatch(name):
            slug = _UNPICKLED if name.endswith((".bin", ".bin.index.json")) else "model-corrupt"
            yield slug, f"{name:.200} is not a file of a model of Transformers whose weights are in safetensors."
        elif name.endswith(".json") and (key := _find_key(_read_json(folder / name))):
            yield _REMOTE, f"Its {name:.200} has the key {key:.80}, by which code of others could be run."


def _find_estimator(folder: Path, names: list[str]) -> Faults:  # noqa: ARG001 - as the others
    document = _read_json(folder / "estimator.json")
    document = document if isinstance(document, dict) else {}
    way = document.get("serialization")
    if way not in _ESTIMATORS:
        yield _UNPICKLED, f"The estimator was written as {way!r:.80}: reading it may run whatever is in it."
    if way == "xgboost" and not _XGBOOST.fullmatch(str(document.get("class"))):
        yield "model-corrupt", f"{document.get('class')!r:.80} is not a model of XGBoost."


_FORMATS: Final[Mapping[Format, Callable[[Path, list[str]], Faults]]] = {
    "transformers": _find_pretrained,
    "sklearn": _find_estimator,
}


def _read_json(path: Path) -> Any:
    return json.loads(read_regular(path, limit=_LARGEST))


def _is_pickle(path: Path) -> bool:
    with open_regular(path) as stream:
        return _PICKLE.match(stream.read(512)) is not None


def _find_key(value: Any) -> str:
    """Return the first key, at any depth, by which code may be run; empty if absent."""
    if isinstance(value, dict):
        own = (key for key, item in value.items() if _is_code(key, item))
        return next(own, "") or next(filter(None, map(_find_key, value.values())), "")
    return next(filter(None, map(_find_key, value)), "") if isinstance(value, list) else ""


def _is_plain(value: Any, key: str = "") -> bool:
    """Return whether an argument of ``timm.create_model`` is a number, selects a layer, or consists of such values."""
    if isinstance(value, dict):
        named = ((one, item) for one, item in value.items() if item is not None)
        return all(_LOADING.search(one) is None and _is_plain(item, one) for one, item in named)
    if isinstance(value, list):
        return all(_is_plain(item, key) for item in value)
    return not isinstance(value, str) or bool(_CHOICE.fullmatch(key) and _WORD.fullmatch(value))


def _is_code(key: str, value: Any) -> bool:
    if key in _ARGUMENTS:
        return not _is_plain(value)
    named = key in {"architecture", "backbone"} and isinstance(value, str)
    if named and (_ELSEWHERE.fullmatch(value) or "/" in value):
        return True
    return _CODE_KEYS.fullmatch(key) is not None and value not in (None, {}, [], False)


def _explain(slug: str, why: str) -> HoneError:
    return HoneError(
        slug,
        "The model has files that may run code, and it is not trusted; none of it was opened.",
        why=why,
        hint="Ask who publishes it for a version that is data, such as one in safetensors, or optimize the source "
        "yourself, in a recipe with `trust`.",
    )
