"""Debian's ``docker-registry`` on loopback, a proxy that cuts connections, and a server that answers as it is told."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

REGISTRY = "docker-registry"
Answer = tuple[int, dict[str, str], bytes]
"""A status, headers and a body."""


def need(*tools: str) -> pytest.MarkDecorator:
    """Return a mark that skips a test where a program is absent; in CI ``tools/install-containers`` installs all."""
    absent = [tool for tool in tools if shutil.which(tool) is None]
    return pytest.mark.skipif(bool(absent) and not os.environ.get("CI"), reason=f"no {' '.join(absent)} on the path")


def find_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def run_registry(folder: Path, *, port: int = 0, size: int = 0, users: str = "") -> Iterator[str]:
    """Run a registry, and yield its host and port.

    Its blobs are in a folder, which is a disk of a size in bytes if one is given. ``users`` is the text of a file of
    htpasswd.
    """
    host = f"127.0.0.1:{port or find_port()}"
    folder.mkdir(exist_ok=True)
    settings = folder / "registry.yml"
    settings.write_text(
        f"version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {folder / 'blobs'}}}}}\n"
        f"http: {{addr: '{host}'}}\n"
    )
    if users:
        (folder / "users").write_text(users)
        with settings.open("a") as stream:
            stream.write(f"auth: {{htpasswd: {{realm: tests, path: {folder / 'users'}}}}}\n")
    (folder / "blobs").mkdir(exist_ok=True)
    disk = ["bwrap", "--dev-bind", "/", "/", "--size", str(size), "--tmpfs", str(folder / "blobs"), "--die-with-parent"]
    with (folder / "registry.log").open("ab") as log:
        command = [*(disk if size else ()), REGISTRY, "serve", str(settings)]
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        wait_for(f"http://{host}/", process)
        yield host
    finally:
        process.kill()
        process.wait()


def wait_for(url: str, process: subprocess.Popen[bytes], *, seconds: float = 120) -> None:
    """Wait until a server answers with success."""
    end = time.monotonic() + seconds
    while True:
        with suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 - on loopback
            if answer.status == 200:
                return
        assert process.poll() is None, f"the server of {url} ended"
        assert time.monotonic() < end, f"no answer from {url}"
        time.sleep(0.05)


class CuttingProxy:
    """Forwards connections, and cuts those that send more than a limit, as long as there are cuts left.

    Attributes:
        received: The bytes that clients sent altogether.
    """

    def __init__(self, target: str, *, limit: int, cuts: int) -> None:
        host, _, port = target.partition(":")
        self._target, self._limit, self.cuts, self.received = (host, int(port)), limit, cuts, 0
        self._server = socket.create_server(("127.0.0.1", 0))
        self.host = f"127.0.0.1:{self._server.getsockname()[1]}"
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        for one in self._threads:
            one.join()
        self._server.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._server.accept()
                self._start(self._forward, client)

    def _start(self, call: Callable[..., None], *arguments: socket.socket) -> threading.Thread:
        thread = threading.Thread(target=call, args=arguments, daemon=True)
        thread.start()
        self._threads.append(thread)
        return thread

    def _forward(self, client: socket.socket) -> None:
        with client, socket.create_connection(self._target) as server:
            back, sent = self._start(self._copy_back, server, client), 0
            with suppress(OSError):
                while data := client.recv(1 << 14):
                    sent, self.received = sent + len(data), self.received + len(data)
                    server.sendall(data)
                    if sent > self._limit and self.cuts > 0:
                        self.cuts -= 1
                        break
            for one in (client, server):
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
            back.join()

    def _copy_back(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(1 << 14):
                client.sendall(data)
        with suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)


class QuietHandler(BaseHTTPRequestHandler):
    """Answers without a line on the terminal."""

    def respond(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def run_server(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Run a server on loopback, and yield its URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def serve(answer: Callable[[str, str, str], Answer]) -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """Serve ``answer(method, path, authorization)``; yield the URL and the requests."""
    seen: list[tuple[str, str, str]] = []

    class Handler(QuietHandler):
        def handle_any(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            seen.append((self.command, self.path, self.headers.get("Authorization", "")))
            status, headers, body = answer(*seen[-1])
            self.respond(status, body, **{name.replace("-", "_"): value for name, value in headers.items()})

        do_GET = do_HEAD = do_PUT = do_POST = handle_any  # noqa: N815

    with run_server(Handler) as base:
        yield base, seen


def fetch(url: str, **headers: str) -> tuple[bytes, dict[str, str]]:
    """Return the body and the headers of a URL, as another client gets them."""
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - on loopback
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
        return answer.read(), dict(answer.headers)
