"""Publish the winner as a new version of the registry that the source came from."""

from __future__ import annotations

import json
import logging
import os
from typing import Any

from kedro_hone.core.contract import Publication, VersionInfo
from kedro_hone.core.measurement import Decision, Verdict
from kedro_hone.core.registry import find_registry
from kedro_hone.core.types import Artifact
from kedro_hone.core.workplace import Workplace
from kedro_hone.nodes.report import write_reports
from kedro_hone.recipe import read_recipe
from kedro_hone.report.evidence import Evidence

logger = logging.getLogger(__name__)

PUBLISHED_FILES = ("evidence.json", "report.html", "report.md", "samples.npz")


def publish(
    *,
    decision: Decision,
    evidence: Evidence,
    version: VersionInfo,
    source: Artifact,
    parameters: dict[str, Any],
    workplace: Workplace,
) -> tuple[Publication, ...]:
    """Write the winner as a new version; where there is none, leave the registry as it is.

    Args:
        decision: The verdict.
        evidence: What proves it; complete before anything is published.
        version: The source's version.
        source: The source model.
        parameters: The recipe.
        workplace: Where the run works.

    Returns:
        Where the winner went: one publication, or none.

    Raises:
        HoneError: ``registry-unreachable``.
    """
    recipe = read_recipe(parameters)
    if decision.verdict is not Verdict.PASS or decision.artifact is None or not recipe.publish.enabled:
        return ()
    with workplace.store.workspace() as folder:
        for name in PUBLISHED_FILES:
            original = workplace.folder / name
            if original.exists():
                os.link(original, folder / name)
        publication = find_registry(version.uri).publish(
            decision.artifact,
            name=recipe.publish.name or version.name,
            evidence=folder,
            tags=make_tags(decision, evidence, version, source),
            alias=recipe.publish.alias,
            metrics=find_metrics(decision),
        )
    path = workplace.folder / "publication.json"
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(publication.model_dump(mode="json"), indent=2) + "\n")
    temporary.replace(path)
    workplace.note("publication", uri=publication.uri)
    write_reports(evidence, workplace.folder, publication)
    logger.info("published %s", publication.uri)
    return (publication,)


def make_tags(decision: Decision, evidence: Evidence, version: VersionInfo, source: Artifact) -> dict[str, str]:
    """Return the tags of the new version: where it comes from, and how much faster it is."""
    tags = {
        "hone.source": version.uri,
        "hone.source_digest": source.digest,
        "hone.recipe": str(evidence.recipe["digest"]),
        "hone.verdict": decision.verdict.value,
        "hone.run": evidence.run_id,
    }
    if decision.speedup:
        tags["hone.speedup"] = f"{decision.speedup.ratio.estimate:.3f}"
    return tags | {f"hone.data.{row.split}": row.md5 for row in evidence.data}


def find_metrics(decision: Decision) -> dict[str, float]:
    """Return the numbers of the winner that a registry shows beside a model."""
    metrics = {quality.metric: quality.candidate for name, quality in decision.quality if name == decision.winner}
    if decision.speedup:
        ratio = decision.speedup.ratio
        metrics |= {"speedup": ratio.estimate, "speedup_low": ratio.low, "speedup_high": ratio.high}
    return metrics
