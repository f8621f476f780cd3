"""Tuning with MetaSchedule (J. Shao et al., "Tensor program optimization with probabilistic programs", NeurIPS 2022).

Measurements are stored as records: lines of JSON, each with the hash of an operator's loops and one schedule with its
times. Any number of runs and models share them.
"""

from __future__ import annotations

import importlib
import json
import shutil
import sys
import time
import types
from pathlib import Path
from typing import Any

Json = dict[str, Any]

_PER_ROUND = 16
"""Schedules of one operator that are built and measured together: tuning stops between two rounds. MetaSchedule's own
scheduler for several operators stops only when each has had its round."""
_SEARCH = {"population_size": 128, "genetic_num_iters": 3}
"""Settings of the evolutionary search in each round. With its defaults, 512 and 4, the search takes longer than
building and measuring its schedules. It took 28 of 41 s in a round of eight schedules, on two cores of an AMD EPYC with
AVX2."""
_BUILD_SECONDS, _RUN_SECONDS = 300, 60
_LEAST_WORK = 0.005
"""Share of a model's operations: an operator with less, such as a reshape, is not scheduled."""


class Records:
    """MetaSchedule's database of some operators in a folder, read from a file of records and written back to it.

    All models share the file. A line has the hash of an operator's loops and one schedule of them. The loops themselves
    are twenty times as long, and are known when an operator is looked up. Lines of other operators are not parsed: on
    an AMD EPYC with AVX2, TVM reads a record in 6 ms.

    Args:
        folder: The folder of the database.
        path: The file; None if nothing is stored.
        tasks: The operators.
    """

    def __init__(self, folder: Path, path: str | None, tasks: list[Any]) -> None:
        from tvm.s_tir import meta_schedule as ms

        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self._path = Path(path) if path else None
        self._workloads, self._schedules = folder / "database_workload.json", folder / "database_tuning_record.json"
        lines = self._path.read_text().splitlines() if self._path and self._path.exists() else []
        workloads = dict(ms.database.Workload(task.dispatched[0]).as_json() for task in tasks)
        self._others, own = split_lines(lines, [*workloads])
        self._workloads.write_text("".join(f"{json.dumps(workload)}\n" for workload in workloads.items()))
        self._schedules.write_text("".join(f"{json.dumps(record)}\n" for record in own))
        self.folder, self.database = folder, ms.database.JSONDatabase(work_dir=str(folder))
        self.known = len(own)

    def save(self) -> None:
        """Write the measurements so far."""
        hashes = [json.loads(line)[0] for line in self._workloads.read_text().splitlines()]
        found = [json.loads(line) for line in self._schedules.read_text().splitlines()]
        own = [json.dumps([hashes[index], record]) for index, record in found]
        self.known = len(own)
        if self._path:
            self._path.write_text("".join(f"{line}\n" for line in (*self._others, *own)))

    def count(self, task: Any) -> int:
        """Return the number of known schedules of an operator."""
        return len(self.database.get_top_k(self.database.commit_workload(task.dispatched[0]), 1 << 16))

    def apply(self, module: Any) -> Any:
        """Return a module with the best known schedules; operators without one remain loops of one thread."""
        from tvm import relax

        with self.database:
            return relax.transform.MetaScheduleApplyDatabase()(module) if self.known else module


def split_lines(lines: list[str], hashes: list[str]) -> tuple[list[str], list[list[Any]]]:
    """Return the lines of other operators, and those of the given ones in the database's form: ``[number, record]``.

    Incomplete lines of a killed process are dropped, and so are lines in the format of an earlier version.
    """
    numbers: dict[str, int] = {name: number for number, name in enumerate(hashes)}
    others, own = list[str](), list[list[Any]]()
    for line in lines:
        try:
            name, record = json.loads(line)
            number = numbers.get(name)
        except (ValueError, TypeError):
            continue
        if number is None:
            others.append(line)
        else:
            own.append([number, record])
    return others, own


def tune(
    operators: list[list[Any]],
    *,
    records: Records,
    trials: int,
    resume: bool,
    until: float,
    threads: int,
    seed: int,
) -> Json:
    """Measure schedules of the operators of some modules for which too few are known.

    Args:
        operators: The operators of each module, from ``list_tasks``.
        records: The known schedules, to which the measured ones are added.
        trials: The largest number of schedules to measure.
        resume: Whether to tune operators further for which schedules are known.
        until: The end by the monotonic clock; a round that is expected to end later is not started.
        threads: The number of schedules to build at once.
        seed: The seed of the search.

    Returns:
        The number of measured ``trials``, of tuned ``operators``, and of ``seconds``.
    """
    begun, before, measured, took = time.monotonic(), records.known, 0, dict[int, float]()
    tasks = [operators[module][task] for module, task in order_tasks([[*map(_estimate, each)] for each in operators])]
    known = {number: records.count(task) for number, task in enumerate(tasks)}
    left = [number for number, count in known.items() if resume or not count]
    tools = _make_tools(records.database, records.folder, threads=threads) if left else {}
    while measured < trials:
        started, written = time.monotonic(), records.known
        number = choose_operator(left, known, took, seconds=until - started)
        if number is None:
            break
        size = min(_PER_ROUND, trials - measured)
        _tune_operator(tasks[number], tools, size=size, threads=threads, seed=seed + 1 + measured)
        records.save()
        found = records.count(tasks[number])
        if records.known - written < size:  # no schedules are left for it: failed ones are recorded, too
            left.remove(number)
        known[number], measured = found, measured + size
        took[number] = time.monotonic() - started
        print(f"tuned {tasks[number].task_name}: {found} schedules", flush=True)  # noqa: T201 - the step's log
    seconds = round(time.monotonic() - begun, 1)
    return {"trials": records.known - before, "operators": len(tasks), "seconds": seconds}


def _make_tools(database: Any, folder: Path, *, threads: int) -> Json:
    """Return the builder, the runner and the cost model of schedules, for all rounds."""
    import cloudpickle
    from tvm.s_tir import meta_schedule as ms

    load_intrinsics()
    # The builder's processes, which also load them, cannot import this module.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    evaluator = ms.runner.EvaluatorConfig(number=1, repeat=3, min_repeat_ms=20, enable_cpu_cache_flush=False)
    return {
        "builder": ms.builder.LocalBuilder(
            max_workers=threads, timeout_sec=_BUILD_SECONDS, initializer=load_intrinsics
        ),
        "runner": ms.runner.LocalRunner(timeout_sec=_RUN_SECONDS, evaluator_config=evaluator),
        "cost_model": ms.cost_model.XGBModel(num_tuning_cores=threads),
        "database": database,
        "work_dir": str(folder),
    }


def _tune_operator(task: Any, tools: Json, *, size: int, threads: int, seed: int) -> None:
    """Build and measure some schedules of an operator."""
    from tvm.s_tir import meta_schedule as ms

    contexts, weights = ms.relax_integration.extracted_tasks_to_tune_contexts(
        [task],
        tools["work_dir"],
        strategy=ms.search_strategy.EvolutionarySearch(**_SEARCH),
        num_threads=threads,
        seed=seed,
    )
    ms.tune.tune_tasks(tasks=contexts, task_weights=weights, max_trials_global=size, num_trials_per_iter=size, **tools)


def load_intrinsics() -> None:
    """Import TVM's tensor intrinsics for x86, and prevent the import of all others.

    TVM 0.27 imports those of every processor when tuning starts, and again in each builder process in each round. On an
    AMD EPYC with AVX2 that takes 45 s, half of it for CUDA's.
    """
    import tvm.s_tir

    name = "tvm.s_tir.tensor_intrin"
    package = types.ModuleType(name)
    package.__path__ = [str(Path(tvm.s_tir.__file__).with_name("tensor_intrin"))]
    sys.modules[name] = package
    importlib.import_module(f"{name}.x86")


def choose_operator(left: list[int], known: dict[int, int], took: dict[int, float], *, seconds: float) -> int | None:
    """Return the operator for the next round: the first of those that were tuned least; None if no round fits.

    Args:
        left: The operators to choose from, in the order of ``order_tasks``.
        known: The number of known schedules of each.
        took: The duration in seconds of each operator's last round; for an operator without one, the shortest is
            assumed.
        seconds: The remaining time.
    """
    least = min(took.values(), default=0.0)
    fit = [number for number in left if took.get(number, least) < seconds]
    return min(fit, key=lambda number: known[number], default=None)


def order_tasks(works: list[list[float]]) -> list[tuple[int, int]]:
    """Return the order in which operators are tuned, each as the number of its module and its own number.

    The operators with the largest share of their module come first, since time may run out before all have had a round.
    Those with a negligible share are left out. Modules are shapes of one model, with equal weight for any batch size:
    of two operators with equal shares, the one that is built and measured sooner comes first.

    Args:
        works: For each module, the number of operations of each of its operators.
    """
    ranked = [
        (-round(work / sum(own), 2), work, module, number)
        for module, own in enumerate(works)
        for number, work in enumerate(own)
        if work >= _LEAST_WORK * sum(own) > 0
    ]
    return [(module, number) for *_, module, number in sorted(ranked)]


def _estimate(task: Any) -> float:
    """Return the number of operations of a task in one call of the model."""
    from tvm.s_tir.analysis import estimate_tir_flops

    return float(estimate_tir_flops(task.dispatched[0])) * float(task.weight)


def list_tasks(module: Any, target: Any) -> list[Any]:
    """Return the operators of a module of loops, each with its loops, for a CPU."""
    from tvm.s_tir import meta_schedule as ms

    return list(ms.relax_integration.extract_tasks(module, target))
