"""An adaptor's decisions before it is run, by functions that may be untrusted."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from hone_runtime.contract.adaptor import Adaptor, Options
from hone_runtime.contract.host import Host
from hone_runtime.contract.plugins import check_kind, describe_exception
from hone_runtime.values.artifact import Artifact, Stage
from hone_runtime.values.base import Json
from hone_runtime.values.outcome import Failed, FailureClass, Outcome, Refused
from kedro_hone.core.store.steps import list_machine_options


@dataclass(frozen=True, kw_only=True)
class Decided:
    """An adaptor's decisions before it is run: its options, those of its runtime, and those set by the machine."""

    options: Options
    run_options: dict[str, Json]
    machine_options: dict[str, Json]


def decide(adaptor: Adaptor, options: Options, parent: Artifact, host: Host) -> Decided | Refused | Failed:
    """Call an adaptor's own functions in the run's process: their exceptions or invalid results are its failure.

    They are code of other packages or of the user's project. A call such as ``sys.exit(0)`` in them would end the run
    without a verdict, so it is caught too; only an interruption by a person ends the run.
    """
    called, run_options = "Options.resolve", {}
    try:
        resolved = check_kind(options.resolve(host), type(options))
        resolved.model_dump(mode="json")  # they are part of the key and passed to the worker
        called = "can_take"
        if (refusal := adaptor.can_take(parent, resolved, host)) is not None:
            return check_kind(refusal, Refused).model_copy(update={"by": adaptor.name})
        called = "run_options"
        if adaptor.stage is Stage.COMPILE:
            run_options = json.loads(json.dumps(check_kind(adaptor.run_options(resolved), dict), allow_nan=False))
        called = "Options.resolve"
        machine_options = list_machine_options(adaptor, resolved, host)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - it is reported, not lost
        fault: str | None = f"{called} failed: {describe_exception(error)}"
    else:
        fault = adaptor.toolchain.find_bad_option(run_options)
    if fault:
        return Failed(by=adaptor.name, failure=FailureClass(adaptor.stage.value), reason=fault)
    return Decided(options=resolved, run_options=run_options, machine_options=machine_options)


def spare_shapes(outcome: Outcome, decided: Decided) -> Decided | None:
    """Return options without the graphs for single shapes, if a step that tries these crashed; otherwise None.

    A compiler may crash on a graph for one shape but work on the graph for any shape, which suffices for a candidate.
    """
    crashed = isinstance(outcome, Failed) and outcome.failure is FailureClass.CRASH
    if not crashed or getattr(decided.options, "fixed_shapes", None) is not True:
        return None
    return replace(decided, options=decided.options.model_copy(update={"fixed_shapes": False}))
