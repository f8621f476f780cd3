"""Tuning with MetaSchedule (J. Shao et al., "Tensor program optimization with probabilistic programs", NeurIPS 2022).

What was measured is kept as records: lines of JSON, each with the workload and one schedule of it with its times. Any
number of runs and models share them.
"""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

Json = dict[str, Any]

_PER_ROUND = 8
"""Schedules of one operator that are built and measured together: tuning ends between two rounds."""
_BUILD_SECONDS, _RUN_SECONDS = 300, 60


class Records:
    """MetaSchedule's database in a folder, filled from a file of records and written back to it.

    Args:
        folder: Where the database is made.
        path: The file; None where nothing is remembered.
    """

    def __init__(self, folder: Path, path: str | None) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.folder, self._path = folder, Path(path) if path else None
        self._workloads, self._schedules = folder / "database_workload.json", folder / "database_tuning_record.json"
        self.lines = self._path.read_text().splitlines() if self._path and self._path.exists() else []
        workloads: dict[str, int] = {}
        with self._workloads.open("w") as known, self._schedules.open("w") as measured:
            for workload, record in map(json.loads, self.lines):
                text = json.dumps(workload)
                if text not in workloads:
                    workloads[text] = len(workloads)
                    known.write(f"{text}\n")
                measured.write(f"{json.dumps([workloads[text], record])}\n")

    def save(self) -> None:
        """Write what was measured so far."""
        workloads = [json.loads(line) for line in self._workloads.read_text().splitlines()]
        found = [json.loads(line) for line in self._schedules.read_text().splitlines()]
        self.lines = [json.dumps([workloads[index], record]) for index, record in found]
        if self._path:
            self._path.write_text("".join(f"{line}\n" for line in self.lines))

    def open(self) -> Any:
        """Return the database."""
        from tvm.s_tir import meta_schedule as ms

        return ms.database.JSONDatabase(work_dir=str(self.folder))

    def apply(self, module: Any) -> Any:
        """Return a module with the best schedules that are known; the others stay loops of one thread."""
        from tvm import relax

        return relax.transform.MetaScheduleApplyDatabase(str(self.folder))(module) if self.lines else module


def tune(
    modules: list[Any],
    target: Any,
    *,
    records: Records,
    trials: int,
    resume: bool,
    until: float,
    threads: int,
    seed: int,
) -> Json:
    """Measure schedules of the operators of some modules that are not known well enough yet.

    Args:
        modules: Modules of loops.
        target: The CPU.
        records: What is known, to which what is measured is added.
        trials: How many schedules are measured at most, with those that are known of these operators.
        resume: Whether operators are tuned further of which one round of schedules is known.
        until: When it ends, by the monotonic clock.
        threads: How many schedules are built at once.
        seed: Of the search.

    Returns:
        How many ``trials`` were measured, of how many ``operators``, and in how many ``seconds``.
    """
    from tvm.s_tir import meta_schedule as ms

    begun, database = time.monotonic(), records.open()
    tasks = [task for module in modules for task in _list_tasks(module, target)]
    known = [_count(database, task) for task in tasks]
    share = max(1, trials // max(1, len(tasks)))
    share = share if resume else min(share, _PER_ROUND)
    left = [task for task, count in zip(tasks, known, strict=True) if count < share]
    before = len(records.lines)
    if left and time.monotonic() < until:
        contexts, weights = ms.relax_integration.extracted_tasks_to_tune_contexts(
            left, str(records.folder), num_threads=threads, seed=seed + 1
        )
        evaluator = ms.runner.EvaluatorConfig(number=1, repeat=3, min_repeat_ms=20, enable_cpu_cache_flush=False)
        callbacks = [*ms.measure_callback.MeasureCallback.create("default"), _make_end(ms, records, until)]
        try:
            ms.tune.tune_tasks(
                tasks=contexts,
                task_weights=weights,
                work_dir=str(records.folder),
                max_trials_global=max(0, trials - sum(known)),
                num_trials_per_iter=_PER_ROUND,
                builder=ms.builder.LocalBuilder(max_workers=threads, timeout_sec=_BUILD_SECONDS),
                runner=ms.runner.LocalRunner(timeout_sec=_RUN_SECONDS, evaluator_config=evaluator),
                database=database,
                measure_callbacks=callbacks,
            )
        except Exception as error:
            if _OVER not in str(error):
                raise
        records.save()
    seconds = round(time.monotonic() - begun, 1)
    return {"trials": len(records.lines) - before, "operators": len(tasks), "seconds": seconds}


_OVER = "the time for tuning is over"


def _make_end(ms: Any, records: Records, until: float) -> Any:
    """Return a callback that saves after each round, and ends the tuning by an error when its time is over."""
    from tvm.ir.utils import derived_object

    @derived_object
    class End(ms.measure_callback.PyMeasureCallback):  # type: ignore[misc]  # no types
        def apply(self, *_: Any) -> None:
            records.save()
            print(f"tuned: {len(records.lines)} schedules are known", flush=True)  # noqa: T201 - the step's log
            if time.monotonic() >= until:
                raise TimeoutError(_OVER)

    return End()


def _list_tasks(module: Any, target: Any) -> list[Any]:
    from tvm.s_tir import meta_schedule as ms

    return list(ms.relax_integration.extract_tasks(module, target))


def _count(database: Any, task: Any) -> int:
    """Return how many schedules of an operator are known."""
    module = task.dispatched[0]
    return len(database.get_top_k(database.commit_workload(module), 1 << 16)) if database.has_workload(module) else 0
