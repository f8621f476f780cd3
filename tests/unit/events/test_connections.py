"""Half-open requests, by real sockets: they keep nobody out, and end."""

from __future__ import annotations

import socket
import threading
from contextlib import ExitStack, contextmanager, suppress

import pytest
import uvicorn

from kedro_hone.events import connections
from kedro_hone.events.server import make_config

HANG = 60.0
HEAD = b"POST /a HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n"


async def application(scope, receive, send):
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture
def serve():
    @contextmanager
    def serve(**changes):
        config = make_config(application)
        for name, value in changes.items():
            setattr(config, name, value)
        server = uvicorn.Server(config)
        with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
            address = listener.getsockname()
            thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
            thread.start()
            yield address
            server.should_exit = True
            server.force_exit = True
            thread.join(HANG)
            assert not thread.is_alive()

    return serve


def ask(address):
    with socket.create_connection(address, timeout=HANG) as client:
        client.sendall(b"GET /a HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
        return b"".join(iter(lambda: client.recv(4096), b""))


@pytest.mark.attack(
    what="256 requests that are half open, for whoever else calls the service",
    who="network",
    stopped_by="of too many connections, the one that waits longest makes room",
)
@pytest.mark.parametrize(
    "sent",
    [b"", b"POST /a HTTP/1.1\r\nhost", HEAD + b"\r\n12345", b"GET /a HTTP/1.1\r\nhost: a\r\n\r\n"],
    ids=["nothing", "half a head", "half a body", "idle"],
)
def test_whoever_waits_keeps_nobody_out(serve, sent):
    with serve() as address, ExitStack() as stack:
        for _ in range(connections.MOST + 50):
            client = stack.enter_context(socket.create_connection(address, timeout=HANG))
            client.sendall(sent)
        assert ask(address).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("first", [b"", b"GET /a HTTP/1.1\r\nhost: a\r\n\r\n"], ids=["the first", "the second"])
@pytest.mark.parametrize("sent", [b"", b"POST /a HTTP/1.1\r\nhost"], ids=["nothing", "half a head"])
def test_a_head_that_does_not_come_is_not_waited_for(serve, monkeypatch, first, sent):
    """Also where it is the second one of its connection; one that waits for none ends with uvicorn's keep-alive."""
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.3)
    with serve(timeout_keep_alive=1) as address, socket.create_connection(address, timeout=HANG) as client:
        client.sendall(first)
        if first:
            assert client.recv(4096).startswith(b"HTTP/1.1 200")
        client.sendall(sent)
        with suppress(ConnectionResetError):
            while client.recv(4096):  # a TimeoutError where it is waited for
                pass


def test_a_head_that_comes_byte_by_byte_has_the_same_time(serve, monkeypatch):
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.5)
    with serve() as address, socket.create_connection(address, timeout=HANG) as client:
        client.settimeout(0.05)
        for _ in range(1000):
            try:
                client.sendall(b"a")
                if client.recv(1) == b"":
                    return
            except TimeoutError:
                continue
            except OSError:
                return
        pytest.fail("it was waited for")


def test_a_request_that_is_worked_on_is_not_ended(serve, monkeypatch):
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.2)
    go = threading.Event()

    async def slow(scope, receive, send):
        import asyncio

        while not go.is_set():
            await asyncio.sleep(0.05)
        await application(scope, receive, send)

    with serve(loaded_app=slow, loaded=False, app=slow) as address, ExitStack() as stack:
        client = stack.enter_context(socket.create_connection(address, timeout=HANG))
        client.sendall(b"GET /a HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
        threading.Timer(1.0, go.set).start()
        assert client.recv(4096).startswith(b"HTTP/1.1 200")
