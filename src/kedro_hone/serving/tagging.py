"""The tag of a winner's image, which follows the alias: approvals and runs may move both at the same time."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ValidationError

from hone_runtime.contract.proof import EVIDENCE, EVIDENCE_FOLDER
from hone_runtime.contract.registry import Publication, Registry
from hone_runtime.errors import HoneError
from hone_runtime.learner.evidence import check_published
from hone_runtime.signing.policy import Policy, explain_unusable
from hone_runtime.signing.sign import find_signer
from hone_runtime.values.digest import digest_json
from hone_runtime.values.forms import IMAGE, WinnerForm
from hone_runtime.values.regular import read_regular
from kedro_hone.core.environments.store import find_home
from kedro_hone.core.locks import hold_lock
from kedro_hone.serving.forms import tag
from kedro_hone.serving.image.references import read_target

_ATTEMPTS: Final = 5
"""How often the tag is written, if the alias is moved each time."""


class _Claim(BaseModel):
    """The part of the evidence that lists the forms of a winner."""

    forms: tuple[WinnerForm, ...] = ()


def follow_alias(registry: Registry, name: str, publication: Publication, *, image: str, push: str) -> None:
    """Write the tag of a version's image while the alias points to that version.

    Another process may move the alias, and write the tag, between two steps of this one. So the alias is read again
    after each write: if it moved on, the image of its new version gets the tag. Whichever process writes last has then
    seen alias and tag of one version. Processes of this machine wait for each other, since one may be killed before it
    reads.

    Args:
        registry: The version's registry.
        name: The name of the model.
        publication: The version, and the alias that was moved to it.
        image: The digest of the version's image.
        push: registry/name:tag, as in the recipe.

    Raises:
        HoneError: ``image-push-failed``: the tag was not written, or the alias points to a version whose image is
            unknown. If the alias moved on: as in ``read_image``, and those of the registry.
    """
    lock = f"tag-{digest_json(push).removeprefix('sha256:')[:16]}.lock"
    version, alias = publication.version, publication.alias or ""
    with hold_lock(find_home() / "locks" / lock, purpose=f"writing the tag of {push}"):
        if _find_version(registry, name, alias) not in {None, version}:
            return  # whoever moved the alias on writes the tag
        for _ in range(_ATTEMPTS):
            tag(image, push)
            now = _find_version(registry, name, alias)
            if now in {None, version}:
                return
            version, image = now, read_image(registry, registry.name_version(name, now), push)
            if not image:
                break
    raise HoneError(
        "image-push-failed",
        f"The tag {push} may be of another version than the alias {alias!r}.",
        why=f"Others moved the alias to version {version} while the tag was written.",
        hint=f"Run `kedro-hone image {registry.name_version(name, version)} --push {push}`.",
    )


def read_image(registry: Registry, uri: str, push: str) -> str:
    """Check a published version, and return the digest of the image that its evidence lists for a place.

    Anyone who can write to the registry of models may have written the evidence, so neither a place nor anything but a
    digest is taken from it.

    Args:
        registry: The version's registry.
        uri: The version.
        push: registry/name:tag, as in the recipe; empty if no image is looked for.

    Returns:
        The digest; empty if the evidence lists no image for the place.

    Raises:
        HoneError: ``evidence-incomplete``, ``evidence-unreadable``, ``artifact-corrupt`` or ``signature-invalid``;
            ``signing-unusable``: this machine signs with Sigstore.
    """
    with tempfile.TemporaryDirectory(prefix="kedro-hone-") as scratch:
        version = Path(scratch, "version")
        check_published(uri, version, registry, _find_policy())
        return find_image(read_regular(version / EVIDENCE_FOLDER / EVIDENCE), push) if push else ""


def find_image(evidence: bytes, push: str) -> str:
    """Return the digest of the image that evidence lists for a place; empty if absent.

    Raises:
        HoneError: ``evidence-unreadable``: its list of forms is none.
    """
    try:
        forms = _Claim.model_validate_json(evidence, extra="ignore").forms
    except ValidationError as error:
        what, why = "The evidence of the winner cannot be read.", f"{error.errors()[0]['msg']}."
        hint = "Publish the winner again from the run that made it."
        raise HoneError("evidence-unreadable", what, why=why, hint=hint) from error
    place = read_target(push).place
    found = (one.digest for one in forms if one.form == IMAGE and one.place == place)
    return next((digest for digest in found if re.fullmatch(r"sha256:[0-9a-f]{64}", digest)), "")


def _find_version(registry: Registry, name: str, alias: str) -> str | None:
    """Return the version that an alias points to, empty if absent; None if the registry lists no aliases."""
    aliases = registry.list_aliases(name)
    return None if aliases is None else aliases.get(alias, "")


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
