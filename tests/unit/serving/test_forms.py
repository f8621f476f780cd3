"""Forms of a winner that is not published yet: equal winners give equal digests, whatever was measured."""

from __future__ import annotations

import shutil
from contextlib import ExitStack

import pytest
from served_winners import make_ir_winner, make_onnx_winner

from hone_runtime.contract.proof import EVIDENCE, EVIDENCE_FOLDER, GOLDEN
from hone_runtime.errors import HoneError
from hone_runtime.values.digest import digest_tree
from hone_runtime.values.manifest import MANIFEST
from kedro_hone.serving.forms import place_winner, write_forms

pytestmark = pytest.mark.toolchain


def write(winner, names, folder):
    golden = winner.download.folder / EVIDENCE_FOLDER / GOLDEN
    files = folder.parent / f"{folder.name}-files"
    shutil.copytree(winner.files, files, ignore=shutil.ignore_patterns(MANIFEST))  # as in a run's store
    with place_winner(winner.artifact, files, golden, name="models:/digits") as placed:
        assert placed.name == "digits"
        assert not (placed.download.folder / EVIDENCE_FOLDER / EVIDENCE).exists()
        return write_forms(placed, names, folder, image=None)


def test_each_form_has_the_digest_of_its_folder_and_the_same_at_each_time(tmp_path):
    with ExitStack() as stack:
        winner = make_onnx_winner(tmp_path / "winner", stack=stack)
        made = write(winner, ["triton", "onnx"], tmp_path / "first")
        assert [one.form for one in made] == ["triton", "onnx"]
        assert [one.digest for one in made] == [digest_tree(tmp_path / "first" / one.form) for one in made]
        assert write(winner, ["triton", "onnx"], tmp_path / "second") == made


def test_a_form_that_does_not_fit_is_listed_with_the_reason(tmp_path):
    with ExitStack() as stack:
        winner = make_ir_winner(tmp_path / "winner", stack=stack)
        (made,) = write(winner, ["onnx"], tmp_path / "forms")
    assert (made.digest, made.place) == ("", "")
    assert "openvino-ir" in made.reason
    assert not (tmp_path / "forms").exists()


def test_a_winner_whose_golden_rows_differ_in_the_written_files_has_no_form(tmp_path):
    with ExitStack() as stack:
        winner = make_onnx_winner(tmp_path / "winner", stack=stack)
        golden = winner.download.folder / EVIDENCE_FOLDER / GOLDEN
        assert winner.golden is not None
        feeds = winner.golden.inputs["x"].unpack() * 2
        other = winner.golden.model_copy(update={"inputs": {"x": type(winner.golden.inputs["x"]).of(feeds)}})
        golden.chmod(0o644)
        golden.write_text(other.model_dump_json())
        with pytest.raises(HoneError) as refused:
            write(winner, ["onnx"], tmp_path / "forms")
        assert refused.value.slug == "winner-differs"
    assert not (tmp_path / "forms" / "onnx").exists()
