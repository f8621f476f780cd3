"""What ``deliveries.py`` sends with."""

from __future__ import annotations

import asyncio


class Client:
    """A client of HTTP that takes as little of the processor as it can, since the service has to share it.

    An aiohttp session takes as long for a request as the service does.

    Args:
        port: Where the service listens.
        connections: How many are open at most; a request that finds none free waits.
    """

    def __init__(self, port: int, *, connections: int = 64) -> None:
        self._port = port
        self._free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._places = asyncio.Semaphore(connections)

    async def post(self, path: str, body: bytes, *, headers: dict[str, str]) -> int:
        """Send a body, and return the status of the response.

        Raises:
            OSError: There is no connection, or it broke.
            EOFError: The service closed it before the response was complete.
        """
        said = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n{said}\r\n"
        async with self._places:
            reader, writer = self._free.pop() if self._free else await asyncio.open_connection("127.0.0.1", self._port)
            try:
                writer.write(head.encode() + body)
                answer = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                await reader.readexactly(int(answer.split("content-length:")[1].split()[0]))
            except BaseException:
                writer.close()
                raise
            self._free.append((reader, writer))
            return int(answer.split()[1])

    def close(self) -> None:
        """Close the connections that are open."""
        for _, writer in self._free:
            writer.close()
