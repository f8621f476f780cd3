"""The worker of programs: reads the splits, and scores candidates. Run by path; imports nothing of ours."""

from __future__ import annotations

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
    "`arrays` maps one to the other. See docs/concepts/data.md.",
    "data-empty": "Put rows into the file, then dvc add, git commit and dvc push it.",
    "labels-mismatch": "Check that the data belong to this model, and the program's options `output` and `classes`.",
    "metric-unknown": "Leave `program.metric` empty for the program's own metric, or name one of these.",
    "program-failed": "See docs/how-to/write-a-program.md for what the functions of a program must return.",
    "recipe-invalid": "Mend `program.options` in the recipe.",
}

LIBRARY = str(Path(__file__).parents[1])
"""The folder of the built-in programs."""

CALIBRATION = "calibration"
"""The split that needs no labels: it is given to the toolchains, and nothing is scored on it."""


def check(job: Job) -> Notes:
    """Load the program and find the metric, and count the gate split's rows; no model is needed.

    Args:
        job: With ``options``: ``program``, ``program_options``, ``project`` and ``metric`` as below, and ``gate`` (the
            split's path).

    Returns:
        ``rows``: how many rows of the gate split will be right or wrong, or None where the program does not say so.
        Or ``error``.
    """
    return _explain(_check, job)


def read(job: Job) -> Notes:
    """Prepare the splits.

    Args:
        job: With ``options``: ``splits`` (name to ``{"path": file}``), ``program`` (its path), ``program_options``, and
            ``project`` (the folder that the user's imports count from); with ``input``: the model's tensors; with
            ``output``: where ``<split>/feeds.npz`` and ``<split>/targets.npz`` are written.

    Returns:
        ``splits``: name to ``{"n": rows, "rows": digest over the hashes of the rows}``; ``overlaps``: pairs of splits
        that share rows; ``warnings``: what the program warned of (``UserWarning``), one line each. Or ``error``.
    """
    return _explain(_read, job)


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
        ``error`` instead. Or ``error`` for all.
    """
    return _explain(_evaluate, job)


class UnknownOptionError(ValueError):
    """The recipe gives a program an option that it does not have."""

    slug = "recipe-invalid"

    def __init__(self, name: str, known: list[str]) -> None:
        near = difflib.get_close_matches(name, known, 1)
        super().__init__(f"{name!r}: " + (f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"))


def _explain(function: Callable[[Any], Notes], argument: Any) -> Notes:
    """Return what a function returns, or what it says of bad data; anything else is the program's own error."""
    try:
        return function(argument)
    except Exception as error:
        explained = _explain_error(error)
        if explained is None:
            raise
        return {"error": explained}


def _explain_error(error: Exception) -> Notes | None:
    slug = getattr(error, "slug", None)
    if slug not in HINTS:
        return None
    what = getattr(error, "what", None) or SLUGS.get(slug, "The program failed.")
    return {"slug": slug, "what": what, "why": str(error), "hint": HINTS[slug]}


def _check(job: Job) -> Notes:
    program, job = _load_program(job)
    given, options = job["options"], job["program"]["options"]
    metric = metrics.find_metric(given.get("metric"), program, options, project=given.get("project"))
    if not hasattr(program, "count_rows") or metric.name != program.METRIC:
        return {"rows": None}
    return {"rows": program.count_rows(reading.read_arrays(Path(given["gate"])), options)}


def _read(job: Job) -> Notes:
    program, job = _load_program(job)
    splits, hashes, said = {}, {}, []
    for name, entry in job["options"]["splits"].items():
        path = Path(entry["path"])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            feeds, targets = _prepare(program, job, split=name, path=path)
        said += [f"{name} ({path.name}): {text}" for text in _list_warnings(caught)]
        folder = Path(job["output"], name)
        folder.mkdir(parents=True, exist_ok=True)
        np.savez(folder / "feeds.npz", allow_pickle=False, **feeds)
        np.savez(folder / "targets.npz", allow_pickle=False, **targets)
        hashes[name] = reading.hash_rows(feeds)
        splits[name] = {"n": len(hashes[name]), "rows": reading.digest_rows(hashes[name])}
    return {"splits": splits, "overlaps": reading.find_overlaps(hashes), "warnings": said}


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
        if slug in SLUGS:
            error.what = f"{SLUGS[slug][:-1]} ({split}: {path.name})."  # type: ignore[attr-defined]
        raise
    feeds = reading.fit_feeds(feeds, job["input"]["inputs"], split=split)
    needed = getattr(program, "NEEDS_TARGETS", True) and split != CALIBRATION
    rows = len(next(iter(feeds.values())))
    return feeds, reading.fit_targets(targets, rows, split=split, needed=needed)


def _evaluate(job: Job) -> Notes:
    program, job = _load_program(job)
    given, options = job["options"], job["program"]["options"]
    metric = metrics.find_metric(given.get("metric"), program, options, project=given.get("project"))
    outputs = _load_arrays(given["source"])
    targets = _load_arrays(given["targets"]) if getattr(program, "NEEDS_TARGETS", True) else outputs
    if given.get("metric") in (None, program.METRIC):
        metric = scoring.describe(metric, program, targets, options)
    source = scoring.decode(program, metric, outputs=outputs, targets=targets, options=options)
    measured = scoring.measure(metric, source, targets)

    @functools.lru_cache  # only the metrics that are no mean over rows need it, and then only once
    def resample_source() -> Any:
        return resample(source)

    @functools.lru_cache
    def find_span() -> float:
        return scoring.find_span(metric, source, targets)

    def resample(predictions: Any) -> Any:
        replicates, seed = given.get("replicates", 2000), given.get("seed", 0)
        return scoring.resample(metric, predictions, targets, replicates=replicates, seed=seed)

    def compare(path: str) -> Notes:
        candidate = scoring.decode(program, metric, outputs=_load_arrays(path), targets=targets, options=options)
        row = scoring.compare(metric, source, candidate, targets)
        if row is None:
            sign = 1.0 if metric.higher_is_better else -1.0
            drops = sign * (resample_source() - resample(candidate))
            row = {"kind": "bootstrap", "replicates": scoring.check_replicates(metric, drops)}
        if row["kind"] != "proportion":
            row["span"] = find_span()
        return {
            "metric": metric.name,
            "higher_is_better": metric.higher_is_better,
            "source": measured,
            "candidate": scoring.measure(metric, candidate, targets),
            "n": scoring.count_rows(targets),
            **row,
        }

    scores = {}
    for number, (name, path) in enumerate(given["candidates"].items()):
        score = _explain(compare, path)
        scores[name] = {
            key: _save_array(value, Path(job["output"], f"{number:03d}-{key}.npz")) for key, value in score.items()
        }
    return {"candidates": scores}


def _save_array(value: Any, path: Path) -> Any:
    """Write an array to a file of its own and return the path; other values stay as they are."""
    if not isinstance(value, np.ndarray):
        return value
    np.savez(path, allow_pickle=False, **{path.stem.partition("-")[2]: value})
    return str(path)


def _load_arrays(path: str) -> dict[str, Any]:
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def _load_program(job: Job) -> tuple[Any, Job]:
    """Load the program, and return it with a job that holds its whole options, where ``prepare`` looks for them."""
    given = job["options"]
    path = Path(given["program"])
    if given.get("project"):
        # What is installed comes first: a file of the project must not stand in for a package.
        folders = [str(Path(given["project"], "src")), given["project"]]
        sys.path += [folder for folder in folders if folder not in sys.path]
    program = load_program(str(path), LIBRARY)
    defaults, options = getattr(program, "OPTIONS", None), given.get("program_options") or {}
    if defaults is not None:
        unknown = next((name for name in options if name not in defaults), None)
        if unknown is not None:
            raise UnknownOptionError(unknown, list(defaults))
        options = {**defaults, **options}
    return program, {**job, "program": {"path": str(path), "options": options}}
