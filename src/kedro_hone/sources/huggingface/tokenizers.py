"""The names of the files of a tokenizer or a processor, which are part of a model."""

from __future__ import annotations

import re
from typing import Final

VOCABULARY: Final = re.compile(r"tokenizer(_config)?\.json|vocab\.\w+|\w[\w.-]*\.(model|spm|tiktoken)")
"""Without any of these there is no tokenizer."""
FILES: Final = re.compile(
    rf"{VOCABULARY.pattern}|special_tokens_map\.json|added_tokens\.json|merges\.txt|normalizer\.json"
    r"|chat_template[\w.-]*|(video_)?preprocessor_config\.json|processor_config\.json"
)
"""All names of these files."""
