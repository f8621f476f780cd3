"""The part of a step's job with which its worker measures outputs: the program, its metrics, and the search split."""

from __future__ import annotations

from hone_runtime.contract.adaptor import Adaptor, Need
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.base import Json
from hone_runtime.values.digest import digest_json
from hone_runtime.values.samples import SEARCH, Reference
from kedro_hone.programs import LIBRARY, locate_metric
from kedro_hone.search.context import RunContext


def describe_program(
    adaptor: Adaptor, parent: Artifact, context: RunContext, reference: Reference
) -> dict[str, Json] | None:
    """Return the ``program`` of a job, see ``hone_runtime.contract.job.Job``; None for an adaptor that needs none.

    Raises:
        HoneError: ``metric-unknown``: the file of a metric does not exist.
    """
    if Need.PROGRAM not in adaptor.needs:
        return None
    search, tree = context.samples.splits[SEARCH], context.store.locate_tree(reference.digest)
    limits = _find_limits(adaptor, context)
    metric, project = context.recipe.program.metric, context.run.project
    named = {name: locate_metric(name, project=project) for name in (metric, *limits)}
    return {
        "path": str(context.program),
        "library": str(LIBRARY),
        "options": dict(context.recipe.program.options),
        "metric": named[metric][0],
        "drops": {name: {"metric": named[name][0], "limit": limit} for name, limit in limits.items()},
        "files": sorted({file for _, file in named.values() if file}),
        "feeds": str(context.locate(search.feeds)),
        "targets": str(context.locate(search.targets)),
        "source": str(tree / reference.outputs),
        "outputs": [spec.name for spec in parent.outputs],
        **({"teacher": str(tree / reference.training)} if Need.TRAINING_DATA in adaptor.needs else {}),
    }


def digest_program(adaptor: Adaptor, context: RunContext, reference: Reference) -> str | None:
    """Return the digest of what affects a step that measures outputs; None for an adaptor that needs no program.

    That of the reference includes the program, the metrics and their files.
    """
    if Need.PROGRAM not in adaptor.needs:
        return None
    limits = sorted(_find_limits(adaptor, context).items())
    return digest_json([context.samples.digest, SEARCH, reference.digest, *limits])


def _find_limits(adaptor: Adaptor, context: RunContext) -> dict[str, float]:
    """Return the limits of the recipe's other metrics; none if the adaptor has no use for limits."""
    return dict(context.recipe.gates.drops) if Need.DROP_LIMIT in adaptor.needs else {}
