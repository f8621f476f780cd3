"""The server process: uvicorn with the service's application, on a socket that is already bound."""

from __future__ import annotations

import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

import uvicorn

from hone_runtime.errors import HoneError
from kedro_hone.events.application import make_application
from kedro_hone.events.connections import MOST_AT_WORK, BoundedProtocol
from kedro_hone.events.log import configure_log, log
from kedro_hone.events.service import Service, serve

ENDING: Final = (signal.SIGINT, signal.SIGTERM)
"""The signals that end the service."""


@contextmanager
def bind_address(host: str, port: int) -> Iterator[socket.socket]:
    """Yield a socket bound to an address, to which no client can connect yet.

    Raises:
        HoneError: ``port-in-use``.
    """
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with _explain_port(host, port):
            listener.bind((host, port))
        yield listener


@contextmanager
def _explain_port(host: str, port: int) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise HoneError(
            "port-in-use",
            f"The service cannot listen on {host}:{port}.",
            why=f"{error.strerror or error}.",
            hint="Choose another one with --host and --port, or end the program that listens there.",
        ) from error


def make_config(application: Any) -> uvicorn.Config:
    """Return the server's configuration for an application."""
    return uvicorn.Config(
        application,
        http=BoundedProtocol,
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=10,
        limit_concurrency=MOST_AT_WORK,
        proxy_headers=False,
        lifespan="off",
    )


def serve_http(service: Service, listener: socket.socket) -> None:
    """Serve until SIGTERM or SIGINT: open requests are responded to, runs are ended and queued again.

    The process must end afterwards: from then on it ignores both signals, so that a second one does not turn an orderly
    end into a killed process.

    Args:
        service: The service, not started yet.
        listener: A bound socket.
    """
    configure_log(sys.stderr)
    server = uvicorn.Server(make_config(make_application(service)))

    def stop(_: int, __: FrameType | None) -> None:
        server.should_exit = True

    # While it serves, uvicorn uses its own handlers; afterwards it raises the caught signals again. These handlers
    # receive them, so that neither those nor a second signal interrupts the closing.
    for number in ENDING:
        signal.signal(number, stop)
    try:
        with serve(service):
            host, port = listener.getsockname()[:2]
            with _explain_port(host, port):  # only now: an earlier client would wait for a response
                listener.listen()
            log("listening", url=f"http://{'[' + host + ']' if ':' in host else host}:{port}")
            server.run(sockets=[listener])
    finally:
        # Python removes its handlers while it ends, but leaves an ignored signal ignored.
        for number in ENDING:
            signal.signal(number, signal.SIG_IGN)
