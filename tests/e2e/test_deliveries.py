"""The promise of the service: what it acknowledged leads to exactly one job, whatever is killed in between.

Deliveries come at a constant rate, whether or not earlier ones were acknowledged. Some are sent twice under the same
id, and some are signed with another secret. A delivery that was not acknowledged is sent again after MLflow's pauses.
"""

# ruff: noqa: T201 - what it measured
from __future__ import annotations

import http.client
import json
import os
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress

import pytest
from deliveries import CREATED, SECRETS, sign
from mlflow_store import MAKE_TABLES
from small_project import HANG

from kedro_hone.core.machine.processes import read_load, share_of_others

pytestmark = pytest.mark.nightly

COUNT, RATE, KILLS = 3000, 50.0, 5
"""Deliveries, of which a tenth is sent twice, and a twentieth is forged; how many a second; and SIGKILLs."""


class Service:
    """A service that is killed and started again, and the responses to what was sent to it."""

    def __init__(self, project):
        self.project, self.times, self.repeated, self.wrong = project, [], 0, 0
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.start()

    def start(self):
        with (self.project / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "kedro_hone", "hone", "listen", "--port", str(self.port)],
                cwd=self.project,
                env=os.environ | {"HONE_MLFLOW_SECRET": SECRETS["mlflow"], "MLFLOW_DISABLE_TELEMETRY": "true"},
                stderr=log,
            )
        while True:
            assert self.process.poll() is None, (self.project / "log").read_text()
            with suppress(OSError):
                return socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            time.sleep(0.05)

    def end(self, number):
        self.process.send_signal(number)
        self.process.wait(HANG)

    def send(self, number, *, due, forged):
        """Send the delivery of a version, which is due at some time, until there is a response."""
        body = json.dumps({**CREATED, "data": {"name": "digits", "version": str(number), "tags": {}}}).encode()
        url, secret = f"http://127.0.0.1:{self.port}/webhooks/mlflow", SECRETS["mlflow" if not forged else "token"]
        for tries in range(20):
            headers = sign(body, stamp=str(int(time.time())), delivery=f"d-{number}", secret=secret)
            request = urllib.request.Request(url, data=body, headers=headers)
            try:
                with urllib.request.urlopen(request, timeout=HANG) as response:  # noqa: S310 - our own server
                    status = response.status
            except urllib.error.HTTPError as error:
                status = error.code
            except (OSError, http.client.HTTPException):
                status = 503
            if status == 503:  # as MLflow, which takes no connection, and too many of them, for the same
                time.sleep(min(2.0**tries, 10.0) + random.random())
                continue
            if tries:
                self.repeated += 1
            else:
                self.times.append(time.perf_counter() - due)
            self.wrong += status != (401 if forged else 202)
            return
        self.wrong += 1


def plan():
    """Return the versions in the order of their deliveries, some of them twice, and those that are forged."""
    draw, first = random.Random(0), range(1, COUNT - COUNT // 10 + 1)
    forged = {*draw.sample(first, COUNT // 20)}
    again = draw.sample([one for one in first if one not in forged], COUNT - len(first))
    places = [*((float(one), one) for one in first), *((one + draw.uniform(0, COUNT / 10), one) for one in again)]
    return [one for _, one in sorted(places)], forged


def send_all(service, deliveries, forged):
    """Send all at their times, and kill the service in between; return how many jobs had ended at the last kill."""
    ended = []

    def kill():
        for _ in range(KILLS):
            time.sleep(COUNT / RATE / (KILLS + 1))
            ended.append(count_ended(service.project))
            service.end(signal.SIGKILL)
            service.start()

    killer = threading.Thread(target=kill)
    killer.start()
    start = time.perf_counter()
    with ThreadPoolExecutor(COUNT) as pool:  # as many may wait for a service that is started again
        for place, number in enumerate(deliveries):
            due = start + place / RATE
            time.sleep(max(0.0, due - time.perf_counter()))
            pool.submit(service.send, number, due=due, forged=number in forged)
    killer.join()
    return ended[-1]


@pytest.fixture
def project(tmp_path):
    """A project whose registry is empty, so that each job fails."""
    (tmp_path / "data").mkdir()
    command = [sys.executable, "-W", "ignore", "-c", MAKE_TABLES, str(tmp_path / "data" / "mlflow.db")]
    subprocess.run(command, check=True)
    for name in ("base", "local"):
        (tmp_path / "conf" / name).mkdir(parents=True)
    (tmp_path / "conf" / "base" / "parameters.yml").write_text("hone: {model: {uri: models:/digits/1}}\n")
    rules = {"rules": [{"name": "all", "models": "digits"}], "secrets": {"mlflow": "HONE_MLFLOW_SECRET"}, "sweep": None}
    (tmp_path / "conf" / "base" / "listen.yml").write_text(json.dumps(rules))
    return tmp_path


def select(project, sql):
    with closing(sqlite3.connect(project / "data" / "hone" / "queue.db")) as queue:
        return queue.execute(sql).fetchall()


def count_ended(project):
    return select(project, "SELECT COUNT(*) FROM jobs WHERE state NOT IN ('queued', 'running')")[0][0]


def list_starts(project):
    """Return the job and the attempt of each process that any of the services started, by their log."""
    for line in (project / "log").read_text().splitlines():
        with suppress(ValueError):  # the last line of a service that was killed
            fields = json.loads(line)
            if fields["event"] == "job-started":
                yield fields["job"], fields["attempt"]


def test_each_acknowledged_delivery_is_one_job_through_five_kills_and_none_that_is_forged(project):
    (deliveries, forged), load = plan(), read_load()
    service = Service(project)
    before = send_all(service, deliveries, forged)
    deadline = time.monotonic() + HANG
    while count_ended(project) == before:
        assert time.monotonic() < deadline, "no job ended after the last kill"
        time.sleep(0.5)
    service.end(signal.SIGTERM)
    jobs = [int(uri.rpartition("/")[2]) for (uri,) in select(project, "SELECT uri FROM jobs")]
    assert sorted(jobs) == sorted({*deliveries} - forged)
    assert service.wrong == 0
    assert service.repeated
    assert max(Counter(list_starts(project)).values()) == 1
    times, others = sorted(service.times), share_of_others(load)
    p99 = times[int(len(times) * 0.99)]
    print(f"acknowledged: median {times[len(times) // 2]:.3f} s, 99 % {p99:.3f} s, others took {others}")
    assert p99 < 1.0 or others is None or others > 0.2, "of a quiet machine"
