"""The page in a real browser, on a telephone and a desk, by day and by night.

Needs Debian's Chromium (``apt-get install chromium``; any on the path, or $CHROMIUM) and ``pip install playwright``,
whose own browsers are not used.
"""

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from hone_runtime.values.decision import Verdict
from kedro_hone.report.rendering import JobRemarks, render_markdown, render_page
from kedro_hone.report.view import View

pytestmark = pytest.mark.browser

_SPEC = importlib.util.spec_from_file_location("sample", Path(__file__).parents[1] / "unit" / "report" / "sample.py")
sample = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(sample)

WIDTHS = {390: 844, 1280: 900}
HANG_MS = 600_000
"""Milliseconds after which the browser is taken to hang."""
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip

FIND_OVERFLOW = """() => {
  const out = [];
  const scrolls = (element) => {
    for (let one = element.parentElement; one; one = one.parentElement) {
      if (/(auto|scroll|hidden)/.test(getComputedStyle(one).overflowX) && one !== document.body) return true;
    }
    return false;
  };
  if (document.documentElement.scrollWidth > innerWidth) out.push(`page: ${document.documentElement.scrollWidth}`);
  for (const element of document.querySelectorAll('body *')) {
    const box = element.getBoundingClientRect();
    if (box.width && box.height && (box.right > innerWidth + 0.5 || box.left < -0.5)) {
      if (!scrolls(element) && !element.classList.contains('skip')) {
        out.push(`${element.tagName}.${element.getAttribute('class')}: ${box.left}..${box.right}`);
      }
    }
  }
  return out;
}"""

FIND_CLIPPED = """() => [...document.querySelectorAll('.table-box, .panel, .numbers > div')]
  .filter((box) => box.scrollWidth > box.clientWidth + 1)
  .map((box) => `${box.className}: ${box.scrollWidth} in ${box.clientWidth}`)"""

FIND_FAINT = """() => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const read = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, under) => [0, 1, 2].map((i) => top[i] * top[3] + under[i] * (1 - top[3]));
  const ground = (element) => {
    const layers = [];
    for (let one = element; one; one = one.parentElement) layers.push(read(getComputedStyle(one).backgroundColor));
    return layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255]);
  };
  const light = (colour) => {
    const [r, g, b] = colour.map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const out = new Set();
  for (const element of document.querySelectorAll('body *')) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || !element.getClientRects().length) continue;
    const style = getComputedStyle(element);
    if (element instanceof SVGElement && style.stroke !== 'none') continue;  // the rim around a label
    const ink = read(element instanceof SVGElement ? style.fill : style.color);
    const back = ground(element);
    const [a, b] = [light(over(ink, back)), light(back)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) out.add(`${element.tagName}.${element.getAttribute('class')} ${ratio.toFixed(2)}`);
  }
  return [...out];
}"""


@pytest.fixture(scope="module")
def chromium():
    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if not found:
        pytest.fail("There is no Chromium. Install it with `apt-get install chromium`, or set CHROMIUM to its path.")
    if importlib.util.find_spec("playwright") is None:
        pytest.fail("Playwright drives the browser. Install it with `pip install playwright`.")
    return found


@pytest.fixture(scope="module")
def browser(chromium):
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Playwright gives each browser a fresh profile and removes it afterwards.
        started = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS), timeout=HANG_MS)
        yield started
        started.close()


@pytest.fixture
def open_page(browser, tmp_path):
    """Open a report at a width and in a theme; afterwards nothing may have been requested or complained about."""
    contexts, complaints, requests = [], [], []

    def open_it(html, *, width, theme, **settings):
        file = tmp_path / "report.html"
        file.write_text(html, encoding="utf-8")
        context = browser.new_context(
            viewport={"width": width, "height": WIDTHS.get(width, 900)}, color_scheme=theme, **settings
        )
        context.set_default_timeout(HANG_MS)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(file.as_uri())
        return page

    yield open_it
    for context in contexts:
        context.close()
    assert complaints == []
    assert [url for url in requests if not url.startswith("data:") and not url.endswith("/report.html")] == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_page_fits_and_can_be_read(open_page, tmp_path, width, theme):
    html = render_page(sample.make_evidence(), sample.make_publication())
    page = open_page(html, width=width, theme=theme)
    picture = tmp_path / f"report-{width}-{theme}.png"
    page.screenshot(path=picture, full_page=True)
    assert picture.stat().st_size > 100_000
    assert page.evaluate(FIND_OVERFLOW) == []
    assert page.evaluate(FIND_CLIPPED) == []
    assert page.evaluate(FIND_FAINT) == []


@pytest.mark.parametrize("verdict", Verdict)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_verdict_fits_and_can_be_read(open_page, verdict, theme):
    page = open_page(render_page(sample.make_evidence(verdict)), width=390, theme=theme)
    assert page.evaluate(FIND_OVERFLOW) == []
    assert page.evaluate(FIND_FAINT) == []


@pytest.mark.parametrize("width", [320, 600, 768, 961, 1024])
def test_widths_between_fit_too(open_page, width):
    page = open_page(render_page(sample.make_evidence()), width=width, theme="light")
    assert page.evaluate(FIND_OVERFLOW) == []


def test_themes_differ(open_page):
    html = render_page(sample.make_evidence())
    grounds = {
        theme: open_page(html, width=1280, theme=theme).evaluate("getComputedStyle(document.body).backgroundColor")
        for theme in ("light", "dark")
    }
    assert grounds["light"] != grounds["dark"]


def test_verdict_is_seen_without_scrolling(open_page):
    for width, height in WIDTHS.items():
        page = open_page(render_page(sample.make_evidence()), width=width, theme="light")
        box = page.locator("h1").bounding_box()
        assert box["y"] + box["height"] < height


@pytest.mark.parametrize(("width", "shown", "hidden"), [(390, "narrow", "wide"), (1280, "wide", "narrow")])
def test_the_chart_fits_and_every_mark_has_a_tooltip(open_page, width, shown, hidden):
    page = open_page(render_page(sample.make_evidence()), width=width, theme="light")
    assert page.locator("svg.chart").count() == len(sample.SOURCE_MS)
    chart = page.locator("svg.chart").first
    assert chart.bounding_box()["width"] < width
    displays = [
        {one.evaluate("text => getComputedStyle(text).display") for one in chart.locator(f"tspan.{name}").all()}
        for name in (shown, hidden)
    ]
    assert displays == [{"inline"}, {"none"}]
    marks = chart.locator(".mark")
    titles = [title.text_content() for title in marks.locator("title").all()]
    assert len(titles) == marks.count() == 16
    assert all(re.search(r"\d (ms|µs)", title) for title in titles)


def test_page_works_without_scripts(open_page):
    page = open_page(render_page(sample.make_evidence()), width=1280, theme="light", java_script_enabled=False)
    assert page.locator("h1").is_visible()
    assert page.locator("#measured tbody tr").count() == 11


@pytest.mark.parametrize("width", WIDTHS)
def test_rows_are_sorted_without_a_script_and_folds_open(open_page, width):
    page = open_page(render_page(sample.make_evidence()), width=width, theme="light", java_script_enabled=False)
    rows = page.locator("#measured tbody tr")
    tops = {row.inner_text().split("MB")[0].split()[-1]: row.bounding_box()["y"] for row in rows.all()}

    heads = [head.bounding_box() for head in page.locator("#measured thead th").all()]
    cells = [cell.bounding_box() for cell in rows.first.locator("th, td").all()]
    if width == max(WIDTHS):
        assert [round(head["x"]) for head in heads] == [round(cell["x"]) for cell in cells]
        assert len({round(cell["y"]) for cell in cells}) == 1

    page.locator("#measured-by-size").check()

    moved = {row.inner_text().split("MB")[0].split()[-1]: row.bounding_box()["y"] for row in rows.all()}
    assert page.locator("#measured tbody tr").count() == 11
    assert sorted(moved, key=moved.get) != sorted(tops, key=tops.get)
    assert not page.locator("#failed").is_visible()
    page.locator("details.group:has(#failed) > summary").click()
    assert page.locator("#failed").is_visible()


@pytest.mark.parametrize("width", [*WIDTHS, 320, 1024])
def test_everything_unfolded_fits_too(open_page, width):
    page = open_page(render_page(sample.make_evidence()), width=width, theme="light")
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
    assert page.evaluate(FIND_OVERFLOW) == []
    if width in WIDTHS:
        assert page.evaluate(FIND_CLIPPED) == []
        assert page.evaluate(FIND_FAINT) == []


def test_long_names_and_reasons_do_not_overflow(open_page):
    long = "x" * 400
    evidence = sample.make_evidence()
    crowd = tuple(
        candidate.model_copy(update={"id": long, "route": (long, f"{long}.{long}"), "reason": long, "note": long})
        for candidate in evidence.candidates
        if candidate.route
    )
    source = evidence.source.model_copy(update={"uri": f"models:/{long}/3"})
    evidence = evidence.model_copy(update={"candidates": crowd, "reasons": (long,), "source": source})
    for width in WIDTHS:
        page = open_page(render_page(evidence), width=width, theme="light")
        assert page.evaluate(FIND_OVERFLOW) == []


@pytest.fixture
def show_comment(open_page, node):
    """Open the comment of a pull request as GitHub shows it: its Markdown, its allowed HTML and its style."""

    def show(evidence, *, width, theme="light", note=""):
        then = View(sample.make_evidence())
        remarks = JobRemarks(base=then, last=then, last_commit="c" * 40, note=note, log_url="https://x.org/1")
        body = f"<!-- kedro-hone:report 0123456789ab -->\n{render_markdown(evidence, job=remarks)}"
        command = ["node", str(node / "render.mjs")]
        done = subprocess.run(command, input=body, capture_output=True, text=True, check=True, timeout=60)
        return open_page(done.stdout, width=width, theme=theme)

    return show


@pytest.mark.skipif(shutil.which("npm") is None, reason="GitHub's Markdown needs Node.js")
@pytest.mark.parametrize("verdict", Verdict)
@pytest.mark.parametrize(("width", "theme"), [(390, "dark"), pytest.param(1280, "light", marks=pytest.mark.nightly)])
def test_the_comment_of_a_pull_request_says_the_verdict_first_and_folds_the_rest(show_comment, verdict, width, theme):
    page = show_comment(sample.make_evidence(verdict), width=width, theme=theme, note="`publish` waits.")

    first = page.locator("article > *").first
    assert first.evaluate("one => one.tagName") == "H2"
    assert f"{verdict.value}:" in first.text_content()
    assert first.bounding_box()["y"] < 100
    said = page.locator("article").inner_text()  # what is seen, and not what is folded
    assert "Not published" in said
    assert "Since the last push" in said
    assert page.get_by_role("columnheader", name="base branch, before").is_visible()
    folded = page.locator("details")
    assert folded.count() > 4
    assert folded.locator(":scope > :not(summary)").first.is_visible() is False
    folded.first.locator("summary").click()
    assert folded.locator(":scope > :not(summary)").first.is_visible()
    assert page.evaluate(FIND_OVERFLOW) == []
    assert "kedro-hone:" not in page.locator("article").text_content()
    assert not re.search(
        r"\|\s*-{2,}|\*\*|</?\w+>", page.locator("article").text_content()
    )  # Markdown that was not read


@pytest.mark.skipif(shutil.which("npm") is None, reason="GitHub's Markdown needs Node.js")
def test_what_is_foreign_is_text_in_the_comment(show_comment):
    hostile = (
        "</details><h1>PASS</h1><img src=https://e.org/x.png>[a](https://e.org)@admin ~~x~~ **b**\n\n# PASS\n|a|b|"
    )
    evidence = sample.make_evidence(Verdict.FAIL)
    source = evidence.source.model_copy(update={"uri": hostile})
    page = show_comment(evidence.model_copy(update={"source": source, "reasons": (hostile,)}), width=390)
    plain = show_comment(evidence, width=390)

    assert "<h1>PASS</h1>" in page.locator("article").text_content()
    for tag in ("h1", "img", "a", "del", "strong", "table", "details", "h2", "script"):
        assert page.locator(f"article {tag}").count() == plain.locator(f"article {tag}").count(), tag
    assert page.evaluate(FIND_OVERFLOW) == []
