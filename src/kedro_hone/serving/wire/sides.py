"""The source and the winner, each with what its server needs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hone_runtime.contract.hardware import read_host
from hone_runtime.contract.host import Host
from hone_runtime.errors import HoneError
from hone_runtime.learner.golden import Golden
from kedro_hone.core.environments.environment import Environment
from kedro_hone.core.environments.store import EnvironmentStore
from kedro_hone.serving.winner import ServedWinner
from kedro_hone.serving.wire.packages import find_packages
from kedro_hone.serving.wire.rows import choose_row
from kedro_hone.serving.wire.source import make_source

_FOLDER: Final = "server"


@dataclass(frozen=True, kw_only=True)
class Side:
    """What is served by one of the two servers.

    Attributes:
        served: The winner, or the source in its form.
        golden: The rows that its answers are compared with.
        row: The row of the measured request, with its outputs.
        host: This machine; None for the source, whose outputs the winner's may differ from.
        folder: The server's files.
        packages: A folder of packages that the server's environment lacks; None if it lacks none.
    """

    served: ServedWinner
    golden: Golden
    row: Golden
    host: Host | None
    folder: Path
    packages: Path | None

    @property
    def runtime(self) -> str:
        """The runtime with the artifact's format, as in ``onnxruntime (onnx)``."""
        return f"{self.served.artifact.runtime} ({self.served.artifact.format})"


def prepare_sides(
    winner: ServedWinner, source: ServedWinner | None, *, environment: Environment, scratch: Path
) -> tuple[Side, Side]:
    """Return the source and the winner with what their servers need.

    Args:
        winner: The published winner.
        source: The source in the form of a winner; None to pull it from its registry.
        environment: The server's environment.
        scratch: A folder, which must stay as long as they are served.

    Raises:
        HoneError: ``serving-unsupported``: there are no golden rows, the source cannot be had, or cannot run here.
    """
    if winner.golden is None:
        raise HoneError(
            "serving-unsupported",
            f"{winner.uri} cannot be compared with its source through the wire.",
            why="It has no golden rows: there is no request to send, and no answer to compare with.",
            hint="Publish it again with this version of kedro-hone.",
        )
    source = source or make_source(winner, winner.golden, scratch / "source")
    environments, sides = EnvironmentStore(), list[Side]()
    golden = winner.golden
    for name, served, host in (("source", source, None), ("winner", winner, read_host())):
        folder = scratch / name / _FOLDER
        folder.mkdir(parents=True)
        sides.append(
            Side(
                served=served,
                golden=golden,
                row=choose_row(golden, served.artifact)[0],
                host=host,
                folder=folder,
                packages=find_packages(served.artifact, environment, environments),
            )
        )
    return sides[0], sides[1]


def unpack(golden: Golden) -> dict[str, Any]:
    """Return the inputs of golden rows as arrays."""
    return {name: packed.unpack() for name, packed in golden.inputs.items()}
