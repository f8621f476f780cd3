"""Write the evidence for the verdict: evidence.json, report.html, report.md and timings.npz."""

from __future__ import annotations

from kedro_hone.comparing.evidence import gather_evidence
from kedro_hone.comparing.setting import Setting
from kedro_hone.comparing.timings import write_timings
from kedro_hone.comparing.verdict import find_contradiction
from kedro_hone.core.contract.proof import EVIDENCE, TIMINGS, EvidenceFolder, explain_incomplete
from kedro_hone.core.contract.registry import VersionInfo
from kedro_hone.core.text import hide_secrets, open_logger
from kedro_hone.core.values.decision import Decision
from kedro_hone.core.values.measurement import ConfirmationResult, RaceResult
from kedro_hone.core.values.samples import Reference
from kedro_hone.report.evidence import Evidence, dump_evidence, parse_evidence
from kedro_hone.report.files import copy_evidence, keep_winner, point_latest, write_reports

logger = open_logger(__name__)


def report(
    *,
    setting: Setting,
    result: RaceResult,
    confirmation: ConfirmationResult,
    decision: Decision,
    version: VersionInfo,
    reference: Reference,
) -> tuple[Evidence, EvidenceFolder]:
    """Put the evidence and the reports of a run into the store, and copies for people into the run's folder.

    They are made from values only: no other run's files are read. Returned are the evidence, as it is in
    ``evidence.json``, and the digest of each file, which name the tree of the store.

    Raises:
        HoneError: ``evidence-incomplete``: the decision contradicts what was measured; or the raw timings of the
            race or of the confirmation are not in the store.
    """
    run, store, won = setting.run, setting.store, decision.artifact
    if fault := find_contradiction(decision, result, confirmation):
        hint = "Ask the gates again: `kedro run --pipelines compare --from-nodes gate`. Nothing is measured again."
        raise explain_incomplete(run.run_id, f"The decision is not what was measured. {fault}", hint=hint)
    with store.workspace() as stage:
        write_timings(stage / TIMINGS, {"race": result.timings, "confirm": confirmation.timings}, store)
        evidence = gather_evidence(
            setting=setting,
            version=version,
            reference=reference,
            race=result,
            confirmation=confirmation,
            decision=decision,
            winner=keep_winner(won, store.locate(won), run.folder) if won else None,
        )
        text = hide_secrets(dump_evidence(evidence), variables={})  # whose values may be words that evidence needs
        evidence = parse_evidence(text)
        (stage / EVIDENCE).write_text(text, encoding="utf-8")
        write_reports(evidence, stage)
        sealed = EvidenceFolder.read(run.run_id, stage, decision=decision.identity)
        files = store.keep_tree(sealed.digest, stage)
    copy_evidence(files, run.folder)
    point_latest(run.root.parent, run.folder)
    logger.info("report    %s", run.folder / "report.html")
    return evidence, sealed
