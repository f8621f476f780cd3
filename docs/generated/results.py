"""The tables of ``docs/reference/toolchain-results*.md``, from what ``benchmarks/toolchains.py`` measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Json = dict[str, Any]

RESULTS = Path(__file__).resolve().parents[1] / "reference" / "toolchain-results.json"
GPU_RESULTS = RESULTS.with_name("toolchain-results-gpu.json")
VNNI_RESULTS = RESULTS.with_name("toolchain-results-vnni.json")
AMX_RESULTS = RESULTS.with_name("toolchain-results-amx.json")
_STATUS = {"refused": "refused", "failed": "failed", "dropped": "wrong", "not_tried": "not tried", "measured": "failed"}


def list_results(path: Path = RESULTS) -> str:
    """Return a section for each model: on what it was measured, and a table with a row for each candidate."""
    models = json.loads(path.read_text())["models"]
    if not models:
        return "Nothing was measured yet on a quiet machine; `python benchmarks/toolchains.py` writes the file."
    return "\n\n".join(_describe_model(model) for model in models.values())


def _describe_model(model: Json) -> str:
    cells, shapes = model["cells"], list(model["shapes"])
    measured = [cell for cell in cells if "times" in cell]
    others = [cell for cell in cells if "times" not in cell]
    times = " | ".join(f"time at {shape}" for shape in shapes)
    head = f"| toolchain | precision | route | {times} | largest error | drop |"
    rows = [
        head,
        f"|---|---|---|{'--:|' * len(shapes)}--:|--:|",
        *(_describe_measured(cell, shapes) for cell in measured),
    ]
    parts = [f"## {model['title']}", _describe_run(model), "\n".join(rows)]
    if others:
        rows = [
            f"| {_name(cell)} | {cell['precision']} | {_route(cell)} | {_explain(cell)} |" for cell in _fold(others)
        ]
        table = ["| toolchain | precision | route | why there is no time |", "|---|---|---|---|", *sorted(rows)]
        parts.append("\n".join(table))
    return "\n\n".join(parts)


def _describe_run(model: Json) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in model["versions"].items() if name != "kedro-hone")
    load = (
        ""
        if model["other_load"] is None
        else f" Other processes took {model['other_load']:.0%} of the cores meanwhile."
    )
    source = ", ".join(f"{ms:g} ms at {shape}" for shape, ms in model["source_ms"].items())
    given = [f"`{name}` at most {seconds:g} s" for name, seconds in model.get("tuning_seconds", {}).items()]
    tuned = f" To tune were given: {', '.join(given)}." if given else ""
    gpu = f" and {model['gpu']} (driver {model['driver']})" if "gpu" in model else ""
    return (
        f"On {model['cpu']} ({model['instructions']}), {model['cores']} cores{gpu}, with {model['threads']} threads, "
        f"on {model['date']}, in at least {model['rounds']} rounds.{load}{tuned} The source took {source}. "
        f"Versions: {versions}."
    )


def _describe_measured(cell: Json, shapes: list[str]) -> str:
    times = " | ".join(f"{cell['times'][shape]:.2f}" if shape in cell["times"] else "" for shape in shapes)
    error, drop = (f"{cell[name]:.1g}" if name in cell else "" for name in ("largest_error", "drop"))
    name = f"**{cell['toolchain']}**" if cell.get("reference") else cell["toolchain"]
    return f"| {name} | {cell['precision']} | {_route(cell)} | {times} | {error} | {drop} |"


def _fold(cells: list[Json]) -> list[Json]:
    """Return a cell for each step that ended a route, of those of all routes that go on from it."""
    ends: dict[tuple[str, ...], list[Json]] = {}
    for cell in sorted(cells, key=lambda cell: len(cell["route"])):
        route, by = cell["route"], cell["reason"].partition(":")[0]
        end = tuple(route[: route.index(by) + 1] if by in route else route)
        ends.setdefault(end, []).append(cell)
    return [{**found[0], "route": end, "precision": _join(found, end)} for end, found in ends.items()]


def _join(cells: list[Json], end: tuple[str, ...]) -> str:
    """Return the precision at a step: of a route that ends there, or what the routes that go on have in common."""
    own = [cell["precision"] for cell in cells if (*cell["route"],) == end] or [cell["precision"] for cell in cells]
    precision: str = own[0]
    return precision if len({*own}) == 1 else ""


def _name(cell: Json) -> str:
    """Return the toolchain of the last step."""
    last: str = cell["route"][-1]
    return last.partition(".")[0]


def _route(cell: Json) -> str:
    return " ▸ ".join(f"`{each}`" for each in cell["route"])


def _explain(cell: Json) -> str:
    reason = " ".join(cell["reason"].replace("|", "\\|").replace("<", "&lt;").split())
    return f"{_STATUS[cell['status']]}: {reason}"
