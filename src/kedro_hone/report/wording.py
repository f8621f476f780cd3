"""How numbers and verdicts are written: the same on the page, in the comment and on the console."""

# ruff: noqa: RUF001, RUF002 - typographic signs are what this module is about

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Final

from kedro_hone.core.values.artifact import Artifact
from kedro_hone.core.values.composite import COMPOSITE, read_parts
from kedro_hone.core.values.decision import Verdict
from kedro_hone.core.values.measurement import Interval, Quality, Speedup, Status, is_bounded
from kedro_hone.core.values.outcome import Outcome
from kedro_hone.report.evidence import Evidence
from kedro_hone.report.records import CandidateRecord

STATUS_NAMES: Final = {status: status.value.replace("_", " ") for status in Status} | {Status.DROPPED: "dropped early"}

UNLOCKED: Final = {"shared": "none: the run’s interpreter", "named": "none: the recipe names the interpreter"}
"""What stands in the place of a lock, by the origin of an environment that has none."""

_HEADLINES: Final = {
    Verdict.KEEP: "The original stays: no candidate was faster and held every gate",
    Verdict.FAIL: "No candidate meets the recipe’s gates",
    Verdict.INCONCLUSIVE: "The measurements cannot decide",
}
_WIDE: Final = 1.5  # an interval whose upper end is more than so many times its lower end
_LOAD_GATE: Final = "other_load"
_BUSY: Final = 0.1  # a machine of which other processes took more than this share of the cores
_FRACTIONS: Final = re.compile(
    r"accuracy|precision|recall|f1|jaccard|iou|auc|top_?\d|agreement|fidelity|exact|error_rate", re.IGNORECASE
)


def format_ratio(ratio: float, decimals: int | None = None) -> str:
    """Return such as ``4.6×``, with about two significant digits beyond 1 where no decimals are given."""
    return f"{ratio:,.{_count_decimals(ratio) if decimals is None else decimals}f}×"


def format_range(ratio: Interval) -> str:
    """Return such as ``4.2–5.1×``, with the decimals of the estimate and one more where the ends would look equal."""
    decimals = _count_decimals(ratio.estimate)
    if not is_bounded(ratio.high):
        return f"{format_ratio(ratio.low)} or more"
    if f"{ratio.low:.{decimals}f}" == f"{ratio.high:.{decimals}f}":
        decimals += 1
    return f"{ratio.low:,.{decimals}f}–{ratio.high:,.{decimals}f}×"


def format_pair(ratio: Interval) -> tuple[str, str]:
    """Return what is shown first of a ratio and what next to it: estimate and interval, or a wide interval first."""
    middle, ends = format_ratio(ratio.estimate), format_range(ratio)
    return (ends, f"middle {middle}") if _is_wide(ratio) else (middle, ends)


def format_ms(milliseconds: float) -> str:
    """Return a time with three significant digits, in µs, ms or s."""
    if milliseconds >= 1000:
        return f"{_round(milliseconds / 1000)} s"
    return f"{_round(milliseconds)} ms" if milliseconds >= 0.1 else f"{_round(milliseconds * 1000)} µs"


def format_bytes(size: int) -> str:
    """Return a size in decimal units, such as ``1.24 MB``."""
    number = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if number < 999.5:
            return f"{_round(number)} {unit}"
        number /= 1000
    return f"{_round(number)} TB"


def format_seconds(seconds: float) -> str:
    """Return a duration, such as ``3 min 20 s``."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def format_percent(fraction: float) -> str:
    """Return such as ``95 %`` or ``98.3 %``."""
    return f"{fraction * 100:.3g} %"


def is_fraction(metric: str) -> bool:
    """Whether a metric is a share of something, which people read in per cent and points."""
    return bool(_FRACTIONS.search(metric))


def format_metric(metric: str, value: float) -> str:
    """Return a metric's value: per cent for shares, four significant digits for anything else."""
    return f"{value * 100:.2f} %" if is_fraction(metric) else f"{value:.4g}"


def format_drop(metric: str, drop: float, *, unit: bool = True) -> str:
    """Return a drop in the metric's unit: points (hundredths) for shares."""
    if not is_bounded(drop):
        return "unbounded"
    if not is_fraction(metric):
        return f"{drop:.3g}"
    number = f"{drop * 100:.2f}".removesuffix("0")
    number = "0.0" if number == "-0.0" else number.replace("-", "−")
    return f"{number} points" if unit else number


def name_metric(metric: str) -> str:
    """Return a metric's name for people: ``accuracy_score`` is accuracy."""
    return metric.removesuffix("_score").replace("_", " ")


def name_shape(shape: str) -> str:
    """Return a shape's name for people: ``batch64`` is batch 64."""
    return re.sub(r"(?<=[a-z])[_-]?(?=\d)", " ", shape).replace("_", " ")


def name_route(route: tuple[str, ...], *, last: int | None = None) -> str:
    """Return a route in one line; ``last`` keeps only so many adaptors at its end."""
    if not route:
        return "source model"
    kept = route[-last:] if last else route
    return " → ".join(kept if len(kept) == len(route) else ("…", *kept))


def name_candidate(evidence: Evidence, identifier: str) -> str:
    """Return a candidate's route in one line, or its id when the evidence does not list it."""
    candidate = evidence.find_candidate(identifier)
    return name_record(candidate) if candidate else identifier


def name_record(candidate: CandidateRecord, *, last: int | None = None) -> str:
    """Return a candidate's route in one line, with its own of several values of options; a composite by its id."""
    said = [f"{name}={json.dumps(value)}" for row in candidate.options.values() for name, value in row.items()]
    behind = f" ({', '.join(said)})" if said else ""
    return COMPOSITE if candidate.id == COMPOSITE else name_route(candidate.route, last=last) + behind


def say_parts(outcome: Outcome) -> str:
    """Say of a composite which candidate serves which shapes; an empty string of any other outcome."""
    if not isinstance(outcome, Artifact) or not (parts := read_parts(outcome)):
        return ""
    served = [", ".join((*part.shapes, *(["all other shapes"] if part is parts[0] else []))) for part in parts]
    said = "; ".join(f"{shapes} by {part.candidate}" for part, shapes in zip(parts, served, strict=True))
    return f"A composite: {said}."


def say_headline(evidence: Evidence) -> str:
    """Return the verdict as one plain sentence without a full stop at the end.

    Where the recipe names no class of the author's, it says what was measured against.
    """
    if evidence.verdict is Verdict.INCONCLUSIVE and not any(finalist.speedups for finalist in evidence.finalists):
        return "No candidate could be compared with the original"
    said = _HEADLINES.get(evidence.verdict, "")
    if evidence.verdict is Verdict.PASS:
        said = ", ".join([_say_speed(evidence.speedups), *map(_say_quality, evidence.subject_quality[:1])])
        said += ", on a busy machine" if _find_load(evidence)[0] > _BUSY else ""
    named, baseline = (evidence.recipe.get("model") or {}).get("module"), evidence.source.baseline
    return said if named or not baseline else f"{said}, measured against {baseline}"


FRONT: Final = (
    "No other candidate is as fast, as accurate and as small at once. These are estimates of the race and of the "
    "search split, of which the best look better than they are. The one that you choose is confirmed and gated:"
)
"""What the Pareto front is."""


def say_provable(evidence: Evidence) -> str:
    """Return what the gate split can prove at all, in one sentence, or an empty string where it is not known."""
    for quality in evidence.subject_quality:
        if (least := quality.provable) is not None:
            metric, limit, sure = quality.metric, quality.limit, format_percent(quality.drop.confidence)
            asked = "" if limit is None else f"; the recipe asks for {format_drop(metric, limit)}"
            return (
                f"With {quality.n:,} rows the gate split cannot prove a limit below {format_drop(metric, least)} at "
                f"{sure}, even when nothing is lost{asked}."
            )
    return ""


def say_load(evidence: Evidence) -> str:
    """Return that the machine was busy with other work while it compared, in two sentences; else an empty string."""
    share, what = _find_load(evidence)
    compared = any(candidate.route and candidate.ratios for candidate in evidence.candidates)
    if share <= _BUSY or not compared:
        return ""
    return (
        f"This machine was busy: other processes took {share * 100:.0f} % of its cores while the candidates were "
        f"{what}. Times may be far off, and ratios too: load slows programs of many threads most, often the source. "
        "Measure again on a quiet machine before you rely on them."
    )


def _find_load(evidence: Evidence) -> tuple[float, str]:
    """Return the share of the cores that others took while it was confirmed, or else raced; 0 where it is not known.

    Where the winner was compared with what is published, too, it is the larger share, which its judgement has alone.
    """
    gates = [row.measured for row in evidence.gates if row.name == _LOAD_GATE and row.against]
    if shares := [share for share in (evidence.confirmation.other_load, *gates) if share is not None]:
        return max(shares), "confirmed"
    return evidence.race.other_load or 0.0, "raced"


def _say_speed(speedups: tuple[Speedup, ...]) -> str:
    ratios = [speedup.ratio for speedup in speedups]
    if not ratios:
        said = "faster"
    elif len(ratios) > 3:
        least, most = (format_ratio(choose(one.estimate for one in ratios)) for choose in (min, max))
        ends = Interval(estimate=1, low=min(one.low for one in ratios), high=max(one.high for one in ratios))
        span = _say_ratio(ends) if any(map(_is_vague, ratios)) else f"{least} to {most}"
        said = f"{span} {_name_gain(ends)} across {len(ratios)} shapes"
    else:
        groups: dict[str, dict[str, list[str]]] = {}
        for one in speedups:
            shapes = groups.setdefault(_name_gain(one.ratio), {}).setdefault(_say_ratio(one.ratio), [])
            shapes.append(name_shape(one.shape))
        said = _list_words(
            f"{ratio} {'at' if place else f'{gain} at'} {_list_words(at)}"
            for gain, rows in groups.items()
            for place, (ratio, at) in enumerate(rows.items())
        )
    return said[0].upper() + said[1:]


def _name_gain(ratio: Interval) -> str:
    return "faster" if ratio.low > 1 else "as fast"


def _say_ratio(ratio: Interval) -> str:
    """Return a ratio within a sentence; where its middle would promise too much, its interval."""
    if not _is_vague(ratio):
        return format_ratio(ratio.estimate)
    if not is_bounded(ratio.high):
        return f"at least {format_ratio(ratio.low)}"
    return f"between {format_ratio(ratio.low)} and {format_ratio(ratio.high)}"


def _say_quality(quality: Quality) -> str:
    name, bound = name_metric(quality.metric), format_drop(quality.metric, quality.drop.high)
    if quality.drop.estimate <= 0:
        return f"{name} unchanged within {bound}"
    worse = "down" if quality.higher_is_better else "up"
    return f"{name} {worse} by {format_drop(quality.metric, quality.drop.estimate)}, at most {bound}"


def _list_words(words: Iterable[str]) -> str:
    """Return such as ``a, b and c``."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def _is_vague(ratio: Interval) -> bool:
    """Return whether an interval is wide, or has 1 in it: then neither faster nor slower is proved."""
    return _is_wide(ratio) or ratio.low <= 1 <= ratio.high


def _is_wide(ratio: Interval) -> bool:
    return ratio.high > ratio.low * _WIDE


def _count_decimals(ratio: float) -> int:
    return 2 if abs(ratio) < 2 else 1 if abs(ratio) < 10 else 0


def _round(number: float) -> str:
    digits = 0 if number >= 99.95 else 1 if number >= 9.995 else 2 if number >= 0.9995 else 3
    return f"{number:,.{digits}f}"
