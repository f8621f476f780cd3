"""The cells of ``toolchains.py``: the outcome of each candidate of a model's race."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from hone_runtime.contract.catalogue import read_catalogue

Json = dict[str, Any]

REFERENCE = ["onnx", "onnxruntime.session"]
"""The route of the reference: it is in fp32, and begins at the model as ONNX."""
SAYS_LITTLE = re.compile(
    r"^(\S+: )?(\w*(Error|Exception)|crashed with \w+|ended with exit code \d+ and no result)?:?\s*$"
)


DROP = 0.05
"""A candidate that loses more than this is in the summary only if all of its kind do, with its loss."""


class NotMeasured(Exception):  # noqa: N818 - a reason, not an error
    """Why a race has no cells."""


def collect(race: Json) -> list[Json]:
    """Return a cell for each candidate of a model's last race, the fastest first.

    Raises:
        NotMeasured: The reference was not measured.
    """
    standings = {each["id"]: each for each in race["standings"]}
    cells = [describe(each, standings.get(each["candidate"]["id"])) for each in race["validations"]]
    reference = next((cell for cell in cells if cell["route"] == REFERENCE and cell["speeds"]), None)
    if reference is None:
        raise NotMeasured(f"{' ▸ '.join(REFERENCE)} was not measured, and all are compared with it")
    speeds = reference["speeds"]
    for cell in cells:
        if own := cell.pop("speeds"):
            cell["times"] = {shape: round(speeds[shape] / speed, 3) for shape, speed in own.items()}
    reference["reference"] = True
    return sorted(
        cells, key=lambda cell: (sum(map(math.log, cell.get("times", {"": math.inf}).values())), cell["route"])
    )


def describe(validation: Json, standing: Json | None) -> Json:
    """Return the cell of a candidate; its ``speeds`` are relative to the source's."""
    candidate, quality = validation["candidate"], validation.get("quality")
    route = [candidate["id"].split(".")[0], *candidate["route"]]
    known = [read_catalogue().adaptors[name] for name in candidate["route"] if name in read_catalogue().adaptors]
    raced = standing if standing and standing["rounds"] else None
    last = known[-1] if known else None
    lower = [
        each.value for one in known for each in one.precisions if len(one.precisions) == 1 and each.value != "fp32"
    ]
    cell: Json = {
        "route": route,
        "toolchain": last.toolchain.name if last else route[-1],
        "precision": ", ".join(dict.fromkeys(lower)) or "fp32",
        "status": (standing or validation)["status"],
        "reason": (standing["reason"] if standing and standing["reason"] else validation["reason"]) or "",
        "speeds": raced["ratios"] if raced and raced["status"] in {"measured", "dropped"} else {},
        "build_seconds": round(sum(step["seconds"] for step in candidate["outcome"].get("steps", ())), 1),
    }
    if quality:
        cell |= {"metric": quality["metric"], "drop": round(quality["drop"]["estimate"], 5)}
    if validation.get("largest_error") is not None:
        cell["largest_error"] = float(f"{validation['largest_error']:.2g}")
    return cell


def summarize(models: Mapping[str, Json]) -> str:
    """Return a Markdown table of each toolchain's fastest candidate in fp32, and of its fastest in a lower precision.

    Args:
        models: The models of a file of results, by name.
    """
    columns = [(name, shape) for name, model in models.items() for shape in model["shapes"]]
    found: dict[tuple[str, bool], dict[str, Json]] = {}
    for name, model in models.items():
        for cell in sorted(model["cells"], key=lambda cell: cell.get("drop", 0.0) > DROP):  # else the fastest first
            if "times" in cell:
                kind = cell["toolchain"], cell["precision"] != "fp32"
                found.setdefault(kind, {}).setdefault(name, cell)
    rows = [
        [toolchain, "lower" if lower else "fp32", *(_describe_time(cells.get(name), shape) for name, shape in columns)]
        for (toolchain, lower), cells in sorted(found.items())
    ]
    head = ["toolchain", "precision", *(f"{name}, {shape}" for name, shape in columns)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---", "---", *(["--:"] * len(columns))], *rows))


def _describe_time(cell: Json | None, shape: str) -> str:
    if cell is None or shape not in cell["times"]:
        return ""
    notes = [cell["precision"]] if cell["precision"] != "fp32" else []
    notes += [f"drop {cell['drop']:.2f}"] if cell.get("drop", 0.0) > DROP else []
    return f"{cell['times'][shape]:.2f}" + (f" ({'; '.join(notes)})" if notes else "")
