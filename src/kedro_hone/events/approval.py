"""Approve a winner: its evidence is checked before the alias moves, because anyone with write access can set tags."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any

from hone_runtime.contract.aliases import approve, find_awaited
from hone_runtime.contract.proof import EVIDENCE, EVIDENCE_FOLDER
from hone_runtime.contract.registries import find_registry
from hone_runtime.contract.registry import Publication
from hone_runtime.learner.evidence import check_published
from hone_runtime.signing.policy import Policy, explain_unusable
from hone_runtime.signing.sign import find_signer
from hone_runtime.values.forms import IMAGE
from hone_runtime.values.regular import read_regular
from kedro_hone.serving.forms import tag
from kedro_hone.serving.image.references import read_target


def approve_winner(uri: str, *, project: Path, alias: str = "", push: str = "") -> Publication:
    """Move the alias to a winner that waits for it, and the tag of its image, if files and evidence prove it.

    If this machine signs what it publishes, the version must be signed by the same key.

    Args:
        uri: The winner.
        project: The root of the Kedro project.
        alias: The approved alias; empty for the one that the winner waits for.
        push: Where this project's recipe pushes the image of a winner. Its tag is written only there, whatever the
            evidence names; empty if no tag is written.

    Raises:
        HoneError: As ``approve``; ``approval-outdated``: it waits for another alias now; ``signing-unusable``: this
            machine signs with Sigstore; ``evidence-incomplete``, ``artifact-corrupt`` or ``signature-invalid``;
            ``image-push-failed``: the alias was moved, and the tag of the image was not written.
    """
    registry = find_registry(uri, project=project)
    info, awaited = find_awaited(registry, uri, approved=alias)
    with tempfile.TemporaryDirectory(prefix="kedro-hone-") as scratch:
        version = Path(scratch, "version")
        check_published(info.uri, version, registry, _find_policy())
        image = _find_image(version / EVIDENCE_FOLDER / EVIDENCE, push) if push else ""
    publication = approve(registry, info.uri, approved=awaited)  # the tag may have been changed meanwhile
    if image and publication.alias:
        tag(image, push)
    return publication


def _find_image(evidence: Path, push: str) -> str:
    """Return the digest of the image that the evidence lists for a place; empty if absent.

    Anyone who can write to the registry of models may have written the evidence, so neither a place nor anything but a
    digest is taken from it.
    """
    claim: Any = json.loads(read_regular(evidence))
    place = read_target(push).place
    forms = (one for one in claim.get("forms", ()) if one.get("form") == IMAGE)
    found = (str(one.get("digest")) for one in forms if one.get("place") == place)
    return next((digest for digest in found if re.fullmatch(r"sha256:[0-9a-f]{64}", digest)), "")


def _find_policy() -> Policy | None:
    """Return the policy for the signature of a winner: the key of this machine, if it has one."""
    signer = find_signer()
    if signer is None:
        return None
    if not signer.public:
        why = "This machine signs with Sigstore, and an approval has no identity to compare the signature with."
        hint = "Check it by `kedro-hone verify --identity … --issuer …`, and move the alias with the registry's client."
        raise explain_unusable(why, hint=hint)
    return Policy(keys=(signer.public,))
