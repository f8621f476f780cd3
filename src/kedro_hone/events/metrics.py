"""What Prometheus reads of the service, by its text format (https://prometheus.io/docs/instrumenting/exposition_formats/)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from kedro_hone.events.job import State


class _Families(Collector):
    def __init__(self, *families: CounterMetricFamily | GaugeMetricFamily) -> None:
        self._families = families

    def collect(self) -> Iterable[CounterMetricFamily | GaugeMetricFamily]:
        return self._families


def format_metrics(
    states: Mapping[State, int],
    deliveries: Mapping[tuple[str, str], int],
    *,
    verdicts: Mapping[str, int],
    failing: int,
    longest_wait: float,
) -> str:
    """Return the text.

    Args:
        states: How many jobs there are in each state.
        deliveries: How many there were since the start, by their sender and what became of them.
        verdicts: How many jobs there are with each verdict.
        failing: How many registries could not be swept the last time.
        longest_wait: Seconds since the oldest job was queued that waits; 0 where none does.
    """
    jobs = GaugeMetricFamily("hone_jobs", "Jobs in each state.", labels=["state"])
    for state, count in states.items():
        jobs.add_metric([state], count)
    judged = GaugeMetricFamily("hone_verdicts", "Jobs with each verdict.", labels=["verdict"])
    for verdict, count in sorted(verdicts.items()):
        judged.add_metric([verdict], count)
    came = CounterMetricFamily("hone_deliveries", "Deliveries since the start.", labels=["source", "outcome"])
    for (source, outcome), count in sorted(deliveries.items()):
        came.add_metric([source, outcome], count)
    sweeps = GaugeMetricFamily("hone_failing_registries", "Registries that the last sweep could not ask.", failing)
    waits = GaugeMetricFamily("hone_longest_wait_seconds", "Since the oldest job came that waits.", longest_wait)
    registry = CollectorRegistry()
    registry.register(_Families(jobs, judged, came, sweeps, waits))
    return generate_latest(registry).decode()
