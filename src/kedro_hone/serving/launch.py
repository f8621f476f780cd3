"""The start of a server: the configuration of its models, its files, and its process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

from hone_runtime.contract.proof import EVIDENCE, EVIDENCE_FOLDER
from hone_runtime.contract.toolchain import UNTRACKED
from hone_runtime.errors import ExitCode, HoneError
from hone_runtime.values.regular import read_regular
from kedro_hone.core.environments.environment import Environment
from kedro_hone.serving.runtime_files import write_runtime
from kedro_hone.serving.server.configuration import (
    Batching,
    Configuration,
    ModelConfiguration,
    TensorDescription,
    TextInput,
)
from kedro_hone.serving.server.parents import WITH_PARENT
from kedro_hone.serving.tensors import Tensor
from kedro_hone.serving.winner import ServedWinner

MODULE: Final = "kedro_hone.serving.server"
CONFIGURATION: Final = "configuration.json"
_PACKAGES: Final = "packages"
_PASSED: Final = frozenset({"PATH", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "TMPDIR", "TZ"})
"""The variables that a server gets from this process: none of them is a secret."""


def describe_model(
    winner: ServedWinner,
    *,
    threads: int | None = None,
    on_mismatch: str = "refuse",
    batching: Batching | None = None,
    text: TextInput | None = None,
) -> ModelConfiguration:
    """Return a winner's value in a server's configuration; its folder is that of the download.

    Raises:
        HoneError: ``serving-unsupported``: it generates text with a cache.
    """
    if winner.artifact.has_cache:
        raise HoneError(
            "serving-unsupported",
            f"{winner.name} is a language model, which this server does not serve.",
            why="It generates token by token with a cache of keys and values; other engines share that among clients.",
            hint="Export it for one: kedro-hone export URI --to ovms, whose API is that of OpenAI.",
        )
    return ModelConfiguration(
        name=winner.name,
        version=winner.version,
        uri=winner.uri,
        folder=winner.download.folder,
        inputs=_convert(winner.inputs),
        outputs=_convert(winner.outputs),
        threads=threads,
        vouched=winner.download.vouched,
        on_mismatch="warn" if on_mismatch == "warn" else "refuse",
        shapes=read_shapes(winner.download.folder),
        batching=batching,
        text=text,
    )


def _convert(tensors: Sequence[Tensor]) -> tuple[TensorDescription, ...]:
    return tuple(TensorDescription(name=one.name, datatype=one.datatype, shape=one.shape) for one in tensors)


def read_shapes(folder: Path) -> tuple[dict[str, int], ...]:
    """Return the shapes of the recipe with which a published version was made; empty if its evidence is absent."""
    try:
        evidence = json.loads(read_regular(folder / EVIDENCE_FOLDER / EVIDENCE))
        shapes: Mapping[str, Any] = evidence["recipe"]["shapes"]
        found = [dict(sizes) for sizes in shapes.values()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ()
    return tuple(one for one in found if one and all(type(size) is int and size > 0 for size in one.values()))


def write_files(configuration: Configuration, winners: Sequence[ServedWinner], folder: Path) -> Path:
    """Write what a server needs besides its environment into a folder, and return the path of its configuration."""
    for winner in winners:
        write_runtime(winner.artifact, folder / _PACKAGES)
    path = folder / CONFIGURATION
    path.write_text(configuration.model_dump_json(indent=2))
    return path


def run_server(path: Path, environment: Environment) -> int:
    """Run a server until a signal comes to this process or to it, and return its exit code.

    Args:
        path: The configuration, next to the packages.
        environment: The server's environment.
    """
    home = path.parent / "home"
    home.mkdir(exist_ok=True)
    variables = {
        **{name: value for name, value in os.environ.items() if name in _PASSED},
        **UNTRACKED,
        "HOME": str(home),
        "PYTHONPATH": str(path.parent / _PACKAGES),
        "PYTHONNOUSERSITE": "1",
        "PYTHONUNBUFFERED": "1",
    }
    command = [environment.python, "-P", "-m", MODULE, str(path), WITH_PARENT]
    with _pass_signals() as processes:
        process = subprocess.Popen(command, env=variables, stdin=subprocess.DEVNULL)
        processes.append(process)
        code = process.wait()
    return code if code >= 0 else ExitCode.TERMINATED


@contextmanager
def _pass_signals() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Pass SIGTERM and SIGINT on to the processes in the list, instead of ending this one."""
    processes, early = list[subprocess.Popen[bytes]](), list[int]()

    def pass_on(number: int, _: FrameType | None) -> None:
        early.append(number)
        for one in processes:
            one.send_signal(number)

    before = {number: signal.signal(number, pass_on) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield processes
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
