# ruff: noqa: T201 - what it prints is the result
"""Load a winner, call it, and fork as gunicorn's ``--preload`` does; run as a program by a test.

``python fork_learner.py FOLDER`` prints what two children give, of which one was never asked; each ends as programs do.
"""

from __future__ import annotations

import os
import pickle
import sys
import time
from multiprocessing import get_context

import numpy as np

import kedro_hone

ROWS = np.random.default_rng(0).normal(size=(64, 256)).astype(np.float32)
PATIENCE = 120.0


def main(folder: str) -> None:
    learner = kedro_hone.load(folder, threads=2)
    wanted = learner(ROWS)
    for asks in (True, False):
        child = os.fork()
        if not child:
            if asks:
                print("same", np.array_equal(learner(ROWS), wanted), flush=True)
            sys.exit(0)  # not at once: what is open is closed
        print("ended", wait(child), flush=True)
    print("parent", np.array_equal(learner(ROWS), wanted), learner.files.is_dir())
    with get_context("spawn").Pool(1) as pool:
        print("pool", np.array_equal(pool.apply(call, (pickle.dumps(learner),)), wanted), flush=True)


def call(said: bytes) -> np.ndarray:
    return pickle.loads(said)(ROWS)  # noqa: S301 - pickled above


def wait(child: int) -> int:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.kill(child, 9)
    return -1


if __name__ == "__main__":
    main(sys.argv[1])
