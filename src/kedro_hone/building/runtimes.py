"""What the runtime of an artifact is, for the keys of what is measured on it."""

from __future__ import annotations

from kedro_hone.core.contract.catalogue import read_catalogue
from kedro_hone.core.environments.store import EnvironmentStore
from kedro_hone.core.machine.hardware import read_host
from kedro_hone.core.values.artifact import Artifact
from kedro_hone.core.values.outcome import Failed
from kedro_hone.core.workers.host.run import digest_worker


def identify_runtime(artifact: Artifact) -> list[str]:
    """Return what the outputs of an artifact depend on besides itself, for the keys of what is measured on it.

    That is the code of its runtime's worker, the environment (or why there is none), and the machine.
    """
    catalogue = read_catalogue()
    toolchain = catalogue.find_toolchain(str(artifact.runtime))
    used = map(digest_worker, catalogue.list_used(toolchain))
    environment = EnvironmentStore().ensure(toolchain)
    known = environment.reason if isinstance(environment, Failed) else environment.key
    return [digest_worker(toolchain.worker), known, read_host().fingerprint, *used]
