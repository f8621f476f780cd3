from __future__ import annotations

import os
import socket

import pytest
from toolchains.toy.adaptor import TOOLCHAIN
from toolchains.toy.model import make_model

from hone_runtime.contract.job import End, Job, JobInput, StepResult
from hone_runtime.values.artifact import Shape, TensorSpec
from hone_runtime.values.outcome import FailureClass
from kedro_hone.core.workers.host.verification import verify_output, watch_tree

DESCRIBED = {
    "inputs": [{"name": "x", "dtype": "float32", "shape": ["batch", 4]}],
    "outputs": [{"name": "y", "dtype": "float32", "shape": ["batch", 3]}],
}


@pytest.fixture
def job(tmp_path):
    source = make_model(tmp_path / "source")
    make_model(tmp_path / "output")
    return Job(
        function="transform",
        worker="worker.py",
        adaptor="toy.compile",
        input=JobInput.of(source, tmp_path / "source"),
        output=tmp_path / "output",
        produces="toy",
        shapes=(Shape(name="batch1", sizes={"batch": 1}), Shape(name="batch8", sizes={"batch": 8})),
    )


def result(notes=None, described=None):
    return StepResult(notes=notes or {}, seconds=1.0, described=described, end=End())


def verify(job, notes=None, described=None):
    return verify_output(job, result(notes, described), toolchain=TOOLCHAIN)


def describe(shape_in=("batch", 4), shape_out=("batch", 3), *, name="y", dtype="float32"):
    return {
        "inputs": [{"name": "x", "dtype": "float32", "shape": list(shape_in)}],
        "outputs": [{"name": name, "dtype": dtype, "shape": list(shape_out)}],
    }


def test_a_kept_promise(job):
    promised = verify(job, described=DESCRIBED)
    assert verify(job) == promised
    assert (promised.path, promised.format, promised.inputs) == (job.output, "toy", job.input.inputs)


@pytest.mark.parametrize(
    ("described", "reason"),
    [
        (describe(name="z"), "promised the outputs y, but the saved file has z"),
        (describe(dtype="float16"), "promised output y as float32, but the saved file has float16"),
        (
            describe(shape_out=("batch", 9)),
            "promised output y with the shape (batch, 3), but the saved file has (batch, 9)",
        ),
        (describe(shape_out=("batch",)), "with the shape"),
        (describe(shape_in=(1, 4)), "promised input x with the shape (batch, 4), but the saved file has (1, 4)"),
        ({"inputs": []}, "promised the inputs x, but the saved file has none"),
        ({}, "cannot be read"),
        ({"inputs": 3}, "cannot be read"),
    ],
)
def test_what_the_file_says_counts(job, described, reason):
    failed = verify(job, described=described)
    assert failed.failure is FailureClass.BAD_OUTPUT
    assert reason in failed.reason


def test_an_open_size_contradicts_nothing(job):
    assert isinstance(verify(job, described=describe(("?", 4), ("s0", "unk__1"))), JobInput)


@pytest.mark.parametrize("invented", ["LSTMhn_dim_1", "unk__1"])
def test_a_name_that_no_input_has_promises_no_size(job, invented):
    notes = {"outputs": [{"name": "y", "dtype": "float32", "shape": ["batch", invented]}]}

    assert isinstance(verify(job, notes, describe(shape_out=("batch", 3))), JobInput)
    assert verify(job, notes, describe(shape_out=(8, 3))).failure is FailureClass.BAD_OUTPUT


def test_static_sizes_must_be_noted(job):
    static = describe((8, 4), (8, 3))
    assert verify(job, described=static).failure is FailureClass.BAD_OUTPUT
    assert verify(job, {"static_shapes": ["batch8"]}, static).static_shapes == job.shapes[1:]
    assert verify(job, {"static_shapes": ["batch1"]}, static).failure is FailureClass.BAD_OUTPUT
    assert "the job does not have: batch99" in verify(job, {"static_shapes": ["batch99"]}, static).reason


def test_notes_change_what_is_promised(job):
    notes = {"outputs": [{"name": "z", "dtype": "float16", "shape": ["batch", 3]}], "metadata": {"a": 1}}
    promise = verify(job, notes, describe(name="z", dtype="float16"))
    assert promise.outputs == (TensorSpec(name="z", dtype="float16", shape=("batch", 3)),)
    assert promise.inputs == job.input.inputs
    assert promise.metadata == {"a": 1}


@pytest.mark.parametrize(
    "notes", [{"outputs": 3}, {"metadata": [1]}, {"static_shapes": 3}, {"inputs": [{"name": "x"}]}]
)
def test_notes_that_make_no_sense(job, notes):
    assert "cannot be read" in verify(job, notes).reason


def test_missing_and_empty_files(job, tmp_path):
    (tmp_path / "output" / "weights.npz").write_bytes(b"")
    assert "toy, which needs weights.npz, and wrote only model.json" in verify(job).reason
    for path in (tmp_path / "output").iterdir():
        path.unlink()
    assert verify(job).reason.endswith("and wrote nothing")
    assert "needs *, and wrote nothing" in verify(job.model_copy(update={"produces": "of-another"})).reason
    (tmp_path / "output").rmdir()
    assert "removed or replaced" in verify(job).reason


def test_only_regular_files(job, tmp_path, monkeypatch):
    output = tmp_path / "output"
    (output / "inside").symlink_to("weights.npz")
    assert isinstance(verify(job), JobInput)
    (output / "twin").hardlink_to(output / "weights.npz")
    assert isinstance(verify(job), JobInput)
    for make, reason in (
        (lambda path: path.symlink_to("../source/weights.npz"), "link out of its output"),
        (lambda path: path.symlink_to(output / "weights.npz"), "link out of its output"),
        (lambda path: path.symlink_to("nowhere"), "link out of its output"),
        (lambda path: path.symlink_to("strange"), "link out of its output"),
        (lambda path: path.hardlink_to(tmp_path / "source" / "model.json"), "hard link to a file outside"),
        (os.mkfifo, "not a file"),
    ):
        strange = output / "strange"
        make(strange)
        assert reason in verify(job).reason
        strange.unlink()
    with socket.socket(socket.AF_UNIX) as server:
        monkeypatch.chdir(output)  # a socket's path must be short
        server.bind("s")
    assert "not a file: s" in verify(job).reason


def test_a_job_without_a_promise_is_our_bug(job):
    with pytest.raises(ValueError, match="nothing to verify"):
        verify_output(job.model_copy(update={"produces": None}), result())


def test_changes_are_found_by_bytes(tmp_path):
    make_model(tmp_path / "model")
    find_changes = watch_tree(tmp_path / "model")
    weights = tmp_path / "model" / "weights.npz"
    os.utime(weights)
    assert find_changes() == ()
    times = weights.stat()
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    os.utime(weights, ns=(times.st_atime_ns, times.st_mtime_ns))  # the same size and the same time
    assert find_changes() == ("weights.npz",)
    (tmp_path / "model" / "more").write_text("")
    assert find_changes() == ("more", "weights.npz")
