"""The verdict on the console: six parts, each one line off a terminal, where programs read them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from hone_runtime.contract.registry import Publication
from hone_runtime.text import clean_text
from hone_runtime.values.composite import COMPOSITE
from hone_runtime.values.decision import Verdict
from hone_runtime.values.measurement import Finalist
from kedro_hone.report import wording
from kedro_hone.report.advice import find_next_step, list_causes
from kedro_hone.report.evidence import Evidence
from kedro_hone.report.lines import flatten, is_terminal, write_raw
from kedro_hone.report.snippets import complete_code, complete_command, find_project
from kedro_hone.report.view import View

_STYLES: Final = {
    Verdict.PASS: "green",
    Verdict.KEEP: "blue",
    Verdict.FAIL: "red",
    Verdict.INCONCLUSIVE: "yellow",
    Verdict.DRAFT: "yellow",
}
_INDENT: Final = 14
"""The width of the labels, the longest of which is a verdict."""
_PLAIN: Final = frozenset({"Report", "Published", "Load"})
"""The labels of parts that people copy from the terminal, which are never folded."""


def print_verdict(
    evidence: Evidence,
    console: Console,
    *,
    folder: Path,
    publication: Publication | None = None,
    translate: Callable[[str], str] = str,
) -> None:
    """Print the verdict, the winner in words, the finalists, the report's path, how to load, and the next step.

    Off a terminal each part is a line with its label, and each finalist too: nothing is wrapped, padded or colored.
    ``folder`` is the run's, and ``publication`` is that of the winner, if it was published. ``translate`` is applied to
    each text, for users who write no recipe.
    """
    kept = folder / "winner"
    view = View(evidence, publication, place=str(kept.absolute()) if kept.is_dir() else "")
    project = find_project(folder)
    before, after = (
        [(label, complete_command(translate(text), project)) for label, text in part]
        for part in (_list_verdict(view), _list_rest(view, folder))
    )
    if not is_terminal(console):
        finalists = [("Finalist", _describe_finalist(view, one)) for one in evidence.finalists]
        for label, text in (*before, *finalists, *after):
            write_raw(console, f"{label}: {flatten(text)}")
        return
    console.print()
    for label, text in before:
        _print_part(console, label, text, style=f"bold {_STYLES[evidence.verdict]}" if label == before[0][0] else "")
    if evidence.finalists:
        console.print(Padding(_tabulate_finalists(view), (1, 0)))
    for label, text in after:
        _print_part(console, label, text)


def _list_verdict(view: View) -> Iterator[tuple[str, str]]:
    """Yield the label and the text of each part above the finalists."""
    yield view.evidence.verdict.value, f"{view.headline}."
    if view.winner_in_words:
        yield "Winner", view.winner_in_words
    for cause in list_causes(view.evidence):
        yield "Why", cause
    if view.load:
        yield "Busy", view.load


def _list_rest(view: View, folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the label and the text of each part below the finalists."""
    if compared := _describe_comparison(view):
        yield "Measured", compared
    if view.quotient:
        yield "Times", view.quotient
    if view.tally:
        counts = (f"{count} {wording.STATUS_NAMES[status]}" for status, count in view.tally.items())
        yield "Candidates", ", ".join(counts)
    yield "Report", str(folder / "report.html")
    if (publication := view.publication) is not None:
        alias = f", with the alias {publication.alias}" if publication.alias else ""
        signed = f", signed by {publication.signer}" if publication.signer else ""
        yield "Published", f"{publication.uri}{alias}{signed}"
        if publication.note:
            yield "Note", publication.note
    if view.usage:
        yield "Load", complete_code(_join_code(view.usage))
    if step := find_next_step(view.evidence):
        yield "Next", step


def _join_code(usage: str) -> str:
    """Return lines of Python as one line, with the remarks of whole lines at its end."""
    lines = [line.partition("  # ")[0] for line in usage.splitlines()]
    code = "; ".join(line for line in lines if not line.startswith("#"))
    remarks = "; ".join(line.removeprefix("# ") for line in lines if line.startswith("#"))
    return f"{code}  # {remarks}" if remarks else code


def _describe_comparison(view: View) -> str:
    """Return the source, the number of its comparisons, and the machine; empty if nothing was compared."""
    evidence, speedup = view.evidence, view.evidence.speedup
    if speedup is None:
        return ""
    sure = wording.format_percent(speedup.ratio.confidence)
    return (
        f"against {evidence.source.baseline}; {sure} intervals over {speedup.launches} paired launches, noise floor "
        f"{wording.format_ratio(speedup.noise_floor)}; on {view.machine}"
    )


def _describe_finalist(view: View, finalist: Finalist) -> str:
    """Return a finalist with its confirmed speed-ups and its drops, in one line."""
    times = view.list_times(finalist.speedups, finalist.latency)
    cells = [f"{one.shape} {one.ratio} ({one.rest}), {one.candidate}" for one in times]
    drops = _list_drops(view.evidence, finalist)
    cells += [f"drop at most {', '.join(drops)}" if drops else "quality not looked at"]
    won = " (winner)" if _has_won(view.evidence, finalist) else ""
    return "; ".join(filter(None, (f"{finalist.id}{won}", *cells, finalist.reason)))


def _tabulate_finalists(view: View) -> Table:
    evidence = view.evidence
    table = Table(box=None, pad_edge=False)
    table.add_column("finalist", overflow="fold")
    shapes = [wording.format_shape(one.shape) for one in evidence.finalists[0].speedups]
    for title in (*shapes, "drop at most"):
        table.add_column(_make_text(title), justify="right", no_wrap=True)
    for finalist in evidence.finalists:
        won = _has_won(evidence, finalist)
        shown = wording.describe_candidate if finalist.id == COMPOSITE else wording.format_candidate
        name = _make_text(shown(evidence, finalist.id), style="bold" if won else "")
        if won:
            name.append("  winner", style="green")
        if finalist.reason:
            name.append(_make_text(f"\n{finalist.reason}", style="dim"))
        times = {one.shape: one for one in view.list_times(finalist.speedups, finalist.latency)}
        known = [times.get(shape) for shape in shapes]
        cells = [f"{one.ratio}\n{one.rest}\n{one.candidate}" if one else "" for one in known]
        drops = "\n".join(_list_drops(evidence, finalist)) or "not looked at"
        table.add_row(name, *map(_make_text, (*cells, drops)))
    return table


def _list_drops(evidence: Evidence, finalist: Finalist) -> list[str]:
    """Return the largest drop of each metric of a finalist on the gate split."""
    metrics = [(one.metric, one.drop.high) for one in evidence.quality if one.id == finalist.id]
    return [f"{wording.format_metric_name(name)} {wording.format_drop(name, high)}" for name, high in metrics]


def _has_won(evidence: Evidence, finalist: Finalist) -> bool:
    return evidence.winner is not None and evidence.winner.candidate == finalist.id


def _print_part(console: Console, label: str, text: str, *, style: str = "") -> None:
    """Print a part on a terminal: folded next to its label, or unfolded if it is to be copied."""
    head = Text(label.ljust(_INDENT), style=style or "bold")
    if label in _PLAIN:
        console.print(head + _make_text(text), soft_wrap=True)
        return
    row = Table.grid()
    row.add_column(width=_INDENT, no_wrap=True)
    row.add_column(overflow="fold")
    row.add_row(head, _make_text(text, style=style))
    console.print(row)


def _make_text(foreign: str, style: str = "") -> Text:
    """Return text for the terminal: rich would pass on escape sequences in a model's name."""
    return Text(clean_text(foreign), style=style)
