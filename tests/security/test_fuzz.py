"""No input of a parser that runs in the host does anything but be taken or be refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent

PLANTED = """
import json, os, socket, subprocess, sys
from pathlib import Path
from security import fuzzing

fuzzing.SECONDS, fuzzing.PATIENCE = 2, 10
sys.addaudithook(fuzzing._audit)
reads = {
    "raises": lambda data, folder: {}[data],
    "writes": lambda data, folder: Path(sys.argv[1], "x").write_text("x"),
    "removes": lambda data, folder: os.remove(sys.argv[1] + "/kept"),
    "moves out": lambda data, folder: ((folder / "x").write_text("x"), os.rename(folder / "x", sys.argv[1] + "/x")),
    "runs": lambda data, folder: subprocess.run(["true"]),
    "calls": lambda data, folder: socket.create_connection(("127.0.0.1", 9)),
    "loops": lambda data, folder: [None for _ in iter(int, 1)] if data else None,
    "waits": lambda data, folder: os.read(os.pipe()[0], 1),
    "grows": lambda data, folder: len(b"x" * (300 << 20)),
    "is good": lambda data, folder: (folder / "x").write_bytes(data),
    "refuses": lambda data, folder: int(data),
}
found = {}
for name, read in reads.items():
    try:
        fuzzing.check(fuzzing.Target(name="planted", read=read, refuses=(ValueError,)), b"x")
    except fuzzing.Found as fault:
        found[name] = str(fault)
print(json.dumps(found))
"""


def run(*command: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "PYTHONPATH": str(HERE.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run([sys.executable, *command], env=variables, capture_output=True, text=True, check=False)


@pytest.mark.attack(
    what="crafted manifests, results, replies, arrays, MLmodel files, recipes, records, evidence and archives",
    who="registry",
    stopped_by="what cannot be read is refused, in bounded time and memory",
)
def test_nothing_is_found_in_ten_seconds():
    done = run(str(HERE / "fuzzing.py"), "--seconds", "10", "--seed", "0")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.nightly
def test_planted_faults_are_found(tmp_path):
    (tmp_path / "kept").touch()
    done = run("-c", PLANTED, str(tmp_path))
    assert done.returncode == 0, done.stderr
    found, words = (
        json.loads(done.stdout),
        {"raises": "KeyError", "writes": "open", "removes": "os.remove", "moves out": "os.rename"},
    )
    words |= {"runs": "subprocess.Popen", "calls": "socket.connect", "grows": "MiB"}
    assert found.keys() == words.keys() | {"loops", "waits"}
    for does, fault in found.items():
        assert words.get(does, "took longer") in fault
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
