"""The comparison of a winner with its source through the wire: each behind the same server, as clients measure them."""

from __future__ import annotations

from pydantic import Field

from hone_runtime.values.base import Derived, Value
from hone_runtime.values.measurement import Interval, Latency, Load


class WireSide(Value):
    """What a number of clients measured of one server."""

    throughput: Interval = Field(description="Answers per second of all clients, over launches.")
    median_ms: Interval = Field(description="The median time from a request to its answer, over launches.")
    p90_ms: Interval | None = Field(None, description="Only where each launch has 64 samples at least.")
    p99_ms: Interval | None = Field(None, description="Only where each launch has 662 samples at least.")
    latency: Latency = Field(description="The times of all launches together.")
    cpu_ms: float = Field(description="The server's CPU time for one request, in milliseconds.")


class WireCell(Value):
    """A number of clients that call at once."""

    clients: int = Field(description="How many connections there were, each with one request in flight.")
    baseline: WireSide = Field(description="The server that the winner is compared with.")
    winner: WireSide = Field(description="The winner's server.")
    throughput: Interval = Field(description="The winner's throughput over the baseline's, over launches.")
    speedup: Interval = Field(description="The baseline's median time over the winner's, over launches.")


class WireComparison(Value):
    """A winner and its source through the wire."""

    winner: str = Field(description="The published version.")
    baseline: str = Field(description="The source that was served, by its URI.")
    baseline_runs_in: str = Field(description="The runtime that served the source, and the source's format.")
    winner_runs_in: str = Field(description="The runtime that served the winner, and its format.")
    protocol: str = Field(description="`http`: REST with binary tensors.")
    sizes: dict[str, int] = Field(description="The sizes of the request's dynamic dimensions.")
    request_bytes: int = Field(description="The size of a request.")
    threads: int = Field(description="The threads of either runtime.")
    launches: int = Field(description="How often both servers were started.")
    seconds: float = Field(description="How long each turn took; there were four of them for each number of clients.")
    cpu: str = Field(description="The processor's name.")
    cores: int = Field(description="The cores that servers and clients shared.")
    other_load: Load | None = Field(None, description="Share of the cores' time that other processes took, 0 to 1.")
    idle_cpu: float = Field(0.0, ge=0, description="Cores that the other server used while one was measured.")
    different: int = Field(1, description="The most different answers of a turn.")
    compared: int = Field(1, description="The most answers of a turn that were compared with the recorded one.")
    same_outputs: tuple[str, ...] = Field((), description="Outputs of the source that were as recorded, or close.")
    other_outputs: tuple[str, ...] = Field(
        (), description="Outputs of the source that were not: labels or texts that the winner has changed, or none."
    )
    rows: int = Field(description="How many golden rows were compared through the wire, for each server.")
    direct_baseline_ms: float = Field(description="The median time of the source's call without a server.")
    direct_winner_ms: float = Field(description="The median time of the winner's call without a server.")
    direct_speedup: Interval = Field(description="The ratio of both without a server, over launches.")
    cells: tuple[WireCell, ...] = Field(description="One for each number of clients, in their order.")

    @property
    def checked(self) -> str:
        """What was compared, as sentences."""
        found = "Both answered the golden rows as recorded."
        if self.other_outputs:
            compared = f"only {', '.join(self.same_outputs)}" if self.same_outputs else "nothing"
            found = (
                f"The winner answered the golden rows as recorded. Of the source's answers {compared} can be compared: "
                f"{', '.join(self.other_outputs)} may differ from the winner's, and did."
            )
        if self.different > self.compared:
            found += f" A turn had up to {self.different:,} different answers, of which {self.compared} were compared."
        return found

    @property
    def wire_ms(self) -> tuple[float, float] | None:
        """What the wire adds to a call of one client: of the baseline and of the winner; None without one client."""
        for cell in self.cells:
            if cell.clients == 1:
                baseline = cell.baseline.latency.p50_ms - self.direct_baseline_ms
                return baseline, cell.winner.latency.p50_ms - self.direct_winner_ms
        return None


class WireOutcome(Value):
    """The comparison that a recipe requires, or why there is none."""

    comparison: WireComparison | None = Field(None, description="The figures; None if nothing was measured.")
    reason: str = Field("", description="Why nothing was measured, or an empty string.")


class WireResult(WireOutcome, Derived):
    """The same as the result of a node."""
