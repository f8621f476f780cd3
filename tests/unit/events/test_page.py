from __future__ import annotations

import base64
import hashlib
import json
import re
import time

import pytest
from deliveries import SECRETS
from starlette.testclient import TestClient

from kedro_hone.events.application import make_application
from kedro_hone.events.job import Approve, State

FORM = {"sec-fetch-site": "same-origin"}
HOSTILE = '<script>alert("x")</script>'


@pytest.fixture
def client(service):
    return open_browser(service)


@pytest.fixture
def inside(client):
    done = client.post("/login", data={"token": SECRETS["token"]}, headers=FORM)
    assert done.headers["location"] == "/"
    return client


def open_browser(service, **changes):
    client = TestClient(make_application(service), follow_redirects=False, **changes)
    client.headers["accept"] = "text/html,application/xhtml+xml,*/*;q=0.8"
    return client


def open_with(client, cookie):
    client.cookies.clear()
    return client.get("/", headers={"cookie": f"hone={cookie}"})


def finish(service, number, **changes):
    service.queue.finish(service.queue.claim("cpu"), State.DONE, **changes)


def test_who_has_not_the_token_sees_nothing(client):
    for path in ("/", "/runs/1", "/runs/1/report"):
        assert client.get(path).headers["location"] == "/login"
    for path in ("/runs", "/runs/1/cancel", "/runs/1/again", "/runs/1/approve"):
        assert client.post(path, headers=FORM).headers["location"] == "/login"
    assert client.post("/login", data={"token": "wrong"}, headers=FORM).status_code == 401
    assert "set-cookie" not in client.post("/login", data={}, headers=FORM).headers


def test_a_session_cannot_be_made_up_and_ends(inside, monkeypatch):
    cookie = inside.cookies["hone"]
    assert SECRETS["token"] not in cookie
    assert inside.get("/").status_code == 200
    stamp, _, signature = cookie.partition(".")
    for other in (f"{int(stamp) + 60}.{signature}", stamp, f".{signature}", f"{stamp}.", "x" * 5000):
        assert open_with(inside, other).status_code == 303
    later = time.time() + 13 * 3600
    monkeypatch.setattr("kedro_hone.events.access.time.time", lambda: later)
    assert open_with(inside, cookie).status_code == 303


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"sec-fetch-site": "same-origin"}, 303),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"origin": "http://testserver"}, 303),
        ({"origin": "http://evil.example"}, 403),
        ({}, 403),
    ],
)
@pytest.mark.attack(
    what="a form on a page of another site, sent by the browser of somebody who is logged in",
    who="network",
    stopped_by="Fetch Metadata, or the origin; the cookie is strict, and no script reads it",
)
def test_a_form_of_another_site_does_nothing(inside, service, headers, status):
    response = inside.post("/runs", data={"uri": "models:/digits/1"}, headers=headers)
    assert response.status_code == status
    assert len(service.queue.list_jobs()) == (status == 303)


def test_a_model_is_submitted_once_and_shown(inside, service):
    key = re.search(r'name="key" value="(\w+)"', inside.get("/").text)[1]
    form = {"uri": " models:/digits/1 ", "rule": "digits", "key": key}
    for _ in range(2):  # a double click
        assert inside.post("/runs", data=form, headers=FORM).headers["location"] == "/runs/1"
    page = inside.get("/runs/1").text
    assert "models:/digits/1" in page
    assert 'http-equiv="refresh"' in page
    assert "Nothing was printed so far." in page
    assert inside.post("/runs/1/cancel", headers=FORM).headers["location"] == "/runs/1"
    assert "cancelled" in inside.get("/runs/1").text
    assert 'http-equiv="refresh"' not in inside.get("/runs/1").text
    inside.post("/runs/1/again", headers=FORM)
    assert service.queue.find(1).state is State.QUEUED
    refused = inside.post("/runs", data={"uri": "<b>nonsense"}, headers=FORM)
    assert (refused.status_code, refused.headers["content-type"]) == (422, "text/html; charset=utf-8")
    assert "the uri names no version" in refused.text
    assert inside.get("/runs/9").status_code == 404


def list_scripts(page):
    return re.findall(r"<script[^>]*>(.*?)</script>", page, re.DOTALL)


@pytest.mark.attack(
    what="a script in a model's name, in an error or in a log, for the service's page",
    who="registry",
    stopped_by="all text is escaped; the policy allows one script by its digest",
)
def test_what_models_and_logs_say_is_text(inside, service):
    inside.post("/runs", data={"uri": f"models:/{HOSTILE}/1"}, headers=FORM)
    folder = service.runner.find_folder(1)
    folder.mkdir(parents=True)
    (folder / "log").write_bytes(HOSTILE.encode() + b"\x1b[2J\xff " + b"x" * 200_000 + b"the end")
    (folder / "result.json").write_text(json.dumps({"speed": HOSTILE}))
    (folder / "progress.json").write_text(json.dumps({"title": HOSTILE, "best": HOSTILE}))
    service.queue.claim("cpu")
    pages = [inside.get(path) for path in ("/", "/runs/1", f"/?model=models:/{HOSTILE}")]
    service.queue.finish(service.queue.find(1), State.DONE, verdict="PASS", published=HOSTILE, reason=HOSTILE)
    pages += [inside.get(path) for path in ("/", "/runs/1")]
    for response in pages:
        (script,) = list_scripts(response.text)
        assert response.text.count("<script") == 1
        assert "&lt;script&gt;" in response.text
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        policy = dict(part.split(" ", 1) for part in response.headers["content-security-policy"].split("; "))
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == f"'sha256-{digest}'"
        assert policy["connect-src"] == "'self'"
    page = inside.get("/runs/1").text
    assert "the end" in page
    assert "\x1b" not in page
    assert len(page) < 100_000


@pytest.mark.attack(
    what="a report that brings scripts or forms",
    who="registry",
    stopped_by="a sandbox without scripts, forms and origin",
)
def test_the_report_is_shown_where_it_can_do_nothing(inside, service, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "report.html").write_text("of another run")
    inside.post("/runs", data={"uri": "models:/digits/1"}, headers=FORM)
    assert inside.get("/runs/1/report").status_code == 404
    folder, run = service.runner.find_folder(1), tmp_path / "run"
    folder.mkdir(parents=True)
    run.mkdir()
    (run / "report.html").write_text("<h1>PASS</h1>")
    (folder / "result.json").write_text(f'{{"folder": "{run}"}}')
    response = inside.get("/runs/1/report")
    assert response.text == "<h1>PASS</h1>"
    assert response.headers["content-security-policy"].startswith("sandbox;")
    assert ">Report</a>" in inside.get("/runs/1").text
    (run / "report.html").unlink()
    (run / "report.html").symlink_to("/etc/hostname")
    assert inside.get("/runs/1/report").status_code == 404


def test_a_winner_that_waits_has_a_button(inside, service):
    inside.post("/runs", data={"uri": "models:/digits/1"}, headers=FORM)
    finish(service, 1, verdict="PASS", published="models:/digits/2")
    assert "Approve" not in inside.get("/runs/1").text
    folder = service.runner.find_folder(1)
    folder.mkdir(parents=True)
    (folder / "result.json").write_text('{"awaits": "honed"}')
    assert "Approve models:/digits/2 as honed" in inside.get("/runs/1").text
    inside.post("/runs/1/approve", headers=FORM)
    assert service.queue.find(2).task == Approve(alias="honed")


def test_models_are_listed_with_their_last_verdict(inside, service):
    for number, (uri, verdict) in enumerate(
        [("models:/digits/1", "FAIL"), ("models:/digits/3", "PASS"), ("hf://org/clf@" + "a" * 40, "KEEP")], 1
    ):
        inside.post("/runs", data={"uri": uri, "key": str(number)}, headers=FORM)
        finish(service, number, verdict=verdict)
    models = inside.get("/").text.partition("<h2>Models</h2>")[2]
    rows = re.findall(r'<tr><td[^>]*><a href="/\?model=[^"]*">(.*?)</a></td><td [^>]*class="(\w+)"', models)
    assert [(name.replace("<wbr>", ""), verdict) for name, verdict in rows] == [
        ("hf://org/clf", "KEEP"),
        ("models:/digits", "PASS"),
    ]


def test_a_page_without_changes_has_no_script(client):
    response = client.get("/login")
    assert list_scripts(response.text) == []
    assert "script-src" not in response.headers["content-security-policy"]


def test_the_runs_of_one_model_can_be_picked(inside, service):
    for number, uri in enumerate(["models:/digits/1", "models:/digits-2/1", "hf://org/clf@" + "a" * 40], 1):
        inside.post("/runs", data={"uri": uri, "key": str(number)}, headers=FORM)

    def list_shown(path):
        return re.findall(r'data-label="Run"><a href="/runs/(\d+)"', inside.get(path).text.partition("<h2>Models")[0])

    assert list_shown("/") == ["3", "2", "1"]
    assert list_shown("/?model=models%3A%2Fdigits") == ["1"]
    assert list_shown("/?model=hf%3A%2F%2Forg%2Fclf") == ["3"]
    assert list_shown("/?model=models%3A%2Fdig") == []
    assert "<option selected>models:/digits</option>" in inside.get("/?model=models%3A%2Fdigits").text


def test_the_list_has_the_speed_up_and_the_report(inside, service, tmp_path):
    inside.post("/runs", data={"uri": "models:/digits/1"}, headers=FORM)
    folder = service.runner.find_folder(1)
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps({"folder": str(tmp_path), "speed": "5.7 times faster"}))
    (tmp_path / "report.html").write_text("<h1>PASS</h1>")
    assert "5.7 times faster" not in inside.get("/").text  # it waits: the files are of an earlier time
    finish(service, 1, verdict="PASS")
    page = inside.get("/").text
    assert "5.7 times faster" in page
    assert '<a href="/runs/1/report">Report</a>' in page


def test_a_running_job_shows_how_far_it_is(inside, service):
    inside.post("/runs", data={"uri": "models:/digits/1"}, headers=FORM)
    folder = service.runner.find_folder(1)
    folder.mkdir(parents=True)
    progress = {"title": "Build and validate, 3 of 12", "clock": "40 s, about 2 min left", "share": 0.25}
    (folder / "progress.json").write_text(json.dumps(progress))
    assert "Build and validate" not in inside.get("/").text
    service.queue.claim("cpu")
    for path in ("/", "/runs/1"):
        page = inside.get(path).text
        assert "Build and validate, 3 of 12" in page
        assert '<progress max="1" value="0.25">' in page
        assert "about 2 min left" in page
    service.queue.finish(service.queue.find(1), State.DONE, verdict="PASS")
    assert "<progress" not in inside.get("/").text


def test_a_secret_is_not_shown_by_breaks_inside_it(inside, service, monkeypatch):
    monkeypatch.setenv("SOME_SECRET", "a_secret.with/marks")
    inside.post("/runs", data={"uri": "models:/digits/1"}, headers=FORM)
    finish(service, 1, reason="it failed with a_secret.with/marks")
    for path in ("/", "/runs/1"):
        assert "a_secret.with/marks" not in inside.get(path).text.replace("<wbr>", "")


def test_behind_a_proxy_that_asks_for_a_login_there_is_no_token(open_service):
    service = open_service(secrets={}, login="proxy", hosts=["testserver"])
    client = open_browser(service)
    assert client.get("/").status_code == 200
    assert (
        client.post("/runs", data={"uri": "models:/a/1"}, headers={"sec-fetch-site": "cross-site"}).status_code == 403
    )
    assert client.post("/runs", data={"uri": "models:/a/1"}, headers=FORM).status_code == 303
    assert client.get("/runs", headers={"accept": "*/*"}).status_code == 404  # programs need the token still


@pytest.mark.attack(
    what="a name of another site that leads to the service (DNS rebinding), where a proxy asks for the login",
    who="network",
    stopped_by="the page has a list of its host names",
)
def test_the_page_is_there_under_its_own_names_only(open_service):
    service = open_service(secrets={}, login="proxy", hosts=["hone.example.org", "*.example.net"])
    names = {"hone.example.org": 200, "HONE.example.org:8472": 200, "a.example.net": 200}
    for host, status in (names | {"rebound.example.com": 400, "example.net": 400, "[": 400, "": 400}).items():
        client = open_browser(service)
        client.headers["host"] = host
        assert client.get("/").status_code == status
        assert client.get("/login").status_code == status
        assert client.post("/login", headers=FORM).status_code == (401 if status == 200 else 400)
        assert client.post("/runs", data={"uri": "models:/a/1"}, headers=FORM).status_code in {303, status}
        assert client.get("/health").status_code == 200


@pytest.mark.attack(
    what="a request of a page of another site, which asks for JSON so that no form of the service is needed",
    who="network",
    stopped_by="for programs the token counts, and no cookie",
)
@pytest.mark.parametrize(("method", "path"), [("POST", "/runs"), ("DELETE", "/runs/1"), ("POST", "/runs/1/again")])
def test_a_cookie_counts_nothing_where_no_page_is_wanted(inside, service, method, path):
    inside.post("/runs", data={"uri": "models:/digits/1"}, headers=FORM)
    headers = {"accept": "*/*", "sec-fetch-site": "cross-site", "origin": "http://evil.example"}
    assert inside.request(method, path, json={"uri": "models:/digits/2"}, headers=headers).status_code == 401
    headers["accept"] = "text/html"
    assert inside.request(method, path, json={"uri": "models:/digits/2"}, headers=headers).status_code == 403
    assert [job.state for job in service.queue.list_jobs()] == [State.QUEUED]


def test_a_token_is_asked_for_by_a_page_that_says_what_is_wrong(open_service):
    page = open_browser(open_service(secrets={})).get("/")
    assert (page.status_code, page.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert "secrets.token is not set" in page.text
