"""TVM with its real compiler: tuned, remembered, and bound to its number of threads."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from digits_bench import make_bench, read_splits

from hone_runtime import worker as inside
from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.measurement import Status
from kedro_hone.search.steps.records import FOLDER
from kedro_hone.search.steps.step import transform

pytestmark = [pytest.mark.toolchain, pytest.mark.large]

ADAPTOR = read_catalogue().adaptors["tvm.cpu"]
CHECK = """
import sys
sys.path.insert(0, {inside!r})
from hone_runtime.worker.packages import import_worker
session = import_worker({worker!r}).session
session.import_tvm(1)
try:
    session.import_tvm(2)
except ValueError as error:
    print(error)
"""
INTRINSICS = """
import importlib, sys
sys.path.insert(0, {inside!r})
from hone_runtime.worker.packages import import_worker
tuning = importlib.import_module(import_worker({worker!r}).__name__ + ".tuning")
from pathlib import Path
from tvm.support.popen_pool import PopenPoolExecutor

def list_loaded():
    import sys
    import tvm.s_tir.tensor_intrin
    return [name.rpartition(".")[2] for name in sys.modules if name.startswith("tvm.s_tir.tensor_intrin.")]

builder = tuning._make_tools(None, Path("."), threads=1)["builder"]
pool = PopenPoolExecutor(max_workers=1, initializer=builder.initializer)
other = pool.submit(list_loaded).result()
pool.shutdown()
print(sorted(list_loaded()), sorted(other))
"""
CALLS = """
import json, sys
from concurrent.futures import ThreadPoolExecutor
import numpy as np
sys.path.insert(0, {inside!r})
from hone_runtime.worker.packages import import_worker
session = import_worker({worker!r}).load({job!r})

def call(image):
    return session.run({{"image": image}})["logits"]

memory = np.random.default_rng(0).random(32 * 64 + 1, dtype=np.float32)
aligned = [memory[64 * number : 64 * (number + 1)].reshape(1, 1, 8, 8) for number in range(32)]
shifted = memory[1:65].reshape(1, 1, 8, 8)
expected = [call(image) for image in aligned]
unaligned = np.array_equal(call(shifted), call(shifted.copy()))
with ThreadPoolExecutor(8) as pool:
    found = [*pool.map(call, aligned * 50)]
same = all(np.array_equal(one, other) for one, other in zip(found, expected * 50))
frozen = aligned[0].copy()
frozen.flags.writeable = False
read_only = np.array_equal(call(frozen), expected[0])
try:
    call(frozen.astype(np.float64))
except TypeError:
    refused = True
print(json.dumps([unaligned, same, read_only, refused]))
"""


@pytest.fixture(scope="module")
def bench(digits_models, tmp_path_factory):
    model, folder = digits_models / "onnx" / "model.onnx", tmp_path_factory.mktemp("tvm")
    splits, shapes = read_splits(digits_models), {"batch1": {"batch": 1}, "batch64": {"batch": 64}}
    return make_bench(folder, model, splits, form="onnx", runtime="onnxruntime", shapes=shapes, threads=2)


def build(bench, **options) -> Artifact:
    asked = ADAPTOR.options.model_validate(options)
    made = transform(ADAPTOR, asked, bench.context.source, bench.context, reference=bench.reference)
    assert isinstance(made, Artifact), made
    return made


def test_what_is_tuned_is_right_and_the_next_run_knows_it(bench):
    tuned = build(bench, trials=16, seconds=60)
    validation = bench.validate(tuned)
    assert validation.status is Status.MEASURED, validation.reason
    assert validation.largest_error < 1e-4
    assert [shape.name for shape in tuned.static_shapes] == ["batch1", "batch64"]
    assert tuned.metadata["tuning"]["trials"] > 0
    (records,) = (bench.context.store.notes / FOLDER).glob("tvm-*.jsonl")
    known = len(records.read_text().splitlines())
    assert known == tuned.metadata["tuning"]["trials"]

    again = build(bench, trials=16, seconds=61)

    assert again.metadata["tuning"]["known"] == known
    assert again.metadata["tuning"]["trials"] <= 16


def test_tuning_that_is_ended_by_its_time_gives_the_best_so_far(bench):
    ended = build(bench, trials=10_000, seconds=1, resume=True)
    assert ended.metadata["tuning"]["trials"] < 100
    assert bench.validate(ended).status is Status.MEASURED


def test_a_process_computes_with_one_number_of_threads_only(bench, environments):
    environment = environments.ensure(ADAPTOR.toolchain)
    code = CHECK.format(inside=str(Path(inside.__file__).parents[2]), worker=str(ADAPTOR.toolchain.worker))
    said = subprocess.run([environment.python, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "TVM computes with 1 threads in this process, and 2 are asked for" in said


def test_neither_tuning_nor_building_imports_the_intrinsics_of_other_processors(environments):
    """They take 45 s in each process on a slow CPU, in each round: tuning had time for sixteen schedules."""
    environment = environments.ensure(ADAPTOR.toolchain)
    code = INTRINSICS.format(inside=str(Path(inside.__file__).parents[2]), worker=str(ADAPTOR.toolchain.worker))
    said = subprocess.run([environment.python, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "['x86'] ['x86']"


def test_a_call_takes_any_memory_and_threads_wait_for_one_another(bench, environments):
    """A compiled loop reads memory that is not aligned by instructions that end the process."""
    artifact, environment = build(bench, trials=0), environments.ensure(ADAPTOR.toolchain)
    shapes = [shape.model_dump() for shape in artifact.static_shapes]
    given = {"path": str(bench.context.store.locate(artifact)), "device": "cpu", "static_shapes": shapes}
    places = {"inside": str(Path(inside.__file__).parents[2]), "worker": str(ADAPTOR.toolchain.worker)}
    code = CALLS.format(**places, job={"threads": 2, "input": given})
    said = subprocess.run([environment.python, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "[true, true, true, true]"
