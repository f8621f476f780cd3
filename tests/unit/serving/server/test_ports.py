from __future__ import annotations

import asyncio
import socket

import pytest

from hone_runtime.errors import HoneError
from kedro_hone.serving.server.ports import format_address, listen, reserve_ports


def test_the_processes_of_one_server_share_its_ports() -> None:
    with (
        reserve_ports("127.0.0.1", 0, 0) as (first, second),
        listen("127.0.0.1", first) as one,
        listen("127.0.0.1", first) as two,
    ):
        assert first != second
        clients = [socket.create_connection(("127.0.0.1", first)) for _ in range(64)]
        taken = [count(one), count(two)]
        for client in clients:
            client.close()
    assert sum(taken) == 64
    assert min(taken) > 0


def count(listener: socket.socket) -> int:
    found = 0
    while True:
        try:
            listener.accept()[0].close()
        except BlockingIOError:
            return found
        found += 1


@pytest.mark.parametrize("listens", [True, False])
def test_another_server_does_not_get_them(listens: bool) -> None:
    with reserve_ports("127.0.0.1", 0) as (port,):
        listener = listen("127.0.0.1", port) if listens else None
        with pytest.raises(HoneError) as refused, reserve_ports("127.0.0.1", port):
            pass
        if listener:
            listener.close()
    assert refused.value.slug == "port-in-use"
    with reserve_ports("127.0.0.1", port):
        pass


def test_the_port_of_another_program_is_refused() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as other,
        pytest.raises(HoneError, match="port-in-use"),
        reserve_ports("127.0.0.1", other.getsockname()[1]),
    ):
        pass


def test_a_strange_host_is_refused() -> None:
    with pytest.raises(HoneError, match="port-in-use"), reserve_ports("192.0.2.1", 0):
        pass


def test_an_address_of_ipv6_has_brackets() -> None:
    assert format_address("::1", 80) == "[::1]:80"


def test_an_answer_is_not_held_back_until_the_one_before_is_confirmed() -> None:
    """Of Nagle's algorithm, which costs 40 ms per answer, asyncio relieves only sockets that are created for TCP."""
    found = list[int]()

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        found.append(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    async def call() -> None:
        with reserve_ports("127.0.0.1", 0) as (port,), listen("127.0.0.1", port) as listener:
            async with await asyncio.start_server(answer, sock=listener):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                await reader.read()
                writer.close()

    asyncio.run(call())
    assert found == [1]
