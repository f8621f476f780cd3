"""Write the evidence for the verdict: evidence.json, report.html, report.md and timings.npz."""

from __future__ import annotations

from kedro_hone.comparing.evidence import gather_evidence
from kedro_hone.comparing.setting import Setting
from kedro_hone.comparing.timings import write_timings
from kedro_hone.core.contract.proof import EVIDENCE, TIMINGS, EvidenceFolder
from kedro_hone.core.contract.registry import VersionInfo
from kedro_hone.core.text import open_logger
from kedro_hone.core.values.decision import Decision
from kedro_hone.core.values.measurement import Confirmation, RaceResult
from kedro_hone.core.values.samples import Reference
from kedro_hone.report.evidence import Evidence, dump_evidence
from kedro_hone.report.files import keep_winner, point_latest, write_reports, write_text

logger = open_logger(__name__)


def report(
    *,
    setting: Setting,
    result: RaceResult,
    confirmation: Confirmation,
    decision: Decision,
    version: VersionInfo,
    reference: Reference,
) -> tuple[Evidence, EvidenceFolder]:
    """Write the evidence and the reports of a run, from values only: no other run's files are read.

    Returns:
        The evidence, as it is in ``evidence.json``; and where that is, with the digest of each file.

    Raises:
        HoneError: ``evidence-incomplete``: the raw timings of the race or of the confirmation are not in the store.
    """
    run, store, won = setting.run, setting.store, decision.artifact
    folder = run.folder
    folder.mkdir(parents=True, exist_ok=True)
    write_timings(folder / TIMINGS, {"race": result.timings, "confirm": confirmation.timings}, store)
    evidence = gather_evidence(
        setting=setting,
        version=version,
        reference=reference,
        race=result,
        confirmation=confirmation,
        decision=decision,
        winner=keep_winner(won, store.locate(won), folder) if won else None,
    )
    write_text(folder / EVIDENCE, dump_evidence(evidence))
    write_reports(evidence, folder)
    point_latest(run.root.parent, folder)
    logger.info("report    %s", folder / "report.html")
    return evidence, EvidenceFolder.read(run.run_id, folder, decision=decision.digest)
