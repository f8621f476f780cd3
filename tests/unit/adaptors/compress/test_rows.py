"""The rows of a training: which can teach a network, in which steps, and the error that is measured on them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hone_compress import rows
from hone_compress.rows import read_data
from sources import Classifier, Judge, draw, make_data, seed
from torch import nn

from hone_runtime.worker.refusal import UnsuitedError

NET = seed(Classifier)


def make(count=40, **changes):
    return make_data(NET, draw(count, 8), **changes)


def test_each_row_is_in_one_step_of_an_epoch_and_the_rest_is_left_out():
    data, generator = make(40), torch.Generator().manual_seed(0)
    epochs = [list(data.shuffle(12, generator)) for _ in range(2)]
    for steps in epochs:
        assert [len(one) for one in steps] == [12] * data.count_steps(12) == [12] * 3
        assert len(set(torch.cat(steps).tolist())) == 36
    assert not torch.equal(epochs[0][0], epochs[1][0])


@pytest.mark.parametrize(
    ("count", "fixed", "batch", "size", "steps"), [(40, None, 64, 40, 1), (40, 8, 64, 8, 5), (3, 1, 64, 1, 3)]
)
def test_the_size_of_a_step_is_that_of_the_model_or_the_option(count, fixed, batch, size, steps):
    data = make(count, fixed=fixed)
    assert (data.choose_size(batch), data.count_steps(batch)) == (size, steps)


def test_inputs_and_outputs_of_a_step_belong_together():
    data = make()
    numbers = torch.tensor([5, 1, 30])
    with torch.no_grad():
        torch.testing.assert_close(NET(data.take_inputs(numbers)[0]), data.take_outputs(numbers)[0])


def test_the_error_is_in_units_of_the_variance():
    data = make(400)
    assert data.measure_error(NET) == 0
    mean = data.training_outputs[0].mean()

    class Mean(nn.Module):
        def forward(self, x):
            return mean.expand(len(x), 5)

    assert data.measure_training_error(Mean(), 400) == pytest.approx(1, abs=1e-4)
    larger = make(400, training_outputs=(data.training_outputs[0] * 1000,))
    assert float(larger.scale[0]) == pytest.approx(1e6 * data.scale[0], rel=1e-4)


@pytest.mark.parametrize("fixed", [None, 7])
@pytest.mark.parametrize("count", [70, 33, 7])
def test_parts_of_a_split_are_weighted_by_their_rows(monkeypatch, fixed, count):
    monkeypatch.setattr(rows, "_ROWS_AT_ONCE", 16)
    data, other = make(70, fixed=fixed, search=draw(33, 8)), seed(nn.Linear, 8, 5)
    with torch.no_grad():
        expected = float(data.compare([other(data.training_inputs[0][:count])], [data.training_outputs[0][:count]]))
        torch.testing.assert_close(data.run(other)[0], other(data.search_inputs[0]))
    assert data.measure_training_error(other, count) == pytest.approx(expected, rel=1e-5)
    assert data.measure_training_error(other, 10_000) == pytest.approx(data.measure_training_error(other, 70))


def test_only_floats_are_learned():
    class Two(nn.Module):
        def forward(self, x):
            return x.argmax(1), NET(x)

    floats = (NET(draw(40, 8)).detach(),)
    data = make_data(Two(), draw(40, 8), learned=(1,), training_outputs=floats)
    data.check()
    assert data.measure_error(Two()) == 0


def test_all_rows_are_observed():
    seen = []
    data = make(70)
    data.observe(nn.Sequential(SimpleModule(seen), NET))
    assert torch.equal(torch.cat(seen)[:70], data.training_inputs[0])


class SimpleModule(nn.Module):
    def __init__(self, seen):
        super().__init__()
        self.seen = seen

    def forward(self, x):
        self.seen.append(x)
        return x


def test_the_metric_has_the_programs_direction():
    data = make(judge=SimpleNamespace(sign=-1.0, metric="loss", measure=lambda outputs: -float(outputs["y0"].size)))
    assert data.measure(NET) == (0.0, 80.0)


def test_a_metric_without_a_value_is_no_error(capsys):
    data = make(judge=Judge(error=ValueError("only one class is present")))
    assert data.measure(NET) == (0.0, None)
    assert "closeness has no value: only one class is present" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"learned": (), "training_outputs": ()}, "no output has floating-point numbers"),
        ({"fixed": 64}, "the training split has 40 rows, and the model takes 64 at once"),
        ({"training_outputs": (torch.zeros(39, 5),)}, "without one row for each row"),
        ({"search_outputs": (torch.tensor(0.0),)}, "without one row for each row"),
        (
            {"training_outputs": (torch.full((40, 5), torch.nan),)},
            "the training split, or an output of the source for it, has NaN",
        ),
        (
            {"search_outputs": (torch.full((16, 5), torch.inf),)},
            "the search split, or an output of the source for it, has NaN",
        ),
        (
            {"training_outputs": (torch.ones(40, 5),)},
            "the source returns the same for all 40 rows of the training split",
        ),
    ],
)
def test_rows_that_teach_nothing_are_refused_with_their_split(changes, reason):
    with pytest.raises(UnsuitedError, match=reason):
        make(**changes).check()


def test_a_network_of_other_shapes_is_refused():
    with pytest.raises(UnsuitedError, match="other shapes than the source"):
        make().measure_error(seed(nn.Linear, 8, 1))


def test_the_rows_of_a_job_are_read_with_their_types(tmp_path, monkeypatch):
    monkeypatch.setattr(rows, "Judge", lambda _: Judge())
    x = draw(40, 8).numpy()
    label = np.arange(40)
    arrays = {
        "training": {"x": x.astype(np.float64)},
        "teacher": {"label": label, "y": 2 * x},
        "feeds": {"x": x[:16], "other": label},
        "source": {"label": label[:16], "y": 2 * x[:16]},
    }
    files = {}
    for name, some in arrays.items():
        files[name] = str(tmp_path / f"{name}.npz")
        np.savez(files[name], **some)
    specs = [
        {"name": "label", "dtype": "int64", "shape": ["batch"]},
        {"name": "y", "dtype": "float32", "shape": ["batch", 8]},
    ]
    job = {"training": files["training"], "program": files}
    data = read_data(job, [{"name": "x", "dtype": "float32", "shape": ["batch", 8]}], specs)
    numbers = torch.tensor([3, 0])
    assert (data.learned, data.outputs, data.fixed) == ((1,), ("label", "y"), None)
    assert torch.equal(data.take_inputs(numbers)[0], torch.from_numpy(x[[3, 0]]))
    assert torch.equal(data.take_outputs(numbers)[0], torch.from_numpy(2 * x[[3, 0]]))
    assert data.search_outputs[0].dtype == torch.int64
