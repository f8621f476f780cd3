"""How numbers, names and verdicts are written in every report."""

# ruff: noqa: RUF001, RUF002 - typographic signs are what this module is about

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterable
from typing import Final

from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.values.artifact import Precision, Stage
from hone_runtime.values.composite import COMPOSITE
from hone_runtime.values.judgement import Judgement
from hone_runtime.values.measurement import BUSY, Interval, Quality, Status, is_bounded, is_telling
from kedro_hone.report.evidence import Evidence
from kedro_hone.report.records import CandidateRecord

NONE: Final = "–"
"""The placeholder for an unknown number."""

TOO_FEW: Final = "too few measurements for an interval"
"""Where neither end of a ratio's interval is informative."""

SPREAD_COLUMNS: Final = ("mean", "at most", "best row", "5 %", "median", "95 %", "99 %", "worst row")
GATE_COLUMNS: Final = ("limit", "measured", "interval", "judgement")
STATUS_NAMES: Final = {status: status.value.replace("_", " ") for status in Status} | {Status.DROPPED: "dropped early"}

_WIDE: Final = 1.5  # an interval is wide if its upper end is more than this many times its lower end
_LARGEST: Final = 1_000_000  # no ratio above it is written in full
_BITS: Final = ("int4", "int8", "fp16", "bf16", "fp32")
"""The precisions, the lowest first."""
_PRECISIONS: Final = re.compile("|".join(_BITS))
_FRACTIONS: Final = re.compile(
    r"accuracy|precision|recall|f1|jaccard|iou|auc|top_?\d|agreement|fidelity|exact|error_rate", re.IGNORECASE
)


def format_ratio(ratio: float, decimals: int | None = None) -> str:
    """Return such as ``4.6×``, with about two significant digits beyond 1 if no decimals are given."""
    if ratio > _LARGEST:
        return f"over {_LARGEST:,}×"
    return f"{ratio:,.{_count_decimals(ratio) if decimals is None else decimals}f}×"


def format_range(ratio: Interval) -> str:
    """Return such as ``4.2–5.1×``, with the decimals of the estimate and one more if the ends would look equal.

    An upper end that tells nothing is not written, nor is the lower end if it does not prove "faster".
    """
    decimals = _count_decimals(ratio.estimate)
    if not is_telling(ratio):
        return f"{format_ratio(ratio.low)} or more" if ratio.low >= 1 else TOO_FEW
    if f"{ratio.low:.{decimals}f}" == f"{ratio.high:.{decimals}f}":
        decimals += 1
    return f"{ratio.low:,.{decimals}f}–{ratio.high:,.{decimals}f}×"


def describe_speed(name: str, ratio: Interval, *, load: float | None = None) -> str:
    """Return such as ``2.4× (2.3–2.5×): NAME``, with a remark if other processes used much of the cores, ``load``."""
    busy = ", on a busy machine" if (load or 0.0) > BUSY else ""
    return f"{format_ratio(ratio.estimate)} ({format_range(ratio)}){busy}: {name}"


def format_pair(ratio: Interval) -> tuple[str, str]:
    """Return the first and the second text of a ratio: estimate and interval, or a wide interval first."""
    middle, ends = format_ratio(ratio.estimate), format_range(ratio)
    return (ends, f"middle {middle}") if is_wide(ratio) and ends != TOO_FEW else (middle, ends)


def format_least(ratio: Interval) -> str:
    """Return such as ``4.6× (at least 4.2×)``."""
    least = f"at least {format_ratio(ratio.low)}" if ratio.low >= 1 or is_telling(ratio) else TOO_FEW
    return f"{format_ratio(ratio.estimate)} ({least})"


def format_ms(milliseconds: float) -> str:
    """Return a time with three significant digits, in µs, ms or s."""
    if milliseconds >= 1000:
        return f"{_round(milliseconds / 1000)} s"
    return f"{_round(milliseconds)} ms" if milliseconds >= 0.1 else f"{_round(milliseconds * 1000)} µs"


def format_times(milliseconds: Interval) -> str:
    """Return a time with its interval, such as ``40.5 µs (40.1 µs–41.0 µs)``."""
    return f"{format_ms(milliseconds.estimate)} ({format_ms(milliseconds.low)}–{format_ms(milliseconds.high)})"


def format_count(count: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun, such as ``1 build`` or ``2 builds``; the plural if it is not noun + s."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


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
    """Return whether a metric is a share, to be shown in per cent and points."""
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


def format_metric_name(metric: str) -> str:
    """Return a metric's name for display: ``accuracy_score`` is accuracy."""
    return metric.removesuffix("_score").replace("_", " ")


def format_rate(rate: float) -> str:
    """Return a number of rows per second."""
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def format_shape(shape: str) -> str:
    """Return a shape's name for display: ``batch64`` is batch 64."""
    return re.sub(r"(?<=[a-z])[_-]?(?=\d)", " ", shape).replace("_", " ")


def format_route(route: tuple[str, ...], *, last: int | None = None) -> str:
    """Return a route in one line; ``last`` is the number of adaptors at its end to show."""
    if not route:
        return "source model"
    kept = route[-last:] if last else route
    return " → ".join(kept if len(kept) == len(route) else ("…", *kept))


def format_name(candidate: CandidateRecord, *, last: int | None = None) -> str:
    """Return a candidate's route with its own options in one line; a composite, with several routes, by its id."""
    options = [f"{name}={json.dumps(value)}" for row in candidate.options.values() for name, value in row.items()]
    behind = f" ({', '.join(options)})" if options else ""
    return COMPOSITE if candidate.id == COMPOSITE else format_route(candidate.route, last=last) + behind


def format_candidate(evidence: Evidence, identifier: str) -> str:
    """Return the name of a candidate, or its id if the evidence does not list it."""
    candidate = evidence.find_candidate(identifier)
    return format_name(candidate) if candidate else identifier


def describe_candidate(evidence: Evidence, identifier: str) -> str:
    """Return a candidate in words, such as ``int8 in ONNX Runtime``; of a composite, those of each shape."""
    candidate = evidence.find_candidate(identifier)
    if candidate is None:
        return identifier
    if not candidate.parts:
        return _describe_route(candidate.route) if candidate.id != COMPOSITE else "the fastest candidate of each shape"
    shapes: dict[str, list[str]] = {}
    for shape, part in candidate.parts.items():
        shapes.setdefault(describe_candidate(evidence, part), []).append(format_shape(shape))
    return ", ".join(f"{words} for {join_words(served)}" for words, served in shapes.items())


def _describe_route(route: tuple[str, ...]) -> str:
    if not route:
        return "the source model"
    known = read_catalogue()
    toolchain = known.toolchains.get(route[-1].partition(".")[0])
    runtime = (toolchain.title if toolchain else "") or route[-1].partition(".")[0]
    return f"{_find_precision(route)} in {runtime}"


def _find_precision(route: tuple[str, ...]) -> str:
    """Return the lowest precision that an adaptor of a route introduces; that of the model if there is none.

    A runtime for fp32 and int8 computes in the precision of the graph. Where only the weights are stored in fewer bits,
    the precision of the arithmetic is named as well.
    """
    weights = [name for name in route if name.endswith("-weights")]
    stored = _choose_lowest([precision for name in weights for precision in _list_precisions(name)])
    computed = _choose_lowest([one for name in route if name not in weights for one in _list_precisions(name)])
    return f"{stored} weights and {computed}" if weights else computed


def _list_precisions(name: str) -> list[str]:
    """Return the precisions that an adaptor introduces."""
    adaptor = read_catalogue().adaptors.get(name)
    if adaptor is None:
        return _PRECISIONS.findall(name)
    changes = Precision.FP32 not in adaptor.precisions or adaptor.stage is Stage.COMPRESS
    return [one.value for one in adaptor.precisions - {Precision.FP32}] if changes else []


def _choose_lowest(precisions: list[str]) -> str:
    return min(precisions, key=_BITS.index) if precisions else Precision.FP32.value


def mark_origin(confirmed: Container[str], identifier: str) -> str:
    """Return where a candidate's speed-up is from, to be read after it; empty if none of the run was confirmed.

    The race's estimates are on another scale: in it, many models share the memory and the caches.
    """
    if not confirmed:
        return ""
    return ", confirmed" if identifier in confirmed else " in the race"


def format_quality(candidate: CandidateRecord) -> str:
    """Return a candidate's metric on the search split."""
    return format_metric(candidate.quality.metric, candidate.quality.candidate) if candidate.quality else NONE


def format_gate(judgement: Judgement) -> str:
    """Return the gate's name, with its shape, and with the compared model if it is not the source."""
    shape = f", {format_shape(judgement.shape)}" if judgement.shape else ""
    return f"{judgement.name}{shape}{f', against {judgement.against}' if judgement.against else ''}"


def format_judgement(judgement: Judgement) -> tuple[str, ...]:
    """Return the cells of ``GATE_COLUMNS``: numbers have four significant digits."""
    limit, measured = (
        NONE if number is None else f"{number:,.4g} {format_metric_name(judgement.unit)}".rstrip()
        for number in (judgement.limit, judgement.measured)
    )
    low, high, interval = judgement.low, judgement.high, NONE
    if low is not None and high is not None:
        ratio = Interval(estimate=judgement.measured or low, low=low, high=high)
        if not (is_bounded(low) or is_bounded(high)):
            interval = "unbounded"
        else:
            told = judgement.unit != "times" or is_telling(ratio)
            interval = f"{low:.4g} to {high:.4g}" if told else format_range(ratio)
    return limit, measured, interval, judgement.judgement.value


def format_unit(metric: str) -> str:
    """Return the unit of a metric's drop, such as ``points of argmax agreement``."""
    return f"{'points of ' if is_fraction(metric) else ''}{format_metric_name(metric)}"


def format_spread(quality: Quality) -> tuple[str, ...]:
    """Return the cells of ``SPREAD_COLUMNS``: the mean with the gate's bound, then the rows' quantiles."""
    quantiles = quality.spread.model_dump().values() if quality.spread else ()
    numbers = (quality.drop.estimate, quality.drop.high, *quantiles)
    return tuple(format_drop(quality.metric, number, unit=False) for number in numbers)


def format_loss(quality: Quality) -> str:
    """Return how a metric changed, and by how much at most, as part of a sentence."""
    name, bound = format_metric_name(quality.metric), format_drop(quality.metric, quality.drop.high)
    if quality.drop.estimate <= 0:
        return f"{name} unchanged within {bound}"
    worse = "down" if quality.higher_is_better else "up"
    return f"{name} {worse} by {format_drop(quality.metric, quality.drop.estimate)}, at most {bound}"


def join_words(words: Iterable[str]) -> str:
    """Return such as ``a, b and c``."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def is_wide(ratio: Interval) -> bool:
    """Return whether the upper end is so far above the lower one that the estimate alone would be misleading."""
    return ratio.high > ratio.low * _WIDE


def _count_decimals(ratio: float) -> int:
    return 2 if abs(ratio) < 2 else 1 if abs(ratio) < 10 else 0


def _round(number: float) -> str:
    digits = 0 if number >= 99.95 else 1 if number >= 9.995 else 2 if number >= 0.9995 else 3
    return f"{number:,.{digits}f}"
