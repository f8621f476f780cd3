"""The source of a winner, from its registry: the same files that were optimized."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from hone_runtime.contract.plugins import list_parts
from hone_runtime.contract.proof import EVIDENCE, EVIDENCE_FOLDER
from hone_runtime.contract.registries import find_registry
from hone_runtime.contract.tags import SOURCE
from hone_runtime.learner.download import Download
from hone_runtime.learner.golden import Golden
from hone_runtime.learner.runtimes import refuse_code
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.regular import read_regular
from hone_runtime.values.trees import measure_tree

SOURCE_DIGEST: Final = "hone.source_digest"


def find_source(download: Download) -> tuple[str, str]:
    """Return the URI and the digest of a winner's source, from the registry or else from the evidence.

    Raises:
        OSError, ValueError, LookupError: They are not known, or no registry has the source.
    """
    claim: Any = json.loads(read_regular(download.folder / EVIDENCE_FOLDER / EVIDENCE))["source"]
    if base := claim.get("base"):
        raise ValueError(f"it is an adapter that only a run merges into {base}: no registry has the merged model")
    tags = download.version.tags if download.version is not None else {}
    return tags.get(SOURCE, str(claim["uri"])), tags.get(SOURCE_DIGEST, str(claim["digest"]))


def fetch_source(download: Download, golden: Golden, place: Path) -> tuple[str, Artifact, Path]:
    """Pull the source of a winner, and check that it is what was optimized; nothing is opened.

    Args:
        download: The winner's files. If it is vouched for, the source may be code, too.
        golden: The winner's golden rows, with the attributes of the source.
        place: An empty folder.

    Returns:
        The source's URI, its artifact, and the folder of its files, below ``place``.

    Raises:
        Exception: It is not known or cannot be pulled, is another model, or is code and not vouched for.
    """
    uri, digest = find_source(download)
    pulled, files = place / "pulled", place / "files"
    pulled.mkdir()
    opener = list_parts()["openers"].load()  # above the learner: imported only when needed
    if not download.vouched and Path(uri).exists():  # the URI may be untrusted
        measure_tree(Path(uri))  # before a device, or a whole disk, is read
        if Path(uri).is_dir():
            opener.read_source(Path(uri), golden.source)  # before a folder that is not a model is copied
    find_registry(uri).pull(uri, pulled)
    source = opener.write_source(pulled, files, golden.source)
    if source.digest != digest:
        raise ValueError(f"{uri} is not what was optimized: its digest is {source.digest} instead of {digest}")
    if not download.vouched:
        refuse_code(source, files)
    return uri, source, files
