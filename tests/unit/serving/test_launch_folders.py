from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from served_interfaces import INTERFACES, make_winner

from kedro_hone.serving.launch import describe_model


def test_a_folder_is_found_from_the_servers_own_folder() -> None:
    winner = make_winner(*INTERFACES["text"], name="net")
    relative = replace(winner, download=replace(winner.download, folder=Path("models/net")))
    assert describe_model(relative).folder == Path.cwd() / "models" / "net"
