"""The figures of a server for Prometheus, next to KServe's own: requests, times, queues and batches.

With several processes, their counts are added up: the supervisor names a folder for them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

FOLDER: Final = "PROMETHEUS_MULTIPROC_DIR"
"""The variable that prometheus_client reads when it is imported; set if there are several processes."""
_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_ROWS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 1024)


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """The metrics of one process, each with the label ``model``.

    Attributes:
        requests: Requests by protocol and code.
        seconds: From a request to its answer, by protocol.
        queue: How long a call waited for its turn, in seconds.
        run: How long a call of the model took, in seconds.
        rows: The rows of a call, of one request or of several.
        pending: The requests that were accepted and are not answered.
    """

    requests: Counter
    seconds: Histogram
    queue: Histogram
    run: Histogram
    rows: Histogram
    pending: Gauge

    def write(self) -> bytes:
        """Return the metrics of all processes, in Prometheus's text format."""
        registry = REGISTRY
        if FOLDER in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)
        text: bytes = generate_latest(registry)
        return text


def make_metrics() -> Metrics:
    """Return the metrics of this process, all at zero."""

    def measure(name: str, text: str, *labels: str, buckets: tuple[float, ...] = _SECONDS) -> Histogram:
        return Histogram(name, text, ["model", *labels], buckets=buckets)

    return Metrics(
        requests=Counter("hone_requests", "Requests by their result.", ["model", "protocol", "code"]),
        seconds=measure("hone_request_seconds", "Seconds from a request to its answer.", "protocol"),
        queue=measure("hone_queue_seconds", "Seconds that a call waited for its turn."),
        run=measure("hone_run_seconds", "Seconds of a call of the model."),
        rows=measure("hone_call_rows", "Rows of a call, of one request or of several.", buckets=_ROWS),
        pending=Gauge(
            "hone_pending_requests",
            "Requests that were accepted and are not answered.",
            ["model"],
            multiprocess_mode="livesum",
        ),
    )
