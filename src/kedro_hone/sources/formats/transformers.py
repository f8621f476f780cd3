"""Transformers: a model in the layout of the Hugging Face Hub, bare or as MLflow's flavors for it and for sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from hone_runtime.errors import HoneError
from hone_runtime.text import open_logger
from hone_runtime.values.base import Json
from kedro_hone.sources.files import find_entry, find_relative_name, make_corrupt, write_files
from kedro_hone.sources.huggingface import documents, sentences, tasks, tokenizers, weights
from kedro_hone.sources.huggingface.adapters import refuse_adapter
from kedro_hone.sources.huggingface.quantized import refuse_quantized
from kedro_hone.sources.source_format import Flavor, Pulled, SourceFormat

logger = open_logger(__name__)

CONFIG: Final = "config.json"
WEIGHTS: Final = "model.safetensors"
_TEXTS: Final = re.compile(
    rf"{tokenizers.FILES.pattern}|generation_config\.json|modules\.json|sentence_bert_config\.json"
    r"|config_sentence_transformers\.json"
)
_PARTS: Final = re.compile(r"\d+_\w+/(config\.json|model\.safetensors)")
"""Files of the modules after the model in a repository of sentence-transformers."""
_PICKLE: Final = "pytorch_model.bin"
_SHARDS: Final = re.compile(r"pytorch_model-\d+-of-\d+\.bin|pytorch_model\.bin\.index\.json")
"""Weights in several pickles with their index; not those of a variant, such as ``pytorch_model.fp16.bin``."""
_COMPONENT: Final = re.compile(r"components/(tokenizer|processor|image_processor|feature_extractor)/([\w.-]+)")
_UNTRUSTED: Final = "Loading a pickle runs whatever code its author put in, and hone.trust does not allow it."


def detect(pulled: Pulled) -> Flavor | None:
    """Recognise ``config.json`` of Transformers, or the folder in MLflow's flavor for such models.

    It becomes a folder in the Hub's layout with the files that are needed: the configuration, the weights in one file,
    and those of the tokenizer or processor.

    Raises:
        HoneError: ``model-corrupt``, ``model-unsupported``, ``pickle-not-trusted``, ``remote-code-not-trusted``, or
            ``recipe-invalid`` for an unknown task.
    """
    refuse_adapter(pulled)
    _refuse_reference(pulled)
    entry = find_entry(pulled, "transformers", "model_binary") or _find_sentences(pulled)
    if pulled.mlmodel is not None and entry is None:
        return None
    root = entry or pulled.folder
    config = _read_config(root, named=entry is not None)
    names = {path.name for path in root.iterdir() if path.is_file()}
    heavy = _find_weights(root, names) if config else []
    left = not heavy and entry is None and any(name.endswith((".onnx", ".pt2", ".h5", ".keras")) for name in names)
    if not config or left:  # of another format, with the configuration next to it
        return None
    _check_code(config, pulled)
    refuse_quantized(root, config, heavy)
    _check_weights(heavy, pulled)
    found = dict(_find_files(pulled.folder, root))
    modules = sentences.list_modules(root)
    purpose = _find_purpose(config, pulled) if not modules else tasks.ENCODER
    if purpose.kind == "text" and not any(map(tokenizers.VOCABULARY.fullmatch, found.values())):
        logger.warning("warning   the model has no tokenizer: a program that is given text cannot prepare it")
    safe = [name for name in heavy if name.endswith(".safetensors")]
    stripped = {CONFIG: documents.strip(config, dtype=_find_dtype(root, safe))}
    stripped |= _strip_documents(pulled.folder, found)
    plain = [(path, name) for path, name in found.items() if name not in stripped]
    stripped = documents.unify_layouts(stripped)
    of_weights = [(find_relative_name(pulled.folder, root / name), WEIGHTS if safe else name) for name in heavy]
    described = {**_describe(config, purpose, stripped), **({"modules": [*modules]} if modules else {})}
    return Flavor(
        format="transformers",
        files=(*sorted(of_weights), *sorted(plain)),
        texts=tuple((name, documents.write(document)) for name, document in sorted(stripped.items())),
        metadata={"transformers": described},
    )


def _strip_documents(folder: Path, found: Mapping[str, str]) -> dict[str, dict[str, Json]]:
    """Return the normalized JSON files, by their name in the artifact."""
    return {
        name: documents.strip(documents.read_document(folder / path))
        for path, name in found.items()
        if documents.CANONICAL.fullmatch(name)
    }


def _describe(
    config: dict[str, Json], purpose: tasks.Purpose, stripped: Mapping[str, dict[str, Json]]
) -> dict[str, Json]:
    """Return a model's metadata for its worker and its learner."""
    described: dict[str, Json] = {
        "task": purpose.task,
        "auto_class": purpose.auto_class,
        "kind": purpose.kind,
        "class": tasks.read_architecture(config),
        "config": stripped[CONFIG],
    }
    generation = stripped.get("generation_config.json")
    return described if generation is None else {**described, "generation": generation}


def _find_sentences(pulled: Pulled) -> Path | None:
    """Return the folder in MLflow's flavor ``sentence_transformers``, which its loader reads from that of pyfunc."""
    if pulled.mlmodel is None or "sentence_transformers" not in pulled.mlmodel.flavors:
        return None
    return find_entry(pulled, "python_function", "data")


def _refuse_reference(pulled: Pulled) -> None:
    """Refuse a version in MLflow that refers to a model of the Hub without containing its weights."""
    entry = pulled.mlmodel.flavors.get("transformers") if pulled.mlmodel else None
    named = entry.get("source_model_name") if isinstance(entry, dict) and "model_binary" not in entry else None
    if isinstance(named, str):
        raise HoneError(
            "model-unsupported",
            "The version refers to its weights and does not contain them.",
            why=f"It was logged with save_pretrained=False, and is a reference to {named!r:.100}.",
            hint="Call mlflow.transformers.persist_pretrained_model with its URI, which downloads the weights into it. "
            "Or name that model itself, as hf://owner/name, and in hone.publish.uri where the winner goes.",
        )


def _read_config(root: Path, *, named: bool) -> dict[str, Json]:
    """Return the configuration of a model of Transformers; empty if absent."""
    if not (root / CONFIG).is_file():
        if named:
            raise make_corrupt(root, f"it has no {CONFIG}")
        return {}
    config = documents.read_document(root / CONFIG)
    return config if config.keys() & {"model_type", "architectures", "auto_map"} else {}


def _find_dtype(root: Path, names: list[str]) -> str | None:
    try:
        return weights.find_dtype([tensor for name in names for tensor in weights.read_tensors(root / name)])
    except ValueError as error:
        raise make_corrupt(root, f"its weights are not safetensors: {error}") from error


def _find_purpose(config: dict[str, Json], pulled: Pulled) -> tasks.Purpose:
    found = tasks.find_purpose(config, task=pulled.task)
    if isinstance(found, tasks.Untaken):
        raise HoneError(found.slug, found.what, why=found.why, hint=found.hint)
    return found


def _find_weights(root: Path, names: set[str]) -> list[str]:
    """Return the names of the files of the weights: one, or those in an index; safetensors before pickles."""
    if WEIGHTS in names:
        return [WEIGHTS]
    if (index := f"{WEIGHTS}.index.json") in names:
        placed = documents.read_document(root / index).get("weight_map")
        parts = sorted({str(part) for part in placed.values()}) if isinstance(placed, dict) else []
        if strange := [part for part in parts if part not in names or not part.endswith(".safetensors")]:
            raise make_corrupt(root, f"its weights are in {strange[0][:200]!r}, which is not there")
        return parts
    others = sorted(name for name in names if name.endswith(".safetensors"))
    if len(others) == 1:
        return others
    return [_PICKLE] if _PICKLE in names else sorted(filter(_SHARDS.fullmatch, names))


def _check_weights(names: list[str], pulled: Pulled) -> None:
    if not names:
        raise HoneError(
            "model-unsupported",
            "The model has a configuration and no weights.",
            why=f"There is no {WEIGHTS} next to its {CONFIG}, nor weights in several parts with their index.",
            hint="Save it by save_pretrained, and name the folder or repository that this wrote.",
        )
    if names[0].endswith(".safetensors") or "pickle" in pulled.trust:
        return
    raise HoneError(
        "pickle-not-trusted",
        f"The model's weights are a pickle ({names[0]}).",
        why=_UNTRUSTED,
        hint="Save it again by save_pretrained, which writes safetensors, or add `hone.trust: [pickle]`.",
    )


def _check_code(config: dict[str, Json], pulled: Pulled) -> None:
    if config.get("auto_map") and "remote-code" not in pulled.trust:
        raise HoneError(
            "remote-code-not-trusted",
            "The model runs code that came with it.",
            why=f"Its {CONFIG} names classes of its own (auto_map), and hone.trust does not allow them.",
            hint="Read that code; then add `hone.trust: [remote-code]`.",
        )


def _find_files(folder: Path, root: Path) -> Iterator[tuple[str, str]]:
    """Yield the small files that are needed: path in the pulled folder, and name in the artifact."""
    taken = set()
    code = bool(documents.read_document(root / CONFIG).get("auto_map"))
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        name = path.relative_to(root).as_posix()
        if _TEXTS.fullmatch(name) or _PARTS.fullmatch(name) or (code and re.fullmatch(r"\w+\.py", name)):
            taken.add(name)
            yield find_relative_name(folder, path), name
    if root == folder:
        return
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        found = _COMPONENT.fullmatch(path.relative_to(folder).as_posix())
        if found and found[2] not in taken and _TEXTS.fullmatch(found[2]):
            taken.add(found[2])
            yield find_relative_name(folder, path), found[2]


def write(flavor: Flavor, pulled: Path, folder: Path) -> None:
    """Write the files of a model: its weights as one file in a fixed order, its JSON normalized, all others unchanged.

    Raises:
        HoneError: ``model-corrupt``: the weights cannot be read.
        OSError: A file cannot be read or written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    heavy = [pulled / path for path, name in flavor.files if name == WEIGHTS]
    if heavy:
        try:
            weights.write_canonical(heavy, folder / WEIGHTS)
        except ValueError as error:
            raise make_corrupt(heavy[0], f"its weights are not safetensors: {error}") from error
    rest = tuple((path, name) for path, name in flavor.files if name != WEIGHTS)
    write_files(flavor.model_copy(update={"files": rest}), pulled, folder)


SOURCE_FORMAT = SourceFormat(
    name="transformers",
    noun="a model of Transformers",
    detect=detect,
    seals=frozenset({"transformers"}),
    interface="transformers",
    baseline="the model's own class of Transformers in eager PyTorch, with its default attention and {threads}",
    order=25,
    takes_task=True,
    write=write,
)
