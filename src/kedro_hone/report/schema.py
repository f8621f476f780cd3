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
    """Return the JSON Schema (Draft 2020-12) of ``evidence.json``."""
    schema = Evidence.model_json_schema(by_alias=True)
    for part in (schema, *schema["$defs"].values()):
        _publish(part)
    _describe(schema["$defs"]["CandidateRecord"], inspect.getdoc(Checks) or "")
    schema["properties"]["schema"].pop("default")
    schema["required"].insert(0, "schema")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:{SCHEMA_ID.replace('/', ':')}",
        **schema,
        "title": "kedro-hone evidence",
    }


def format_schema() -> str:
    """Return the text of ``evidence.schema.json``."""
    return json.dumps(generate_schema(), indent=2, ensure_ascii=False) + "\n"


def _publish(part: dict[str, Json]) -> None:
    """Make one object of the schema fit to be read by others.

    A later writer may add fields under the same id, so nothing forbids them; and what the docstring says of an
    attribute becomes the description of the property.
    """
    part.pop("additionalProperties", None)
    text, _, attributes = part.get("description", "").partition("\n\nAttributes:\n")
    if text:
        part["description"] = " ".join(text.replace("``", "`").split())
    _describe(part, attributes)


def _describe(part: dict[str, Json], attributes: str) -> None:
    for name, description in _ATTRIBUTE.findall(attributes):
        field = part["properties"].get("schema" if name == "schema_id" else name)
        if field is not None:
            field.pop("title", None)
            field["description"] = " ".join(description.replace("``", "`").split())


if __name__ == "__main__":
    SCHEMA_FILE.write_text(format_schema(), encoding="utf-8")
