"""onnx2tf's own code: convert an ONNX model for each shape, and check each converted function with ONNX Runtime."""

from __future__ import annotations

from typing import Any

import hone_litert

Json = dict[str, Any]


def transform(job: Json) -> Json:
    """Write ``index.json`` and a file for each of the recipe's shapes."""
    from . import conversion  # slow to import

    return conversion.transform(job, hone_litert.session)


def describe(job: Json) -> Json:
    """Return the specs of the written files, as LiteRT reads them."""
    described: Json = hone_litert.describe(job)
    return described
