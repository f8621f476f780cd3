"""Recognizes the source format of a pulled version's files, and checks whether they are trusted."""

from __future__ import annotations

from pathlib import Path

from hone_runtime.contract.registry import VersionInfo
from hone_runtime.errors import HoneError
from hone_runtime.signing.policy import SIGNATURE, Policy
from hone_runtime.signing.sign import find_signer
from hone_runtime.signing.verify import verify_version
from hone_runtime.text import open_logger
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
