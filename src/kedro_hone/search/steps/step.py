"""One step: an adaptor run on an artifact in a worker, or its result from the store."""

from __future__ import annotations

import datetime as dt
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from hone_runtime.contract.adaptor import Adaptor, Need, Options
from hone_runtime.contract.hardware import read_host
from hone_runtime.contract.host import Host
from hone_runtime.contract.job import Job, JobInput, StepResult
from hone_runtime.contract.toolchain import Limits
from hone_runtime.text import open_logger
from hone_runtime.values.artifact import ONNX_FACTS, Artifact, Stage, StepFacts
from hone_runtime.values.base import Json
from hone_runtime.values.digest import digest_json
from hone_runtime.values.measurement import BUDGET
from hone_runtime.values.outcome import Failed, Outcome, Refused
from hone_runtime.values.samples import CALIBRATION, SEARCH, TRAINING, Reference
from kedro_hone.core.environments.environment import Environment
from kedro_hone.core.store.steps import StepRecord, step_key
from kedro_hone.core.workers.host.full_disk import check_full_disk
from kedro_hone.core.workers.host.run import call_worker
from kedro_hone.core.workers.host.verification import verify_output
from kedro_hone.recipe.environments import find_environment
from kedro_hone.search.context import RunContext
from kedro_hone.search.plan.budget import Budget, Phase, choose_phase, start_budget
from kedro_hone.search.scores import has_labels
from kedro_hone.search.steps.checkpoints import checkout_checkpoint, goes_on, is_unfinished, remove_checkpoint
from kedro_hone.search.steps.decisions import Decided, decide, spare_shapes
from kedro_hone.search.steps.inheritance import inherit_metadata
from kedro_hone.search.steps.lines import format_step
from kedro_hone.search.steps.mismatch import find_mismatch, find_written
from kedro_hone.search.steps.programs import describe_program, digest_program
from kedro_hone.search.steps.records import checkout_records
from kedro_hone.search.steps.runtimes import digest_workers

logger = open_logger(__name__)


def transform(
    adaptor: Adaptor,
    options: Options,
    parent: Artifact,
    context: RunContext,
    *,
    reference: Reference,
    expected: float | None = None,
    title: str = "",
) -> Outcome:
    """Run one adaptor on an artifact, or return its result from the store.

    ``expected`` is how many seconds that takes, if known: the adaptor is not run if the budget has fewer left. The
    ``title`` is its name in the log, by default its own. Options that depend on the machine are resolved here, for both
    the key and the worker. Returns the artifact, or a refusal or failure (not raised), with its route's steps.
    """
    named = title or adaptor.name
    outcome, facts = _Step(adaptor, parent, context, reference, read_host(), expected, named).find_or_build(options)
    return outcome.model_copy(update={"steps": (*parent.steps, *facts)})


class _Try(NamedTuple):
    """The outcome of one worker, the path of its log, and its limits."""

    outcome: Outcome
    folder: Path
    limits: Limits


@dataclass(frozen=True)
class _Step:
    """One adaptor and its input."""

    adaptor: Adaptor
    parent: Artifact
    context: RunContext
    reference: Reference
    host: Host
    expected: float | None
    title: str

    def find_or_build(self, options: Options) -> tuple[Outcome, tuple[StepFacts, ...]]:
        """Return the outcome, and the facts of the step; no facts if the adaptor could not be tried."""
        adaptor, store = self.adaptor, self.context.store
        mismatch = find_mismatch(
            adaptor, self.parent, self.host, self.context.recipe, labelled=not adaptor.trains or self._has_labels()
        )
        decided = mismatch or decide(adaptor, options, self.parent, self.host)
        if not isinstance(decided, Decided):
            return self._leave(decided)
        budget = start_budget(self.context)
        environment = self._find_environment(budget)
        if not isinstance(environment, Environment):
            return self._leave(environment)
        key, inputs = self._make_key(environment.key, decided.options)
        found = store.find(key)
        run = self.context.run.run_id
        if found is not None and not (found.is_tried_again(run) or goes_on(store, key, found, run=run)):
            return self._reuse(found)
        phase = choose_phase(adaptor, self.parent, self.expected)
        if (reason := budget.find_reason(phase, self.expected, trains=self.adaptor.trains)) is not None:
            return self._leave(self._leave_out(reason)) if found is None else self._reuse(found)
        created = dt.datetime.now(dt.UTC).isoformat()
        outcome, facts = self._build(environment, decided, key, budget)
        tries = 1 if found is None else found.tries + 1
        made = StepRecord(facts=facts, outcome=outcome, created=created, inputs=inputs, tries=tries)
        return self._record(key, made, before=found)

    def _record(
        self, key: str, made: StepRecord, *, before: StepRecord | None
    ) -> tuple[Outcome, tuple[StepFacts, ...]]:
        """Store what was built, unless that would lose what an earlier run built, or the budget ended it."""
        outcome, store = made.outcome, self.context.store
        if before is not None and isinstance(before.outcome, Artifact) and not isinstance(outcome, Artifact):
            return self._reuse(before)
        if isinstance(outcome, Refused) and outcome.slug == BUDGET:
            return self._leave(outcome)
        store.record(key, made)
        if not is_unfinished(outcome, self.adaptor.name):
            remove_checkpoint(store, key)
        return outcome, (made.facts,)

    def _has_labels(self) -> bool:
        return has_labels(self.context.samples.splits[SEARCH], self.context)

    def _reuse(self, found: StepRecord) -> tuple[Outcome, tuple[StepFacts, ...]]:
        self._log_step("reused", found.outcome)
        return found.outcome, (found.facts,)

    def _find_environment(self, budget: Budget) -> Environment | Refused | Failed:
        """Return the toolchain's environment, which is only built if there is time to use it."""
        run, may_build = self.context.run, budget.find_reason(Phase.BUILD, None) is None
        recipe, toolchain = self.context.recipe, self.adaptor.toolchain
        with run.pause_search():
            found = find_environment(recipe, toolchain, build=may_build, stopped=run.is_stopped)
        if not isinstance(found, Failed):
            return found
        unnamed = not toolchain.lockable and toolchain.name not in recipe.environments
        if unnamed or recipe.missing_toolchains == "skip":
            return Refused(by=self.adaptor.name, slug="not-installed", reason=found.reason)
        if (late := budget.find_reason(Phase.BUILD, None)) is not None:
            return self._leave_out(late)
        return run.relocate_log(found.model_copy(update={"by": self.adaptor.name}))

    def _build(self, within: Environment, decided: Decided, key: str, budget: Budget) -> tuple[Outcome, StepFacts]:
        """Run the adaptor, and record its costs; it is refused if the budget ended it."""
        adaptor, run, started = self.adaptor, self.context.run, time.monotonic()
        tried = self._try(within, decided, key, budget)
        if (plainer := spare_shapes(tried.outcome, decided)) and not run.is_stopped():
            logger.warning("warning   %s crashed, and is tried again without fixed_shapes", self.title)
            again = self._try(within, plainer, key, budget)
            tried = again if again.outcome.kind == "artifact" else tried
        outcome, folder, limits = tried.outcome, tried.folder, tried.limits
        facts = StepFacts(
            key=key,
            adaptor=adaptor.name,
            run=run.run_id,
            folder=f"steps/{folder.name}",
            seconds=time.monotonic() - started,
            outcome=outcome.kind,
        )
        if isinstance(outcome, Failed) and (reason := budget.explain_end(outcome, limits, adaptor)):
            return self._leave_out(reason), facts
        run.note("build", **facts.model_dump(mode="json", exclude={"run"}))
        self._log_step("built" if outcome.kind == "artifact" else outcome.kind, outcome, seconds=facts.seconds)
        return outcome, facts

    def _try(self, within: Environment, decided: Decided, key: str, budget: Budget) -> _Try:
        folder, limits = self.context.run.claim_step(self.adaptor.name), budget.cut(self.adaptor)
        return _Try(self._run(within, folder, decided, key, limits), folder, limits)

    def _leave_out(self, reason: str) -> Refused:
        return Refused(by=self.adaptor.name, slug=BUDGET, reason=reason)

    def _leave(self, fault: Refused | Failed) -> tuple[Outcome, tuple[StepFacts, ...]]:
        self._log_step("not tried" if isinstance(fault, Refused) and fault.slug == BUDGET else fault.kind, fault)
        return fault, ()

    def _log_step(self, word: str, outcome: Outcome, *, seconds: float | None = None) -> None:
        built = (step.adaptor for step in self.parent.steps if step.outcome == "artifact")
        route = (self.context.source.format, *built)
        # Most adaptors are for sources of other formats, which is not worth a line.
        strange = isinstance(outcome, Refused) and outcome.slug == "format" and not self.parent.steps
        level = logging.DEBUG if strange else logging.INFO
        logger.log(level, "%s", format_step(word, self.title, route, outcome, seconds=seconds))

    def _make_key(self, environment: str, options: Options) -> tuple[str, dict[str, Json]]:
        samples, needs = self.context.samples.digest, self.adaptor.needs
        return step_key(
            self.adaptor,
            self.parent,
            options,
            worker=digest_workers(self.adaptor.toolchain),
            environment=environment,
            host=self.host,
            seed=self.context.recipe.seed,
            shapes=self.context.recipe.all_shapes,
            calibration=digest_json([samples, CALIBRATION]) if Need.CALIBRATION_DATA in needs else None,
            training=digest_json([samples, TRAINING]) if Need.TRAINING_DATA in needs else None,
            program=digest_program(self.adaptor, self.context, self.reference),
            takes=find_written(self.adaptor, self.context.recipe),
            **self._find_limits(),
        )

    def _run(self, within: Environment, folder: Path, decided: Decided, key: str, limits: Limits) -> Outcome:
        toolchain, store, place = self.adaptor.toolchain, self.context.store, (within.key, self.host.fingerprint)
        with (
            store.workspace() as scratch,
            checkout_records(store, toolchain, place, scratch / "temporary") as records,
            checkout_checkpoint(store, self.adaptor, key, scratch / "temporary") as checkpoint,
        ):
            files = {"records": records and str(records), "checkpoint": checkpoint and str(checkpoint)}
            given = {**files, "seconds": limits.seconds}
            job = self._make_job(scratch, decided.options).model_copy(update=given)
            result = call_worker(
                job,
                python=Path(within.python),
                toolchain=toolchain,
                folder=folder,
                limits=limits,
                stopped=self.context.run.is_stopped,
            )
            if not isinstance(result, StepResult):
                return self.context.run.relocate_log(result) if isinstance(result, Failed) else result
            output = verify_output(job, result, toolchain=toolchain)
            if isinstance(output, Failed):
                return check_full_disk(output, job, folder, result.end)
            return self._seal(output, decided, described=result.described or {})

    def _make_job(self, scratch: Path, options: Options) -> Job:
        adaptor, context, recipe = self.adaptor, self.context, self.context.recipe
        calibration = context.samples.splits[CALIBRATION]
        return Job(
            function="transform",
            worker=str(adaptor.toolchain.worker),
            adaptor=adaptor.name,
            stage=adaptor.stage,
            input=JobInput.of(self.parent, context.store.locate(self.parent)),
            output=str(scratch / "output"),
            temporary=str(scratch / "temporary"),
            produces=adaptor.produces,
            options=options.model_dump(mode="json"),
            calibration=str(context.locate(calibration.feeds)) if Need.CALIBRATION_DATA in adaptor.needs else None,
            training=self._find_training(),
            program=describe_program(adaptor, self.parent, context, self.reference),
            takes=find_written(self.adaptor, self.context.recipe),
            **self._find_limits(),
            shapes=recipe.all_shapes,
            seed=recipe.seed,
            threads=recipe.thread_count,
            trust=tuple(sorted(recipe.trust)),
        )

    def _find_limits(self) -> dict[str, float | None]:
        """Return the recipe's limits that the adaptor needs; None for the others."""
        gates, needs = self.context.recipe.gates, self.adaptor.needs
        limits = {"conversion": Need.CONVERSION_LIMIT, "drop": Need.DROP_LIMIT}
        return {name: getattr(gates, name) if need in needs else None for name, need in limits.items()}

    def _find_training(self) -> str | None:
        splits = self.context.samples.splits
        return str(self.context.locate(splits[TRAINING].feeds)) if Need.TRAINING_DATA in self.adaptor.needs else None

    def _seal(self, output: JobInput, decided: Decided, *, described: Mapping[str, Json]) -> Outcome:
        """Turn a worker's verified output into an artifact; refuse it if it is identical to its parent."""
        adaptor, parent, graph = self.adaptor, self.parent, described.get("graph")
        if adaptor.stage is Stage.COMPRESS and graph is not None and graph == parent.metadata.get("graph"):
            reason = "the graph and its weights are the same as before"
            return Refused(by=adaptor.name, slug="nothing-to-do", reason=reason)
        compiled = adaptor.stage is Stage.COMPILE
        found = {name: described[name] for name in ("graph", "operators", *ONNX_FACTS) if described.get(name)}
        return self.context.store.seal(
            Path(output.path),
            parent=parent,
            format=output.format,
            inputs=output.inputs,
            outputs=output.outputs,
            runtime=adaptor.toolchain.name if compiled else None,
            device=adaptor.device if compiled else parent.device,
            run_options=decided.run_options,
            static_shapes=output.static_shapes,
            metadata=inherit_metadata(adaptor, parent, output.metadata, machine=decided.machine_options) | found,
        )
