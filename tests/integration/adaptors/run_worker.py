"""Call one function of a worker file in a fresh process, as the real host does, but thinner; run by ``conftest.py``.

``run_worker.py FOLDER`` reads ``FOLDER/job.json`` and writes ``FOLDER/result.json``; the function ``run`` loads the
artifact and writes ``outputs-<n>.npz`` for each ``feeds-<n>.npz``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parents[3] / "src" / "kedro_hone" / "core" / "workers" / "inside"))
import loading  # the real host's worker knows it as hone_loading; ours is not installed in every environment

sys.path.pop()


def main(folder: Path) -> None:
    job = json.loads((folder / "job.json").read_text())
    worker = loading.load_file("worker", job["worker"])
    try:
        if job["function"] == "run":
            result = None
            session = worker.load(job)
            for path in sorted(folder.glob("feeds-*.npz")):
                feeds = dict(np.load(path))
                outputs = session.run(feeds)
                again = session.run(feeds)  # an output must not be a view of something that the next call overwrites
                assert all(np.array_equal(outputs[name], again[name]) for name in outputs)
                np.savez(folder / path.name.replace("feeds", "outputs"), **outputs)
        else:
            result = getattr(worker, job["function"])(job)
    except Exception as error:
        result = {"raised": str(error)}
        if not job["expect_error"]:
            raise
    (folder / "result.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
