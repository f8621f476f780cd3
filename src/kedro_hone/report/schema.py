"""The published JSON Schema of ``evidence.json``, generated from its classes.

Run ``python -m kedro_hone.report.schema`` after a change; a test compares the file with what is generated.
"""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Final

from kedro_hone.core.contract.proof import SCHEMA_ID
from kedro_hone.core.values.base import Json
from kedro_hone.core.values.measurement import Checks
from kedro_hone.report.evidence import Evidence

SCHEMA_FILE: Final = Path(__file__).with_name("evidence.schema.json")
_ATTRIBUTE: Final = re.compile(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)


def generate_schema() -> dict[str, Json]:
    """Return the JSON Schema (Draft 2020-12) of ``evidence.json``.

    What the docstring of a value of the core says of its attributes becomes the description of its properties.
    """
    schema = Evidence.model_json_schema(by_alias=True)
    for part in (schema, *schema["$defs"].values()):
        part.pop("additionalProperties", None)  # a later writer may add fields under the same id
        text, _, attributes = part["description"].partition("\n\nAttributes:\n")
        part["description"] = _flatten(text)
        _describe(part, attributes)
    _describe(schema["$defs"]["CandidateRecord"], inspect.getdoc(Checks) or "")
    schema["properties"]["schema"].pop("default")
    schema["required"].insert(0, "schema")
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": f"urn:{SCHEMA_ID.replace('/', ':')}"}
    return {**head, **schema, "title": "kedro-hone evidence"}


def format_schema() -> str:
    """Return the text of ``evidence.schema.json``."""
    return json.dumps(generate_schema(), indent=2, ensure_ascii=False) + "\n"


def _describe(part: dict[str, Json], attributes: str) -> None:
    described = dict(_ATTRIBUTE.findall(attributes))
    for name, field in part.get("properties", {}).items():
        field.pop("title", None)
        if name in described:
            field["description"] = _flatten(described[name])


def _flatten(text: str) -> str:
    return " ".join(text.replace("``", "`").split())


if __name__ == "__main__":
    SCHEMA_FILE.write_text(format_schema(), encoding="utf-8")
