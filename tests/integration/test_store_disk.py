"""The store on disks that are full or read-only, under kills, and with two processes at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hone_runtime.values.manifest import read_sealed
from kedro_hone.core.store.artifacts import Store

SOURCE = Path(__file__).parents[2] / "src"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(SOURCE)}

PREAMBLE = """
import itertools, os, sys
from pathlib import Path
from hone_runtime.errors import HoneError
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.steps import StepRecord
from hone_runtime.values.outcome import Failed, FailureClass
from hone_runtime.values.manifest import read_sealed
from hone_runtime.values.artifact import StepFacts

def seal(store, text):
    with store.workspace() as workspace:
        (workspace / "output").mkdir()
        for name in ("model.onnx", "weights.bin"):
            (workspace / "output" / name).write_text(text)
        return store.seal(workspace / "output", format="onnx", inputs=(), outputs=())

def record(store, key, outcome):
    facts = StepFacts(key=key, adaptor="a.b", run="r", folder="steps/001-a.b", seconds=1, outcome=outcome.kind)
    store.record(key, StepRecord(facts=facts, outcome=outcome, created="now", inputs={}))

def slug_of(action):
    try:
        action()
    except HoneError as error:
        assert str(root) in error.what, error.what
        return error.slug
    return "no error"

root = Path(sys.argv[1])
"""

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def run(script: str, folder: Path, *, mount: str = "") -> str:
    """Run a script, where needed in a mount namespace of its own, so that its mounts end with it."""
    command = [sys.executable, "-c", PREAMBLE + script, str(folder)]
    if mount:
        command = ["unshare", "--mount", "--propagation", "private", "sh", "-ec", f'{mount}\nexec "$@"', "sh", *command]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, check=False)
    assert done.returncode == 0, f"{'Are `unshare --mount` and `mount` permitted here? ' if mount else ''}{done.stderr}"
    return done.stdout.strip()


@pytest.mark.attack(
    what="a disk that becomes full while an artifact is sealed",
    who="nobody",
    stopped_by="files appear whole or not at all",
)
@needs_root
def test_a_full_disk_is_explained_and_leaves_the_store_sound(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    script = """
store = Store(root / "store")
kept = seal(store, "small")
record(store, "kept", kept)
big = Path(sys.argv[1]).parent / "big"
big.mkdir()
(big / "model.onnx").write_bytes(b"x" * (1 << 20))
print(slug_of(lambda: store.seal(big, format="onnx", inputs=(), outputs=())))
print(slug_of(lambda: store.store_tree("big", big)))
print(len(list((root / "store" / "tmp").iterdir())))
filler = (root / "filler").open("wb", buffering=0)
try:
    while True:
        filler.write(b"x" * 512)
except OSError:
    pass
print(slug_of(lambda: store.write_value("v", "x" * 5000)))
print(slug_of(lambda: record(store, "k", Failed(by="a.b", failure=FailureClass.CONVERT, reason="x" * 5000))))
print(store.read_value("v"), store.find("k"))
filler.close()
(root / "filler").unlink()
sound = read_sealed(store.locate(kept).parent) is not None
print(slug_of(lambda: store.write_value("v", "x")), store.find("kept").outcome == kept, sound)
"""
    told = run(script, folder, mount=f"mount -t tmpfs -o size=256k tmpfs '{folder}'")
    assert told.splitlines() == [
        "store-full",
        "store-full",
        "0",
        "store-full",
        "store-full",
        "None None",
        "no error True True",
    ]
    assert list(folder.iterdir()) == []


@needs_root
def test_a_read_only_disk_is_explained_and_still_read(tmp_path):
    store = tmp_path / "store"
    run("kept = seal(Store(root), 'x'); record(Store(root), 'kept', kept); Store(root).write_value('v', 3)", store)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.onnx").write_text("new")
    script = """
store = Store(root)
print(store.find("kept").outcome.digest.startswith("sha256:"), store.read_value("v"))
print(slug_of(lambda: store.seal(root.parent / "model", format="onnx", inputs=(), outputs=())))
print(slug_of(lambda: store.write_value("w", 1)))
print(slug_of(lambda: store.workspace().__enter__()))
print(slug_of(lambda: Store(root / "new")))
"""
    told = run(script, store, mount=f"mount --bind '{store}' '{store}'\nmount -o remount,bind,ro '{store}'")
    assert told.splitlines() == ["True 3", *["store-read-only"] * 4]
    Store(store).write_value("w", 1)


SEALER = """
store = Store(root)
print("ready", flush=True)
for number in itertools.count(int(sys.argv[2])):
    text = f"model {number % 7} " * 2000
    artifact = seal(store, text)
    record(store, f"k{number % 7}", artifact)
    store.write_value(f"v{number % 7}", text)
"""


def start_sealer(root: Path, number: int) -> subprocess.Popen:
    command = [sys.executable, "-c", PREAMBLE + SEALER, str(root), str(number)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)
    assert process.stdout.readline() == "ready\n"
    return process


def check_all(root: Path) -> int:
    """Assert that all that can be found is whole; return how much there is."""
    store = Store(root)
    assert list((root / "tmp").iterdir()) == []
    places = list((root / "objects").iterdir())
    for place in places:
        assert read_sealed(place)
    for path in (root / "steps").iterdir():
        record = store.find(path.stem)
        assert record is not None
        assert (store.locate(record.outcome) / "weights.bin").read_text().startswith("model ")
    for path in (root / "values").iterdir():
        assert str(store.read_value(path.stem)).startswith(f"model {path.stem[1:]}")
    return len(places)


@pytest.mark.attack(
    what="SIGKILL while the store is written", who="nobody", stopped_by="files appear whole or not at all"
)
def test_a_kill_at_any_moment_leaves_the_store_sound(tmp_path):
    found = number = 0
    while number < 20 or not found:  # until it came to something before it was killed
        assert number < 200
        with start_sealer(tmp_path, number) as process:
            time.sleep(0.008 * number)
            os.kill(process.pid, signal.SIGKILL)
        found = check_all(tmp_path)
        number += 1


def test_two_processes_may_seal_the_same_at_once(tmp_path):
    with start_sealer(tmp_path, 0) as one, start_sealer(tmp_path, 0) as two:
        end = time.monotonic() + 600
        while len(list((tmp_path / "values").glob("*"))) < 7:  # one round of each at least
            assert (one.poll(), two.poll()) == (None, None)
            assert time.monotonic() < end
            time.sleep(0.05)
        time.sleep(1)
        assert (one.poll(), two.poll()) == (None, None)
        one.kill()
        two.kill()
    assert check_all(tmp_path) == 7
