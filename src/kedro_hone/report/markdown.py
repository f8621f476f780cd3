"""The pull-request comment: the verdict and a small table, the details folded, never longer than a comment may be."""

# ruff: noqa: RUF001 - typographic signs

from __future__ import annotations

import re
from typing import Final

from kedro_hone.core.contract.registry import Publication
from kedro_hone.core.values.measurement import Status, Verdict
from kedro_hone.report.evidence import Evidence
from kedro_hone.report.gates import COLUMNS, list_gate_rows
from kedro_hone.report.records import CandidateRecord
from kedro_hone.report.view import (
    SPREAD_COLUMNS,
    describe_verdict,
    format_estimate,
    format_quality,
    group_candidates,
    list_key_numbers,
    list_spread_cells,
    list_spreads,
    say_provable,
    say_spread_unit,
    write_usage,
)
from kedro_hone.report.wording import (
    STATUS_NAMES,
    format_count,
    format_drop,
    format_metric,
    format_ms,
    format_percent,
    format_range,
    format_ratio,
    format_seconds,
    name_metric,
    name_route,
    name_shape,
    say_headline,
)

LIMIT: Final = 60_000
"""GitHub takes 65,536 characters; the rest is room for what a bot puts around."""

_SIGNS: Final = {
    Verdict.PASS: "✅",
    Verdict.KEEP: "🟦",
    Verdict.FAIL: "❌",
    Verdict.INCONCLUSIVE: "🟨",
}
_LONGEST_REASON: Final = 600


def render_markdown(evidence: Evidence, publication: Publication | None = None, *, limit: int = LIMIT) -> str:
    """Render the report as a comment.

    Args:
        evidence: The evidence.
        publication: Where the winner went, or None when it was not published (or not yet).
        limit: The most bytes of UTF-8 that it may take; at least 2,000.

    Returns:
        GitHub's Markdown. What comes from models and toolchains is escaped. Where it would be too long, whole rows are
        left out, the least interesting first, and it says how many.

    Raises:
        ValueError: The limit is too small for a verdict.
    """
    if limit < 2000:
        raise ValueError(f"a comment needs at least 2,000 bytes, not {limit}")
    head = _write_head(evidence)
    foot = f"\n<sub>Run `{_code(evidence.run_id)}`. Everything else is in `report.html` and `evidence.json`.</sub>\n"
    text, room = head, limit - len(foot.encode())
    if len(text.encode()) > room:
        return _cut(text, room) + foot
    for title, lines, rows in _list_details(evidence, publication):
        folded = _fold(title, lines, rows, room=room - len(text.encode()))
        text += folded
    return text + foot


def escape_markdown(text: str) -> str:
    """Make foreign text show as it is: no mark-up, no table cell, no image, no mention and no reference of it works."""
    flat = " ".join(text.split())
    flat = re.sub(r"([\\`*_{}\[\]<>#|!~$])", r"\\\1", flat)
    return re.sub(r"@(?=\w)|(?<=#)(?=\d)|(?<=ht)(?=tps?:)", lambda match: match[0] + "\u200b", flat)


def _code(text: str) -> str:
    """Make text safe between back-ticks, in a table too."""
    return " ".join(text.split()).replace("`", "'").replace("|", "\\|")


def _write_head(evidence: Evidence) -> str:
    lines = [
        f"## {_SIGNS[evidence.verdict]} {evidence.verdict.value}: {escape_markdown(say_headline(evidence))}",
        "",
        f"{describe_verdict(evidence.verdict)} Source: `{_code(evidence.source.uri)}`.",
    ]
    if evidence.winner and evidence.winner.route:
        lines[-1] += f" Winner: `{_code(name_route(evidence.winner.route))}`."
    lines += ["", *(f"- {escape_markdown(reason)}" for reason in evidence.reasons), ""]
    if rows := _list_main_rows(evidence):
        after = "winner" if evidence.winner else "best finalist"
        lines += [f"| | source | {after} | |", "|---|--:|--:|---|", *rows, ""]
    if evidence.speedup:
        provable = say_provable(evidence)
        lines += [f"Measured against {escape_markdown(evidence.speedup.baseline)}. {provable}".rstrip(), ""]
    return "\n".join(lines) + "\n"


def _list_main_rows(evidence: Evidence) -> list[str]:
    rows = []
    before = {both.source.shape: format_ms(both.source.p50_ms) for both in evidence.latencies}
    subject = next((one for one in evidence.finalists if one.id == evidence.subject), None)
    after = {one.shape: format_ms(one.p50_ms) for one in (subject.latency if subject else ())}
    for speedup in evidence.speedups:
        ratio, shape = speedup.ratio, speedup.shape
        rows.append(
            f"| latency, {escape_markdown(name_shape(shape))} | {before.get(shape, '–')} | {after.get(shape, '–')} "
            f"| **{format_ratio(ratio.estimate)}** ({format_percent(ratio.confidence)}: {format_range(ratio)}) |"
        )
    for quality in evidence.subject_quality:
        metric, lost = quality.metric, quality.drop
        drop = f"drop {format_drop(metric, lost.estimate)}, at most {format_drop(metric, lost.high)}"
        limit = "" if quality.limit is None else f" (limit {format_drop(metric, quality.limit, unit=False)})"
        rows.append(
            f"| {escape_markdown(name_metric(metric))}, {format_count(quality.n)} rows "
            f"| {format_metric(metric, quality.source)} | {format_metric(metric, quality.candidate)} | {drop}{limit} |"
        )
    if evidence.winner:
        rows += [
            f"| {number.label.lower()} | {number.before} | {number.value} | |"
            for number in list_key_numbers(evidence)
            if number.before and not number.label.startswith("Latency")
        ]
    return rows


_Detail = tuple[str, list[str], list[str]]


def _list_details(evidence: Evidence, publication: Publication | None) -> list[_Detail]:
    """Return title, fixed lines and rows that may be left out, of every folded part, the most useful first."""
    use = _write_use(evidence, publication)
    details = [use] if use else []
    if gates := _write_gates(evidence):
        details.append(gates)
    for group in group_candidates(evidence):
        title = f"{len(group.candidates)} {STATUS_NAMES[group.status]}"
        if group.status in {Status.MEASURED, Status.DROPPED}:
            lines = ["| candidate | speed-up in the race | quality | |", "|---|--:|--:|---|"]
            rows = [_write_measured(evidence, candidate) for candidate in group.candidates]
        else:
            lines = ["| candidate | why |", "|---|---|"]
            rows = [_write_reason(candidate) for candidate in group.candidates]
        details.append((title, lines, rows))
    if spreads := _write_spreads(evidence):
        details.append(spreads)
    details.append(_write_machine(evidence))
    return details


def _write_use(evidence: Evidence, publication: Publication | None) -> _Detail | None:
    usage = write_usage(evidence, published=publication.uri if publication else None)
    if not usage:
        return None
    return "Use the winner", ["```python", usage.replace("```", ""), "```"], []


def _write_gates(evidence: Evidence) -> _Detail | None:
    rows = []
    for row in list_gate_rows(evidence):
        name = name_route(row.candidate.route) if row.candidate else row.identifier
        cells = " | ".join(escape_markdown(cell) for cell in (row.gate, *row.cells, row.reason))
        rows.append(f"| `{_code(name)}` | {cells} |")
    head = [f"| candidate | gate | {' | '.join(COLUMNS)} | why |", f"|---|---|{'--:|' * (len(COLUMNS) - 1)}---|---|"]
    return ("Gates", head, rows) if rows else None


def _write_measured(evidence: Evidence, candidate: CandidateRecord) -> str:
    estimate, interval = format_estimate(candidate)
    role = "**winner**" if evidence.winner and evidence.winner.candidate == candidate.id else ""
    if not role and candidate.id in {finalist.id for finalist in evidence.finalists}:
        role = "finalist"
    remarks = [role, escape_markdown(candidate.reason), escape_markdown(candidate.note)]
    shown = f"{estimate} ({interval})" if candidate.route and estimate else estimate
    return (
        f"| `{_code(name_route(candidate.route))}` | {shown or '–'} | {format_quality(candidate)} "
        f"| {' '.join(remark for remark in remarks if remark)} |"
    )


def _write_spreads(evidence: Evidence) -> _Detail | None:
    spreads = list_spreads(evidence)
    if not spreads:
        return None
    lines = [
        f"How much worse than the source, in {escape_markdown(say_spread_unit(evidence))}; the gate limits *at most*.",
        "",
        f"| candidate | split | {' | '.join(SPREAD_COLUMNS)} |",
        f"|---|---|{'--:|' * len(SPREAD_COLUMNS)}",
    ]
    rows = [
        f"| `{_code(name_route(candidate.route))}` | {quality.split} | {' | '.join(list_spread_cells(quality))} |"
        for candidate, quality in spreads
    ]
    return "Loss of quality, row by row", lines, rows


def _write_reason(candidate: CandidateRecord) -> str:
    reason = candidate.reason or "No reason was recorded."
    if len(reason) > _LONGEST_REASON:
        reason = reason[: _LONGEST_REASON - 1] + "…"
    failure = f"`{_code(candidate.failure_class)}` " if candidate.failure_class else ""
    return f"| `{_code(name_route(candidate.route))}` | {failure}{escape_markdown(reason)} |"


def _write_machine(evidence: Evidence) -> _Detail:
    hardware, counts = evidence.hardware, evidence.counts
    system = "; ".join(part for part in (hardware.gpu, hardware.os) if part)
    took = format_seconds(evidence.optimization_seconds)
    lines = [
        f"- {escape_markdown(hardware.processor)}; {escape_markdown(system)}",
        f"- {counts.builds} builds, {counts.validations} validations, {counts.launches} launches; {took} in all",
        f"- recipe `{_code(str(evidence.recipe['digest']))}`",
        f"- source `{_code(evidence.source.digest)}`",
    ]
    if evidence.confirmation.control:
        control = ", ".join(
            f"{name_shape(one.shape)} {format_ratio(one.ratio.estimate)} ({format_range(one.ratio)})"
            for one in evidence.confirmation.control
        )
        lines.append(f"- source against itself: {escape_markdown(control)}")
    rows = []
    for one in evidence.environments:
        versions = ", ".join(f"{package} {version}" for package, version in one.versions.items())
        rows.append(f"- {escape_markdown(f'{one.toolchain}: {versions}')}")
    return "Environment and hardware", lines, rows


def _fold(title: str, lines: list[str], rows: list[str], *, room: int) -> str:
    """Return a folded part that fits into so many bytes, or nothing where not even its head does."""
    opening = f"<details><summary>{title}</summary>\n\n" + "\n".join(lines) + "\n"
    closing = "\n</details>\n"
    spare = len("\n… and 000,000 more in `report.html`.\n".encode())
    left = room - len((opening + closing).encode()) - spare
    if left < 0:
        return ""
    kept: list[str] = []
    for row in rows:
        left -= len(row.encode()) + 1
        if left < 0:
            break
        kept.append(row)
    missing = len(rows) - len(kept)
    rest = f"\n… and {format_count(missing)} more in `report.html`.\n" if missing else ""
    return opening + "".join(f"{row}\n" for row in kept) + rest + closing


def _cut(text: str, room: int) -> str:
    """Keep whole lines only; what comes from a model may be of any length."""
    kept = ""
    for line in text.splitlines(keepends=True):
        if len((kept + line).encode()) > room - 8:
            break
        kept += line
    return kept + "\n…\n"
