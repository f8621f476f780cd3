"""The verdict on the console."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rich.console import Console, Group
from rich.panel import Panel
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from hone_runtime.contract.registry import Publication
from hone_runtime.text import clean_text
from hone_runtime.values.decision import Verdict
from kedro_hone.report import wording
from kedro_hone.report.evidence import Evidence
from kedro_hone.report.view import View

_STYLES: Final = {
    Verdict.PASS: "green",
    Verdict.KEEP: "blue",
    Verdict.FAIL: "red",
    Verdict.INCONCLUSIVE: "yellow",
    Verdict.DRAFT: "yellow",
}


def print_verdict(
    evidence: Evidence, console: Console, *, folder: Path, publication: Publication | None = None
) -> None:
    """Print the verdict, the finalists, the path of the report, and how to use the winner, in the console's colours.

    ``folder`` is the run's, and ``publication`` is that of the winner, if it was published.
    """
    view, style = View(evidence, publication), _STYLES[evidence.verdict]
    title = _make_text(evidence.verdict.value, style=f"bold {style}")
    text = Group(*_list_sentences(view))
    console.print(Panel(text, title=title, title_align="left", border_style=style, padding=(1, 2)))
    if evidence.finalists:
        console.print(_tabulate_finalists(view))
    tally = ", ".join(f"{len(group)} {wording.STATUS_NAMES[status]}" for status, group in view.groups.items())
    console.print(_make_text(f"Candidates: {tally}"))
    lines = [f"Report: {folder / 'report.html'}"]
    if publication is not None:
        alias = f", with the alias {publication.alias}" if publication.alias else ""
        signed = f", signed by {publication.signer}" if publication.signer else ""
        lines += [f"Published: {publication.uri}{alias}{signed}", publication.note]
    for line in filter(None, lines):
        console.print(_make_text(line), soft_wrap=True)
    if code := clean_text(view.usage):
        shown = Syntax(code, "python", background_color="default") if console.is_terminal else Text(code)
        console.print()
        console.print(shown, soft_wrap=True)


def _list_sentences(view: View) -> list[Text]:
    evidence, speedup = view.evidence, view.evidence.speedup
    lines = [_make_text(f"{view.headline}.", style="bold"), _make_text(view.meaning, style="dim")]
    if evidence.reasons:
        lines += [Text(), *(_make_text(f"• {reason}") for reason in evidence.reasons)]
    if speedup:
        shape, sure = wording.format_shape(speedup.shape).capitalize(), wording.format_percent(speedup.ratio.confidence)
        compared = (
            f"{shape}: {sure} interval {wording.format_range(speedup.ratio)} over {speedup.launches} paired launches, "
            f"noise floor {wording.format_ratio(speedup.noise_floor)}"
        )
        facts = (f"Against {evidence.source.baseline}", compared, f"On {view.machine}")
        lines += [Text(), *(_make_text(line, style="dim") for line in facts)]
    return lines + ([Text(), _make_text(view.load, style="yellow")] if view.load else [])


def _tabulate_finalists(view: View) -> Table:
    evidence = view.evidence
    table = Table(title="Finalists, measured again in fresh processes", title_justify="left", box=None, pad_edge=False)
    table.add_column("candidate", overflow="fold")
    shapes = [wording.format_shape(one.shape) for one in evidence.finalists[0].speedups]
    for title in (*shapes, "drop at most"):
        table.add_column(_make_text(title), justify="right", no_wrap=True)
    for finalist in evidence.finalists:
        won = evidence.winner is not None and evidence.winner.candidate == finalist.id
        name = _make_text(wording.format_candidate(evidence, finalist.id), style="bold" if won else "")
        if won:
            name.append("  winner", style="green")
        if finalist.reason:
            name.append(_make_text(f"\n{finalist.reason}", style="dim"))
        times = {one.shape: one for one in view.list_times(finalist.speedups, finalist.latency)}
        known = [times.get(shape) for shape in shapes]
        cells = [f"{one.ratio}\n{one.rest}\n{one.candidate}" if one else "" for one in known]
        metrics = [(one.metric, one.drop.high) for one in evidence.quality if one.id == finalist.id]
        drops = [f"{wording.format_metric_name(name)} {wording.format_drop(name, high)}" for name, high in metrics]
        table.add_row(name, *map(_make_text, (*cells, "\n".join(drops) or "not looked at")))
    return table


def _make_text(foreign: str, style: str = "") -> Text:
    """Return text for the terminal: rich would pass on escape sequences in a model's name."""
    return Text(clean_text(foreign), style=style)
