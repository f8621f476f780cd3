"""The service's page in a real browser: it refreshes itself, forms and scrolling stay, and no word is broken.

Needs Debian's Chromium, as ``test_report_page.py``.
"""

from __future__ import annotations

import json
import os
import shutil

import pytest
from deliveries import RULES, SECRETS
from starlette.testclient import TestClient

from kedro_hone.events.application import make_application
from kedro_hone.events.job import State
from kedro_hone.events.service import Service
from kedro_hone.events.settings import Secrets, read_settings

pytestmark = pytest.mark.browser

ORIGIN = "http://hone.test"
HANG_MS = 600_000
WIDTHS = (80, 120, 200, 320, 390, 480, 600, 760, 800, 1000, 1200)
FIND_BROKEN = r"""() => {
  const out = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = texts.nextNode());) {
    if (node.parentElement.closest('script, noscript, select')) continue;
    for (const found of node.data.matchAll(/[\p{L}\p{N}\u2026]+/gu)) {
      const range = document.createRange();
      range.setStart(node, found.index);
      range.setEnd(node, found.index + found[0].length);
      if (new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size > 1) out.push(found[0]);
    }
  }
  return out;
}"""


@pytest.fixture
def service(tmp_path):
    settings = read_settings({"rules": RULES, "secrets": {"github": "GITHUB_TOKEN"}, "sweep": None})
    service = Service(
        settings,
        Secrets.model_validate(SECRETS),
        project=tmp_path,
        hardware="this machine",
        recipes=lambda: {rule.name: "a recipe" for rule in settings.rules},
    )
    yield service
    service.close()


@pytest.fixture
def client(service):
    client = TestClient(make_application(service), base_url=ORIGIN, follow_redirects=False)
    form = {"accept": "text/html", "sec-fetch-site": "same-origin"}
    client.post("/login", data={"token": SECRETS["token"]}, headers=form)
    for number, uri in enumerate(["models:/digits/1", "hf://org/clf@" + "0123456789" * 4, "models:/digits/2"]):
        client.post("/runs", data={"uri": uri, "rule": "digits", "key": str(number)}, headers=form)
    return client


@pytest.fixture
def page(client):
    """A tab of a browser, whose requests go to the application; the page's clock is ours."""
    sync = pytest.importorskip("playwright.sync_api")
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if not chromium:
        pytest.skip("no chromium on the path: see tools/install-chromium")

    def answer(route):
        asked = route.request
        accept = {"accept": asked.headers.get("accept", "*/*")}
        response = client.request(asked.method, asked.url, headers=accept, follow_redirects=True)
        route.fulfill(status=response.status_code, headers=dict(response.headers), body=response.content)

    with sync.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        tab = browser.new_page()
        tab.set_default_timeout(HANG_MS)
        tab.clock.install()
        tab.route(f"{ORIGIN}/**", answer)
        yield tab
        browser.close()


def write_progress(service, number, **progress):
    folder = service.runner.find_folder(number)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "progress.json").write_text(json.dumps(progress))
    return folder


def test_it_refreshes_and_forms_and_scrolling_stay(page, service):
    page.set_viewport_size({"width": 800, "height": 300})
    page.goto(f"{ORIGIN}/")
    page.fill("input[name=uri]", "models:/half-typed")
    page.select_option("select[name=rule]", "hub")
    page.evaluate("scrollTo(0, 200)")
    assert page.evaluate("scrollY") == 200
    service.queue.claim("cpu")
    write_progress(service, 1, title="Race, 2 of 9", clock="9 s, about 30 s left", share=0.2, best="best so far fast")
    page.clock.run_for(6000)
    page.wait_for_selector("text=Race, 2 of 9")
    assert page.get_attribute("progress", "value") == "0.2"
    assert page.input_value("input[name=uri]") == "models:/half-typed"
    assert page.input_value("select[name=rule]") == "hub"
    assert page.evaluate("scrollY") == 200
    service.queue.finish(service.queue.find(1), State.DONE, verdict="PASS")
    page.clock.run_for(6000)
    page.wait_for_selector("[data-live=runs] .PASS")
    assert page.locator("progress").count() == 0


def test_a_run_is_watched_until_it_ends_and_its_log_stays_at_its_end(page, service):
    job = service.queue.claim("cpu")
    folder = write_progress(service, 1, title="Race", clock="9 s")
    (folder / "log").write_text("a line\n" * 500)
    page.goto(f"{ORIGIN}/runs/1")
    log = page.locator("pre")
    log.evaluate("one => { one.scrollTop = one.scrollHeight; }")
    (folder / "log").write_text("a line\n" * 500 + "the last line\n" * 50)
    page.clock.run_for(6000)
    page.wait_for_selector("text=the last line")
    assert log.evaluate("one => one.scrollTop + one.clientHeight >= one.scrollHeight - 2")
    service.queue.finish(job, State.DONE, verdict="PASS")
    page.clock.run_for(6000)
    page.wait_for_selector("h1 .done")
    assert page.title() == "Run 1: done"
    page.wait_for_selector("text=Run again")


def test_who_is_logged_out_meanwhile_is_told_so(page, client):
    page.goto(f"{ORIGIN}/")
    client.cookies.clear()
    page.clock.run_for(6000)
    page.wait_for_selector("[data-status]:has-text('log in again')")
    assert page.locator("[data-live=runs] tbody tr").count() == 3  # what it was


def test_what_a_log_says_cannot_run(page, service):
    service.queue.claim("cpu")
    folder = write_progress(service, 1, title="<img src=x onerror='document.title=1'>")
    (folder / "log").write_text("</pre><script>document.title = 'broken'</script>")
    page.goto(f"{ORIGIN}/runs/1")
    page.clock.run_for(6000)
    assert page.title() == "Run 1: running"
    injected = "document.body.append(Object.assign(document.createElement('script'), {text: 'document.title = 2'}))"
    page.evaluate(injected)
    assert page.title() == "Run 1: running"  # the policy allows our own script only


@pytest.mark.parametrize("path", ["/", "/runs/2"])
def test_no_word_is_broken_at_any_width(page, service, path):
    job = service.queue.claim("cpu")
    reason = "It could not be started: onnxruntime_extensions.operators/unsupported in models:/digits/1"
    service.queue.finish(job, State.DONE, verdict="INCONCLUSIVE", published="models:/digits/12", reason=reason)
    service.queue.claim("cpu")
    folder = write_progress(service, 2, title="Build and validate, 3 of 12", clock="40 s, about 2 min left", share=0.2)
    (folder / "log").write_text("confirmed onnx.onnxruntime_int8_static_per_channel.onnxruntime_session\n")
    page.goto(f"{ORIGIN}{path}")
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate(FIND_BROKEN) == [], width
        if width >= 320:
            over = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert over <= 0, width
