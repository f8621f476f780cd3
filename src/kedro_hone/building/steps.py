"""One step: an adaptor run on an artifact in a worker, or its result taken from the store."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from pathlib import Path

from kedro_hone.building.lines import list_route, say_step
from kedro_hone.comparing.setting import Setting
from kedro_hone.core.contract.adaptor import Adaptor, Need, Options
from kedro_hone.core.contract.host import Host
from kedro_hone.core.contract.toolchain import Toolchain
from kedro_hone.core.environments.store import EnvironmentStore
from kedro_hone.core.machine.hardware import read_host
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.steps import StepRecord, list_machine_options, step_key
from kedro_hone.core.text import open_logger
from kedro_hone.core.values.artifact import Artifact, Stage, StepFacts
from kedro_hone.core.values.base import Json
from kedro_hone.core.values.digest import digest_json
from kedro_hone.core.values.outcome import Failed, Outcome, Refused
from kedro_hone.core.values.samples import CALIBRATION, SEARCH, Reference, Samples
from kedro_hone.core.workers.host.job import Job, JobInput, StepResult
from kedro_hone.core.workers.host.run import call_worker, digest_worker
from kedro_hone.core.workers.host.verification import verify_output
from kedro_hone.programs import LIBRARY

logger = open_logger(__name__)

INHERITED = ("interface", "structure", "threads", "machine_options")
"""Metadata that an artifact inherits from its parent: the calling interface, the structure of its result, the number of
threads, and earlier adaptors' options that depend on the machine unless the recipe sets them."""


def transform(
    adaptor: Adaptor, options: Options, parent: Artifact, setting: Setting, *, reference: Reference
) -> Outcome:
    """Run one adaptor on an artifact, or take its result from the store.

    What its options leave to the machine is decided here, for the key and the worker alike. Returned is the artifact, a
    refusal or a failure, with the steps of its route; a toolchain's failure is not raised.
    """
    outcome, step = _find_or_build(adaptor, options, parent, setting, reference=reference)
    return outcome.model_copy(update={"steps": (*parent.steps, *step)})


def _find_or_build(
    adaptor: Adaptor, options: Options, parent: Artifact, setting: Setting, *, reference: Reference
) -> tuple[Outcome, tuple[StepFacts, ...]]:
    """Return the outcome, and the facts of the step; none of these where the adaptor could not be tried."""
    host = read_host()
    options = options.resolve(host)
    refusal = _refuse(adaptor, options, parent, host)
    route = list_route(parent, source=setting.source)
    if refusal is not None:
        logger.info("%s", say_step(refusal.kind, adaptor.name, route, outcome=refusal))
        return refusal, ()
    environment = EnvironmentStore().ensure(adaptor.toolchain)
    if isinstance(environment, Failed):
        failed = setting.run.name_log(environment.model_copy(update={"by": adaptor.name}))
        logger.info("%s", say_step(failed.kind, adaptor.name, route, outcome=failed))
        return failed, ()
    key, inputs = step_key(
        adaptor,
        parent,
        options,
        worker=digest_worker(adaptor.toolchain.worker),
        environment=environment.key,
        host=host,
        seed=setting.recipe.seed,
        shapes=setting.recipe.all_shapes,
        **_data_digests(adaptor, setting.samples, reference),
    )
    store = setting.store
    found = store.find(key)
    if found is not None:
        logger.info("%s", say_step("reused", adaptor.name, route, outcome=found.outcome))
        return found.outcome, (found.facts,)
    folder = setting.run.claim_step(adaptor.name)
    started = dt.datetime.now(dt.UTC)
    job = make_job(adaptor, options, parent, setting, reference=reference)
    outcome = _run(adaptor, options, parent, setting, job=job, python=Path(environment.python), folder=folder)
    facts = StepFacts(
        key=key,
        adaptor=adaptor.name,
        run=setting.run.run_id,
        folder=f"steps/{folder.name}",
        seconds=(dt.datetime.now(dt.UTC) - started).total_seconds(),
        outcome=outcome.kind,
    )
    setting.run.note("build", **facts.model_dump(mode="json", exclude={"run"}))
    word = {"artifact": "built"}.get(outcome.kind, outcome.kind)
    logger.info("%s", say_step(word, adaptor.name, route, seconds=facts.seconds, outcome=outcome))
    store.record(key, StepRecord(facts=facts, outcome=outcome, created=started.isoformat(), inputs=inputs))
    return outcome, (facts,)


def _refuse(adaptor: Adaptor, options: Options, parent: Artifact, host: Host) -> Refused | None:
    missing = adaptor.find_missing(host)
    if missing is not None:
        return Refused(by=adaptor.name, slug="host", reason=missing)
    if parent.format not in adaptor.accepts:
        takes = ", ".join(sorted(adaptor.accepts))
        return Refused(by=adaptor.name, slug="format", reason=f"takes {takes}, and the model is {parent.format}")
    text = [spec.name for spec in (*parent.inputs, *parent.outputs) if spec.dtype == "str"]
    if text and not adaptor.toolchain.takes_text:
        reason = f"{adaptor.toolchain.name} takes no text, and {text[0]!r} is text"
        return Refused(by=adaptor.name, slug="text", reason=reason)
    refusal = adaptor.can_take(parent, options, host)
    return refusal and refusal.model_copy(update={"by": adaptor.name})


def _data_digests(adaptor: Adaptor, samples: Samples, reference: Reference) -> dict[str, str]:
    digests = {}
    if Need.CALIBRATION_DATA in adaptor.needs:
        digests["calibration"] = digest_json([samples.digest, CALIBRATION])
    if Need.PROGRAM in adaptor.needs:
        digests["program"] = digest_json([samples.digest, SEARCH, reference.digest])
    return digests


def identify_environment(toolchain: Toolchain) -> str:
    """Return the key of the environment that a toolchain's workers would run in, or why there is none."""
    environment = EnvironmentStore().ensure(toolchain)
    return environment.reason if isinstance(environment, Failed) else environment.key


def _run(
    adaptor: Adaptor, options: Options, parent: Artifact, setting: Setting, *, job: Job, python: Path, folder: Path
) -> Outcome:
    with setting.store.workspace() as scratch:
        job = job.model_copy(update={name: str(scratch / name) for name in ("output", "temporary")})
        toolchain = adaptor.toolchain
        result = call_worker(job, python=python, toolchain=toolchain, folder=folder, limits=toolchain.limits)
        if not isinstance(result, StepResult):
            return setting.run.name_log(result) if isinstance(result, Failed) else result
        output = verify_output(job, result, toolchain=toolchain)
        if isinstance(output, Failed):
            return output
        return _seal(adaptor, options, parent, setting.store, output=output, described=result.described or {})


def make_job(adaptor: Adaptor, options: Options, parent: Artifact, setting: Setting, *, reference: Reference) -> Job:
    """Return the job of an adaptor, without the folders that only exist while it runs."""
    recipe, samples = setting.recipe, setting.samples
    program: dict[str, Json] | None = None
    calibration = setting.locate(samples.splits[CALIBRATION].feeds) if Need.CALIBRATION_DATA in adaptor.needs else None
    if Need.PROGRAM in adaptor.needs:
        split = samples.splits[SEARCH]
        program = {
            "path": str(setting.program),
            "library": str(LIBRARY),
            "options": dict(recipe.program.options),
            "feeds": str(setting.locate(split.feeds)),
            "targets": str(setting.locate(split.targets)),
            "source": str(setting.store.locate_tree(reference.digest) / reference.outputs),
            "outputs": [spec.name for spec in parent.outputs],
        }
    return Job(
        function="transform",
        worker=str(adaptor.toolchain.worker),
        adaptor=adaptor.name,
        stage=adaptor.stage,
        input=JobInput.of(parent, setting.store.locate(parent)),
        produces=adaptor.produces,
        options=options.model_dump(mode="json"),
        calibration=str(calibration) if calibration else None,
        program=program,
        shapes=recipe.all_shapes,
        seed=recipe.seed,
        threads=recipe.thread_count,
        trust=tuple(sorted(recipe.trust)),
    )


def _seal(
    adaptor: Adaptor,
    options: Options,
    parent: Artifact,
    store: Store,
    *,
    output: JobInput,
    described: Mapping[str, Json],
) -> Outcome:
    """Turn a worker's verified output into an artifact; refuse it when it is its parent again."""
    graph = described.get("graph")
    if adaptor.stage is Stage.COMPRESS and graph is not None and graph == parent.metadata.get("graph"):
        return Refused(by=adaptor.name, slug="nothing-to-do", reason="the graph and its weights are the same as before")
    compiled = adaptor.stage is Stage.COMPILE
    inherited = {name: value for name, value in parent.metadata.items() if name in INHERITED}
    if machine := list_machine_options(adaptor, options, read_host()):
        inherited["machine_options"] = {**inherited.get("machine_options", {}), adaptor.name: machine}
    return store.seal(
        Path(output.path),
        format=output.format,
        inputs=output.inputs,
        outputs=output.outputs,
        runtime=adaptor.toolchain.name if compiled else None,
        device=adaptor.device if compiled else parent.device,
        run_options=adaptor.run_options(options) if compiled else {},
        static_shapes=output.static_shapes,
        metadata={**inherited, **output.metadata, **({"graph": graph} if graph else {})},
    )
