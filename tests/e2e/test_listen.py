"""The service as its user starts it, without a registry's server: what it refuses, and its page in a real browser."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import time
import urllib.error
import urllib.request

import pytest
from listener import SECRETS, find_secrets, start_listener, write_rules
from small_project import HANG, copy_project, write_source

RULE = {"name": "matrix", "models": "*"}
FOLDER = {"sweep": {"every": 5, "registries": ["incoming"]}, "attempts": 1}


@pytest.fixture
def project(template, tmp_path):
    project = copy_project(template, tmp_path)
    (project.root / "incoming").mkdir()
    write_rules(project, RULE, **FOLDER)
    project.environment |= SECRETS
    return project


def listen(project, *arguments):
    return project.call("hone", "listen", "--port", "0", *arguments, module="kedro_hone")


@pytest.mark.parametrize(
    ("settings", "slug"),
    [
        ({"secrets": {"token": "HONE_TOKEN_NOT_SET"}}, "secret-missing"),
        ({"rules": []}, "rules-invalid"),
        ({"rules": [{"name": "a", "models": "*", "recipe": {"gates": {"sped": 1}}}]}, "rules-invalid"),
    ],
)
def test_settings_that_cannot_be_used_end_it(project, settings, slug):
    given = {"rules": [RULE], **settings}
    write_rules(project, *given.pop("rules"), **given)
    done = listen(project)
    assert (done.code, slug in done.output) == (3, True), done.output


def test_without_rules_or_with_none_that_can_be_read_it_ends(project):
    place = project.root / "conf" / "base" / "listen.yml"
    place.write_text("rules: [")
    assert "rules-invalid" in listen(project).output
    place.unlink()
    done = listen(project)
    assert (done.code, "There is no listen.yml" in done.output) == (3, True)


def test_one_service_works_on_a_project_and_has_its_port(project):
    service = start_listener(project)
    try:
        done = listen(project)
        assert (done.code, "listener-running" in done.output) == (3, True), done.output
        other = copy_project(project, project.root.parent / "other")
        other.environment |= SECRETS
        with socket.create_server(("127.0.0.1", 0)) as taken:
            done = listen(other, "--port", str(taken.getsockname()[1]))
        assert (done.code, "port-in-use" in done.output) == (3, True), done.output
    finally:
        assert service.end() == 0
    assert start_listener(project, number=2).end(signal.SIGINT) == 0


@pytest.mark.nightly
@pytest.mark.browser
def test_a_person_sees_a_model_come_and_go(project, tmp_path):
    """The sweep alone finds a model that is put into a folder; its run is watched, and run again, on the page."""
    sync = pytest.importorskip("playwright.sync_api")
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    service = start_listener(project)
    try:
        stage = tmp_path / "stage"
        write_source(stage)
        stage.rename(project.root / "incoming" / "matrix")
        with sync.sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
            page = browser.new_page()
            page.set_default_timeout(HANG * 1000)
            page.goto(service.url)
            page.fill("input[name=token]", "not the token at all")
            page.click("button")
            page.wait_for_selector("text=This is not the token.")
            page.fill("input[name=token]", SECRETS["HONE_LISTEN_TOKEN"])
            page.click("button")
            page.wait_for_selector("h2:has-text('Rules')")
            job = service.wait_for(str(project.root / "incoming" / "matrix"), "running", "done")
            page.goto(f"{service.url}/runs/{job['id']}")
            page.wait_for_selector("h1 .done")  # the page looks again by itself
            assert "PASS" in page.inner_text("table")
            assert "verdict" in page.inner_text("pre").lower()
            page.click("text=Report")
            page.wait_for_selector("h1")
            assert "faster" in page.inner_text("body")
            page.go_back()
            page.click("text=Run again")
            page.wait_for_selector("text=Cancel")
            page.click("text=Cancel")
            page.wait_for_selector("h1 .cancelled")
            page.goto(service.url)
            page.fill("input[name=uri]", "models:/nobody/1")
            page.click("button:has-text('Run')")
            page.wait_for_selector("h1:has-text('Run 2')")
            service.wait_for("models:/nobody/1", "failed")
            page.wait_for_selector("h1 .failed")
            assert "nobody" in page.inner_text("table")
            browser.close()
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(f"{service.url}/runs", timeout=HANG)  # noqa: S310 - our own server
    finally:
        assert service.end() == 0
    assert find_secrets(tmp_path) == []
    lines = service.read_log()
    assert {line["event"] for line in lines} >= {
        "started",
        "sweep-found",
        "job-started",
        "job-ended",
        "job-cancelled",
        "stopped",
    }


@pytest.mark.nightly
def test_a_model_that_comes_while_the_registry_cannot_be_asked_is_not_taken_for_an_old_one(project, tmp_path):
    write_rules(project, RULE, **{**FOLDER, "sweep": {"every": 3600, "registries": ["late"]}})
    service = start_listener(project)
    try:
        deadline = time.monotonic() + HANG
        while not any(line["event"] == "sweep-failed" for line in service.read_log()):
            assert time.monotonic() < deadline, service.log.read_text()
            time.sleep(0.1)
        write_source(tmp_path / "stage" / "matrix")
        (tmp_path / "stage").rename(project.root / "late")
        job = service.wait_for(str(project.root / "late" / "matrix"), "queued", "running", "done")
        service.call(f"/runs/{job['id']}", "DELETE")
    finally:
        assert service.end() == 0
    project.wait_for_silence()


def test_a_signal_ends_it_in_order_while_a_run_takes_its_time_to_end(project):
    """The run does not listen, so that the closing lasts; signals come meanwhile, and until the process is gone."""
    write_source(project.root / "incoming" / "matrix", slow=30.0)
    write_rules(project, RULE, **{**FOLDER, "sweep": {**FOLDER["sweep"], "first": "all"}})
    service = start_listener(project)
    service.wait_for(str(project.root / "incoming" / "matrix"), "running")
    deadline = time.monotonic() + HANG
    while service.process.poll() is None:
        assert time.monotonic() < deadline, service.log.read_text()
        service.process.send_signal(signal.SIGTERM)
        time.sleep(0.005)
    assert service.process.returncode == 0
    assert [line["event"] for line in service.read_log()][-1] == "stopped"
    project.wait_for_silence()
