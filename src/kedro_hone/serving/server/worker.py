"""One process of a server: it opens the models, listens when they are ready, and is drained on a signal.

The supervisor starts it: ``python -P -m kedro_hone.serving.server.worker CONFIGURATION.json FD``, where FD is a pipe
into which it writes one byte when it is ready.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import uvicorn

from hone_runtime.errors import ExitCode, HoneError
from kedro_hone.serving.server.configuration import Configuration, read_configuration
from kedro_hone.serving.server.data_plane import Server
from kedro_hone.serving.server.grpc_service import make_grpc_server
from kedro_hone.serving.server.logs import configure_logs, log
from kedro_hone.serving.server.metrics import make_metrics
from kedro_hone.serving.server.models import open_model
from kedro_hone.serving.server.parents import end_with_parent
from kedro_hone.serving.server.ports import format_address, listen
from kedro_hone.serving.server.rest import make_app

SETTLE_SECONDS: Final = 1.0
"""How long new requests are still answered after a signal to stop: clients and load balancers notice meanwhile."""
_LAST_SECONDS: Final = 0.25
_KEEP_ALIVE_SECONDS: Final = 75
"""Longer than the 60 s after which many load balancers close an unused connection."""


class _Http(uvicorn.Server):
    """uvicorn without signal handlers of its own: signals end the whole process in order."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the handlers as they are."""
        yield

    async def close_port(self, listener: socket.socket) -> None:
        """Stop listening. Connections that the kernel has made by then are served, too: closing would reset them."""
        loop, made = asyncio.get_running_loop(), list[socket.socket]()
        with listener.dup() as last:
            for one in self.servers:
                one.close()
            with contextlib.suppress(OSError):  # none is left
                while True:
                    made.append(last.accept()[0])
        for connection in made:
            connection.setblocking(False)  # noqa: FBT003 - the standard library's own argument
            await loop.connect_accepted_socket(self._make_protocol, connection)

    def _make_protocol(self) -> asyncio.Protocol:
        made: asyncio.Protocol = self.config.http_protocol_class(  # type: ignore[call-arg]  # as uvicorn calls it
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return made


def main() -> None:
    """Serve until a signal comes; exit code 3 if a model cannot be served."""
    end_with_parent()
    configure_logs()
    configuration = read_configuration(Path(sys.argv[1]))
    try:
        server = open_models(configuration)
    except HoneError as error:
        sys.stderr.write(f"{error}\n")
        sys.stderr.flush()
        os._exit(ExitCode.INPUT)  # threads of runtimes must not keep the process alive
    asyncio.run(serve(configuration, server, ready=int(sys.argv[2])))
    sys.stderr.flush()
    os._exit(ExitCode.SUCCESS)  # a call that did not end within the grace must not delay the exit


def open_models(configuration: Configuration) -> Server:
    """Return all models, opened and checked.

    Raises:
        HoneError: As in ``open_model``.
    """
    metrics = make_metrics()
    models = [open_model(one, limits=configuration.limits, metrics=metrics) for one in configuration.models]
    return Server(models, limits=configuration.limits, metrics=metrics)


async def serve(configuration: Configuration, server: Server, *, ready: int) -> None:
    """Listen on both ports until SIGTERM or SIGINT, then stop.

    Args:
        configuration: The ports and limits.
        server: The models.
        ready: A file descriptor into which a byte is written when both ports are open.
    """
    stopping, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    grace = configuration.limits.grace_seconds
    http = _Http(
        uvicorn.Config(
            make_app(server),
            access_log=False,
            log_config=None,
            lifespan="off",
            server_header=False,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=max(1, round(grace)),
            ws="none",
        )
    )
    grpc = make_grpc_server(server, address=format_address(configuration.host, configuration.grpc_port))
    with listen(configuration.host, configuration.http_port) as listener:
        serving = loop.create_task(http.serve(sockets=[listener]))
        await grpc.start()
        while not http.started and not serving.done():
            await asyncio.sleep(0.01)
        os.write(ready, b"1")
        os.close(ready)
        await asyncio.wait([serving, loop.create_task(stopping.wait())], return_when=asyncio.FIRST_COMPLETED)
        server.accepting = False
        await asyncio.sleep(min(SETTLE_SECONDS, grace / 2))
        await http.close_port(listener)
        # The clients of the last connections send their requests, which would be closed as unused ones.
        await asyncio.sleep(min(_LAST_SECONDS, grace / 4))
        http.should_exit = True
        await asyncio.gather(grpc.stop(grace), serving)
    if left := sum(model.pending for model in server.models.values()):
        log(f"stopped; {left} requests were not answered within {grace:g} s", warning=True)


if __name__ == "__main__":
    main()
