"""Tokens of services by how they look: the one table for the redactor, and for the search before an image is pushed."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

ESCAPED: Final = "|".join(
    f"(?<={one})"
    for one in (
        r"\\[abfnrtv]",
        r"\\x[0-9A-Fa-f]{2}",
        r"\\u[0-9A-Fa-f]{4}",
        r"\\U[0-9A-Fa-f]{8}",
        r"%[0-9A-Fa-f]{2}",
        r"%25[0-9A-Fa-f]{2}",
        r"[\[;][0-9]m",
        r"[\[;][0-9]{2}m",
        r"\[m",
    )
)
"""What ends in a letter or a digit but is another character: an escape of JSON, of Python or of a URL, or a colour."""
_START: Final = rf"(?:(?<![A-Za-z0-9])|{ESCAPED})"

TOKENS: Final[Mapping[str, str]] = MappingProxyType(
    {
        **{one: rf"{_START}{one}[0-9A-Z]{{16}}(?![A-Za-z0-9])" for one in ("AKIA", "ASIA")},
        **{one: rf"{_START}{one}[A-Za-z0-9]{{30,256}}" for one in ("hf_", "api_org_")},
        **{one: rf"{_START}{one}[A-Za-z0-9]{{36,256}}" for one in ("ghp_", "gho_", "ghu_", "ghs_", "ghr_")},
        "github_pat_": rf"{_START}github_pat_[A-Za-z0-9_]{{40,256}}",
        "glpat-": rf"{_START}glpat-[A-Za-z0-9_-]{{20,256}}",
        **{one: rf"{_START}{one}[0-9A-Za-z-]{{20,256}}" for one in ("xoxb-", "xoxp-", "xoxa-", "xoxs-")},
    }
)
"""Expressions for tokens of Amazon's cloud, the Hugging Face Hub, GitHub, GitLab and Slack, by how each begins.

`hf auth login` stores such a token in a file, not in a variable, so its value is not known.
"""
