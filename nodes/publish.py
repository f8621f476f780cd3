"""Publish the winner: to the source's registry, or to another one named in the recipe."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from hone_runtime.contract.aliases import PULL, read_aliases
from hone_runtime.contract.proof import EVIDENCE, GOLDEN, EvidenceFolder, ProvenWinner, explain_incomplete
from hone_runtime.contract.registry import Publication, Registry, VersionInfo
from hone_runtime.contract.tags import AWAITS, HELD, MACHINE, SIGNER, TOOLSET, make_tags
from hone_runtime.contract.target import find_name, find_target
from hone_runtime.signing.sign import find_signer
from hone_runtime.text import open_logger
from hone_runtime.values.decision import Decision, Verdict
from hone_runtime.values.forms import IMAGE
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.recipe.publish import PublishSection
from kedro_hone.report.evidence import Evidence, parse_evidence
from kedro_hone.report.files import copy_evidence, store_winner, write_publication
from kedro_hone.report.rendering import describe_winner, list_readable_tags
from kedro_hone.report.result_file import note_result
from kedro_hone.report.snippets import complete_command
from kedro_hone.search.context import RunContext
from kedro_hone.search.gates.load import QUIET, find_load, format_wait
from kedro_hone.search.plan.toolset import format_machine_tag, format_toolset
from kedro_hone.search.verdict.anomaly import find_anomaly
from kedro_hone.serving.forms import ImagePlace, find_place, pack, place_winner, push
from kedro_hone.serving.image.packing import Packed
from kedro_hone.serving.image.references import read_target
from kedro_hone.serving.tagging import follow_alias

TRANSFORMERS: Final = "transformers"
"""The format of a source with a tokenizer or processor that is published with the winner."""

logger = open_logger(__name__)


def publish(
    *, context: RunContext, decision: Decision, evidence_folder: EvidenceFolder, version: VersionInfo
) -> tuple[Publication, ...]:
    """Write the winner as a new version, and return its publications; without a winner, do not change the registry.

    All information about the winner is from the evidence, which is only read from the store. It may be of an earlier
    run, also on another machine. The record of the publication is written to the folder of that run, which is made
    again if it is missing.

    A winner that was measured on a busy machine waits: it becomes a version without the alias. If the registry has no
    such versions, as on a branch of the Hub, it is not written. The next quiet run publishes its own winner.

    Raises:
        HoneError: ``evidence-incomplete``: the evidence is missing, was altered, or proves something else; nothing was
            registered. ``registry-unreachable``; ``signing-unusable``.
    """
    recipe = context.recipe
    proven = decision.verdict is Verdict.PASS and decision.artifact is not None and not context.samples.drawn
    if not proven or not recipe.publish.enabled:
        return ()
    run = context.run.model_copy(update={"run_id": evidence_folder.run_id})
    winner = prove_winner(context, decision, evidence_folder, version=version)
    evidence = parse_evidence((winner.folder / EVIDENCE).read_bytes())
    place, signer = recipe.publish, find_signer()
    target = find_target(version.uri, uri=place.uri, name=place.name, project=run.project)
    registry, name = target.registry, find_name(target, version.uri)
    if anomaly := find_withheld(decision, evidence, place):
        logger.warning("warning   nothing is published: %s", complete_command(anomaly, run.project))
        return ()
    winner = replace(winner, description=describe_winner(evidence))
    waits = find_wait(decision, evidence)
    if waits and (place.pull_request or not registry.keeps_versions_apart):
        logger.warning("warning   nothing is published: %s", complete_command(waits, run.project))
        return ()
    awaits = "" if waits else find_approval(recipe.publish, registry, name)
    pulled = {"before": version.pointers[name]} if name in version.pointers else {}
    write = registry.propose if place.pull_request else registry.publish
    packed = pack_image_of(winner, evidence, context, name=name)
    if packed is not None:
        push(*packed)
    publication = write(
        winner,
        name=name,
        tags={
            **_list_tags(winner, evidence),
            **({SIGNER: signer.name} if signer else {}),
            **({PULL: version.pulled} if version.pulled else {}),
            **({AWAITS: awaits} if awaits else {}),
            **({HELD: place.alias} if waits else {}),
            TOOLSET: format_toolset(recipe),
            MACHINE: format_machine_tag(evidence.hardware),
        },
        alias=None if awaits or waits else place.alias,
        metrics=find_metrics(evidence),
        **pulled,
    )
    changes = {"uri": run.relate(publication.uri), "signer": signer.name if signer else "", "awaits": awaits}
    if waits:
        changes |= {"note": f"It has no alias: {waits}."}
    if awaits:
        command = f"kedro-hone approve {changes['uri']}"
        note = f"It waits for approval: `{command}` moves the alias {awaits!r} to it."
        changes |= {"note": publication.note or note}
    with suppress(OSError):  # it is in the registry: a full disk must not undo that, and is reported below
        note_result(published=changes["uri"], awaits=awaits)  # at once, for a new run after a kill
    publication = publication.model_copy(update=changes)
    _note(publication, winner, evidence, run)
    if packed is not None and publication.alias:  # as the alias, the tag is of approved winners only
        image, destination = packed
        digest = image.manifest.descriptor.digest
        follow_alias(registry, name, publication, image=digest, push=destination.push)
    return (publication,)


def prove_winner(
    context: RunContext, decision: Decision, evidence_folder: EvidenceFolder, *, version: VersionInfo
) -> ProvenWinner:
    """Return the winner of a decision with its evidence, from the store.

    Raises:
        HoneError: ``evidence-incomplete``: the evidence is missing, was altered, or proves something else.
    """
    store, run_id, artifact = context.store, evidence_folder.run_id, decision.artifact
    if artifact is None or evidence_folder.decision != decision.identity:
        raise explain_incomplete(run_id, "The gates were run again after it was written.")
    files = store.find_tree(evidence_folder.digest)
    if files is None:
        raise explain_incomplete(run_id, f"The store in {store.root} does not contain it, or contains a damaged copy.")
    return ProvenWinner(
        artifact=artifact,
        files=store.locate(artifact),
        source_uri=version.uri,
        source_digest=context.source.digest,
        evidence=evidence_folder,
        folder=files,
        companions=store.locate(context.source) if context.source.format == TRANSFORMERS else None,
        forms=_locate_forms(files / EVIDENCE, context),
    )


def _locate_forms(evidence: Path, context: RunContext) -> dict[str, Path]:
    """Return the folders of the winner's other forms in the store, which the evidence lists by their digests.

    Raises:
        HoneError: ``evidence-incomplete``: the recipe requires other forms now. ``store-missing``.
    """
    listed, place = parse_evidence(evidence.read_bytes()), context.recipe.publish
    if {one.form for one in listed.forms} != {*place.export}:
        why = f"publish.export is [{', '.join(place.export)}] now, and was another one when it was written."
        hint = "Write them: `kedro-hone run --pipelines compare --from-nodes gate.export`, then publish."
        raise explain_incomplete(listed.run_id, why, hint=hint)
    folders = (one for one in listed.forms if one.digest and one.form != IMAGE)
    return {one.form: context.store.locate_tree(one.digest) for one in folders}


def pack_image_of(
    winner: ProvenWinner, evidence: Evidence, context: RunContext, *, name: str
) -> tuple[Packed, ImagePlace] | None:
    """Return the image of a winner and where it is pushed; None if the recipe requires none.

    Raises:
        HoneError: ``evidence-incomplete``: it has another place or digest than in the evidence, since the recipe, its
            base or kedro-hone changed; or as in ``pack``.
    """
    recorded = next((one for one in evidence.forms if one.form == IMAGE), None)
    place = find_place(context.recipe.publish.image, context.run.project)
    if recorded is None or place is None:
        return None
    hint = "Write it again: `kedro-hone run --pipelines compare --from-nodes gate.export`, then publish."
    if recorded.place != (target := read_target(place.push).place):  # an approval would not find it
        why = f"The evidence lists an image for {recorded.place}, and publish.image.push is in {target} now."
        raise explain_incomplete(evidence.run_id, why, hint=hint)
    golden = winner.folder / GOLDEN
    proof = (winner.folder / EVIDENCE).read_bytes()
    with place_winner(winner.artifact, winner.files, golden if golden.is_file() else None, name=name) as served:
        packed = pack(served, place, evidence=proof)
    if packed.manifest.descriptor.digest != recorded.digest:
        why = f"The image is {packed.manifest.descriptor.digest} now: its base, or kedro-hone, has changed."
        raise explain_incomplete(evidence.run_id, why, hint=hint)
    return packed, place


def _list_tags(winner: ProvenWinner, evidence: Evidence) -> dict[str, str]:
    """Return the tags of a version, from its evidence."""
    tags = make_tags(
        winner,
        recipe=str(evidence.recipe["digest"]),
        speedup=evidence.speedup.ratio.estimate if evidence.speedup else None,
        data={row.name: row.pin for row in evidence.data},
    )
    return {**tags, **list_readable_tags(evidence)}


def _note(publication: Publication, winner: ProvenWinner, evidence: Evidence, run: RunFolder) -> None:
    """Write the publication to the run's folder and to the log."""
    copy_evidence(winner.folder, run.folder)
    store_winner(winner.artifact, winner.files, run.folder)
    write_publication(publication, evidence, run.folder)
    run.note("publication", uri=publication.uri)
    logger.info("published %s", publication.uri)
    if publication.note:
        logger.warning("warning   %s", complete_command(publication.note, run.project))


def find_wait(decision: Decision, evidence: Evidence) -> str:
    """Return why the alias is not moved if the machine was busy while the winner was confirmed; otherwise empty.

    The recipe's limit only determines when a verdict is reached. Both the evidence and the decision are checked.
    """
    rows = [row for row in decision.gates if row.candidate == decision.winner]
    shares = (find_load(rows), evidence.confirmation.other_load)
    noise = max((share for share in shares if share is not None), default=0.0)
    return format_wait(noise) if noise > QUIET else ""


def find_withheld(decision: Decision, evidence: Evidence, place: PublishSection) -> str:
    """Return why a winner is withheld that is anomalous by its evidence or by the decision; otherwise empty.

    The recipe may have changed since the verdict: what was allowed then must be allowed now.
    """
    if decision.artifact is None or "anomalous" in place.allow:
        return ""
    trained = decision.artifact.is_trained
    rows = (row for row in (*decision.quality, *evidence.quality) if row.id == decision.winner)
    found = next(filter(None, (find_anomaly(row, trained=trained) for row in rows)), "")
    return f"{decision.winner} is {found}; allow it by `hone.publish.allow: [anomalous]`" if found else ""


def find_approval(place: PublishSection, registry: Registry, name: str) -> str:
    """Return the alias that a person's approval is to move; empty if it is moved at once.

    A pull request already is an approval.
    """
    known = place.approval == "first" and place.alias in read_aliases(registry, name).get(name, {})
    return "" if place.approval == "never" or place.pull_request or known else place.alias


def find_metrics(evidence: Evidence) -> dict[str, float]:
    """Return the winner's numbers that a registry displays with a model."""
    found = (quality for own in evidence.subject_quality for quality in (own, *own.others))
    metrics = {quality.metric: quality.candidate for quality in found}
    if evidence.speedup:
        ratio = evidence.speedup.ratio
        metrics |= {"speedup": ratio.estimate, "speedup_low": ratio.low, "speedup_high": ratio.high}
    return metrics
