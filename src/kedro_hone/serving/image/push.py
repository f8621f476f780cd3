"""Push an image: blobs that the registry lacks, the manifest by its digest, what refers to it, and the tag last."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from hone_runtime.errors import HoneError
from kedro_hone.serving.image.blobs import Blobs
from kedro_hone.serving.image.descriptors import INDEX, Descriptor, Manifest, digest_bytes, format_json
from kedro_hone.serving.image.layouts import read_descriptors
from kedro_hone.serving.image.references import Reference
from kedro_hone.serving.image.referrers import make_fallback_tag
from kedro_hone.serving.image.registry import Repository
from kedro_hone.serving.image.transport import RegistryError

_ATTEMPTS: Final = 3
"""How often the list of referrers is written, if another client writes it at the same time."""


@dataclass
class Progress:
    """What a push has done; also after it failed.

    Attributes:
        sent: The blobs that were sent.
        found: The blobs that the registry had.
        total: The number of blobs.
        tagged: Whether the tag was written.
    """

    sent: list[Descriptor] = field(default_factory=list)
    found: list[Descriptor] = field(default_factory=list)
    total: int = 0
    tagged: bool = False

    def describe(self) -> str:
        """Return what was pushed, in one sentence."""
        size = sum(one.size for one in self.sent) / 2**20
        there = len(self.sent) + len(self.found)
        tag = "the tag was written" if self.tagged else "the tag was not written"
        sent = f"{len(self.sent)} of them sent now ({size:.1f} MiB)"
        return f"The registry has {there} of {self.total} blobs, {sent}; {tag}."


def push_image(
    image: Manifest,
    target: Reference,
    *,
    blobs: Blobs,
    repository: Repository,
    referrers: Iterable[Manifest] = (),
    tags: bool = True,
) -> Progress:
    """Push an image with its referrers; nothing is under the tag before everything is there.

    Args:
        image: The image, or another artifact.
        target: The repository and the tag.
        blobs: Where the blobs are.
        repository: The target's repository, opened to be written.
        referrers: The artifacts that refer to the image.
        tags: Whether the tag is written, too; without it, the image is found by its digest only.

    Raises:
        HoneError: ``image-push-failed``, with what was pushed. Another push sends the rest.
    """
    progress, referrers = Progress(), tuple(referrers)
    everything = (image, *referrers)
    progress.total = len({part.digest for one in everything for part in one.parts})
    try:
        for one in everything:
            _push_parts(one, repository, blobs=blobs, progress=progress)
        for one in everything:
            listed = _put(repository, one.descriptor.digest, one.descriptor, blobs)
            if one is not image and not listed:
                _list_referrer(repository, image.descriptor, one.descriptor)
        if tags:
            _put(repository, target.tag, image.descriptor, blobs)
            progress.tagged = True
            _check_tag(repository, target, image.descriptor)
    except RegistryError as error:
        raise _explain(target, error, progress) from error
    return progress


def tag_image(digest: str, target: Reference, repository: Repository) -> None:
    """Write the tag of an image that was pushed without it.

    Args:
        digest: The image.
        target: The repository and the tag.
        repository: The target's repository, opened to be written.

    Raises:
        HoneError: ``image-push-failed``: the registry lacks the image, or cannot be used.
    """
    try:
        found = repository.read_manifest(digest)
        if found is not None:
            repository.put_manifest(target.tag, *found)
    except RegistryError as error:
        raise _explain(target, error, Progress()) from error
    if found is None:
        absent = RegistryError(f"there is no image {digest} in {target.repository}", status=404)
        raise _explain(target, absent, Progress())


def _push_parts(one: Manifest, repository: Repository, *, blobs: Blobs, progress: Progress) -> None:
    known = {part.digest for part in (*progress.sent, *progress.found)}
    for part in one.parts:
        if part.digest in known:
            continue
        if repository.has_blob(part):
            progress.found.append(part)
        else:
            repository.push_blob(part, blobs.locate(part.digest))
            progress.sent.append(part)
        known.add(part.digest)


def _put(repository: Repository, name: str, manifest: Descriptor, blobs: Blobs) -> bool:
    return repository.put_manifest(name, blobs.locate(manifest.digest).read_bytes(), manifest.media_type)


def _list_referrer(repository: Repository, subject: Descriptor, referrer: Descriptor) -> None:
    """Add an artifact to the index under the fallback tag; another client may add one at the same time."""
    tag = make_fallback_tag(subject)
    for _ in range(_ATTEMPTS):
        listed = _read_listed(repository, tag)
        if any(one.digest == referrer.digest for one in listed):
            return
        index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [one.dump() for one in (*listed, referrer)]}
        repository.put_manifest(tag, format_json(index), INDEX)
    if all(one.digest != referrer.digest for one in _read_listed(repository, tag)):
        raise RegistryError(f"the list of referrers, {tag}, is written by another client all the time")


def _read_listed(repository: Repository, tag: str) -> tuple[Descriptor, ...]:
    found = repository.read_manifest(tag)
    try:
        return read_descriptors(found[0]) if found else ()
    except ValueError as error:
        raise RegistryError(f"the manifest {tag} is no image index", status=400) from error


def _check_tag(repository: Repository, target: Reference, manifest: Descriptor) -> None:
    """Compare what is under the tag now: a registry may store other bytes, or another client may push."""
    found = repository.read_manifest(target.tag)
    if found is None or digest_bytes(found[0]) != manifest.digest:
        raise RegistryError(f"{target} is not the manifest {manifest.digest} that was pushed", status=409)


def _explain(target: Reference, error: RegistryError, progress: Progress) -> HoneError:
    hints = {
        401: "Log in with `docker login` or `podman login`, or name a file of credentials by REGISTRY_AUTH_FILE.",
        403: "Ask who runs the registry for the right to push to this repository.",
        404: "Check the name of the repository; some registries need it to exist.",
        413: "The registry, or a proxy in front of it, limits the size of a layer.",
    }
    if "SSL" in str(error):
        hints[error.status] = "A registry without TLS is reached by --insecure."
    again = "Run the command again: what was pushed is not sent again."
    return HoneError(
        "image-push-failed",
        f"The image could not be pushed to {target}.",
        why=[f"{error}.", progress.describe()],
        hint=f"{hints[error.status]} {again}" if error.status in hints else again,
    )
