"""Check the evidence of a published version, without opening its model."""

from __future__ import annotations

import json
from pathlib import Path, PurePath
from typing import Any

from hone_runtime.contract.proof import EVIDENCE, EVIDENCE_FOLDER, EvidenceFolder, ProvenWinner
from hone_runtime.contract.registry import Registry, VersionInfo
from hone_runtime.contract.tags import DIGEST, FILES, KEY, SOURCE, derive_key
from hone_runtime.errors import HoneError
from hone_runtime.learner.download import find_artifact, is_uri
from hone_runtime.learner.manifest import list_digests
from hone_runtime.learner.versions import check_version_files
from hone_runtime.signing.policy import Policy
from hone_runtime.signing.verify import find_model_name, verify_version
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.forms import FORMS_FOLDER
from hone_runtime.values.manifest import measure_files
from hone_runtime.values.regular import read_regular


def check_published(
    uri: str, folder: Path, registry: Registry, policy: Policy | None = None
) -> tuple[VersionInfo, str]:
    """Download a published version, and check its files, its signature and its evidence; the model is not opened.

    Args:
        uri: The version, or a folder with a downloaded version.
        folder: The target folder of the download; absent, or empty.
        registry: The version's registry.
        policy: The required signer; None if no signature is required.

    Returns:
        The registry's description of the version, and the claim that its evidence proves, in a few words.

    Raises:
        HoneError: ``evidence-incomplete``, ``model-corrupt``, ``model-unsupported``, ``signature-invalid``, and those
            of the registry.
    """
    version = registry.pull(uri, folder)
    tagged = bool(version.tags) or is_uri(uri)  # a downloaded folder is not a registry's version
    read = verify_version(folder, policy, name=version.name if tagged else find_model_name(Path(uri))) if policy else {}
    artifact, files = find_artifact(folder, uri, due=version.tags.get(DIGEST), read=read)
    proven = check_evidence(folder / EVIDENCE_FOLDER, artifact, files, version)
    check_version_files(folder, due=version.tags.get(FILES), read={**list_digests(files), **read})
    return version, proven


def check_evidence(folder: Path, artifact: Artifact, files: Path, version: VersionInfo) -> str:
    """Check that the evidence is complete, is for this artifact, and matches the registry's tags.

    Args:
        folder: The evidence of a downloaded version.
        artifact: The artifact in the version's manifest.
        files: The artifact's files.
        version: The registry's description of the version.

    Returns:
        The claim that the evidence proves, in a few words.

    Raises:
        HoneError: ``evidence-incomplete``.
    """
    try:
        measure_files(folder)  # raises if the folder contains anything but files
        claim: Any = json.loads(read_regular(folder / EVIDENCE))
        tags, source = version.tags, claim["source"]
        winner = ProvenWinner(
            artifact=artifact,
            files=files,
            source_uri=tags.get(SOURCE, source["uri"]),
            source_digest=tags.get("hone.source_digest", source["digest"]),
            evidence=EvidenceFolder.read(tags.get("hone.run", str(claim["run_id"])), folder, decision=""),
            folder=folder,
            forms={path.name: path for path in (folder.parent / FORMS_FOLDER).glob("*") if path.is_dir()},
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise _explain(version.uri, f"It cannot be read: {error!r}.") from error
    except HoneError as error:
        raise _explain(version.uri, error.why) from error
    if KEY not in tags:
        return "complete, and proves the artifact"
    names = (version.name, PurePath(version.name).name)
    if tags[KEY] not in (derive_key(winner, name=name, tags=tags) for name in names):
        raise _explain(version.uri, f"Its files, or the tags, are not those that {KEY} was made from.")
    return f"complete, proves the artifact, and is what {KEY} was made from"


def _explain(uri: str, why: str) -> HoneError:
    hint = "Do not use this version: publish the winner again from the run that made it."
    return HoneError("evidence-incomplete", f"The evidence in {uri} does not prove it.", why=why, hint=hint)
