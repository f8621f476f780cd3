"""The worker of programs: reads the splits, and scores candidates. Run by path; imports nothing of ours."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from hone_loading import load_program

from . import metrics, reading, scoring
from .errors import ReportedError

Job = dict[str, Any]
Notes = dict[str, Any]

SLUGS = {
    "data-unreadable": "A split cannot be read as the program expects.",
    "data-empty": "A split has no rows.",
    "labels-mismatch": "The labels do not match the model's outputs.",
    "recipe-invalid": "An option of the program is not known.",
}
"""The errors that a program may raise, by the attribute ``slug`` of its exception."""

HINTS = {
    "data-unreadable": "Compare the names and shapes in the file with the model's inputs; the program's option "
    "`arrays` maps one to the other. See Data in the documentation.",
    "data-empty": "Put rows into the file, then dvc add, git commit and dvc push it.",
    "labels-mismatch": "Check that the data belong to this model, and the program's options `output` and `classes`.",
    "metric-unknown": "Leave `program.metric` empty for the program's own metric, or name one of these.",
    "program-failed": "See Write a program in the documentation for what the functions of a program must return.",
    "recipe-invalid": "Mend `program.options` in the recipe.",
}

LIBRARY = str(Path(__file__).parents[1])
"""The folder of the built-in programs."""

CALIBRATION = "calibration"
"""The split that needs no labels: it is given to the toolchains, and nothing is scored on it."""


def _explained(function: Callable[[Any], Notes]) -> Callable[[Any], Notes]:
    """Let a function return as ``error`` what is wrong with data and options; the program's own errors pass."""

    @functools.wraps(function)
    def call(argument: Any) -> Notes:
        try:
            return function(argument)
        except Exception as error:
            slug = getattr(error, "slug", None)
            if slug not in HINTS:
                raise
            what = getattr(error, "what", None) or SLUGS.get(slug, "The program failed.")
            return {"error": {"slug": slug, "what": what, "why": str(error), "hint": HINTS[slug]}}

    return call


@_explained
def check(job: Job) -> Notes:
    """Load the program and find the metric, and count the gate split's rows; no model is needed.

    Args:
        job: With ``options``: ``program``, ``program_options``, ``project`` and ``metric`` as below, and ``gate`` (the
            split's path).

    Returns:
        ``rows``: how many rows of the gate split will be right or wrong, or None where the program does not say so.
        Or ``error``.
    """
    program, options = _load(job)
    metric = _find_metric(job, program, options)
    if not hasattr(program, "count_rows") or metric.name != program.METRIC:
        return {"rows": None}
    return {"rows": program.count_rows(reading.read_arrays(Path(job["options"]["gate"])), options)}


@_explained
def read(job: Job) -> Notes:
    """Prepare the splits.

    Args:
        job: With ``options``: ``splits`` (name to ``{"path": file}``), ``program`` (its path), ``program_options``, and
            ``project`` (the folder that the user's imports count from); with ``input``: the model's tensors; with
            ``output``: where ``<split>/feeds.npz`` and ``<split>/targets.npz`` are written.

    Returns:
        ``splits``: name to ``{"n": rows}``; ``overlaps``: pairs of splits that share rows; ``warnings``: what the
        program warned of (``UserWarning``), inputs with numbers that are not finite, and copies of rows in the gate
        split, one line each. Or ``error``.
    """
    program, options = _load(job)
    job = {**job, "program": {"path": job["options"]["program"], "options": options}}
    splits, hashes, said = {}, {}, []
    for name, entry in job["options"]["splits"].items():
        path = Path(entry["path"])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            arrays = _prepare(program, job, split=name, path=path)
        hashes[name] = reading.hash_rows(arrays[0])
        copies = reading.describe_copies(hashes[name]) if name == "gate" else []
        texts = [*_list_warnings(caught), *reading.describe_not_finite(arrays[0]), *copies]
        said += [f"{name} ({path.name}): {text}" for text in texts]
        folder = Path(job["output"], name)
        folder.mkdir(parents=True, exist_ok=True)
        for file, values in zip(("feeds.npz", "targets.npz"), arrays, strict=True):
            np.savez(folder / file, allow_pickle=False, **values)
        splits[name] = {"n": len(hashes[name])}
    return {"splits": splits, "overlaps": reading.find_overlaps(hashes), "warnings": said}


@_explained
def evaluate(job: Job) -> Notes:
    """Score candidates against the source on the same rows.

    Args:
        job: With ``options``: ``source`` (npz of its outputs), ``candidates`` (id to npz), ``targets`` (npz),
            ``program``, ``program_options``, ``project``, ``metric`` (or None), ``seed`` and ``replicates``; with
            ``output``: where arrays are written.

    Returns:
        ``candidates``: id to ``metric``, ``higher_is_better``, ``source``, ``candidate``, ``n`` and ``kind``; with it
        ``lost`` and ``gained`` (proportion), ``differences`` (mean: npz of source less candidate, positive is worse) or
        ``replicates`` (bootstrap: npz of drops, positive is worse). A candidate whose outputs cannot be scored has
        ``error`` instead. ``doubt``, where there is one: why the targets may not belong to the predictions. Or
        ``error`` for all.
    """
    program, options = _load(job)
    metric, given = _find_metric(job, program, options), job["options"]
    outputs = reading.load_npz(given["source"])
    targets = reading.load_npz(given["targets"]) if getattr(program, "NEEDS_TARGETS", True) else outputs
    if given.get("metric") in {None, program.METRIC} and hasattr(program, "describe_metric"):
        described = program.describe_metric(targets, options)
        metric = dataclasses.replace(metric, name=described["name"], kind=described["kind"])
    source = scoring.decode(program, metric, outputs=outputs, targets=targets, options=options)
    measured = scoring.measure(metric, source, targets)

    @functools.lru_cache  # only the metrics that are no mean over rows need it, and then only once
    def resample_source() -> Any:
        return resample(source)

    def resample(predictions: Any) -> Any:
        replicates, seed = given.get("replicates", 2000), given.get("seed", 0)
        return scoring.resample(metric, predictions, targets, replicates=replicates, seed=seed)

    @functools.lru_cache
    def find_span() -> float:
        return scoring.find_span(metric, source, targets)

    @_explained
    def compare(path: str) -> Notes:
        predicted = reading.load_npz(path)
        candidate = scoring.decode(program, metric, outputs=predicted, targets=targets, options=options)
        doubt = program.find_doubt(predicted, targets, options) if hasattr(program, "find_doubt") else None
        row = scoring.compare(metric, source, candidate, targets)
        if row is None:
            sign = 1.0 if metric.higher_is_better else -1.0
            drops = sign * (resample_source() - resample(candidate))
            row = {"kind": "bootstrap", "replicates": scoring.check_replicates(metric, drops)}
        return {
            "metric": metric.name,
            "higher_is_better": metric.higher_is_better,
            "source": measured,
            "candidate": scoring.measure(metric, candidate, targets),
            "n": scoring.count_rows(targets),
            **(row if row["kind"] == "proportion" else {**row, "span": find_span()}),
            **({"doubt": doubt} if doubt else {}),
        }

    scores = {}
    for number, (name, path) in enumerate(given["candidates"].items()):
        scores[name] = compare(path)
        for key, value in scores[name].items():
            if isinstance(value, np.ndarray):
                scores[name][key] = str(Path(job["output"], f"{number:03d}-{key}.npz"))
                np.savez(scores[name][key], allow_pickle=False, **{key: value})
    return {"candidates": scores}


def _load(job: Job) -> tuple[Any, dict[str, Any]]:
    """Return the program and its whole options."""
    given = job["options"]
    if given.get("project"):
        # What is installed comes first: a file of the project must not stand in for a package.
        folders = [str(Path(given["project"], "src")), given["project"]]
        sys.path += [folder for folder in folders if folder not in sys.path]
    program = load_program(given["program"], LIBRARY)
    defaults, options = getattr(program, "OPTIONS", None), given.get("program_options") or {}
    if defaults is not None:
        unknown = next((name for name in options if name not in defaults), None)
        if unknown is not None:
            near = difflib.get_close_matches(unknown, list(defaults), 1)
            known = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(defaults)}"
            raise ReportedError("recipe-invalid", SLUGS["recipe-invalid"], f"{unknown!r}: {known}")
        options = {**defaults, **options}
    return program, options


def _find_metric(job: Job, program: Any, options: dict[str, Any]) -> metrics.Metric:
    given = job["options"]
    return metrics.find_metric(given.get("metric"), program, options, project=given.get("project"))


def _list_warnings(caught: list[warnings.WarningMessage]) -> list[str]:
    """Return what is for the user, each once; other warnings, such as deprecations, go on to the log."""
    for each in caught:
        if not issubclass(each.category, UserWarning):
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
    texts = [" ".join(str(each.message).split()) for each in caught if issubclass(each.category, UserWarning)]
    return list(dict.fromkeys(texts))


def _prepare(program: Any, job: Job, *, split: str, path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read one split, let the program prepare it, and fit the result to the model."""
    data = reading.read_arrays(path)
    try:
        feeds, targets = program.prepare(data, job)
    except Exception as error:
        slug = getattr(error, "slug", None)
        if slug not in SLUGS:
            raise
        raise ReportedError(slug, f"{SLUGS[slug][:-1]} ({split}: {path.name}).", str(error)) from error
    feeds = reading.fit_feeds(feeds, job["input"]["inputs"], split=split)
    needed = getattr(program, "NEEDS_TARGETS", True) and split != CALIBRATION
    rows = len(next(iter(feeds.values())))
    return feeds, reading.fit_targets(targets, rows, split=split, needed=needed)
