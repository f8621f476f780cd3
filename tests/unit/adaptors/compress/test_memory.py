"""The memory of a training: refused before it begins, and explained where it runs out."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap

import pytest
import torch
from hone_compress import distillation, memory
from hone_compress.memory import check_memory, is_shortage
from sources import SCHEDULE, Classifier, Function, draw, make_data, seed
from torch import nn

from hone_runtime.worker.refusal import UnsuitedError
from kedro_hone.adaptors.compress.adaptor import TOOLCHAIN


class Wide(nn.Module):
    """A network of a few weights and an activation of 4 MiB for each row."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(8, 1024), nn.Linear(1024, 5)

    def forward(self, x):
        wide = self.first(x)[:, None].expand(-1, 1024, -1).exp()
        return self.last(wide.mean(1))


def make_rows(**changes):
    return make_data(seed(Classifier), draw(64, 8), **changes)


def test_the_limit_is_below_that_of_the_guard():
    assert TOOLCHAIN.limits.memory_mb << 20 > memory.MOST_BYTES


def test_a_step_that_fits_is_allowed():
    check_memory(seed(Wide), make_rows(), 64)


def test_a_batch_that_is_too_large_is_refused_with_one_that_fits(monkeypatch):
    monkeypatch.setattr(memory, "MOST_BYTES", 128 << 20)
    with pytest.raises(UnsuitedError, match="a training step of 64 rows takes about") as raised:
        check_memory(seed(Wide), make_rows(), 64)
    batch = int(re.search(r"set the option batch to (\d+) or less", str(raised.value)).group(1))
    assert 8 <= batch < 32
    check_memory(seed(Wide), make_rows(), batch)
    with pytest.raises(UnsuitedError):
        check_memory(seed(Wide), make_rows(), batch + 1)


@pytest.mark.parametrize(("fixed", "most"), [(32, 64 << 20), (None, 1 << 20)])
def test_where_no_batch_fits_the_network_is_refused(monkeypatch, fixed, most):
    monkeypatch.setattr(memory, "MOST_BYTES", most)
    with pytest.raises(UnsuitedError, match="export the network with a smaller batch or shorter rows"):
        check_memory(seed(Wide), make_rows(fixed=fixed), 64)


def test_outputs_count_as_well():
    """A row of scores for many words takes more than the network itself."""
    net = nn.Sequential(nn.Linear(8, 5), Function(lambda x: x.repeat(1, 1 << 22)))
    with pytest.raises(UnsuitedError, match=r"64 rows takes about 1\d\.\d GiB"):
        check_memory(net, make_rows(), 64)


@pytest.mark.parametrize(
    ("error", "found"),
    [
        (MemoryError(), True),
        (
            RuntimeError("[enforce fail at alloc_cpu.cpp:124] . DefaultCPUAllocator: can't allocate memory: you tried"),
            True,
        ),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
    ],
)
def test_only_a_shortage_of_memory_is_one(monkeypatch, error, found):
    assert is_shortage(error) is found

    class Training:
        def __init__(self, *_):
            raise error

    monkeypatch.setattr(distillation, "_Training", Training)
    with pytest.raises(UnsuitedError if found else RuntimeError) as raised:
        distillation.distil(seed(Classifier), make_rows(), SCHEDULE)
    assert ("lower the option batch" in str(raised.value)) is found


def test_a_process_whose_memory_runs_out_refuses():
    code = """
        import resource, sys
        from pathlib import Path
        sys.path.insert(0, sys.argv[1])
        from hone_runtime.worker.packages import make_importable
        for folder in sys.argv[2:]:
            make_importable(folder)
        import torch
        from hone_compress import distillation, memory
        from hone_runtime.worker.refusal import UnsuitedError
        from sources import SCHEDULE, Classifier, draw, make_data, seed
        from test_memory import Wide
        data, student = make_data(seed(Classifier), draw(64, 8)), seed(Wide)
        memory.check_memory(student, data, 64)
        size = int(Path("/proc/self/statm").read_text().split()[0]) * 4096
        resource.setrlimit(resource.RLIMIT_AS, (size + (200 << 20),) * 2)
        try:
            distillation.distil(student, data, SCHEDULE)
        except UnsuitedError as error:
            print("refused:", error)
    """
    from kedro_hone.adaptors.pytorch.adaptor import TOOLCHAIN as PYTORCH

    here, *folders = __file__.rpartition("/")[0], str(PYTORCH.worker.parent), str(TOOLCHAIN.worker.parent)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), here, *folders], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "refused: it ran out of memory with batches of 16 rows: lower the option batch" in done.stdout, done.stdout


def test_the_gradients_of_the_measured_call_are_not_kept():
    net = seed(Wide)
    check_memory(net, make_rows(), 64)
    assert all(one.grad is None for one in net.parameters())
    assert torch.is_grad_enabled()
