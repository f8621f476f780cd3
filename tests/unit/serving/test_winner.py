"""A winner as servers see it."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
from served_winners import make_onnx_winner

from hone_runtime.errors import HoneError
from kedro_hone.serving.winner import make_server_name, pull_winner

pytestmark = pytest.mark.toolchain


@pytest.mark.attack(
    what="a version in a folder that is replaced after it was checked, before a process of the server is restarted",
    who="store",
    stopped_by="the server opens a private copy, which is checked after it was made",
)
def test_what_is_served_is_a_copy_that_was_checked(tmp_path: Path) -> None:
    with ExitStack() as stack:
        make_onnx_winner(tmp_path / "digits", stack=stack)
        winner = stack.enter_context(pull_winner(str(tmp_path / "digits"), copies=True))
        assert (winner.name, winner.uri) == ("digits", str(tmp_path / "digits"))
        assert not winner.download.folder.is_relative_to(tmp_path)
        inode = (tmp_path / "digits" / "artifact" / "model.onnx").stat().st_ino
        assert (winner.files / "model.onnx").stat().st_ino != inode
        copied = winner.download.folder
    assert not copied.exists()


def test_a_folder_that_was_altered_is_refused_with_a_copy_too(tmp_path: Path) -> None:
    with ExitStack() as stack:
        make_onnx_winner(tmp_path / "digits", stack=stack)
        model = tmp_path / "digits" / "artifact" / "model.onnx"
        model.chmod(0o644)
        model.write_bytes(model.read_bytes() + b" ")
        with pytest.raises(HoneError) as refused:
            stack.enter_context(pull_winner(str(tmp_path / "digits"), copies=True))
    assert refused.value.slug == "model-corrupt"


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    with ExitStack() as stack:
        make_onnx_winner(tmp_path / "digits", stack=stack)
        (tmp_path / "digits" / "other").symlink_to("/etc/hostname")
        with pytest.raises(HoneError) as refused:
            stack.enter_context(pull_winner(str(tmp_path / "digits"), copies=True))
    assert refused.value.slug == "model-corrupt"


def test_a_copy_has_the_name_of_the_folders_place(tmp_path: Path) -> None:
    """The name is compared with the one that was signed."""
    with ExitStack() as stack:
        make_onnx_winner(tmp_path / "churn-hone" / "1", stack=stack)
        for copies in (False, True):
            winner = stack.enter_context(pull_winner(str(tmp_path / "churn-hone" / "1"), copies=copies))
            assert (winner.name, winner.download.name) == ("churn", "churn")


@pytest.mark.parametrize(
    ("name", "server"),
    [("digits", "digits"), ("models/net.onnx", "net.onnx"), ("a b/price (EUR)", "price-EUR"), ("..", "model")],
)
def test_a_name_for_urls_is_made_of_any_name(name: str, server: str) -> None:
    assert make_server_name(name) == server
