"""Write the winner in the forms that are published with it, before the evidence, which contains their digests."""

from __future__ import annotations

from hone_runtime.contract.proof import GOLDEN
from hone_runtime.contract.registry import VersionInfo
from hone_runtime.contract.target import find_name, find_target
from hone_runtime.text import open_logger
from hone_runtime.values.decision import Decision, Verdict
from hone_runtime.values.forms import IMAGE, WinnerForms
from kedro_hone.search.context import RunContext
from kedro_hone.serving.forms import find_place, place_winner, write_forms

logger = open_logger(__name__)


def export(*, context: RunContext, decision: Decision, version: VersionInfo) -> WinnerForms:
    """Return the forms of a winner that the recipe requires, with their digests; the folders are in the store.

    Without a winner there are none. A form that does not fit the winner is listed with the reason.

    Raises:
        HoneError: As in ``kedro_hone.serving.forms.write_forms``. The decision is stored: `--from-nodes gate.export`
            continues after it.
    """
    recipe, store, artifact = context.recipe, context.store, decision.artifact
    if decision.verdict is not Verdict.PASS or artifact is None or not recipe.publish.enabled:
        return WinnerForms()
    place = recipe.publish
    target = find_target(version.uri, uri=place.uri, name=place.name, project=context.run.project)
    golden = store.locate_tree(decision.golden) / GOLDEN if decision.golden else None
    with (
        store.workspace() as scratch,
        place_winner(artifact, store.locate(artifact), golden, name=find_name(target, version.uri)) as winner,
    ):
        made = write_forms(winner, place.export, scratch, image=find_place(place.image, context.run.project))
        for one in made:
            if one.digest and one.form != IMAGE:
                store.store_tree(one.digest, scratch / one.form)
            logger.info("exported  %s: %s", one.form, one.digest or f"not, since {one.reason}")
    return WinnerForms(forms=made)
