"""A training: its best epoch is taken, it ends early, goes on where it was, and is refused where nothing is learned."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hone_compress import distillation
from hone_compress.distillation import distil, read_schedule
from sources import SCHEDULE, Classifier, draw, make_data, seed
from torch import nn

from hone_runtime.worker.refusal import UnsuitedError

NET = seed(Classifier)


class Student(nn.Module):
    """Another network for the same outputs, with a dropout and a norm, which have a state."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Dropout(0.1), nn.ReLU(), nn.Linear(16, 5))

    def forward(self, x):
        return self.layers(x)


def make_rows(**changes):
    return make_data(NET, draw(64, 8), search=draw(32, 8) + 0.1, **changes)


def train(student=None, data=None, *, after_step=None, **changes):
    student = student or seed(Student)
    torch.manual_seed(0)
    return distil(student, data or make_rows(), replace(SCHEDULE, **changes), after_step=after_step), student


def test_the_error_falls_and_the_notes_are_what_was_measured():
    data = make_rows()
    before = data.measure_error(seed(Student))
    notes, student = train(data=data, epochs=20)
    assert notes["first_error"] == pytest.approx(before)
    assert notes["error"] < 0.5 * before
    assert [row["epoch"] for row in notes["log"]] == list(range(1, 21))
    assert notes["error"] == min(row["error"] for row in notes["log"])
    assert notes["log"][-1]["score"] < 0
    assert not student.training
    assert notes.keys() == {"first_error", "error", "epochs", "best_epoch", "log"}


def worsen(monkeypatch, errors):
    """Let the errors on the search split be these, and return the weights after each epoch."""
    weights, left = [], iter(errors)
    monkeypatch.setattr(distillation.rows.Data, "measure_error", lambda *_: 1.0)

    def measure(_, student):
        weights.append({name: one.clone() for name, one in student.state_dict().items()})
        return next(left), None

    monkeypatch.setattr(distillation.rows.Data, "measure", measure)
    return weights


def test_the_weights_of_the_best_epoch_are_restored(monkeypatch):
    weights = worsen(monkeypatch, [0.9, 0.4, 0.6, 0.5, 0.8, 0.7])
    notes, student = train()
    assert (notes["best_epoch"], notes["error"], notes["epochs"]) == (2, 0.4, 6)
    for name, one in student.state_dict().items():
        assert torch.equal(one, weights[1][name]), name
    assert not torch.equal(weights[1]["layers.0.weight"], weights[5]["layers.0.weight"])


@pytest.mark.parametrize(("patience", "epochs"), [(1, 3), (2, 4), (3, 6)])
def test_it_ends_after_so_many_epochs_without_a_smaller_error(monkeypatch, patience, epochs):
    worsen(monkeypatch, [0.9, 0.4, 0.6, 0.5, 0.3, 0.7])
    notes, _ = train(patience=patience)
    assert notes["epochs"] == epochs
    assert "unfinished" not in notes


@pytest.mark.parametrize("error", [math.nan, math.inf])
def test_an_error_that_is_no_number_is_refused_with_its_epoch(monkeypatch, error):
    worsen(monkeypatch, [0.9, error])
    with pytest.raises(UnsuitedError, match=r"diverged in epoch 2: lower learning_rate, now 0\.01"):
        train()


def test_a_rate_that_is_far_too_large_is_refused():
    with pytest.raises(UnsuitedError, match=r"diverged in epoch \d|none of \d+ epochs made the error smaller"):
        train(nn.Sequential(nn.Linear(8, 64), nn.Linear(64, 64), nn.Linear(64, 5)), learning_rate=1e30)


def test_a_training_that_gains_nothing_is_refused(monkeypatch):
    worsen(monkeypatch, [1.0, 1.1, 1.2, 1.3, 1.4, 1.5])
    with pytest.raises(UnsuitedError, match=r"none of 6 epochs made the error smaller: lower learning_rate, now 0\.01"):
        train()


def test_a_start_that_counts_is_a_result(monkeypatch):
    worsen(monkeypatch, [1.0, 1.1, 1.2, 1.3, 1.4, 1.5])
    student, started = seed(Student), seed(Student)
    notes = distil(student, make_rows(), SCHEDULE, counts_start=True)
    assert (notes["best_epoch"], notes["error"], notes["epochs"]) == (0, 1.0, 6)
    for name, one in started.state_dict().items():
        assert torch.equal(one, student.state_dict()[name]), name


def test_the_same_seed_gives_the_same_weights():
    (_, one), (_, other) = train(), train()
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))
    _, different = train(seed=1)
    assert not torch.equal(one.layers[0].weight, different.layers[0].weight)


class EndedError(Exception):
    """A process that ends in the middle of a training."""


@pytest.mark.parametrize("epoch", [1, 4])
def test_a_training_that_was_ended_goes_on_to_the_same_weights(tmp_path, monkeypatch, epoch):
    expected, whole = train(checkpoint=tmp_path / "other.pt")
    save, count = distillation._Training._save, []

    def end(self):
        save(self)
        count.append(1)
        if len(count) == epoch:
            raise EndedError

    monkeypatch.setattr(distillation._Training, "_save", end)
    with pytest.raises(EndedError):
        train(checkpoint=tmp_path / "training.pt")
    monkeypatch.setattr(distillation._Training, "_save", save)
    notes, student = train(checkpoint=tmp_path / "training.pt")
    assert notes == expected
    for name, one in whole.state_dict().items():
        assert torch.equal(one, student.state_dict()[name]), name


@pytest.mark.parametrize("content", [b"", b"no checkpoint", None])
def test_a_checkpoint_that_cannot_be_read_begins_anew(tmp_path, capsys, content):
    path = tmp_path / "training.pt"
    if content is None:
        torch.save({"student": seed(nn.Linear, 2, 2).state_dict()}, path)
    else:
        path.write_bytes(content)
    expected, _ = train()
    notes, _ = train(checkpoint=path)
    assert notes == expected
    assert "training starts anew" in capsys.readouterr().out


@pytest.mark.parametrize(
    "change",
    [
        {"best": None},
        {"order": torch.zeros(3)},
        {"random": torch.zeros(1)},
        {"progress": {"epochs": "many"}},
        {"progress": {"what": 1}},
        {"progress": {"seconds": float("nan")}},
        {"best": "nan"},
    ],
    ids=str,
)
def test_a_malformed_checkpoint_begins_anew(tmp_path, capsys, change):
    path = tmp_path / "training.pt"
    train(epochs=2, checkpoint=path)
    state = torch.load(path, weights_only=True)
    if change.get("best") == "nan":
        change = {"best": {name: value * torch.nan for name, value in state["best"].items()}}
    change = {"progress": {**state["progress"], **change["progress"]}} if "progress" in change else change
    torch.save({**state, **change}, path)
    expected, _ = train()
    notes, _ = train(checkpoint=path)
    assert notes == expected
    assert "training starts anew" in capsys.readouterr().out


def test_the_time_limit_reduces_the_epochs(monkeypatch):
    now = iter(range(0, 1000, 10))
    monkeypatch.setattr(distillation.time, "monotonic", lambda: next(now))
    notes, _ = train(seconds=35.0)
    assert notes["epochs"] == 3
    assert notes["unfinished"]


def test_with_masks_only_the_last_epochs_count(monkeypatch):
    worsen(monkeypatch, [0.1, 0.1, 0.1, 0.1, 0.9, 0.8, 0.7, 0.6, 2.0, 2.0])
    shares = []
    notes, _ = train(epochs=10, after_step=shares.append)
    assert (notes["best_epoch"], notes["error"]) == (8, 0.6)
    assert shares == sorted(shares)
    assert len(shares) == 40
    assert shares[-1] < 1


def test_masks_begin_anew_without_a_checkpoint(tmp_path):
    train(epochs=10, after_step=lambda _: None, checkpoint=tmp_path / "training.pt")
    assert not (tmp_path / "training.pt").exists()


def test_a_norm_has_no_statistics_of_a_single_row():
    student = seed(Student)
    mean = student.layers[1].running_mean.clone()
    train(student, make_rows(fixed=1))
    assert torch.equal(student.layers[1].running_mean, mean)
    train(student, make_rows(), batch=1)
    assert torch.equal(student.layers[1].running_mean, mean)


@pytest.mark.parametrize(("given", "attends", "rate"), [(None, False, 3e-3), (None, True, 8e-4), (0.1, True, 0.1)])
@pytest.mark.parametrize(("limit", "seconds"), [(None, 300.0), (100.0, 60.0), (10_000.0, 300.0)])
def test_the_schedule_is_that_of_the_options_within_the_limit(given, attends, rate, limit, seconds):
    options = {"epochs": 30, "seconds": 300.0, "patience": 10, "learning_rate": given, "batch": 64}
    schedule = read_schedule({"options": options, "seed": 3, "seconds": limit}, attends=attends)
    assert (schedule.learning_rate, schedule.seconds, schedule.checkpoint) == (rate, seconds, None)
