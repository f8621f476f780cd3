"""Recognizes the source format of a pulled version's files, and checks whether they are trusted."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from hone_runtime.contract.registry import VersionInfo
from hone_runtime.errors import HoneError
from hone_runtime.signing.policy import SIGNATURE, Policy
from hone_runtime.signing.sign import find_signer
from hone_runtime.signing.verify import verify_version
from hone_runtime.text import open_logger
from hone_runtime.values.base import EVERYTHING, Format
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.recipe.schema import Recipe
from kedro_hone.sources.detection import read_flavor
from kedro_hone.sources.source_format import AuthorClass, Flavor

logger = open_logger(__name__)


def recognize(
    place: Path, recipe: Recipe, run: RunFolder, *, version: VersionInfo, due: str | None, signed: Path
) -> Flavor:
    """Return the flavor of a version's files, without executing any of them.

    Args:
        place: The files: those of the version, or an adapter that was merged into its base model.
        recipe: Contains the trusted names, and how to make the author's class.
        run: The run, whose project has the author's class.
        version: The version that was pulled.
        due: The artifact's digest in the registry; None if absent.
        signed: The version's files as they were pulled. If our own key signed them, their native code is trusted.

    Raises:
        HoneError: As raised by ``read_flavor``, for example for files that are not trusted.
    """
    model = recipe.model
    author = AuthorClass(place=model.module, kwargs=model.kwargs, project=run.project) if model.module else None
    return read_flavor(
        place,
        trust=recipe.trust | ({"native"} if _is_ours(signed, version) else set()),
        author=author,
        task=model.task,
        signature=model.signature,
        due=due,
        uri=model.uri,
    )


def foresee_format(recipe: Recipe, *, project: Path) -> Format | None:
    """Return the format of the source that a recipe names by a path, without pulling it; None if it is unknown.

    Nothing is executed, whatever the recipe trusts, and nothing is copied: a file is linked into a folder of its own.
    """
    model = recipe.model
    place = project / model.uri
    if model.base is not None or "://" in model.uri or not place.exists():
        return None
    author = AuthorClass(place=model.module, kwargs=model.kwargs, project=project) if model.module else None
    read = partial(read_flavor, trust=EVERYTHING, author=author, task=model.task, signature=model.signature)
    try:
        if place.is_dir():
            return read(place).format
        with TemporaryDirectory(dir=project) as scratch:
            os.link(place.resolve(), Path(scratch) / place.name)
            return read(Path(scratch)).format
    except (HoneError, OSError):  # a run explains what is wrong; and there are no links between file systems
        return None


def _is_ours(folder: Path, version: VersionInfo) -> bool:
    """Return whether a version is signed by the key that signs publications here."""
    signer = find_signer() if (folder / SIGNATURE).is_file() else None
    if signer is None or not signer.public:
        return False
    try:
        verify_version(folder, Policy(keys=(signer.public,)), name=version.name)
    except HoneError as error:
        logger.warning("%s %s", error.what, error.why)
        return False
    return True
