"""Identifies the code of a toolchain's worker and the runtime of an artifact, for the keys of their results."""

from __future__ import annotations

from hone_runtime.contract.catalogue import find_used, read_catalogue
from hone_runtime.contract.hardware import read_host
from hone_runtime.contract.toolchain import Toolchain
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.digest import digest_json
from hone_runtime.values.outcome import Failed
from kedro_hone.core.workers.host.run import digest_worker
from kedro_hone.recipe.environments import find_environment
from kedro_hone.recipe.schema import Recipe


def digest_workers(toolchain: Toolchain) -> str:
    """Return the digest of all code of kedro-hone that runs in a toolchain's worker.

    Raises:
        HoneError: As ``find_used``.
    """
    own, used = digest_worker(toolchain.worker), [*map(digest_worker, find_used(toolchain))]
    return digest_json([own, *used]) if used else own


def identify_runtime(artifact: Artifact, recipe: Recipe) -> list[str]:
    """Return everything besides an artifact on which its outputs depend, for the keys of its measurements.

    These are the code of its runtime's worker, the environment (or why there is none), and the machine.
    """
    toolchain = read_catalogue().find_toolchain(str(artifact.runtime))
    used = [*map(digest_worker, find_used(toolchain))]
    environment = find_environment(recipe, toolchain)
    known = environment.reason if isinstance(environment, Failed) else environment.key
    return [digest_worker(toolchain.worker), known, read_host().fingerprint, *used]
