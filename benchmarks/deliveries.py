"""Does the service lose or double a webhook when it is killed while they come, and how fast does it acknowledge?

A service of registry events (``kedro hone listen``) takes deliveries in MLflow's format at a constant rate, open loop:
a delivery is sent at its time whether or not earlier ones were acknowledged. Some are sent a second time, as MLflow
does under the same id, and some are signed with another secret. Now and then the service is killed with SIGKILL and
started again; a delivery that was not acknowledged is sent again until it is, after the pauses that MLflow makes.
Meanwhile jobs are run, one after the other, and fail: there is no such model. Printed are the jobs that are missing or
doubled, those that were started twice by one claim, forged deliveries that were taken, how many jobs ended after the
last kill, the percentiles of the time from sending to the acknowledgement of those that needed no second try, and the
service's largest memory::

    python benchmarks/deliveries.py                                # 10,000 at 500 a second, half a minute
    python benchmarks/deliveries.py --count 2000 --rate 100

Exit code 1: a job is missing or doubled, or was started twice, a forged delivery was taken, nothing was run after the
last kill, the 99th percentile is 100 ms or more, or the memory 200 MB or more.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import gc
import hashlib
import hmac
import json
import os
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np
from deliveries_client import Client
from mlflow import MlflowClient

SECRET = "the secret that is signed with"  # noqa: S105 - of this run only
MODEL = "digits"
RUNNING_SECONDS = 120.0
"""How long the service has, at the end, to run a job."""


class Delivery(NamedTuple):
    """One sending of a delivery.

    Attributes:
        number: Of the version that it tells of.
        at: Seconds from the start.
        forged: Whether it is signed with another secret.
    """

    number: int
    at: float
    forged: bool = False


def main() -> None:
    """Send the deliveries, and judge."""
    arguments = _read_arguments()
    with tempfile.TemporaryDirectory() as folder:
        project = _make_project(Path(folder))
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        sender = Sender(project, port, kills=arguments.kills)
        deliveries = _plan(arguments)
        gc.freeze()  # a full collection of all that MLflow imports would be read as a slow acknowledgement
        asyncio.run(sender.send_all(deliveries))
        jobs, doubled_starts = _count_jobs(project), _count_doubled_starts(project)
    wanted = {one.number for one in deliveries if not one.forged}
    missing, doubled = wanted - set(jobs), [number for number, count in jobs.items() if count > 1]
    taken = set(jobs) - wanted
    times = np.array(sender.times) * 1000.0
    p50, p99, largest = np.percentile(times, [50, 99, 100])
    genuine, again, forged = len(wanted), len(sender.repeated), sum(one.forged for one in deliveries)
    print(f"{len(deliveries)} deliveries ({genuine} versions, {forged} forged) at {arguments.rate} a second")
    print(f"{sender.killed} kills; {again} deliveries were sent again since they had not been acknowledged")
    print(f"jobs: {len(missing)} missing, {len(doubled)} doubled, {len(taken)} of forged deliveries")
    print(f"{doubled_starts} were started twice; {sender.ended} ended after the last kill")
    print(f"acknowledged in {p50:.1f} ms (median), {p99:.1f} ms (99th percentile), {largest:.1f} ms (longest)")
    print(f"memory: {sender.peak_mb:.0f} MB at most")
    wrong = missing or doubled or taken or doubled_starts or not sender.ended or sender.wrong
    sys.exit(bool(wrong or p99 >= 100 or sender.peak_mb >= 200))


def _read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000, help="deliveries, with those that are sent twice")
    parser.add_argument("--rate", type=float, default=500.0, help="deliveries a second")
    parser.add_argument("--doubled", type=float, default=0.1, help="share of deliveries that are sent a second time")
    parser.add_argument("--forged", type=float, default=0.05, help="share of deliveries with another secret")
    parser.add_argument("--kills", type=int, default=5)
    return parser.parse_args()


def _plan(arguments: argparse.Namespace) -> list[Delivery]:
    """Return the deliveries in the order of their times; a second sending comes within seconds after the first."""
    draw = random.Random(0)  # noqa: S311 - no secret
    doubled, forged = int(arguments.count * arguments.doubled), int(arguments.count * arguments.forged)
    first = arguments.count - doubled
    false = set(draw.sample(range(first), forged))
    sent = [Delivery(number + 1, number / first, number in false) for number in range(first)]
    again = draw.sample([one for one in sent if not one.forged], doubled)
    sent += [one._replace(at=min(1.0, one.at + draw.uniform(0, 0.1))) for one in again]
    seconds = arguments.count / arguments.rate
    order = sorted(sent, key=lambda one: one.at)
    return [one._replace(at=seconds * place / len(order)) for place, one in enumerate(order)]


class Sender:
    """Sends deliveries to a service that it starts, kills and starts again.

    Attributes:
        times: Seconds until each acknowledgement, of deliveries that needed no second try.
        repeated: The numbers of those that did.
        killed: How often the service was killed.
        wrong: Deliveries whose status is not what it should be.
        ended: How many jobs ended after the last kill.
    """

    def __init__(self, project: Path, port: int, *, kills: int) -> None:
        self._project, self._port, self._kills = project, port, kills
        self._process = self._start()
        self.times: list[float] = []
        self.repeated: set[int] = set()
        self.killed, self.peak_mb, self.wrong, self.ended = 0, 0.0, 0, 0

    def _start(self) -> subprocess.Popen[bytes]:
        with (self._project / "log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "kedro_hone", "hone", "listen", "--port", str(self._port)],
                cwd=self._project,
                env=os.environ | {"BENCH_SECRET": SECRET, "MLFLOW_DISABLE_TELEMETRY": "true"},
                stderr=log,
            )
        while True:
            try:
                socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
            except OSError:
                if process.poll() is not None:
                    raise RuntimeError("the service does not start") from None
                time.sleep(0.05)
            else:
                return process

    async def send_all(self, deliveries: list[Delivery]) -> None:
        """Send all deliveries at their times, kill the service in between, and end it at last."""
        kills = asyncio.create_task(self._kill(deliveries[-1].at))
        client, start, tasks = Client(self._port), time.perf_counter(), []
        for one in deliveries:
            await asyncio.sleep(max(0.0, start + one.at - time.perf_counter()))
            tasks.append(asyncio.create_task(self._send(client, one)))
        await asyncio.gather(*tasks)
        client.close()
        before, end = await kills, time.monotonic() + RUNNING_SECONDS
        while not self.ended and time.monotonic() < end:
            await asyncio.sleep(0.5)
            self.ended = _count_ended(self._project) - before
        self._note_memory()
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(60)

    async def _send(self, client: Client, one: Delivery) -> None:
        body = json.dumps(
            {
                "entity": "model_version",
                "action": "created",
                "data": {"name": MODEL, "version": str(one.number), "source": "s3://bucket/model", "tags": {}},
            }
        ).encode()
        start, tries = time.perf_counter(), 0
        while True:
            try:
                status = await client.post("/webhooks/mlflow", body, headers=_sign(body, one))
            except (OSError, EOFError):
                self.repeated.add(one.number)
                # The pauses of mlflow.webhooks.delivery: 1 s, 2 s, 4 s ... and up to a second more.
                await asyncio.sleep(2.0**tries + random.random())  # noqa: S311 - no secret
                tries += 1
                continue
            self.wrong += status != (401 if one.forged else 202)
            if not tries:
                self.times.append(time.perf_counter() - start)
            return

    async def _kill(self, seconds: float) -> int:
        """Kill the service now and then; return how many jobs had ended at the last time."""
        for _ in range(self._kills):
            await asyncio.sleep(seconds / (self._kills + 1))
            self._note_memory()
            self._process.kill()
            self._process.wait()
            self.killed += 1
            before = _count_ended(self._project)
            self._process = await asyncio.to_thread(self._start)
        return before if self._kills else 0

    def _note_memory(self) -> None:
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        self.peak_mb = max(self.peak_mb, int(peak.split()[1]) / 1000)


def _sign(body: bytes, one: Delivery) -> dict[str, str]:
    stamp, delivery = str(int(time.time())), f"delivery-{one.number}"
    secret = "another secret" if one.forged else SECRET
    digest = hmac.new(secret.encode(), f"{delivery}.{stamp}.".encode() + body, hashlib.sha256).digest()
    return {
        "content-type": "application/json",
        "x-mlflow-delivery-id": delivery,
        "x-mlflow-timestamp": stamp,
        "x-mlflow-signature": "v1," + base64.b64encode(digest).decode(),
    }


def _make_project(folder: Path) -> Path:
    """Write a project whose registry is empty."""
    (folder / "data").mkdir()
    MlflowClient(f"sqlite:///{folder / 'data' / 'mlflow.db'}").search_registered_models()  # makes the tables
    conf = folder / "conf"
    for name in ("base", "local"):
        (conf / name).mkdir(parents=True)
    (conf / "base" / "parameters.yml").write_text("hone: {model: {uri: models:/digits/1}}\n")
    settings = {
        "rules": [{"name": "all", "models": MODEL}],
        "secrets": {"mlflow": "BENCH_SECRET"},
        "sweep": None,
    }
    (conf / "base" / "listen.yml").write_text(json.dumps(settings))
    return folder


def _count_jobs(project: Path) -> Counter[int]:
    with sqlite3.connect(project / "data" / "hone" / "queue.db") as queue:
        return Counter(int(uri.rpartition("/")[2]) for (uri,) in queue.execute("SELECT uri FROM jobs"))


def _count_ended(project: Path) -> int:
    with sqlite3.connect(project / "data" / "hone" / "queue.db") as queue:
        sql = "SELECT COUNT(*) FROM jobs WHERE state NOT IN ('queued', 'running')"
        return int(queue.execute(sql).fetchone()[0])


def _count_doubled_starts(project: Path) -> int:
    """Return how many claims of a job started more than one process, by the log of all services."""
    starts: Counter[tuple[int, int]] = Counter()
    for line in (project / "log").read_text().splitlines():
        with contextlib.suppress(ValueError):  # the last line of a service that was killed
            said = json.loads(line)
            if said["event"] == "job-started":
                starts[said["job"], said["attempt"]] += 1
    return sum(count > 1 for count in starts.values())


if __name__ == "__main__":
    main()
