"""The tag of a winner's image, which follows the alias: approvals and runs may move both at the same time."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ValidationError

from hone_runtime.contract.proof import EVIDENCE, EVIDENCE_FOLDER
from hone_runtime.contract.registry import Publication, Registry
from hone_runtime.errors import HoneError
from hone_runtime.learner.evidence import check_published
from hone_runtime.signing.policy import Policy, explain_unusable
from hone_runtime.signing.sign import find_signer
from hone_runtime.text import open_logger
from hone_runtime.values.digest import digest_json
from hone_runtime.values.forms import IMAGE, WinnerForm
from hone_runtime.values.regular import read_regular
from kedro_hone.core.environments.store import find_home
from kedro_hone.core.locks import hold_lock
from kedro_hone.serving.forms import tag
from kedro_hone.serving.image.references import read_target

_ATTEMPTS: Final = 5
"""How often the tag is written again, if the alias is moved each time."""

_LOCK_SECONDS: Final = 60.0
"""How long another process of this machine may write the same tag: the alias was moved already."""

_LOG = open_logger(__name__)


class _Claim(BaseModel):
    """The part of the evidence that lists the forms of a winner."""

    forms: tuple[WinnerForm, ...] = ()


def follow_alias(registry: Registry, name: str, publication: Publication, *, image: str, push: str) -> None:
    """Write the tag of a version's image while the alias points to that version.

    Another process, or a person, may move the alias between two steps of this one. So the alias is read before each
    write and after the last: if it moved on, the image of its new version gets the tag. Whoever writes last has then
    seen alias and tag of one version. Processes of this machine wait for each other, since one may be killed before it
    reads.

    The tag stays as it is, with a warning, if the alias was removed, or points to a version whose image is unknown
    before this process wrote the tag.

    Args:
        registry: The version's registry.
        name: The name of the model.
        publication: The version, and the alias that was moved to it.
        image: The digest of the version's image.
        push: registry/name:tag, as in the recipe.

    Raises:
        HoneError: ``image-push-failed``: the tag was not written, or the alias points to a version whose image is
            unknown. If the alias moved on: as in ``read_images``, and those of the registry.
    """
    version, alias, written = publication.version, publication.alias or "", ""
    with _lock_tag(push, publication):
        for _ in range(_ATTEMPTS + 1):
            now = _find_version(registry, name, alias)
            if now == "":
                _LOG.warning("warning   the tag %s stays as it is: somebody removed the alias %r", push, alias)
                return
            if now not in {None, version}:
                version, image = now, _find_moved(registry, registry.name_version(name, now), push)
            if image == written:
                return
            if not image:
                break
            tag(image, push)
            written = image
    if not written:
        return  # the reason was logged
    raise HoneError(
        "image-push-failed",
        f"The tag {push} may be of another version than the alias {alias!r}.",
        why=f"Others moved the alias to version {version} while the tag was written.",
        hint=f"Run `kedro-hone image {registry.name_version(name, version)} --push {push}`.",
    )


@contextmanager
def _lock_tag(push: str, publication: Publication) -> Iterator[None]:
    """Acquire this machine's lock for a tag, which has one name for all spellings of it.

    Raises:
        HoneError: ``image-push-failed``: another process had the lock too long, or its file cannot be used.
    """
    target = str(read_target(push))
    path = find_home() / "locks" / f"tag-{digest_json(target).removeprefix('sha256:')[:16]}.lock"
    with ExitStack() as stack:
        try:
            stack.enter_context(hold_lock(path, purpose=f"writing the tag of {target}", limit=_LOCK_SECONDS))
        except OSError as error:
            raise HoneError(
                "image-push-failed",
                f"The alias {publication.alias!r} was moved to {publication.uri}, but the tag {push} was not.",
                why=f"The lock {path} could not be acquired: {error.strerror or error}.",
                hint=f"Run `kedro-hone image {publication.uri} --push {push}`; before that, remove the cause.",
            ) from error
        yield


def _find_moved(registry: Registry, uri: str, push: str) -> str:
    """Return the image of a version that others moved the alias to; empty, with a warning, if it has none."""
    try:
        return read_images(registry, uri, (push,)).get(push, "")
    except HoneError as error:
        if error.slug != "evidence-incomplete":
            raise
        _LOG.warning("warning   the alias moved to %s, whose image is unknown: %s", uri, error.what)
        return ""


def read_images(registry: Registry, uri: str, pushes: Sequence[str]) -> dict[str, str]:
    """Check a published version, and return the digests of the images that its evidence lists for some places.

    Anyone who can write to the registry of models may have written the evidence, so neither a place nor anything but a
    digest is taken from it. If it lists no image for any place, this is logged.

    Args:
        registry: The version's registry.
        uri: The version.
        pushes: Each registry/name:tag, as in the recipes; empty if no image is looked for.

    Returns:
        The digest for each of the ``pushes`` whose place the evidence lists.

    Raises:
        HoneError: ``evidence-incomplete``, ``evidence-unreadable``, ``artifact-corrupt`` or ``signature-invalid``;
            ``signing-unusable``: this machine signs with Sigstore.
    """
    with tempfile.TemporaryDirectory(prefix="kedro-hone-") as scratch:
        version = Path(scratch, "version")
        check_published(uri, version, registry, _find_policy())
        if not pushes:
            return {}
        evidence = read_regular(version / EVIDENCE_FOLDER / EVIDENCE)
    found = {push: image for push in pushes if (image := find_image(evidence, push))}
    if not found:
        places = " or ".join(dict.fromkeys(read_target(push).place for push in pushes))
        tags = " or ".join(pushes)
        _LOG.warning("warning   %s does not get the tag %s: its evidence lists no image for %s", uri, tags, places)
    return found


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
