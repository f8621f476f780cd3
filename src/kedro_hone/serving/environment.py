"""The environments of the server, with locks of their own: KServe's SDK conflicts with pandas 3 and protobuf 7."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from hone_runtime.contract.catalogue import find_installed
from hone_runtime.contract.toolchain import Toolchain, Verification
from hone_runtime.errors import HoneError
from hone_runtime.values.outcome import Failed
from kedro_hone.core.environments.environment import Environment, explain_unbuildable
from kedro_hone.core.environments.requirements import explain_unsatisfied, read_pins
from kedro_hone.core.environments.store import EnvironmentStore
from kedro_hone.serving.winner import ServedWinner

_HERE: Final = Path(__file__).resolve().parent

SERVER: Final = Toolchain(
    name="kserve",
    title="KServe",
    folder=_HERE / "server",
    verification=Verification.TESTED,
    modules=("kserve",),
    note="Serves winners by the Open Inference Protocol; it makes none.",
)
"""What ``EnvironmentStore.ensure`` builds: KServe's SDK with ONNX Runtime, OpenVINO, LiteRT and tokenizers."""

SERVER_TORCH: Final = Toolchain(
    name="kserve_torch",
    title="KServe with PyTorch",
    folder=_HERE / "server_torch",
    verification=Verification.NIGHTLY,
    modules=("kserve",),
    with_torch=True,
    note="As kserve, also for winners of PyTorch.",
)
"""The same with PyTorch, which takes a gigabyte more."""

SERVERS: Final = {one.name: one for one in (SERVER, SERVER_TORCH)}
"""The environments of servers by name, the smallest first."""


def choose_server(winners: Sequence[ServedWinner]) -> Toolchain:
    """Return the smallest environment that has the runtimes of all winners; nothing is built.

    Raises:
        HoneError: ``serving-unsupported``: none has the runtime of one of them.
    """
    for winner in winners:
        if (why := _explain_lacking(winner, SERVER_TORCH)) is not None:
            raise HoneError(
                "serving-unsupported",
                f"The server's environment cannot run {winner.name}.",
                why=f"Its runtime is {winner.artifact.runtime}: {why}.",
                hint="Choose another candidate of the run, `kedro-hone choose CANDIDATE`, or call kedro_hone.load.",
            )
    return SERVER if all(_explain_lacking(winner, SERVER) is None for winner in winners) else SERVER_TORCH


def _explain_lacking(winner: ServedWinner, server: Toolchain) -> str | None:
    """Return what a winner needs and a server's locks lack, as a clause; None if they have it all."""
    toolchain = find_installed(str(winner.artifact.runtime))
    needs = toolchain.runtime_requirements if toolchain else ()
    if not needs:
        return "its packages are not known"
    pins = [pin for lock in (server.lock, *server.builds[:1]) for pin in read_pins(lock)]
    return explain_unsatisfied(needs, dict(pin.split("==", 1) for pin in pins))


def list_locks(environment: Environment) -> tuple[Path, ...]:
    """Return the locks of a server's environment; if it has builds, those of all, as its versions tell them apart."""
    server = SERVERS.get(environment.toolchain, SERVER)
    return (server.lock, *server.builds)


def build_server(winners: Sequence[ServedWinner]) -> Environment:
    """Return the environment that serves winners, built first if it does not exist.

    Raises:
        HoneError: ``toolchain-unbuildable`` or ``serving-unsupported``.
    """
    built = EnvironmentStore().ensure(choose_server(winners))
    if isinstance(built, Failed):
        raise explain_unbuildable([built])
    return built
