"""How much faster a model is, as the beginning of a sentence."""

from __future__ import annotations

from hone_runtime.values.measurement import Interval, Speedup, is_telling
from kedro_hone.report.wording import TOO_FEW, format_ratio, format_shape, is_wide, join_words


def format_speed(speedups: tuple[Speedup, ...]) -> str:
    """Return how much faster it is at which shapes, as the beginning of a sentence."""
    ratios = [speedup.ratio for speedup in speedups]
    if not ratios:
        text = "every gate holds"
    elif len(ratios) > 3:
        least, most = (format_ratio(choose(one.estimate for one in ratios)) for choose in (min, max))
        ends = Interval(estimate=1, low=min(one.low for one in ratios), high=max(one.high for one in ratios))
        span = _format_in_words(ends) if any(map(_is_vague, ratios)) else f"{least} to {most}"
        text = f"{span} {_format_gain(ends)} across {len(ratios)} shapes"
    else:
        groups: dict[str, dict[str, list[str]]] = {}
        for one in speedups:
            shapes = groups.setdefault(_format_gain(one.ratio), {}).setdefault(_format_in_words(one.ratio), [])
            shapes.append(format_shape(one.shape))
        text = join_words(
            f"{ratio} {'at' if place else f'{gain} at'} {join_words(at)}"
            for gain, rows in groups.items()
            for place, (ratio, at) in enumerate(rows.items())
        )
    return text[0].upper() + text[1:]


def _format_gain(ratio: Interval) -> str:
    return "faster" if ratio.low > 1 else "as fast"


def _format_in_words(ratio: Interval) -> str:
    """Return a ratio within a sentence, as its interval if the estimate alone would be misleading."""
    if not _is_vague(ratio):
        return format_ratio(ratio.estimate)
    if not is_telling(ratio):
        least, middle = format_ratio(ratio.low), format_ratio(ratio.estimate)
        return f"at least {least}" if ratio.low >= 1 else f"about {middle} ({TOO_FEW})"
    return f"between {format_ratio(ratio.low)} and {format_ratio(ratio.high)}"


def _is_vague(ratio: Interval) -> bool:
    """Return whether an interval is wide, or contains 1: then neither faster nor slower is proved."""
    return is_wide(ratio) or ratio.low <= 1 <= ratio.high
