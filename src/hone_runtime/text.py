"""Clean text from models, toolchains and registries before it reaches a log, a terminal or a report."""

from __future__ import annotations

import difflib
import logging
import os
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from hone_runtime.tokens import TOKENS

PACKAGES: Final = ("kedro_hone", "hone_runtime")
"""Our importable packages, and so the names of our loggers and the folders of our code."""

_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""C0 without tab and newline, DEL, C1, characters that change the direction of text (UAX 9), surrogates (not valid
UTF-8)."""

_BREAKS: Final = {ord(one): repr(one)[1:-1] for one in "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"}
"""Characters at which a line ends, as Python writes them in a literal."""

SECRET_NAME: Final = re.compile(r"TOKEN|SECRET|PASS|CREDENTIAL|AUTH|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY")
"""Parts of the names of variables whose values are secrets."""

# Bounded, and matching only from the start of a word, so that the time is linear in the text's length. Quotes end a
# match, so that JSON remains valid. A password may contain an unescaped slash.
_URL: Final = re.compile(
    r"""(?<![\w+.-])(\w[\w+.-]{0,31}://)"""
    r"""(?:[^\s/@:"'<>\\]{0,256}:(?!:)[^\s"'<>\\]{0,512}|[^\s/@:"'<>\\]{1,256})@"""
)
_SETTING: Final = re.compile(
    r"""((?:token|secret|passw(?:or)?d|passphrase|pwd|credentials?|signature|(?:api|access|account|private)[_-]?key|[?&](?:sig|auth|code|key))"""
    r"""["']?(?:=|\s*:\s*(?=["']))["']?)(?!\$\(openssl rand -hex 32\))"""
    r"""[^\s"',;&<>\\]{1,4096}|(authorization\W{1,4}(?:\w+\s+)?|bearer\s+)[\w.~+/=-]{8,4096}""",
    re.IGNORECASE,
)
_TOKEN: Final = re.compile("|".join(TOKENS.values()))
_WORD: Final = re.compile(r"[a-z]+(['\u2019]s)?[,:;]?(\s|$)")
_SHORTEST_SECRET: Final = 8
"""The shortest variable value, in characters, that is hidden everywhere: shorter ones occur inside other words."""


def clean_text(text: str) -> str:
    """Return a text that a terminal or a page shows literally, without secrets: a control character becomes U+FFFD.

    Names of models, errors of toolchains and URIs of registries may contain any character. Examples are escape
    sequences, which move the cursor, set the title or hide what follows, and marks that change the direction of
    reading.
    """
    return _CONTROLS.sub("\ufffd", hide_secrets(text))


def escape_breaks(text: str) -> str:
    """Return a text in one line, with the escape of a literal, such as a backslash and n, for each line break."""
    return text.translate(_BREAKS)


def clean_line(text: str) -> str:
    """Return a text as ``clean_text`` does, in one line: what quotes names and messages cannot forge a line of a log.

    GitHub runs a line of a log that starts with ``::`` as a command, also if it is indented.
    """
    return clean_text(escape_breaks(text))


def hide_secrets(text: str, variables: Mapping[str, str] = os.environ) -> str:
    """Return a text with ``***`` in place of secrets: the one redactor for errors, logs, evidence and reports.

    Secrets are the users and passwords of URLs, values of names such as ``token`` and ``password``, authorization
    headers, and tokens of the services in ``TOKENS``. So are the values of this process's variables whose names
    indicate a secret.
    """
    # Filter by names first: reading os.environ decodes each value, and this runs for each line of a log.
    secrets = {variables[name].strip() for name in variables if _names_secret(name)}
    # The longest first: otherwise, if one value is a prefix of another, the rest of the longer one would be readable.
    for secret in sorted((one for one in secrets if len(one) >= _SHORTEST_SECRET), key=len, reverse=True):
        text = text.replace(secret, "***")
    return _TOKEN.sub("***", _SETTING.sub(r"\1\2***", _URL.sub(r"\1***@", text)))


@lru_cache(maxsize=4096)
def _names_secret(name: str) -> bool:
    return SECRET_NAME.search(name.upper()) is not None


def suggest(name: str, known: Iterable[str], shown: str = "{!r}") -> str:
    """Return ``Did you mean 'fast'? `` with the nearest known name, as the start of a hint; else an empty text."""
    nearest = difflib.get_close_matches(name, sorted(known), n=1)
    return f"Did you mean {shown.format(nearest[0])}? " if nearest else ""


def begin_sentence(clause: str) -> str:
    """Return a clause as the start of a sentence: its first letter becomes a capital unless its first word is a name.

    The names of files, options and classes remain unchanged; only a first word made of letters alone is capitalized.
    """
    return clause[:1].upper() + clause[1:] if _WORD.match(clause) else clause


def open_logger(name: str) -> logging.Logger:
    """Return the logger of a module, whose messages are printed literally.

    Messages may quote file names and errors of toolchains. Kedro's log handler would read ``[/usr/lib/x.so]`` in them
    as rich markup, and raise. Control characters and line breaks are replaced as in ``clean_line``.
    """
    logger = logging.getLogger(name)
    # A filter of the logger, not of a handler: it works with any configuration, and in any process that imports the
    # module, such as those of ParallelRunner.
    logger.addFilter(_print_as_it_is)
    return logger


def _print_as_it_is(record: logging.LogRecord) -> bool:
    record.markup = False  # rich.logging.RichHandler reads it
    message = record.getMessage()
    cleaned = clean_line(message)
    if cleaned != message:
        record.msg, record.args = cleaned, ()
    return True
