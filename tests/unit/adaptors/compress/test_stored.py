"""Rows in a file: read in parts, and never all in memory at once."""

from __future__ import annotations

import io
import subprocess
import sys
import textwrap
import zipfile

import numpy as np
import pytest
import torch
from hone_compress import stored
from hone_compress.stored import Stored, measure_row, measure_variance, split_pieces

ROWS = np.random.default_rng(0).normal(3.0, 2.0, (11, 4, 3)).astype(np.float32)


@pytest.fixture
def save(tmp_path):
    def call(array, *, write=np.savez, name="y"):
        write(tmp_path / "rows.npz", **{"first": np.arange(7), name: array})
        return tmp_path / "rows.npz"

    return call


@pytest.mark.parametrize("array", [ROWS, np.asfortranarray(ROWS), ROWS.astype(np.float64), ROWS[::2], ROWS[:0]])
@pytest.mark.parametrize("name", ["y", "a name of another length"])
def test_rows_are_those_of_the_file(save, array, name):
    rows = Stored(save(array, name=name), name, torch.float32)
    assert (len(rows), rows.dim(), rows.shape) == (len(array), 3, array.shape)
    numbers = torch.arange(len(array)).flip(0)
    assert torch.equal(rows[numbers], torch.from_numpy(array.astype(np.float32)[::-1].copy()))
    assert torch.equal(rows[1:3], torch.from_numpy(array[1:3].astype(np.float32)))


def test_a_change_of_what_was_read_changes_no_file(save):
    rows = Stored(save(ROWS), "y", torch.float32)
    rows[0:2].zero_()
    assert torch.equal(rows[0:2], torch.from_numpy(ROWS[:2]))


def test_a_compressed_file_is_refused(save):
    with pytest.raises(ValueError, match=r"rows\.npz is compressed"):
        Stored(save(ROWS, write=np.savez_compressed), "y", torch.float32)


@pytest.mark.parametrize("most", [1, 100, 1 << 20])
def test_pieces_have_all_rows_in_order(save, monkeypatch, most):
    monkeypatch.setattr(stored, "_PIECE", most)
    rows = Stored(save(ROWS), "y", torch.float32)
    assert measure_row(rows) == 48
    pieces = list(split_pieces(rows))
    assert torch.equal(torch.cat(pieces), torch.from_numpy(ROWS))
    assert all(len(piece) == 1 or piece.nbytes <= most for piece in pieces)
    assert measure_variance(rows) == pytest.approx(float(ROWS.var()), rel=1e-6)


def test_rows_are_not_kept_in_memory(tmp_path):
    """A file of 256 MiB is read three times in a process that grows by less than a half of it."""
    code = """
        import sys
        from pathlib import Path
        from kedro_hone.adaptors.compress.adaptor import TOOLCHAIN as compress
        from kedro_hone.adaptors.pytorch.adaptor import TOOLCHAIN as pytorch
        from hone_runtime.worker.packages import make_importable
        for toolchain in (pytorch, compress):
            make_importable(str(toolchain.worker.parent))
        import torch
        from hone_compress.stored import Stored, measure_variance
        def read(): return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
        rows = Stored(Path(sys.argv[1]), "y", torch.float32)
        rows[torch.arange(4)].sum()
        before = read()
        measure_variance(rows)
        for numbers in torch.randperm(len(rows)).split(4):
            rows[numbers].sum()
            assert read() - before < 120 << 20, read() - before
    """
    np.savez(tmp_path / "rows.npz", y=np.ones((64, 1 << 20), np.float32))
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), tmp_path / "rows.npz"],
        capture_output=True,
        text=True,
        check=False,
    )
    (tmp_path / "rows.npz").unlink()
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("kind", ["|O", "<U4", ">f4", "<M8[s]", "<c8"])
def test_rows_of_other_types_are_refused(tmp_path, kind):
    """Objects are pointers: a file that has them would be followed to any place of the memory."""
    content = io.BytesIO()
    np.lib.format.write_array_header_1_0(content, {"descr": kind, "fortran_order": False, "shape": (2, 2)})
    with zipfile.ZipFile(tmp_path / "rows.npz", "w") as archive:
        archive.writestr("y.npy", content.getvalue() + bytes(range(128)))
    with pytest.raises(ValueError, match="whose rows cannot be read one by one"):
        Stored(tmp_path / "rows.npz", "y", torch.float32)
