"""The published JSON Schema of ``evidence.json``, generated from its classes.

Run ``python -m kedro_hone.report.schema`` after a change; a test compares the file with the generated text.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from hone_runtime.contract.proof import SCHEMA_ID
from kedro_hone.report.evidence import Evidence

SCHEMA_FILE: Final = Path(__file__).with_name("evidence.schema.json")


def generate_schema() -> str:
    """Return the text of ``evidence.schema.json``, a JSON Schema (Draft 2020-12)."""
    schema = Evidence.model_json_schema(by_alias=True)
    for part in (schema, *schema["$defs"].values()):
        part.pop("additionalProperties", None)  # a later writer may add fields under the same id
        part["description"] = " ".join(part["description"].replace("``", "`").split())
        for field in part.get("properties", {}).values():
            field.pop("title", None)
    schema["properties"]["schema"].pop("default")
    schema["required"].insert(0, "schema")
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": f"urn:{SCHEMA_ID.replace('/', ':')}"}
    titled = {**head, **schema, "title": "kedro-hone evidence"}
    return json.dumps(titled, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    SCHEMA_FILE.write_text(generate_schema(), encoding="utf-8")
