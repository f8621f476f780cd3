"""The verdict on the console."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rich.console import Console, Group
from rich.panel import Panel
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from kedro_hone.core.contract.registry import Publication
from kedro_hone.core.text import clean_text
from kedro_hone.core.values.decision import Verdict
from kedro_hone.report import wording
from kedro_hone.report.evidence import Evidence
from kedro_hone.report.view import MEANINGS, group_candidates, write_usage

_STYLES: Final = {Verdict.PASS: "green", Verdict.KEEP: "blue", Verdict.FAIL: "red", Verdict.INCONCLUSIVE: "yellow"}


def print_verdict(
    evidence: Evidence, console: Console, *, folder: Path, publication: Publication | None = None
) -> None:
    """Print the verdict, the finalists, where the report is, and how to use the winner, in the console's colours.

    ``folder`` is the run's, and ``publication`` says where the winner went, if it was published.
    """
    style = _STYLES[evidence.verdict]
    console.print(
        Panel(
            Group(*_list_sentences(evidence)),
            title=_make_text(evidence.verdict.value, style=f"bold {style}"),
            title_align="left",
            border_style=style,
            padding=(1, 2),
        )
    )
    if evidence.finalists:
        console.print(_tabulate_finalists(evidence))
    groups = group_candidates(evidence).items()
    tally = ", ".join(f"{len(candidates)} {wording.STATUS_NAMES[status]}" for status, candidates in groups)
    console.print(_make_text(f"Candidates: {tally}"))
    console.print(_make_text(f"Report: {folder / 'report.html'}"), soft_wrap=True)
    if publication is not None:
        alias = f", with the alias {publication.alias}" if publication.alias else ""
        signed = f", signed by {publication.signer}" if publication.signer else ""
        console.print(_make_text(f"Published: {publication.uri}{alias}{signed}"), soft_wrap=True)
        if publication.note:
            console.print(_make_text(publication.note), soft_wrap=True)
    if code := clean_text(write_usage(evidence, publication)):
        shown = Syntax(code, "python", background_color="default") if console.is_terminal else Text(code)
        console.print()
        console.print(shown, soft_wrap=True)


def _list_sentences(evidence: Evidence) -> list[Text]:
    lines = [
        _make_text(f"{wording.say_headline(evidence)}.", style="bold"),
        _make_text(MEANINGS[evidence.verdict], style="dim"),
        *([Text()] if evidence.reasons else []),
        *(_make_text(f"• {reason}") for reason in evidence.reasons),
    ]
    if speedup := evidence.speedup:
        shape, sure = wording.name_shape(speedup.shape).capitalize(), wording.format_percent(speedup.ratio.confidence)
        compared = (
            f"{shape}: {sure} interval {wording.format_range(speedup.ratio)} over {speedup.launches} paired launches, "
            f"noise floor {wording.format_ratio(speedup.noise_floor)}"
        )
        machine = ", ".join(filter(None, (evidence.hardware.processor, evidence.hardware.gpu)))
        said = (f"Against {evidence.source.baseline}", compared, f"On {machine}")
        lines += [Text(), *(_make_text(line, style="dim") for line in said)]
    if busy := wording.say_load(evidence):
        lines += [Text(), _make_text(busy, style="yellow")]
    return lines


def _tabulate_finalists(evidence: Evidence) -> Table:
    shapes = [speedup.shape for speedup in evidence.finalists[0].speedups]
    table = Table(title="Finalists, measured again in fresh processes", title_justify="left", box=None, pad_edge=False)
    table.add_column("candidate", overflow="fold")
    for title in (*map(wording.name_shape, shapes), "drop at most"):
        table.add_column(_make_text(title), justify="right", no_wrap=True)
    for finalist in evidence.finalists:
        won = evidence.winner is not None and evidence.winner.candidate == finalist.id
        name = _make_text(wording.name_candidate(evidence, finalist.id), style="bold" if won else "")
        if won:
            name.append("  winner", style="green")
        if finalist.reason:
            name.append(_make_text(f"\n{finalist.reason}", style="dim"))
        cells = []
        for shape in shapes:
            ratios = [one.ratio for one in finalist.speedups if one.shape == shape]
            times = [one.p50_ms for one in finalist.latency if one.shape == shape]
            lines = [line for ratio in ratios for line in wording.format_pair(ratio)]
            cells.append("\n".join([*lines, *map(wording.format_ms, times)]))
        looked = [one for one in evidence.quality if one.id == finalist.id]
        drops = [f"{wording.name_metric(q.metric)} {wording.format_drop(q.metric, q.drop.high)}" for q in looked]
        table.add_row(name, *map(_make_text, (*cells, "\n".join(drops) or "not looked at")))
    return table


def _make_text(foreign: str, style: str = "") -> Text:
    """Return text for the terminal: rich would pass on the escape sequences that a model's name may hold."""
    return Text(clean_text(foreign), style=style)
