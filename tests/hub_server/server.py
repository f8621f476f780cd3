"""The loopback Hub as a server: which request goes where."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path

from hub_server.exchange import Hub
from hub_server.reading import Reading
from hub_server.writing import Writing


class Handler(Reading, Writing):
    """One connection; each request is answered by the first route that fits."""


_NAME = r"([^/]+/[^/]+)"
ROUTES: tuple[tuple[str, str, Callable[..., None]], ...] = (
    ("GET", r"/api/whoami-v2", Handler.say_who),
    ("GET", r"/api/models", Handler.list_models),
    ("POST", r"/api/repos/create", Handler.create),
    ("POST", r"/api/validate-yaml", Handler.check_card),
    ("GET", rf"/api/models/{_NAME}", Handler.show),
    ("GET", rf"/api/models/{_NAME}/revision/(.+)", Handler.show),
    ("GET", rf"/api/models/{_NAME}/tree/(.+)", Handler.show_tree),
    ("GET", rf"/api/models/{_NAME}/commits/(.+)", Handler.show_commits),
    ("GET", rf"/api/models/{_NAME}/refs", Handler.show_refs),
    ("GET", rf"/api/models/{_NAME}/discussions", Handler.show_discussions),
    ("POST", rf"/api/models/{_NAME}/preupload/(.+)", Handler.prepare_upload),
    ("POST", rf"/api/models/{_NAME}/commit/(.+)", Handler.commit),
    ("POST", rf"/api/models/{_NAME}/tag/(.+)", Handler.tag),
    ("DELETE", rf"/api/models/{_NAME}/tag/(.+)", Handler.remove_tag),
    ("POST", rf"/{_NAME}\.git/info/lfs/objects/batch", Handler.plan_large),
    ("PUT", r"/_lfs/([0-9a-f]{64})", Handler.take_large),
    ("POST", r"/_lfs/([0-9a-f]{64})/verify", Handler.verify_large),
    ("GET HEAD", rf"/{_NAME}/resolve/(.+)", Handler.download),
)


@contextmanager
def serve(folder: Path) -> Iterator[Hub]:
    """Yield a Hub that runs on a free port of the loopback device until the end."""
    folder.mkdir(parents=True, exist_ok=True)
    hub = Hub(folder)

    class Connection(Handler):
        pass

    Connection.hub, Connection.routes = hub, ROUTES
    server = ThreadingHTTPServer(("127.0.0.1", 0), Connection)
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.closed.set()
        server.shutdown()
        server.server_close()
        thread.join()
