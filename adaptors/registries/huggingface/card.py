"""The model card of a winner: the Hub's metadata, the measured numbers, and how to call the winner.

If a repository already has a card, the author's text and metadata are preserved; ours is between two comments.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from typing import Any, Final

import yaml
from huggingface_hub import EvalResult, ModelCard, ModelCardData
from huggingface_hub.repocard import REGEX_YAML_BLOCK

from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.contract.proof import ProvenWinner

LIBRARY: Final = "kedro-hone"
_BEGIN, _END = "<!-- kedro-hone: begin -->", "<!-- kedro-hone: end -->"
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MOST_DIGITS: Final = 1000
"""Limit of a number in the metadata: PyYAML parses ``1:59:59…`` as a number, and computes it for minutes."""
_FEWER_BITS: Final = re.compile(r"int8|int4|w8|w4|8bit|4bit|bf16|fp16|float16|quant", re.IGNORECASE)
"""Allowed characters in the name of an adaptor or a format."""


def write_card(
    winner: ProvenWinner,
    claim: Mapping[str, Any],
    *,
    target: str,
    base_model: str | None,
    known: str = "",
) -> str:
    """Return the text of ``README.md``.

    Args:
        winner: The winner to publish.
        claim: Its evidence, as JSON.
        target: The URI from which it is loaded.
        base_model: The source's repository, if it is on the Hub and another one.
        known: The card that the repository already has.
    """
    name = target.removeprefix("hf://").partition("@")[0]
    card = _read(known)
    data: ModelCardData = card.data
    known_tags = data.tags if isinstance(data.tags, list) else []
    data.tags = sorted({*(tag for tag in known_tags if isinstance(tag, str)), LIBRARY})
    if not card.text.strip():
        data.library_name = LIBRARY
    if base_model is not None:
        data.base_model = base_model
        relation = _relate(winner, claim)
        if relation:
            data.base_model_relation = relation
    data.model_name = data.model_name or name.rpartition("/")[2]
    others = [one for one in data.eval_results or () if one.source_name != LIBRARY]
    results = [*others, *_list_results(claim)]
    data.eval_results = results or None
    if not results:  # the Hub accepts no name without results
        data.model_name = None
    section = f"{_BEGIN}\n{_write_section(winner, target)}{_END}\n"
    text = card.text.strip("\n") or f"# {name}"
    body = _remove_sections(text).strip("\n") if _BEGIN in text else text
    return f"---\n{data.to_yaml()}\n---\n\n{body}\n\n{section}"


def _read(known: str) -> ModelCard:
    """Return the card of a repository; unreadable metadata is ignored, and the text is preserved."""
    block = REGEX_YAML_BLOCK.search(known)
    # Unreadable metadata raises errors of YAML, of huggingface_hub, or of its conversion of values.
    with contextlib.suppress(Exception):
        if block is None or _is_plain(block[2]):
            return ModelCard(known, ignore_metadata_errors=True)
    return ModelCard(f"---\n{{}}\n---\n{known[block.end() :] if block else known}")


def _is_plain(metadata: str) -> bool:
    """Return whether untrusted YAML cannot expand beyond its text: no aliases, which grow, and no unbounded numbers."""
    return not any(
        isinstance(event, yaml.AliasEvent)
        or (
            isinstance(event, yaml.ScalarEvent)
            and len(event.value) > _MOST_DIGITS
            and event.value[:1] in "-+0123456789"
        )
        for event in yaml.parse(metadata, Loader=_LOADER)
    )


def _remove_sections(text: str) -> str:
    """Return a text without the part between our two comments, in time bounded by its length."""
    first, *rest = text.split(_BEGIN)
    parts = [first]
    for part in rest:
        _, end, after = part.partition(_END)
        parts.append(after.removeprefix("\n") if end else _BEGIN + part)
    return "".join(parts)


def _relate(winner: ProvenWinner, claim: Mapping[str, Any]) -> str:
    """Return the winner's relation to its source, in the Hub's terms; empty if no term applies.

    The Hub's terms are ``adapter``, ``merge``, ``quantized`` and ``finetune``; none applies to a model that is only
    compiled. One that was trained and has fewer bits is quantized.
    """
    route = (claim.get("winner") or {}).get("route") or ()
    words = f"{' '.join(map(str, route))} {winner.artifact.format}"
    trained = "finetune" if winner.artifact.is_trained else ""
    return "quantized" if _FEWER_BITS.search(words) else trained


def _list_results(claim: Mapping[str, Any]) -> list[EvalResult]:
    """Return the gate's metrics of the winner as results in the Hub's form."""
    program = _read_text(claim, "program", "name") or "unknown"
    return [
        EvalResult(
            task_type=program,
            dataset_type="private",
            dataset_name=f"the {row['split']} split",
            dataset_split=str(row["split"]),
            metric_type=str(row["metric"]),
            metric_value=round(float(row["candidate"]), 6),
            metric_name=str(row["metric"]),
            source_name=LIBRARY,
            source_url="https://pypi.org/project/kedro-hone/",
        )
        for row in _list_quality(claim)
    ]


def _list_quality(claim: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    chosen = _read_text(claim, "winner", "candidate")
    return [row for row in claim.get("quality") or () if row.get("id") == chosen]


def _read_text(claim: Mapping[str, Any], *path: str) -> str:
    value: Any = claim
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, str) else ""


def _write_section(winner: ProvenWinner, target: str) -> str:
    lines = [
        "## A faster version of this model",
        "",
        # There must be no other comment between the two.
        winner.description.replace("<!--", "&lt;!--"),
        "```python",
        *_write_usage(winner, target),
        "```",
        "",
        f"It needs `pip install 'kedro-hone{_name_extra(winner)}' huggingface-hub`, and is called as the source is.",
        "",
    ]
    return "\n".join(lines)


def _write_usage(winner: ProvenWinner, target: str) -> list[str]:
    """Return lines of Python that load the winner and call it once with zeros, using only the runtime."""
    artifact = winner.artifact
    sizes = artifact.static_shapes[0].sizes if artifact.static_shapes else {}
    inputs = ", ".join(
        f"{_quote(spec.name)}: "
        f"np.zeros({tuple(one if isinstance(one, int) else sizes.get(one, 1) for one in spec.shape)}, "
        f"{_quote(spec.dtype)})"
        for spec in artifact.inputs
    )
    trust = ', trust=["native"]' if read_catalogue().is_code(artifact.format, artifact.runtime) else ""
    return [
        "import kedro_hone",
        "import numpy as np",
        "",
        f'model = kedro_hone.load("{target}"{trust})',
        f"outputs = model.run({{{inputs}}})  # arrays by name",
    ]


def _quote(text: str) -> str:
    """Return foreign text as a one-line Python literal, without anything that ends an HTML comment."""
    return ascii(text).replace("<", r"\x3c").replace(">", r"\x3e")


def _name_extra(winner: ProvenWinner) -> str:
    extra = read_catalogue().find_toolchain(str(winner.artifact.runtime)).extra
    return f"[{extra}]" if extra else ""
