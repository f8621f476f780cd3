"""Call one function of a worker file in a process of its own, as the real host does, but thinner; see ``conftest.py``.

``run_worker.py FOLDER`` reads ``FOLDER/job.json`` and writes ``FOLDER/result.json``; the function ``run`` loads the
artifact and writes for each ``feeds-<n>.npz`` an ``outputs-<n>.npz``, and calls it from as many threads as the job has
``callers``; ``count_operators`` returns the counts for each.

``run_worker.py --serve MODULE…`` imports the modules, reads folders from its standard input, and forks for each of
them: a call then starts in a process that has imported the toolchain and used nothing of it. It prints the exit status
of each; what a call prints is in ``FOLDER/log``.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parents[3] / "src"))  # it is not installed in every environment
from hone_runtime.sessions.operators import count_operators
from hone_runtime.worker.packages import import_worker

sys.path.pop()


def main(folder: Path) -> None:
    job = json.loads((folder / "job.json").read_text())
    os.environ.update(job.get("variables", {}))  # those of a fork are from when its server started
    worker = import_worker(job["worker"], uses=job.get("uses", ()))
    try:
        if job["function"] == "run":
            result = None
            session = worker.load(job)
            for path in sorted(folder.glob("feeds-*.npz")):
                feeds = dict(np.load(path))
                if job.get("callers"):
                    call_together(session, feeds, job["callers"])
                outputs = session.run(feeds)
                again = session.run(feeds)  # an output must not be a view of something that the next call overwrites
                assert all(np.array_equal(outputs[name], again[name]) for name in outputs)
                np.savez(folder / path.name.replace("feeds", "outputs"), **outputs)
        elif job["function"] == "count_operators":
            session = worker.load(job)
            result = [count_operators(session, dict(np.load(path))) for path in sorted(folder.glob("feeds-*.npz"))]
        else:
            result = getattr(worker, job["function"])(job)
    except Exception as error:
        result = {"raised": str(error)}
        if not job["expect_error"]:
            raise
    (folder / "result.json").write_text(json.dumps(result))


def call_together(session, feeds, callers: int) -> None:
    """Call from several threads at once, each with other rows; each result must be that of a call on its own."""
    rows = [{name: np.roll(array, n, 0) * (n + 1) for name, array in feeds.items()} for n in range(callers)]
    alone = [{name: np.array(value) for name, value in session.run(each).items()} for each in rows]
    begin = threading.Barrier(callers)

    def call(number):
        begin.wait()
        for _ in range(50):
            for name, value in session.run(rows[number]).items():
                np.testing.assert_allclose(value, alone[number][name], rtol=1e-4, atol=1e-4)

    with ThreadPoolExecutor(callers) as threads:
        list(threads.map(call, range(callers)))


def serve(modules: list[str]) -> None:
    os.environ["CI"] = os.environ["NNCF_CI"] = "1"  # no telemetry, which would start a thread
    for name in modules:
        importlib.import_module(name)
    del os.environ["CI"], os.environ["NNCF_CI"]
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            work(Path(line.strip()))
        sys.stdout.write(f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n")
        sys.stdout.flush()


def work(folder: Path) -> None:
    """Call the function and end the process."""
    log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT, 0o644)
    for stream in (1, 2):
        os.dup2(log, stream)
    os.chdir(folder / "temporary")
    os.environ["TMPDIR"] = str(folder / "temporary")
    tempfile.tempdir = None
    status = 1
    try:
        main(folder)
        status = 0
    except BaseException:  # noqa: BLE001 - a fork must not go on with its parent's work
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve(sys.argv[2:])
    else:
        main(Path(sys.argv[1]))
