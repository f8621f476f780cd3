"""Does every acknowledged webhook lead to exactly one job while the service is killed, and is it acknowledged in time?

The service (``kedro hone listen``) gets deliveries in MLflow's format at a constant rate, whether or not earlier ones
were acknowledged. Some are sent twice under the same id, and some are signed with another secret. Now and then the
service is killed with SIGKILL and started again; a delivery that was not acknowledged is sent again after the pauses
that MLflow makes. Meanwhile jobs run, and fail: there is no such model::

    python benchmarks/deliveries.py    # 3,000 at 50 a second with five kills: a minute

Exit code 1: a job is missing or doubled, or was started twice by one claim, a forged delivery was accepted, no job
ended after the last kill, or the 99th percentile of the acknowledgements that needed no second try is a second or more.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import hmac
import http.client
import json
import os
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

from mlflow import MlflowClient

SECRET = "the secret that is signed with"  # noqa: S105 - of this run only
DOUBLED, FORGED = 0.1, 0.05
"""Shares of the deliveries."""
RUNNING_SECONDS = 120.0
"""How long the service has, at the end, to run a job."""


class Service:
    """A service that is killed and started again, and what was sent to it.

    Attributes:
        times: Seconds until each acknowledgement, of deliveries that needed no second try.
        repeated: How many did.
        wrong: How many deliveries were responded to with another status than they should be.
    """

    def __init__(self, project: Path) -> None:
        self._project = project
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        self.times: list[float] = []
        self.repeated = self.wrong = 0
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        with (self._project / "log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "kedro_hone", "hone", "listen", "--port", str(self._port)],
                cwd=self._project,
                env=os.environ | {"BENCH_SECRET": SECRET, "MLFLOW_DISABLE_TELEMETRY": "true"},
                stderr=log,
            )
        while process.poll() is None:
            with suppress(OSError):
                socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
                return process
            time.sleep(0.05)
        raise RuntimeError("the service does not start")

    def restart(self) -> None:
        """Kill the service, and start it again."""
        self._process.kill()
        self._process.wait()
        self._process = self._start()

    def end(self) -> None:
        """End the service in order."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(60)

    def send(self, number: int, *, due: float, forged: bool) -> None:
        """Send the delivery of a version, which was due at some time, until it is responded to."""
        data = {"name": "digits", "version": str(number), "source": "s3://bucket/model", "tags": {}}
        body = json.dumps({"entity": "model_version", "action": "created", "data": data}).encode()
        url = f"http://127.0.0.1:{self._port}/webhooks/mlflow"
        for tries in range(20):
            request = urllib.request.Request(url, data=body, headers=sign(body, number, forged=forged))
            try:
                with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310 - our own server
                    status = response.status
            except urllib.error.HTTPError as error:
                status = error.code
            except (OSError, http.client.HTTPException):
                # The pauses of mlflow.webhooks.delivery: 1 s, 2 s, 4 s ... and up to a second more.
                time.sleep(min(2.0**tries, 10.0) + random.random())  # noqa: S311 - no secret
                continue
            self.wrong += status != (401 if forged else 202)
            self.repeated += tries > 0
            if not tries:
                self.times.append(time.perf_counter() - due)
            return
        self.wrong += 1


def main() -> None:
    """Send the deliveries, and judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=3000, help="deliveries, with those that are sent twice")
    parser.add_argument("--rate", type=float, default=50.0, help="deliveries a second")
    parser.add_argument("--kills", type=int, default=5)
    arguments = parser.parse_args()
    deliveries, forged = plan(arguments.count)
    with tempfile.TemporaryDirectory() as folder:
        project = make_project(Path(folder))
        service = Service(project)
        before = run(service, project, deliveries, forged, rate=arguments.rate, kills=arguments.kills)
        end = time.monotonic() + RUNNING_SECONDS
        while (ended := count_ended(project) - before) == 0 and time.monotonic() < end:
            time.sleep(0.5)
        service.end()
        jobs = Counter(int(uri.rpartition("/")[2]) for (uri,) in select(project, "SELECT uri FROM jobs"))
        twice = count_doubled_starts(project)
    wanted = {*deliveries} - forged
    missing, doubled = wanted - jobs.keys(), [number for number, count in jobs.items() if count > 1]
    accepted, times = jobs.keys() - wanted, sorted(service.times)
    p99 = times[int(len(times) * 0.99)]
    print(f"{len(deliveries)} deliveries ({len(wanted)} versions, {len(forged)} forged) at {arguments.rate:g} a second")
    print(f"{arguments.kills} kills; {service.repeated} deliveries were sent again: they had not been acknowledged")
    print(f"jobs: {len(missing)} missing, {len(doubled)} doubled, {len(accepted)} of forged deliveries")
    print(f"{twice} were started twice; {ended} ended after the last kill; {service.wrong} wrong responses")
    print(f"acknowledged in {times[len(times) // 2] * 1000:.0f} ms (median), {p99 * 1000:.0f} ms (99th percentile)")
    sys.exit(bool(missing or doubled or accepted or twice or not ended or service.wrong or p99 >= 1))


def plan(count: int) -> tuple[list[int], set[int]]:
    """Return the versions in the order of their deliveries, some of them twice, and those that are forged."""
    draw = random.Random(0)  # noqa: S311 - no secret
    versions = range(1, count - int(count * DOUBLED) + 1)
    forged = {*draw.sample(versions, int(count * FORGED))}
    again = draw.sample([one for one in versions if one not in forged], count - len(versions))
    places = [*((float(one), one) for one in versions), *((one + draw.uniform(0, count / 10), one) for one in again)]
    return [one for _, one in sorted(places)], forged


def run(
    service: Service, project: Path, deliveries: Sequence[int], forged: set[int], *, rate: float, kills: int
) -> int:
    """Send all at their times, and kill the service in between; return how many jobs had ended at the last kill."""
    seconds, ended = len(deliveries) / rate, [0]

    def kill() -> None:
        for _ in range(kills):
            time.sleep(seconds / (kills + 1))
            ended.append(count_ended(project))
            service.restart()

    killer = threading.Thread(target=kill)
    killer.start()
    start = time.perf_counter()
    with ThreadPoolExecutor(1000) as pool:  # those wait, too, that come while there is no service
        for place, number in enumerate(deliveries):
            due = start + place / rate
            time.sleep(max(0.0, due - time.perf_counter()))
            pool.submit(service.send, number, due=due, forged=number in forged)
    killer.join()
    return ended[-1]


def sign(body: bytes, number: int, *, forged: bool) -> dict[str, str]:
    """Return the headers of a delivery."""
    stamp, delivery = str(int(time.time())), f"delivery-{number}"
    secret = "another secret" if forged else SECRET
    digest = hmac.new(secret.encode(), f"{delivery}.{stamp}.".encode() + body, hashlib.sha256).digest()
    return {
        "content-type": "application/json",
        "x-mlflow-delivery-id": delivery,
        "x-mlflow-timestamp": stamp,
        "x-mlflow-signature": "v1," + base64.b64encode(digest).decode(),
    }


def make_project(folder: Path) -> Path:
    """Write a project whose registry is empty."""
    (folder / "data").mkdir()
    MlflowClient(f"sqlite:///{folder / 'data' / 'mlflow.db'}").search_registered_models()  # makes the tables
    for name in ("base", "local"):
        (folder / "conf" / name).mkdir(parents=True)
    (folder / "conf" / "base" / "parameters.yml").write_text("hone: {model: {uri: models:/digits/1}}\n")
    settings = {"rules": [{"name": "all", "models": "digits"}], "secrets": {"mlflow": "BENCH_SECRET"}, "sweep": None}
    (folder / "conf" / "base" / "listen.yml").write_text(json.dumps(settings))
    return folder


def select(project: Path, sql: str) -> list[tuple[str | int, ...]]:
    """Return the rows of the queue that a statement selects."""
    with closing(sqlite3.connect(project / "data" / "hone" / "queue.db")) as queue:
        return queue.execute(sql).fetchall()


def count_ended(project: Path) -> int:
    """Return how many jobs have ended."""
    return int(select(project, "SELECT COUNT(*) FROM jobs WHERE state NOT IN ('queued', 'running')")[0][0])


def count_doubled_starts(project: Path) -> int:
    """Return how many claims of a job started more than one process, by the log of all services."""
    starts: Counter[tuple[int, int]] = Counter()
    for line in (project / "log").read_text().splitlines():
        with suppress(ValueError):  # the last line of a service that was killed
            fields = json.loads(line)
            if fields["event"] == "job-started":
                starts[fields["job"], fields["attempt"]] += 1
    return sum(count > 1 for count in starts.values())


if __name__ == "__main__":
    main()
