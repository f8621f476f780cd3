"""What a model of Transformers is for: its task and its automatic class, from the names in ``config.json``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kedro_hone.core.values.base import Json

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
"""The tasks that are taken, by the names of the Hub, with the class of Transformers that opens a model for each."""

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
"""Models of images whose configuration has a vocabulary: of parts of images, for training without labels."""
_LATER: Final = frozenset("whisper speech_to_text speecht5 clap encodec moonshine clip siglip siglip2 blip".split())  # noqa: SIM905


@dataclass(frozen=True, kw_only=True)
class Purpose:
    """What a model is for.

    Attributes:
        task: Its task, by the Hub's name.
        auto_class: The class of Transformers that opens it for that.
        kind: What goes in: ``text``, ``image`` or ``audio``.
    """

    task: str
    auto_class: str
    kind: str


def read_architecture(config: Mapping[str, Json]) -> str | None:
    """Return the name of the class that a configuration names, or None."""
    named = config.get("architectures")
    known = named[0] if isinstance(named, list) and named else None
    return known if isinstance(known, str) and re.fullmatch(r"[A-Za-z]\w{0,199}", known, re.ASCII) else None


def find_purpose(config: Mapping[str, Json], *, task: str | None) -> Purpose | str:
    """Return what a model is for, by its configuration and the recipe; or why it is not taken.

    Raises:
        KeyError: The recipe's task is none that is known.
    """
    architecture, model_type = read_architecture(config), str(config.get("model_type", ""))
    audio = model_type in _AUDIO
    image = "num_channels" in config and ("vocab_size" not in config or model_type in _TOKENIZED)
    kind = "audio" if audio else "image" if image else "text"
    if task is not None:
        named = _ALIASES.get(task, task)
        return Purpose(task=named, auto_class=TASKS[named], kind=kind)
    if architecture is None:
        return "its config.json names no architecture"
    if model_type in _LATER or (isinstance(config.get("vision_config"), dict) and not audio):
        return f"its architecture {architecture} takes several kinds of inputs, or speech by features, which come later"
    found = next((name for pattern, name in _HEADS if re.fullmatch(pattern, architecture)), None)
    if found == "text2text-generation" and model_type not in _SEQ2SEQ:
        found = None
    if audio and found == "text-classification":
        found = "audio-classification"
    if found == "feature-extraction" and kind != "text":
        found = f"{kind}-feature-extraction"
    if found is None:
        return f"its architecture {architecture} is for none of the tasks {', '.join(TASKS)}"
    return Purpose(task=found, auto_class=TASKS[found], kind=kind)
