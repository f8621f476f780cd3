"""The comparison of a winner with its source through the wire: both are served in the same way, and called by turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np

from hone_runtime.contract.hardware import read_host
from hone_runtime.learner.golden import Golden
from hone_runtime.learner.runtimes import choose_threads
from hone_runtime.values.wire import WireComparison
from kedro_hone.core.environments.environment import Environment
from kedro_hone.core.environments.store import find_home
from kedro_hone.core.locks import hold_devices
from kedro_hone.core.machine.processes import read_load, share_of_others
from kedro_hone.serving.launch import PACKAGES, describe_model, list_variables, make_command, read_shapes, write_files
from kedro_hone.serving.runtime_files import write_runtime
from kedro_hone.serving.server.configuration import Configuration
from kedro_hone.serving.winner import ServedWinner
from kedro_hone.serving.wire.figures import Turn, Turns, sort_turns, summarize_cell, summarize_direct
from kedro_hone.serving.wire.generator import read_cpu_seconds
from kedro_hone.serving.wire.packages import write_startup
from kedro_hone.serving.wire.processes import Clients, Running, measure_directly, start_clients, start_server
from kedro_hone.serving.wire.requests import decode_answer, encode_request
from kedro_hone.serving.wire.rows import (
    Arrays,
    Call,
    check_answer,
    check_rows,
    check_source,
    choose_row,
    keep_outputs,
)
from kedro_hone.serving.wire.sides import Side, prepare_sides, unpack

_FEWEST: Final = 10
"""Answers of each client in a turn, also if they take longer than the turn."""


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How much is measured.

    Attributes:
        clients: The numbers of clients, in their order.
        launches: How often both servers are started, 2 at least; the intervals are over these.
        seconds: The time of each turn.
    """

    clients: tuple[int, ...] = (1, 4, 16)
    launches: int = 5
    seconds: float = 2.0


DEFAULT: Final = Effort()
"""What is measured by default."""


def compare_through_wire(
    winner: ServedWinner,
    *,
    environment: Environment,
    source: ServedWinner | None = None,
    shapes: tuple[dict[str, int], ...] | None = None,
    effort: Effort = DEFAULT,
    report: Callable[[str], None] = lambda _: None,
) -> WireComparison:
    """Serve the source of a winner and the winner, each by a server of its own, and measure both by turns.

    In each launch both servers are started, and the golden rows are compared through the wire. Then the clients call
    source, winner, winner, source, for each number of clients; in every second launch winner, source, source, winner.
    Different answers are counted, and the first 64 of each turn are compared with the recorded one.

    Args:
        winner: The published winner, with golden rows.
        environment: The server's environment.
        source: The source in the form of a winner; by default it is pulled from its registry.
        shapes: Sizes of the dynamic dimensions for which both are warmed up; by default those of the recipe.
        effort: How much is measured.
        report: Called with a line about the progress.

    Raises:
        HoneError: ``serving-unsupported``: the source cannot be had, or cannot run here; ``winner-differs``: an answer
            is wrong; ``serving-failed``: a server does not start or does not answer.
    """
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(TemporaryDirectory(prefix="kedro-hone-wire-")))
        sides = prepare_sides(winner, source, environment=environment, scratch=scratch)
        stack.enter_context(hold_devices(find_home() / "locks", {"cpu"}, purpose="measuring through the wire"))
        clients = stack.enter_context(start_clients())
        measuring = _Measuring(
            sides=sides,
            environment=environment,
            effort=effort,
            scratch=scratch,
            clients=clients,
            threads=choose_threads(winner.artifact, None),
            shapes=read_shapes(winner.download.folder) if shapes is None else shapes,
        )
        load = read_load()
        launches = list[_Launch]()
        for number in range(1, effort.launches + 1):
            report(f"launch {number} of {effort.launches}")
            launches.append(measuring.launch(winner_first=number % 2 == 0))
        return measuring.summarize(launches, other_load=share_of_others(load))


@dataclass(frozen=True, kw_only=True)
class _Launch:
    """What is measured in one launch.

    Attributes:
        turns: The turns of both servers, for each number of clients.
        direct: The times of the calls without a server: source, winner, winner, source.
        outputs: The outputs of the source that are as recorded.
    """

    turns: tuple[tuple[Turns, Turns], ...]
    direct: list[list[int]]
    outputs: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class _Measuring:
    """What is the same in each launch."""

    sides: tuple[Side, Side]
    environment: Environment
    effort: Effort
    scratch: Path
    clients: Clients
    threads: int
    shapes: tuple[dict[str, int], ...]

    def launch(self, *, winner_first: bool) -> _Launch:
        """Start both servers, check their answers, measure, and stop them."""
        with ExitStack() as stack:
            servers = [stack.enter_context(self._serve(side)) for side in self.sides]
            each = [self._check(side, running) for side, running in zip(self.sides, servers, strict=True)]
            due = [keep_outputs(side.row, names) for side, names in zip(self.sides, each, strict=True)]
            turns = tuple(
                self._take_turns(servers, due, count, winner_first=winner_first) for count in self.effort.clients
            )
        return _Launch(turns=turns, direct=self._measure_directly(winner_first=winner_first), outputs=each[0])

    def _check(self, side: Side, running: Running) -> tuple[str, ...]:
        """Compare the golden rows, and return the outputs that are as recorded."""
        name, call, artifact = side.served.uri, self._make_call(side, running), side.served.artifact
        if side.host is None:
            return check_source(name, side.golden, call, artifact=artifact)
        check_rows(name, side.golden, call, artifact=artifact, host=side.host)
        return tuple(side.golden.outputs)

    @contextmanager
    def _serve(self, side: Side) -> Iterator[Running]:
        model = describe_model(side.served, threads=self.threads).model_copy(update={"shapes": self.shapes})
        configuration = Configuration(models=(model,), http_port=0, grpc_port=0, json_line=True)
        path = write_files(configuration, [side.served], side.folder)
        self._add_packages(side, side.folder)
        with start_server(
            make_command(path, self.environment),
            list_variables(side.folder),
            name=side.served.uri,
            log=side.folder / "messages.log",
        ) as running:
            yield running

    def _add_packages(self, side: Side, folder: Path) -> None:
        if side.packages is not None:
            write_startup(folder / PACKAGES, side.packages)

    def _make_call(self, side: Side, running: Running) -> Call:
        def call(feeds: Arrays) -> Arrays:
            answers = self.clients.measure(running, self._encode(side, feeds), clients=1, seconds=0.0, fewest=1)
            length, body = answers["answers"][0]
            return decode_answer(body, length)

        return call

    def _take_turns(
        self, servers: Sequence[Running], due: Sequence[Golden], clients: int, *, winner_first: bool
    ) -> tuple[Turns, Turns]:
        """Measure one, the other twice, and the first again; return the turns of the source and of the winner."""
        order = (1, 0, 0, 1) if winner_first else (0, 1, 1, 0)
        turns = [self._take_turn(servers, due[place], place, clients) for place in order]
        first, second, third, fourth = sort_turns(turns, winner_first=winner_first)
        return (first, fourth), (second, third)

    def _take_turn(self, servers: Sequence[Running], due: Golden, place: int, clients: int) -> Turn:
        side, idle = self.sides[place], servers[1 - place].pid
        before = read_cpu_seconds(idle)
        request = self._encode(side, unpack(side.row))
        found = self.clients.measure(
            servers[place], request, clients=clients, seconds=self.effort.seconds, fewest=_FEWEST * clients
        )
        for length, body in found["answers"]:
            check_answer(side.served.uri, due, decode_answer(body, length), host=side.host)
        return Turn(
            seconds=found["seconds"],
            latencies=tuple(found["latencies"]),
            answered=found["answered"],
            cpu_seconds=found["cpu_seconds"],
            idle_cpu_seconds=read_cpu_seconds(idle) - before,
            different=found["different"],
            compared=len(found["answers"]),
        )

    def _encode(self, side: Side, feeds: Arrays) -> bytes:
        return encode_request(side.served.name, feeds, inputs=side.served.inputs, outputs=side.served.outputs)

    def _measure_directly(self, *, winner_first: bool) -> list[list[int]]:
        """Return the times of the calls of both without a server, in a process that has the packages of both."""
        folder = self.scratch / "direct"
        if not folder.exists():
            folder.mkdir()
            np.savez(folder / "inputs.npz", allow_pickle=False, **unpack(self.sides[1].row))
            for side in self.sides:
                write_runtime(side.served.artifact, folder / PACKAGES)
                self._add_packages(side, folder)
        sides = self.sides[::-1] if winner_first else self.sides
        job = {
            "folders": [str(side.served.files.absolute()) for side in sides],
            "threads": self.threads,
            "inputs": str(folder / "inputs.npz"),
            "seconds": self.effort.seconds / 2,
        }
        variables = {**list_variables(self.sides[0].folder), "PYTHONPATH": str(folder / PACKAGES)}
        turns = measure_directly(self.environment.python, variables, job, folder / "job.json")
        return sort_turns(turns, winner_first=winner_first)

    def summarize(self, launches: Sequence[_Launch], *, other_load: float | None) -> WireComparison:
        """Return the figures of all launches."""
        (source, winner), host = self.sides, read_host()
        source_direct, winner_direct, direct = summarize_direct([one.direct for one in launches])
        _, sizes = choose_row(winner.golden, winner.served.artifact)
        turns = [turn for one in launches for cell in one.turns for pair in cell for turn in pair]
        same = [name for name in source.golden.outputs if all(name in one.outputs for one in launches)]
        return WireComparison(
            winner=winner.served.uri,
            baseline=source.served.uri,
            baseline_runs_in=source.runtime,
            winner_runs_in=winner.runtime,
            protocol="http",
            sizes=sizes,
            request_bytes=len(self._encode(winner, unpack(winner.row))),
            threads=self.threads,
            launches=len(launches),
            seconds=self.effort.seconds,
            cpu=host.cpu,
            cores=host.cores,
            other_load=other_load,
            idle_cpu=sum(turn.idle_cpu_seconds for turn in turns) / sum(turn.seconds for turn in turns),
            different=max(turn.different for turn in turns),
            compared=max(turn.compared for turn in turns),
            same_outputs=tuple(same),
            other_outputs=tuple(name for name in source.golden.outputs if name not in same),
            rows=len(next(iter(unpack(winner.golden).values()))),
            direct_baseline_ms=source_direct.p50_ms,
            direct_winner_ms=winner_direct.p50_ms,
            direct_speedup=direct,
            cells=tuple(
                summarize_cell(count, [one.turns[place] for one in launches])
                for place, count in enumerate(self.effort.clients)
            ),
        )
