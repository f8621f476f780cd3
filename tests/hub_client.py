"""The loopback Hub as the one that ``huggingface_hub`` talks to in this process: fixtures that tests import."""

from __future__ import annotations

import os
import threading
from types import SimpleNamespace

import pytest
from hub_server import Token, serve

WARNINGS = ("ignore:Use .content=:DeprecationWarning",)  # what huggingface_hub does with its HTTP client
CONFIG = b'{"architectures": ["BertModel"], "model_type": "bert"}'
WRITER, READER = "hf_writer", "hf_reader"
MODEL = {
    "README.md": b"---\nlicense: mit\n---\n# The author's card\n",
    "config.json": CONFIG,
    "model.safetensors": bytes(range(256)) * 800,
    "tokenizer.json": b'{"version": "1.0"}',
    "vocab.txt": b"[PAD]\nthe\n",
}


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A Hub with the repository ``org/model``, where this process is ``org`` with the right to write."""
    from huggingface_hub import constants
    from huggingface_hub.utils import _http, close_session

    with serve(tmp_path / "hub") as running:
        running.tokens = {WRITER: Token("org"), READER: Token("org", role="read"), "hf_other": Token("other")}
        running.add("org/model", MODEL)
        environment = list_variables(running, tmp_path)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(constants, "ENDPOINT", running.url)
        monkeypatch.setattr(
            constants, "HUGGINGFACE_CO_URL_TEMPLATE", running.url + "/{repo_id}/resolve/{revision}/{filename}"
        )
        monkeypatch.setattr(constants, "HF_HUB_CACHE", f"{tmp_path}/hf/hub")
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", f"{tmp_path}/hf/token")
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr(constants, "HF_HUB_ETAG_TIMEOUT", 2)
        monkeypatch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 2)
        # A call that is not waited for any more tries again for half a minute; the end of its Hub is the end of it.
        monkeypatch.setattr(_http, "time", SimpleNamespace(sleep=running.closed.wait))
        close_session()
        yield running
    end_calls()
    close_session()


def end_calls() -> None:
    """Wait until no call is under way: one that finds no Hub closes the client that the next test shares."""
    for thread in threading.enumerate():
        if thread.name == "hone-registry":
            thread.join(timeout=60)
            assert not thread.is_alive(), "a call to a Hub that has ended goes on"


def list_variables(hub, folder) -> dict[str, str]:
    """Return the variables by which another process talks to a Hub."""
    return {
        "HF_ENDPOINT": hub.url,
        "HF_HOME": f"{folder}/hf",
        "HF_TOKEN": WRITER,
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_OFFLINE": "0",
        "HF_HUB_DOWNLOAD_TIMEOUT": "2",
        "HONE_HOME": os.environ.get("HONE_HOME", f"{folder}/home"),
    }
