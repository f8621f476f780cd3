"""The prompts that sentence-transformers puts before each text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hone_runtime.values.base import Json

PROMPTS: Final = "config_sentence_transformers.json"
"""The file with the prompts of a model."""


def find_default_prompt(config: Mapping[str, Json]) -> str:
    """Return the prompt that ``encode`` puts before each text by default; empty if absent."""
    prompts, name = config.get("prompts"), config.get("default_prompt_name")
    found = prompts.get(name) if isinstance(prompts, dict) and isinstance(name, str) else None
    return found if isinstance(found, str) else ""


def includes_prompt(config: Mapping[str, Json]) -> bool:
    """Return whether a pooling includes the tokens of the prompt, by its configuration."""
    return bool(config.get("include_prompt", True))
