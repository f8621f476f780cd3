"""Whether a candidate may be published: what the licences of the toolchains that made it allow today."""

from __future__ import annotations

from kedro_hone.core.contract.catalogue import read_catalogue
from kedro_hone.core.contract.toolchain import Licence, Toolchain
from kedro_hone.core.values.artifact import Artifact
from kedro_hone.core.values.outcome import Candidate


def find_restricted(candidate: Candidate) -> Toolchain | None:
    """Return the first toolchain of a candidate's route, or its runtime, whose licence is for evaluation only.

    The catalogue is asked each time: a licence is no part of what the store keeps.

    Raises:
        HoneError: ``toolchain-unknown``: one of them is not installed any more.
    """
    names = [adaptor.partition(".")[0] for adaptor in candidate.route]
    if isinstance(candidate.outcome, Artifact) and candidate.outcome.runtime is not None:
        names.append(candidate.outcome.runtime)
    catalogue = read_catalogue()
    toolchains = (catalogue.find_toolchain(name) for name in dict.fromkeys(names))
    return next((toolchain for toolchain in toolchains if toolchain.licence is Licence.EVALUATION), None)
