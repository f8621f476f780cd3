"""An artifact of a store in the form in which winners are served."""

from __future__ import annotations

import shutil
from pathlib import Path

from hone_runtime.contract.proof import EVIDENCE_FOLDER, GOLDEN
from hone_runtime.learner.download import Download
from hone_runtime.learner.manifest import write_manifest
from hone_runtime.learner.runtimes import refuse_code
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.manifest import copy_tree
from kedro_hone.serving.winner import ServedWinner, describe_winner, make_server_name


def stage_artifact(
    artifact: Artifact, files: Path, folder: Path, *, uri: str, golden: Path | None = None, trusted: bool = False
) -> ServedWinner:
    """Return an artifact as if it were published, without evidence.

    Args:
        artifact: A winner or a source.
        files: The folder of its files.
        folder: A folder to make, which must stay as long as it is served.
        uri: What it is called, from which the server's name is made.
        golden: The file of the golden rows; None for a source.
        trusted: Whether the user trusts its author: code may be opened.

    Raises:
        HoneError: ``native-not-trusted``: it is code; ``model-corrupt``: its files differ from those that were sealed.
    """
    sealed = folder / "artifact"
    folder.mkdir(parents=True)
    copy_tree(files, sealed, share=True)
    write_manifest(sealed, artifact)
    if golden is not None:
        (folder / EVIDENCE_FOLDER).mkdir()
        shutil.copyfile(golden, folder / EVIDENCE_FOLDER / GOLDEN)
    if not trusted:
        refuse_code(artifact, sealed)
    name = make_server_name(uri)
    download = Download(folder=folder, files=sealed, artifact=artifact, version=None, name=name, vouched=trusted)
    return describe_winner(download, uri, name=name)
