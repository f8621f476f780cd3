"""The worker of programs: reads the splits, and scores candidates. Run by path; imports nothing of kedro-hone.

The ``options`` of its jobs have ``program`` (its path), ``program_options``, ``project`` (the root folder of the user's
imports) and, except for ``read``, ``metric`` (or None). Errors in data and options are returned as ``error``.
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from hone_runtime.worker.imports import load_program

from . import axes, formats, metrics, repeats, scores, slices, splits
from .errors import SLUGS, ReportedError, explained

Job = dict[str, Any]

_UNSCORED = frozenset({"calibration", "training"})  # splits with unused labels


@explained
def check(job: Job) -> dict[str, Any]:
    """Load the program, find the metric, and read the split ``gate`` (its path); no model is needed.

    Returns the ``metric``'s name, and how many ``rows`` of the split can be right or wrong; None if the program does
    not count them. If a metric depends on each class, it also returns the number of rows of each of the ``classes``.
    The job's other ``metrics`` (names) are found, too. With ``slices``, the name of a column, it returns the ``slices``
    as ``slices.count``.
    """
    program, options = _load(job)
    metric = metrics.find_metric(job["options"], program, options)
    others = job["options"].get("metrics", ())
    found = [metric, *(metrics.find_metric({**job["options"], "metric": other}, program, options) for other in others)]
    counts = hasattr(program, "count_rows") and metric.name == program.METRIC
    by_class = any(one.strata is not None or one.units is not None for one in found)
    by_class = by_class and hasattr(program, "count_classes")
    by = job["options"].get("slices")
    data = formats.read_arrays(Path(job["options"]["gate"])) if counts or by_class or by else {}
    return {
        "metric": metric.name,
        "rows": program.count_rows(data, options) if counts else None,
        "classes": program.count_classes(data, options) if by_class else [],
        "slices": slices.count(data, by, options, metric=metric) if by else [],
    }


@explained
def divide(job: Job) -> dict[str, Any]:
    """Divide the rows of the split ``gate`` (its path) by the column ``by``, and write ``codes.npz``.

    The job's ``rows`` is how many the program prepared. Returns the ``slices``, each with its ``name`` and ``n``, the
    number of its rows.
    """
    _, options = _load(job)
    given = job["options"]
    names, codes = slices.divide(formats.read_arrays(Path(given["gate"])), given["by"], options)
    if len(codes) != given["rows"]:
        why = (
            f"the column {given['by']!r} has {len(codes)} rows, and the program prepared {given['rows']} from the data"
        )
        hint = "Leave hone.gates.slices out, or take a program that prepares one row for each row of the data."
        raise ReportedError("recipe-invalid", "The gate split cannot be divided into slices.", why, hint=hint)
    np.savez(Path(job["output"], "codes.npz"), allow_pickle=False, codes=codes)
    sizes = np.bincount(codes, minlength=len(names))
    return {"slices": [{"name": name, "n": int(size)} for name, size in zip(names, sizes, strict=True)]}


@explained
def read(job: Job) -> dict[str, Any]:
    """Prepare the ``splits`` (name to ``{"path": file}``) for a model: the job's ``input``.

    Writes ``<split>/feeds.npz`` and ``<split>/targets.npz``. Returns ``splits`` (name to ``{"n": rows}``), ``overlaps``
    (pairs of splits that share rows by mistake) and ``warnings``, one line for all splits each: the program's own
    (``UserWarning``), inputs with numbers that are not finite, copies of rows in the gate split, and rows that are
    naturally in two splits.
    """
    program, options = _load(job)
    job = {**job, "program": {"path": job["options"]["program"], "options": options}}
    axes.check_specs(job["input"]["inputs"])
    hashes, odd, said = {}, {}, dict[str, list[str]]()
    for name, entry in job["options"]["splits"].items():
        path = Path(entry["path"])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            feeds, targets = _prepare(program, job, split=name, path=path)
        hashes[name] = splits.hash_rows(feeds)
        copies = repeats.describe_copies(hashes[name]) if name == "gate" else ()
        label = f"{name} ({path.name})"
        count, names = splits.count_not_finite(feeds)
        odd[label] = (count, len(hashes[name]), names)
        for text in (*_list_warnings(caught), *copies):
            said.setdefault(text, []).append(label)
        folder = Path(job["output"], name)
        folder.mkdir(parents=True, exist_ok=True)
        np.savez(folder / "feeds.npz", allow_pickle=False, **feeds)
        np.savez(folder / "targets.npz", allow_pickle=False, **_import_targets().name_prepared(program, targets))
    overlaps = [*repeats.find_overlaps(hashes)]
    kept, told = repeats.find_repeats(hashes) if not overlaps else ({}, [])
    for name, rows in kept.items():
        _select_rows(Path(job["output"], name), rows)
    counts = {name: {"n": len(kept.get(name, rows))} for name, rows in hashes.items()}
    lines = [f"{', '.join(labels)}: {text}" for text, labels in said.items()]
    return {"splits": counts, "overlaps": overlaps, "warnings": [*lines, *splits.describe_not_finite(odd), *told]}


def _select_rows(folder: Path, rows: list[int]) -> None:
    """Replace a split by some of its rows."""
    feeds, targets = (formats.load_npz(folder / name) for name in ("feeds.npz", "targets.npz"))
    np.savez(folder / "feeds.npz", allow_pickle=False, **{name: array[rows] for name, array in feeds.items()})
    np.savez(folder / "targets.npz", allow_pickle=False, **_import_targets().take_rows(targets, rows))


@explained
def evaluate(job: Job) -> dict[str, Any]:
    """Score ``candidates`` (id to npz) against the ``source`` (npz of its outputs) on the same rows.

    The job's options also have the ``targets`` (npz) and a ``seed``. Returns the ``candidates``: id to the result of
    ``Comparison.compare``, with each array as the path of an npz file in the job's ``output``. If a candidate's outputs
    cannot be scored, it has ``error`` instead. If the job has other ``metrics`` (names), each candidate has ``others``:
    the same result for each of them, by name. With ``slices`` (an npz of ``codes`` and their ``count``), each candidate
    has ``slices``: the results of ``SlicedComparison.compare``.
    """
    given, (program, options) = job["options"], _load(job)
    outputs = formats.load_npz(given["source"])
    targets = _import_targets().merge_targets(program, formats.load_npz(given["targets"]), outputs)

    def open_comparison(name: str | None) -> scores.Comparison:
        metric = metrics.find_metric({**given, "metric": name}, program, options)
        if name in {None, program.METRIC} and hasattr(program, "describe_metric"):
            metric = dataclasses.replace(metric, **program.describe_metric(targets, options))
        return scores.Comparison(program, options, metric, outputs=outputs, targets=targets, seed=given["seed"])

    source = open_comparison(given.get("metric"))
    others = {name: open_comparison(name) for name in given.get("metrics", ())}
    parts = given.get("slices")
    sliced = parts and slices.SlicedComparison(source, formats.load_npz(parts["codes"])["codes"], parts["count"])

    def compare(path: str) -> dict[str, Any]:
        found = formats.load_npz(path)
        more = {name: other.compare(found) for name, other in others.items()}
        by_slice = {"slices": sliced.compare(found)} if sliced else {}
        return {**source.compare(found), **({"others": more} if more else {}), **by_slice}

    compared = {name: explained(compare)(path) for name, path in given["candidates"].items()}
    for number, score in enumerate(compared.values()):
        for part, row in enumerate((score, *score.get("others", {}).values(), *score.get("slices", ()))):
            for key, value in row.items():
                if isinstance(value, np.ndarray):
                    row[key] = str(Path(job["output"], f"{number:03d}-{part}-{key}.npz"))
                    np.savez(row[key], allow_pickle=False, **{key: value})
    return {"candidates": compared}


def _import_targets() -> Any:
    """Return the module for stored targets; it can be imported after the program has been loaded."""
    return importlib.import_module("hone_programs.shared.targets")


def _load(job: Job) -> tuple[Any, dict[str, Any]]:
    given = job["options"]
    # Installed packages come first: a file of the project must not replace a package.
    folders = [str(Path(given["project"], "src")), given["project"]]
    sys.path += [folder for folder in folders if folder not in sys.path]
    program = load_program(given["program"], str(Path(__file__).parents[1]))  # next to the built-in programs
    options = given.get("program_options") or {}
    defaults = getattr(program, "OPTIONS", options)
    unknown = next((name for name in options if name not in defaults), None)
    if unknown is not None:
        near = difflib.get_close_matches(unknown, defaults, 1)
        known = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(defaults)}"
        raise ReportedError("recipe-invalid", SLUGS["recipe-invalid"], f"{unknown!r}: {known}")
    return program, {**defaults, **options}


def _list_warnings(caught: list[warnings.WarningMessage]) -> list[str]:
    """Return the warnings for the user, each once; others, such as deprecations, are written to the log."""
    texts = {}
    for each in caught:
        if issubclass(each.category, UserWarning):
            texts[" ".join(str(each.message).split())] = True
        else:
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
    return list(texts)


def _prepare(program: Any, job: Job, *, split: str, path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    data = formats.read_arrays(path)
    try:
        feeds, targets = program.prepare(data, job)
    except Exception as error:
        slug = getattr(error, "slug", None)
        if slug not in SLUGS:
            raise
        raise ReportedError(slug, f"{SLUGS[slug][:-1]} ({split}: {path.name}).", str(error)) from error
    said = job["input"].get("metadata", {}).get("sklearn") or {}
    feeds = splits.fit_feeds(feeds, job["input"]["inputs"], split=split, missing=said.get("missing", ()))
    needed = getattr(program, "NEEDS_TARGETS", True) and split not in _UNSCORED
    return feeds, splits.fit_targets(targets, len(next(iter(feeds.values()))), split=split, needed=needed)
