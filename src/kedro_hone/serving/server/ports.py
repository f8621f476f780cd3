"""The ports of a server, which several processes of it share, and no other program."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from hone_runtime.errors import HoneError

_BACKLOG = 1024


@contextmanager
def reserve_ports(host: str, *ports: int) -> Iterator[tuple[int, ...]]:
    """Take ports for the processes of this server, and return their numbers; nothing listens there yet.

    Args:
        host: The address.
        *ports: The numbers; 0 for any free one.

    Raises:
        HoneError: ``port-in-use``.
    """
    with ExitStack() as stack:
        yield tuple(_reserve(stack, host, port) for port in ports)


def _reserve(stack: ExitStack, host: str, port: int) -> int:
    try:
        made = stack.enter_context(socket.socket(_find_family(host), socket.SOCK_STREAM))
        # Bound without the option that shares a port: otherwise another server of the same user would share it, too.
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        found: int = made.getsockname()[1]
        # Until a process listens, the port could be bound twice. Linux frees this name with the last process.
        stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)).bind(f"\0kedro-hone-serve-{found}")
    except OSError as error:
        raise HoneError(
            "port-in-use",
            f"The server cannot listen on {host}:{port}.",
            why=f"{error.strerror or error}.",
            hint="Choose another one with --host, --http-port and --grpc-port, or end the program that listens there.",
        ) from error
    return found


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on a port that was reserved.

    Raises:
        OSError: It cannot.
    """
    # Of Nagle's algorithm, which costs 40 ms per answer, asyncio relieves only sockets that are created for TCP.
    made = socket.socket(_find_family(host), socket.SOCK_STREAM, socket.IPPROTO_TCP)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    made.bind((host, port))
    made.listen(_BACKLOG)
    made.setblocking(False)  # noqa: FBT003 - the standard library's own argument
    return made


def format_address(host: str, port: int) -> str:
    """Return an address for URLs and gRPC."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _find_family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
