from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from deliveries import CREATED, PUSHED, SECRETS, SHA, sign
from starlette.testclient import TestClient

from kedro_hone.core.machine.processes import identify_process
from kedro_hone.events.application import make_application
from kedro_hone.events.body import LARGEST_BODY
from kedro_hone.events.job import Approve, Optimize, State

TOKEN = {"authorization": f"Bearer {SECRETS['token']}"}


@pytest.fixture
def client(service):
    with TestClient(make_application(service), raise_server_exceptions=False) as client:
        yield client


def make_body(name="digits", version="1", **changes):
    data = {"name": name, "version": version, "tags": {}}
    return json.dumps({**CREATED, "data": data, **changes}).encode()


def deliver(client, body, *, delivery="d-1", secret=SECRETS["mlflow"], stamp=None):
    headers = sign(body, stamp=stamp or str(int(time.time())), delivery=delivery, secret=secret)
    return client.post("/webhooks/mlflow", content=body, headers=headers)


def test_a_version_that_a_rule_takes_becomes_a_job(client, service):
    response = deliver(client, make_body())
    assert (response.status_code, response.json()) == (202, {"jobs": 1})
    (job,) = service.queue.list_jobs()
    assert (job.uri, job.rule, job.state, job.task) == (
        "models:/digits/1",
        "digits",
        State.QUEUED,
        Optimize(),
    )


def test_a_forged_delivery_is_logged(client, lines):
    assert deliver(client, make_body(), secret="another secret").status_code == 401  # noqa: S106 - of this test only
    assert lines() == ["delivery-refused"]


def test_an_approval_that_says_something_else_than_true_is_logged(client, lines):
    tag = {"entity": "model_version_tag", "action": "set"}
    data = {"name": "digits", "version": "1", "key": "hone.approved", "value": "yes"}
    assert deliver(client, make_body(**tag, data=data)).json() == {"jobs": 0}
    assert deliver(client, make_body(**tag, data={**data, "key": "stage"}), delivery="d-2").json() == {"jobs": 0}
    assert lines() == ["approval-refused"]


def test_the_same_delivery_and_the_same_version_are_one_job(client, service):
    assert deliver(client, make_body()).json() == {"jobs": 1}
    assert deliver(client, make_body()).json() == {"jobs": 0}
    assert deliver(client, make_body(), delivery="d-2").json() == {"jobs": 0}
    alias = {"entity": "model_version_alias", "data": {"name": "digits", "version": "1", "alias": "candidate"}}
    assert deliver(client, make_body(**alias), delivery="d-3").json() == {"jobs": 0}
    assert deliver(client, make_body(version="2"), delivery="d-4").json() == {"jobs": 1}
    assert len(service.queue.list_jobs()) == 2


def test_what_no_rule_takes_is_acknowledged(client, service):
    assert deliver(client, make_body("spam")).status_code == 202
    winner = {"name": "digits", "version": "7", "tags": {"hone.source": "models:/digits/1"}}
    assert deliver(client, make_body(data=winner), delivery="d-2").status_code == 202
    assert service.queue.list_jobs() == ()


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        ({"secret": "another secret"}, 401),
        ({"stamp": "1"}, 401),
        ({"stamp": "soon"}, 401),
    ],
)
@pytest.mark.attack(
    what="a webhook that is forged, or sent again later",
    who="network",
    stopped_by="HMAC by the secret over body, id and time, compared in constant time, with a window of time",
)
def test_a_forged_delivery_is_refused(client, service, arguments, status):
    assert deliver(client, make_body(), **arguments).status_code == status
    assert client.post("/webhooks/mlflow", content=make_body()).status_code == status
    assert service.queue.list_jobs() == ()
    assert service.counts == {("mlflow", "forged"): 2}


@pytest.mark.parametrize("body", [b"{", b"[]", b"\xff", b"", make_body(data={"name": "digits"}), make_body(data=[])])
def test_a_delivery_that_cannot_be_read_is_refused(client, service, body):
    assert deliver(client, body).status_code == 400
    assert service.queue.list_jobs() == ()


def test_a_delivery_without_an_id_is_refused(client, service):
    for _ in range(2):  # the second would be taken for the first
        assert deliver(client, make_body(), delivery="").status_code == 400
    assert service.counts == {("mlflow", "unreadable"): 2}


@pytest.mark.attack(
    what="a delivery without end",
    who="network",
    stopped_by="bodies up to 128 KiB are read, whatever their length is said to be",
)
def test_a_delivery_of_any_length_takes_a_bounded_memory(client):
    response = deliver(client, b"x" * (LARGEST_BODY + 1))
    assert response.status_code == 413

    def stream():
        for _ in range(40):
            yield b"x" * (LARGEST_BODY // 20)

    assert client.post("/webhooks/mlflow", content=stream()).status_code == 413


def test_the_hub_tells_of_commits_on_main(client, service):
    headers = {"x-webhook-secret": SECRETS["huggingface"]}
    assert client.post("/webhooks/huggingface", json=PUSHED, headers=headers).json() == {"jobs": 1}
    assert client.post("/webhooks/huggingface", json=PUSHED, headers=headers).json() == {"jobs": 0}
    other = {**PUSHED, "updatedRefs": [{"ref": "refs/pr/1", "oldSha": None, "newSha": SHA}]}
    assert client.post("/webhooks/huggingface", json=other, headers=headers).json() == {"jobs": 0}
    assert client.post("/webhooks/huggingface", json=PUSHED).status_code == 401
    (job,) = service.queue.list_jobs()
    assert (job.uri, job.task.recipe) == (f"hf://org/clf@{SHA}", {"threads": 1})


def test_what_the_hub_sends_of_a_commit_whose_run_failed_starts_it_again(client, service):
    headers = {"x-webhook-secret": SECRETS["huggingface"]}
    client.post("/webhooks/huggingface", json=PUSHED, headers=headers)
    job = service.queue.claim("cpu")
    assert client.post("/webhooks/huggingface", json=PUSHED, headers=headers).json() == {"jobs": 0}  # while it runs
    service.queue.finish(job, State.FAILED, reason="no network")
    assert client.post("/webhooks/huggingface", json=PUSHED, headers=headers).json() == {"jobs": 1}
    service.queue.finish(service.queue.claim("cpu"), State.DONE)
    assert client.post("/webhooks/huggingface", json=PUSHED, headers=headers).json() == {"jobs": 0}


def test_without_a_secret_there_is_no_webhook(open_service):
    client = TestClient(make_application(open_service(secrets={})))
    assert deliver(client, make_body()).status_code == 404
    assert client.post("/webhooks/huggingface", json=PUSHED, headers={"x-webhook-secret": ""}).status_code == 404
    assert client.get("/runs", headers={"authorization": "Bearer "}).status_code == 404
    assert client.get("/").status_code == 404


@pytest.mark.parametrize("path", ["/webhooks", "/webhooks/mlflow/x", "/.env", "/runs/x/y", "/runs/1/report/x"])
def test_a_wrong_path_is_not_found(client, path):
    assert client.post(path, content=b"{}").status_code == 404


@pytest.mark.parametrize("number", ["x", "-1", "\u0663", "9" * 18, "1" * 5000])
def test_a_wrong_number_is_not_found(client, number):
    assert client.get(f"/runs/{number}").status_code == 401
    assert client.get(f"/runs/{number}", headers=TOKEN).status_code == 404


def test_somebody_asks_for_a_run(client, service):
    first = client.post("/runs", json={"uri": "models:/digits/1", "rule": "digits"}, headers=TOKEN)
    assert first.status_code == 202
    assert first.headers["location"] == f"/runs/{first.json()['id']}"
    again = client.post("/runs", json={"uri": "models:/digits/1"}, headers=TOKEN)
    assert again.json()["id"] != first.json()["id"]
    assert [job["rule"] for job in client.get("/runs", headers=TOKEN).json()] == ["by hand", "digits"]
    assert all(job.task.asked for job in service.queue.list_jobs())
    key = {**TOKEN, "idempotency-key": "k"}
    one, same = (client.post("/runs", json={"uri": "hf://org/clf"}, headers=key).json()["id"] for _ in range(2))
    assert one == same


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b'{"rule": "digits"}',
        b'{"uri": 3}',
        b'{"uri": ""}',
        b'{"uri": "models/matrix"}',
        b'{"uri": "../../etc"}',
        b'{"uri": "ftp://x"}',
        b'{"uri": "http://[x"}',
        b'{"uri": "models:/a/1\\n"}',
        b'{"uri": "models:/a/1", "rule": "none"}',
        b'{"uri": "models:/${oc.env:HOME}/1"}',
        b"[" * 100_000,
    ],
)
def test_what_names_no_version_is_refused(client, service, body):
    assert client.post("/runs", content=body, headers=TOKEN).status_code == 422
    assert service.queue.list_jobs() == ()


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer x"}, {"authorization": f"Basic {SECRETS['token']}"}])
def test_without_the_token_nobody_sees_or_asks(client, headers):
    calls = [("GET", "/runs"), ("POST", "/runs"), ("GET", "/runs/1"), ("DELETE", "/runs/1"), ("POST", "/runs/1/again")]
    for method, path in [*calls, ("POST", "/runs/1/approve")]:
        assert client.request(method, path, headers=headers).status_code == 401


def test_a_job_is_shown_cancelled_and_queued_again(client):
    job = client.post("/runs", json={"uri": "models:/digits/1"}, headers=TOKEN).json()
    path = f"/runs/{job['id']}"
    assert client.post(f"{path}/again", headers=TOKEN).status_code == 409
    assert client.delete(path, headers=TOKEN).json()["state"] == "cancelled"
    assert client.delete(path, headers=TOKEN).status_code == 409
    assert client.post(f"{path}/again", headers=TOKEN).json()["state"] == "queued"
    assert client.post(f"{path}/approve", headers=TOKEN).status_code == 409
    for number in ("77", "9" * 40):
        assert client.get(f"/runs/{number}", headers=TOKEN).status_code == 404


def test_a_winner_that_waits_is_approved(client, service):
    number = client.post("/runs", json={"uri": "models:/digits/1"}, headers=TOKEN).json()["id"]
    service.queue.finish(service.queue.claim("cpu"), State.DONE, published="models:/digits/2")
    assert client.post(f"/runs/{number}/approve", headers=TOKEN).status_code == 202
    newest = service.queue.list_jobs()[0]
    assert (newest.uri, newest.task) == ("models:/digits/2", Approve())
    service.queue.cancel(newest.id, reason="It did not come through.")
    assert client.post(f"/runs/{number}/approve", headers=TOKEN).status_code == 202
    assert service.queue.list_jobs()[0].id > newest.id


def test_monitors_see_counts_and_no_names(client, service):
    deliver(client, make_body())
    deliver(client, make_body(version="2"), delivery="d-2")
    service.queue.finish(service.queue.claim("cpu"), State.DONE, verdict="PASS")
    assert client.get("/health").json() == {"status": "ok"}
    assert client.get("/ready").json() == {"status": "ok", "failing_registries": 0}
    text = client.get("/metrics").text
    assert 'hone_jobs{state="queued"} 1' in text
    assert 'hone_deliveries_total{source="mlflow",outcome="accepted"} 2' in text
    assert 'hone_verdicts{verdict="PASS"} 1' in text
    assert "hone_longest_wait_seconds 0." in text
    assert "digits" not in text


@pytest.mark.attack(
    what="a body that is sent slowly, or not at all",
    who="network",
    stopped_by="a body must come within ten seconds",
)
def test_a_body_that_does_not_come_is_not_waited_for(service, monkeypatch):
    monkeypatch.setattr("kedro_hone.events.body._BODY_SECONDS", 0.05)
    said = []

    async def receive():
        await asyncio.sleep(60)

    async def send(message):
        said.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/webhooks/mlflow",
        "raw_path": b"",
        "query_string": b"",
        "headers": [],
        "http_version": "1.1",
        "scheme": "http",
        "server": ("s", 80),
        "client": ("c", 1),
    }
    asyncio.run(make_application(service)(scope, receive, send))
    assert said[0]["status"] == 408


def test_a_service_one_of_whose_threads_has_ended_is_not_ready(client, service, monkeypatch):
    monkeypatch.setattr(service.schedule, "run", lambda: None)
    service.schedule.start()
    service.schedule.join()
    response = client.get("/ready")
    assert (response.status_code, response.json()["threads"]) == (503, ["hone-schedule"])


def test_a_service_that_writes_nothing_since_nobody_reads_its_log_is_not_ready(client, service, monkeypatch):
    monkeypatch.setattr("kedro_hone.events.monitors._READY_SECONDS", 0.2)
    stuck, go = threading.Event(), threading.Event()

    def log(event, **details):
        assert (event, details["uri"]) == ("delivery-accepted", "models:/digits/1")
        stuck.set()
        go.wait(60)

    monkeypatch.setattr("kedro_hone.events.webhooks.log", log)
    with ThreadPoolExecutor(1) as pool:
        delivery = pool.submit(deliver, client, make_body())
        assert stuck.wait(60)
        response = client.get("/ready")
        assert (response.status_code, response.json()["threads"]) == (503, ["hone-queue"])
        assert client.get("/health").status_code == 200
        go.set()
        assert delivery.result(60).json() == {"jobs": 1}
    monkeypatch.setattr("kedro_hone.events.monitors._READY_SECONDS", 60.0)
    assert client.get("/ready").status_code == 200


def test_a_log_that_nobody_reads_blocks_no_other_request(client, monkeypatch):
    """It waits for the log in the writer's thread, and the event loop goes on."""
    stuck, go = threading.Event(), threading.Event()

    def log(event, **details):
        stuck.set()
        go.wait(60)

    monkeypatch.setattr("kedro_hone.events.webhooks.log", log)
    with ThreadPoolExecutor(1) as pool:
        delivery = pool.submit(client.post, "/webhooks/mlflow", content=b"{}")
        assert stuck.wait(60)
        assert client.get("/health").status_code == 200
        go.set()
        assert delivery.result(60).status_code == 401


def test_a_run_that_is_still_ending_is_not_queued_again(client, service):
    number = client.post("/runs", json={"uri": "models:/digits/1"}, headers=TOKEN).json()["id"]
    service.queue.claim("cpu")
    service.queue.note_process(number, identify_process())
    assert client.delete(f"/runs/{number}", headers=TOKEN).json()["state"] == "cancelled"
    assert client.post(f"/runs/{number}/again", headers=TOKEN).status_code == 409
    service.queue.note_process(number, f"{identify_process()}0")
    assert client.post(f"/runs/{number}/again", headers=TOKEN).status_code == 202


def test_a_queue_that_cannot_be_written_is_told_so_that_the_sender_tries_again(client, service, monkeypatch):
    real = sqlite3.connect

    def connect(*args, **named):
        connection = real(*args, **named)
        connection.execute("PRAGMA query_only = ON")
        return connection

    with monkeypatch.context() as full:
        full.setattr("kedro_hone.events.schema.sqlite3.connect", connect)
        service.queue.close()
        response = deliver(client, make_body())
        assert (response.status_code, response.json()["slug"]) == (503, "queue-broken")
        assert client.get("/ready").status_code == 503
        assert client.get("/health").status_code == 200
    assert client.get("/ready").status_code == 200  # it looks again by itself
    assert deliver(client, make_body()).json() == {"jobs": 1}


def test_many_deliveries_at_once_are_one_job_each(service):
    application = make_application(service)

    def send(number):
        with TestClient(application) as client:
            return deliver(client, make_body(version=str(number % 40 + 1)), delivery=f"d-{number % 50}").status_code

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(send, range(200))) == {202}
    assert sorted(int(job.uri.rpartition("/")[2]) for job in service.queue.list_jobs()) == list(range(1, 41))
