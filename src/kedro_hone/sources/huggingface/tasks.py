"""The purpose of a model of Transformers: its task and its auto class, from the names in ``config.json``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from hone_runtime.values.base import Json

TASKS: Final[Mapping[str, str]] = {
    "text-classification": "AutoModelForSequenceClassification",
    "token-classification": "AutoModelForTokenClassification",
    "question-answering": "AutoModelForQuestionAnswering",
    "fill-mask": "AutoModelForMaskedLM",
    "text-generation": "AutoModelForCausalLM",
    "text2text-generation": "AutoModelForSeq2SeqLM",
    "feature-extraction": "AutoModel",
    "image-classification": "AutoModelForImageClassification",
    "image-feature-extraction": "AutoModel",
    "automatic-speech-recognition": "AutoModelForCTC",
    "audio-classification": "AutoModelForAudioClassification",
    "audio-feature-extraction": "AutoModel",
}
"""The supported tasks, by the names of the Hub, with the class of Transformers that opens a model for each."""

_ALIASES: Final = {
    "sentiment-analysis": "text-classification",
    "ner": "token-classification",
    "sentence-similarity": "feature-extraction",
    "summarization": "text2text-generation",
    "translation": "text2text-generation",
}
_HEADS: Final = (
    (r"\w+(ForMaskedLM|WithLMHeadModel)", "fill-mask"),
    (r"\w+(ForCausalLM|LMHeadModel)", "text-generation"),
    (r"\w+ForSequenceClassification", "text-classification"),
    (r"\w+ForTokenClassification", "token-classification"),
    (r"\w+ForQuestionAnswering(Simple)?", "question-answering"),
    (r"\w+ForConditionalGeneration", "text2text-generation"),
    (r"\w+ForImageClassification(WithTeacher)?", "image-classification"),
    (r"\w+ForCTC", "automatic-speech-recognition"),
    (r"\w+ForPreTraining", "feature-extraction"),
    (r"\w+(Model|Encoder)", "feature-extraction"),
)
_SEQ2SEQ: Final = frozenset(
    """bart mbart t5 mt5 umt5 longt5 pegasus pegasus_x marian m2m_100 blenderbot blenderbot-small prophetnet led mvp
    plbart switch_transformers nllb-moe fsmt encoder-decoder bigbird_pegasus t5gemma""".split()  # noqa: SIM905 - a list of words
)
_AUDIO: Final = frozenset(
    """wav2vec2 wav2vec2-bert wav2vec2-conformer hubert wavlm unispeech unispeech-sat sew sew-d data2vec-audio mctct
    audio-spectrogram-transformer""".split()  # noqa: SIM905 - a list of words
)
_TOKENIZED: Final = frozenset({"beit"})
"""Models of images with a vocabulary in their configuration: of parts of images, for training without labels."""
_FEATURES: Final = {kind: f"{kind}-feature-extraction".removeprefix("text-") for kind in ("text", "image", "audio")}
"""The task of a model's body, by its kind of input."""
_LANGUAGE: Final = ("fill-mask", "text-generation", "text2text-generation")
_KINDS: Final = {
    "image-classification": "image",
    "image-feature-extraction": "image",
    "automatic-speech-recognition": "audio",
    "audio-classification": "audio",
    "audio-feature-extraction": "audio",
}
"""The kind of input for a task, if it is not text."""
_LATER: Final = frozenset("whisper speech_to_text speecht5 clap encodec moonshine clip siglip siglip2 blip".split())  # noqa: SIM905


@dataclass(frozen=True, kw_only=True)
class Purpose:
    """The purpose of a model.

    Attributes:
        task: Its task, by the Hub's name.
        auto_class: The class of Transformers that opens it for this task.
        kind: The kind of input: ``text``, ``image`` or ``audio``.
    """

    task: str
    auto_class: str
    kind: str


def read_architecture(config: Mapping[str, Json]) -> str | None:
    """Return the name of the class in a configuration, or None."""
    named = config.get("architectures")
    known = named[0] if isinstance(named, list) and named else None
    return known if isinstance(known, str) and re.fullmatch(r"[A-Za-z]\w{0,199}", known, re.ASCII) else None


ENCODER: Final = Purpose(task="feature-extraction", auto_class="AutoModel", kind="text")
"""The purpose of the encoder in a model of sentence-transformers, whatever head it was saved with."""


@dataclass(frozen=True, kw_only=True)
class Untaken:
    """A model that is not supported: the parts of its error.

    Attributes:
        slug: ``recipe-invalid`` if the recipe's task is the reason, otherwise ``model-unsupported``.
    """

    slug: str
    what: str
    why: str
    hint: str


def find_purpose(config: Mapping[str, Json], *, task: str | None) -> Purpose | Untaken:
    """Return the purpose of a model, by its configuration and the recipe; or why it is not supported."""
    architecture, model_type = read_architecture(config), str(config.get("model_type", ""))
    kind = _find_kind(config, model_type)
    if model_type in _LATER or (isinstance(config.get("vision_config"), dict) and kind != "audio"):
        origin = f"Its architecture {architecture}" if architecture else f"Its type {model_type or 'of several parts'}"
        return _refuse_model(
            f"{origin} takes several kinds of inputs, or speech by features, which come later.",
            hint="Export the part that you need, such as its encoder, with torch.export, and name that.",
        )
    own = None if architecture is None else _find_own(architecture, model_type, kind)
    possible = list_tasks(config)
    if task is not None:
        named = _ALIASES.get(task, task)
        named = _FEATURES[kind] if named == "feature-extraction" else named
        if named not in TASKS:
            return _refuse_task(task, f"There is no task {task!r}", architecture, possible)
        known = own is not None or _KINDS.get(named, "text") != kind  # otherwise the weights decide
        if known and named not in possible:
            subject = architecture or f"A model of {kind}"
            return _refuse_task(task, f"{subject} is not for {task}", architecture, possible)
        return Purpose(task=named, auto_class=TASKS[named], kind=kind)
    if own is not None:
        return Purpose(task=own, auto_class=TASKS[own], kind=kind)
    why = f"Its architecture {architecture} is for none of the tasks {', '.join(TASKS)}."
    if len(possible) == 1:
        hint = f"Add `hone.model.task: {possible[0]}` if you need its body, without its head."
    else:
        hint = f"Name the one that it was trained for in hone.model.task: {', '.join(possible)}."
    return _refuse_model(why if architecture else "Its config.json names no architecture.", hint=hint)


def _refuse_model(why: str, *, hint: str) -> Untaken:
    what = "The model is of Transformers, and what it is for is not known."
    return Untaken(slug="model-unsupported", what=what, why=why, hint=hint)


def _refuse_task(task: str, why: str, architecture: str | None, possible: tuple[str, ...]) -> Untaken:
    of = f"{'one of ' if len(possible) > 1 else ''}{', '.join(possible)}"
    return Untaken(
        slug="recipe-invalid",
        what=f"The model is not for the task {task!r}.",
        why=f"{why}, by its config.json.",
        hint=f"Name {of} in hone.model.task{', or leave it out' if architecture else ''}.",
    )


def list_tasks(config: Mapping[str, Json]) -> tuple[str, ...]:
    """Return the tasks that a recipe may set for a model, by its configuration; the worker tries the weights.

    The body of any model can be used without its head. Heads of language models share their weights with others. For a
    model without a class, only the kind of its input is known.
    """
    architecture, model_type = read_architecture(config), str(config.get("model_type", ""))
    kind = _find_kind(config, model_type)
    if architecture is None:
        return tuple(task for task in TASKS if _KINDS.get(task, "text") == kind)
    own = _find_own(architecture, model_type, kind)
    several = own in _LANGUAGE or re.fullmatch(r"\w+(ForPreTraining|DoubleHeadsModel)", architecture)
    others = _LANGUAGE if several and kind == "text" else ()
    return tuple(dict.fromkeys((*([own] if own else []), *others, _FEATURES[kind])))


def _find_kind(config: Mapping[str, Json], model_type: str) -> str:
    if model_type in _AUDIO:
        return "audio"
    image = "num_channels" in config and ("vocab_size" not in config or model_type in _TOKENIZED)
    return "image" if image else "text"


def _find_own(architecture: str, model_type: str, kind: str) -> str | None:
    """Return the task that a class was made for, by its name; None if it is unknown."""
    found = next((name for pattern, name in _HEADS if re.fullmatch(pattern, architecture)), None)
    if found == "text2text-generation" and model_type not in _SEQ2SEQ:
        return None
    if kind == "audio" and found == "text-classification":
        return "audio-classification"
    return _FEATURES[kind] if found == "feature-extraction" else found
