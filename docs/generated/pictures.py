"""The pages that the documentation shows as pictures, made from the evidence of one run of the demo, and their text.

Each picture is a PNG with the text of its page in it. A picture is old as soon as the page made now has another text.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Final, NamedTuple

from markdown_it import MarkdownIt
from PIL import Image

from generated.runs import read_demo
from kedro_hone.events import listing
from kedro_hone.events.job import Job, Optimize, State
from kedro_hone.events.rules import Rule
from kedro_hone.hooks.display import Snapshot
from kedro_hone.hooks.progress_file import describe_progress
from kedro_hone.report.claims import format_speed
from kedro_hone.report.progress_file import NAME as PROGRESS
from kedro_hone.report.rendering import render_markdown, render_page
from kedro_hone.report.result_file import RunResult
from kedro_hone.report.wording import describe_speed

FOLDER: Final = Path(__file__).parents[1] / "images"
FIELD: Final = "Text"
"""The field of a PNG with the text of its page."""
_STYLE: Final = Path(__file__).with_name("comment.css")
_PAGE_STYLE: Final = '<link rel="stylesheet" href="/page.css">'
_INVISIBLE: Final = {"head", "script", "style", "noscript", "select"}
_BLOCKS: Final = {
    "p",
    "li",
    "h1",
    "h2",
    "h3",
    "tr",
    "dt",
    "dd",
    "div",
    "section",
    "article",
    "summary",
    "nav",
    "header",
}
_CELLS: Final = {"td", "th", "br", "span", "a", "button", "label"}


class Picture(NamedTuple):
    """A picture of the documentation.

    Attributes:
        make: Returns the page, which needs no other file.
        width: Of the picture and of the window, in pixels.
        height: Of the picture, in pixels; the page is no higher.
    """

    make: Callable[[], str]
    width: int
    height: int


def make_report() -> str:
    """Return the report's page without what follows its key numbers."""
    shown, found, _ = render_page(read_demo()).partition('<section id="returns"')
    if not found:
        raise ValueError("the report has no section after its key numbers")
    return f"{shown}</main></body></html>"


def make_comment() -> str:
    """Return a pull request's comment with the look of GitHub; what it folds stays folded."""
    body = MarkdownIt("commonmark", {"html": True}).enable("table").render(render_markdown(read_demo()))
    head = f'<meta charset="utf-8"><title>Comment</title><style>{_STYLE.read_text()}</style>'
    author = "<p><b>github-actions</b> bot commented</p>"
    return (
        f'<!doctype html><html lang="en"><head>{head}</head>'
        f"<body><article><header>{author}</header><main>{body}</main></article></body></html>"
    )


def make_service() -> str:
    """Return the service's page: the demo's run is done, and the next one confirms its finalists."""
    evidence = read_demo()
    now = evidence.created.timestamp()
    winner = "models:/digits/2"
    skipped = f"{winner} is a winner of kedro-hone: no event optimizes it again."
    jobs = [
        _make_job(3, "models:/digits/3", State.RUNNING, now + 900),
        _make_job(4, "models:/digits/4", State.QUEUED, now + 960),
        _make_job(2, winner, State.SKIPPED, now + 60, reason=skipped),
        _make_job(1, evidence.source.uri, State.DONE, now, verdict=evidence.verdict.value, published=winner),
    ]
    with tempfile.TemporaryDirectory() as name:
        folders = {job.id: Path(name, str(job.id)) for job in jobs}
        for folder in folders.values():
            folder.mkdir()
        result = RunResult(folder=str(folders[1]), speed=format_speed(evidence.speedups))
        (folders[1] / "report.html").touch()
        (folders[1] / "result.json").write_text(result.model_dump_json())
        (folders[3] / PROGRESS).write_text(describe_progress(_take_snapshot()).model_dump_json())
        described = [listing.describe_job(job, folders[job.id]) for job in jobs]
    page = listing.render_queue(
        described,
        judged=[job for job in jobs if job.verdict],
        states={state: sum(job.state is state for job in jobs) for state in State},
        rules=[Rule(name="digits", models="digits")],
        failing={},
        model="",
        key="0",
    )
    style = Path(str(listing.__file__)).with_name("templates") / "page.css"
    return bytes(page.body).decode().replace(_PAGE_STYLE, f"<style>{style.read_text()}</style>")


PICTURES: Final = {
    "report.png": Picture(make_report, 1100, 1300),
    "service.png": Picture(make_service, 1100, 1000),
    "comment.png": Picture(make_comment, 900, 1020),
}
"""The pictures, by their file's name."""


def extract_text(page: str) -> str:
    """Return the text of a page that a reader sees: a line for each block, and what is folded left out."""
    reader = _Reader()
    reader.feed(page)
    lines = (" ".join(line.split()) for line in "".join(reader.parts).split("\n"))
    return "\n".join(filter(None, lines))


def read_text(path: Path) -> str:
    """Return the text in a picture's file; empty if absent."""
    with Image.open(path) as image:
        return str(image.info.get(FIELD, ""))


def _make_job(number: int, uri: str, state: State, at: float, **outcome: str) -> Job:
    given = {"rule": "digits", "task": Optimize(), "device": "cpu", "attempts": 1, "not_before": 0.0}
    return Job(id=number, uri=uri, state=state, created=at, changed=at, **given, **outcome)


def _take_snapshot() -> Snapshot:
    """Return the moment of the demo's run at which its confirmation began."""
    evidence = read_demo()
    took = evidence.phase_seconds
    best = next(one for one in evidence.candidates if one.id == evidence.finalists[1].id)
    return Snapshot(
        phase="confirm",
        done=0,
        total=1,
        seconds=sum(seconds for phase, seconds in took.items() if phase != "confirm"),
        rest=took["confirm"],
        best=f"best so far {describe_speed(best.id, best.speedup)}" if best.speedup else "",
    )


class _Reader(HTMLParser):
    """Collects the texts of elements that are shown; ``parts`` has them with a line break around each block."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._open: list[tuple[str, bool]] = []  # elements that hide or show something, each with whether it shows

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        shown = self._shows(self._open)
        if tag in _INVISIBLE:
            self._open.append((tag, False))
        elif tag == "details":
            self._open.append((tag, shown and "open" in dict(attrs)))
        elif tag == "summary":  # shown as its details element is, also where that is folded
            self._open.append((tag, self._shows(self._open[:-1])))
        self._separate(tag)

    def handle_endtag(self, tag: str) -> None:
        if any(tag == one for one, _ in self._open):
            while self._open.pop()[0] != tag:
                pass
        self._separate(tag)

    def handle_data(self, data: str) -> None:
        if self._shows(self._open):
            self.parts.append(data.replace("\n", " "))

    def _separate(self, tag: str) -> None:
        self.parts.append("\n" if tag in _BLOCKS else " " if tag in _CELLS else "")

    @staticmethod
    def _shows(elements: list[tuple[str, bool]]) -> bool:
        return elements[-1][1] if elements else True
