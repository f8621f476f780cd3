"""An exported program that is the source: what is timed is its graph alone, and computes what the program computes."""

from __future__ import annotations

import copy
import ctypes
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from hone_runtime.worker.imports import load_file
from kedro_hone.adaptors.pytorch.adaptor import TOOLCHAIN

torch = pytest.importorskip("torch")
from small_networks import NETWORKS  # noqa: E402 - it needs torch

pytestmark = [pytest.mark.toolchain, pytest.mark.filterwarnings("ignore")]  # torch's own, of exporting

BATCH = torch.export.Dim("batch")
FIRST = {0: BATCH}


@pytest.fixture(scope="module")
def worker():
    """The worker's package, imported by its path as the real main program does."""
    name = "hone_worker_of_programs"
    yield load_file(name, str(TOOLCHAIN.worker))
    for part in [each for each in sys.modules if each.startswith(name)]:
        del sys.modules[part]


def save(module, args, folder, **options):
    with torch.no_grad():
        program = torch.export.export(module.eval(), args, **options)
    torch.export.save(program, folder / "model.pt2")
    return torch.export.load(folder / "model.pt2")


def open_session(worker, folder, names=("x",), outputs=("y",)):
    return worker.load({"input": make_input(folder, names, outputs), "threads": 1, "trust": []})


def make_input(folder, names=("x",), outputs=("y",)):
    inputs, outputs = [{"name": name} for name in names], [{"name": name} for name in outputs]
    return {"path": str(folder), "format": "pytorch", "run_options": {}, "inputs": inputs, "outputs": outputs}


def find_timed(session, feeds):
    """What the prepared call calls: the method, and the module that it belongs to."""
    run = session.prepare(feeds)
    call = dict(zip(run.__code__.co_freevars, (cell.cell_contents for cell in run.__closure__), strict=True))["call"]
    return run, call, getattr(call, "__self__", call)


def assert_same(got, want):
    assert type(got) is type(want)
    if isinstance(want, torch.Tensor):
        assert torch.equal(got, want)
    elif isinstance(want, dict):
        assert list(got) == list(want)
        assert all(torch.equal(got[key], want[key]) for key in want)
    else:
        assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))


@pytest.mark.parametrize("name", NETWORKS)
def test_what_is_timed_is_the_graph_alone(worker, tmp_path, name):
    make, draw = NETWORKS[name]
    torch.manual_seed(0)
    program = save(make(), (draw(3),), tmp_path, dynamic_shapes=(FIRST,))
    session = open_session(worker, tmp_path)
    for batch in (1, 3, 7):
        tensor = draw(batch)
        run, call, module = find_timed(session, {"x": tensor.numpy()})
        assert call == module.forward
        assert "pytree" not in module.code
        assert "_guards_fn" not in module.code
        assert not module._forward_pre_hooks
        assert not module._forward_hooks
        assert not list(module.parameters())  # found in the module's own dictionary, without __getattr__
        with torch.inference_mode():
            want = program.module()(tensor)
        assert_same(run(), want)
        assert np.array_equal(session.run({"x": tensor.numpy()})["y"], want.numpy())


def test_inputs_are_checked_once_for_each_signature(worker, tmp_path, monkeypatch):
    save(torch.nn.Linear(8, 4), (torch.rand(3, 8),), tmp_path, dynamic_shapes=(FIRST,))
    session = open_session(worker, tmp_path)
    name, called = "_check_input_constraints_pre_hook", []
    real = getattr(torch.export._unlift, name)

    def check(guarded, args, kwargs):
        called.append(args[0].shape[0])
        real(guarded, args, kwargs)

    monkeypatch.setattr(torch.export._unlift, name, check)
    for batch in (1, 1, 5, 1, 5):
        rows = {"x": np.ones((batch, 8), np.float32)}
        run = session.prepare(rows)
        for _ in range(3):
            run()
            session.run(rows)
    assert called == [1, 5]
    assert len(session._call._known) == 2


@pytest.mark.parametrize("examples", [True, False], ids=["guards", "constraints"])
@pytest.mark.parametrize("shape", [(3, 9), (3,), (65, 8), (2, 3, 8)], ids=str)
def test_wrong_inputs_are_refused_however_often_they_come(worker, tmp_path, examples, shape):
    with torch.no_grad():
        limited = {0: torch.export.Dim("batch", max=64)}
        program = torch.export.export(torch.nn.Identity(), (torch.rand(3, 8),), dynamic_shapes=(limited,))
    if not examples:  # as we write programs: torch then checks in a hook, and makes no guards
        program.example_inputs = None
    torch.export.save(program, tmp_path / "model.pt2")
    session = open_session(worker, tmp_path)
    feeds = {"x": np.ones(shape, np.float32)}
    for call in (session.run, session.prepare, session.run):
        with pytest.raises((AssertionError, RuntimeError, ValueError, IndexError)):
            call(feeds)
    assert session.run({"x": np.ones((64, 8), np.float32)})["y"].shape == (64, 8)


def test_other_types_are_refused(worker, tmp_path):
    save(torch.nn.ReLU(), (torch.rand(3, 8),), tmp_path, dynamic_shapes=(FIRST,))
    session = open_session(worker, tmp_path)
    with pytest.raises(TypeError, match=r"input 0 is torch\.float64; the program was exported with torch\.float32"):
        session.run({"x": np.ones((3, 8))})


# --- programs that are more than layers -------------------------------------------------------------------------------


class Counting(torch.nn.Module):
    """Keeps a buffer that each call changes, one that is not saved, a constant, and a tied weight."""

    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.register_buffer("calls", torch.zeros(1))
        self.register_buffer("offset", torch.arange(4.0), persistent=False)
        self.constant = torch.tensor([1.0, 2.0, 3.0, 4.0])

    def forward(self, x):
        self.calls.add_(1)
        return self.second(self.first(x)) * self.calls + self.offset + self.constant + torch.tensor(0.5)


class Pair(torch.nn.Module):
    def forward(self, ids, *, mask, scale):
        return (ids * mask).sum(1) * scale, [ids.float().mean(1)][0]


class Named(torch.nn.Module):
    def forward(self, x, ids):
        return {"z": x + ids.to(torch.float32), "a": x.shape[0] * x}


class Nested(torch.nn.Module):
    def forward(self, x):
        return [x + 1, x * 2]


class Sizes(torch.nn.Module):
    def forward(self, x):
        return torch.cat([x, torch.full((x.shape[0], x.shape[1] // 2), 2.0)], 1)


class Branching(torch.nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y - 1, (x,))


X, IDS = torch.rand(3, 4), torch.arange(12).reshape(3, 4)
MASKS = {"mask": torch.ones(3, 4, dtype=torch.int64), "scale": torch.tensor(2)}
SPECIAL = {
    "buffers": (Counting, (X,), {}, ({0: BATCH},), ("x",)),
    "keywords": (Pair, (IDS,), MASKS, {"ids": FIRST, "mask": FIRST, "scale": None}, ("ids", "mask", "scale")),
    "dict": (Named, (X, IDS), {}, (FIRST, FIRST), ("x", "ids")),
    "list": (Nested, (X,), {}, (FIRST,), ("x",)),
    "sizes": (Sizes, (X,), {}, ({0: BATCH, 1: torch.export.Dim("width", min=4)},), ("x",)),
    "branches": (Branching, (X,), {}, (FIRST,), ("x",)),
    "fixed": (Named, (X, IDS), {}, None, ("x", "ids")),
}


@pytest.mark.parametrize("case", SPECIAL)
def test_special_programs_compute_the_same(worker, tmp_path, case):
    make, args, kwargs, dynamic, names = SPECIAL[case]
    torch.manual_seed(0)
    program = save(make(), args, tmp_path, kwargs=kwargs, dynamic_shapes=dynamic)
    session = open_session(worker, tmp_path, names)
    module = program.module()
    for batch in (3,) if case == "fixed" else (3, 1, 6):
        grown = [t if t.dim() == 0 else t[:1].repeat(batch, 1) for t in (*args, *kwargs.values())]
        copies = copy.deepcopy(grown)
        run, _, timed = find_timed(session, {name: t.numpy() for name, t in zip(names, grown, strict=True)})
        assert "pytree" not in timed.code
        assert "_assert_tensor_metadata" not in timed.code
        with torch.inference_mode():
            for _ in range(2):  # a buffer that changes, changes each time
                want = module(*copies[: len(args)], **dict(zip(kwargs, copies[len(args) :], strict=True)))
                assert_same(run(), want)


def test_results_of_another_class_are_made_by_torch(worker, tmp_path):
    from collections import OrderedDict

    class Ordered(torch.nn.Module):
        def forward(self, x):
            return OrderedDict(b=x + 1, a=x * 2)

    program = save(Ordered(), (X,), tmp_path, dynamic_shapes=(FIRST,))
    session = open_session(worker, tmp_path, outputs=("b", "a"))
    run, _, _ = find_timed(session, {"x": X.numpy()})
    assert_same(run(), program.module()(X))
    assert list(session.run({"x": X.numpy()})) == ["b", "a"]


def count_threads():
    """Return how many threads a product of matrices uses in this thread, by OpenMP's own function."""
    loaded = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines()}
    path = next(one for one in loaded if re.search(r"lib[gi]omp", one) and "torch" in one)
    return ctypes.CDLL(path).omp_get_max_threads()


def test_a_call_from_another_thread_uses_as_many_threads(worker, tmp_path):
    """A server calls a model in threads of its own: with all cores there, it was measured as the faster one."""
    save(torch.nn.Linear(3, 3), (torch.rand(2, 3),), tmp_path)
    sessions, feeds = {}, {"x": np.ones((2, 3), np.float32)}
    before = torch.get_num_threads()
    try:
        for count in (1, 2):
            sessions[count] = worker.load({"input": make_input(tmp_path), "threads": count, "trust": []})

        def call(count):
            sessions[count].run(feeds)
            return count_threads()

        def loop():
            torch.rand(1 << 20).exp_()  # in which a new thread takes the last number that was set anywhere
            return count_threads()

        assert [call(count) for count in (1, 2, 1)] == [1, 2, 1], "in one thread"
        with ThreadPoolExecutor(1) as first, ThreadPoolExecutor(1) as second:
            assert [pool.submit(call, count).result() for pool, count in ((first, 1), (second, 2))] == [1, 2]
            assert [pool.submit(loop).result() for pool in (first, second)] == [1, 2]
    finally:
        torch.set_num_threads(before)
