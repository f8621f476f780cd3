"""Ask an adaptor's own functions, in the process of the run: what they raise, or return wrongly, is its failure.

They are code of other packages or of the user's project. A program that ends here, by ``sys.exit(0)`` above all, would
end the run without a verdict; only the interruption of a person does.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from kedro_hone.core.contract.adaptor import Adaptor, Options
from kedro_hone.core.contract.host import Host
from kedro_hone.core.plugins import check_kind, describe_exception
from kedro_hone.core.store.steps import list_machine_options
from kedro_hone.core.values.artifact import Artifact, Stage
from kedro_hone.core.values.base import Json
from kedro_hone.core.values.outcome import Failed, FailureClass, Refused

_Found = TypeVar("_Found")


@dataclass(frozen=True, kw_only=True)
class Decided:
    """What an adaptor decides of its result before it is built: options for its runtime, and what the machine gave."""

    run_options: dict[str, Json]
    machine_options: dict[str, Json]


def resolve_options(adaptor: Adaptor, options: Options, host: Host) -> Options | Failed:
    """Return the options with everything decided that is left to the machine."""

    def resolve() -> Options:
        resolved = check_kind(options.resolve(host), type(options))
        resolved.model_dump(mode="json")  # they go into the key and to the worker
        return resolved

    return _ask(adaptor, "Options.resolve", resolve)


def find_refusal(adaptor: Adaptor, artifact: Artifact, options: Options, host: Host) -> Refused | Failed | None:
    """Return why an adaptor does not take an artifact, by its name; None where it does."""

    def ask() -> Refused | None:
        refusal = adaptor.can_take(artifact, options, host)
        return None if refusal is None else check_kind(refusal, Refused).model_copy(update={"by": adaptor.name})

    return _ask(adaptor, "can_take", ask)


def decide(adaptor: Adaptor, options: Options, host: Host) -> Decided | Failed:
    """Return what an adaptor decides of its result, from its resolved options."""

    def read() -> dict[str, Json]:
        found: dict[str, Json] = check_kind(adaptor.run_options(options), dict)
        read: dict[str, Json] = json.loads(json.dumps(found, allow_nan=False))
        if fault := adaptor.toolchain.find_bad_option(read):
            raise ValueError(fault)
        return read

    run_options = _ask(adaptor, "run_options", read) if adaptor.stage is Stage.COMPILE else {}
    if isinstance(run_options, Failed):
        return run_options
    machine = _ask(adaptor, "Options.resolve", lambda: list_machine_options(adaptor, options, host))
    return machine if isinstance(machine, Failed) else Decided(run_options=run_options, machine_options=machine)


def _ask(adaptor: Adaptor, what: str, call: Callable[[], _Found]) -> _Found | Failed:
    try:
        return call()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - it is told in the report, not lost
        reason = f"{what} failed: {describe_exception(error)}"
        return Failed(by=adaptor.name, failure=FailureClass(adaptor.stage.value), reason=reason)
