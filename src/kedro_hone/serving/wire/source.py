"""The source of a winner in the form in which winners are served."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from hone_runtime.contract.plugins import describe_exception
from hone_runtime.errors import HoneError
from hone_runtime.learner.download import Download
from hone_runtime.learner.golden import Golden
from hone_runtime.learner.manifest import write_manifest
from hone_runtime.learner.sources import fetch_source
from kedro_hone.serving.winner import ServedWinner, describe_winner

_HINT: Final = (
    "Only the source itself is measured: not one that is a pickle or its author's code, nor a converted copy. Its "
    "speed-up in process is in the report of the run."
)
_VOUCH: Final = "If its author is known: check the winner's signature with --key, or name --trust native."
_UNTRUSTED: Final = frozenset({"native-not-trusted", "pickle-not-trusted", "remote-code-not-trusted"})


def make_source(winner: ServedWinner, golden: Golden, place: Path) -> ServedWinner:
    """Pull the source of a winner, check that it is what was optimized, and describe it like a winner.

    Args:
        winner: The winner.
        golden: Its golden rows, with the attributes of its source.
        place: A folder to make, which must stay as long as the source is served.

    Raises:
        HoneError: ``serving-unsupported``: it cannot be pulled or served; or the error that says why in other words.
    """
    place.mkdir(parents=True)
    try:
        uri, source, files = fetch_source(winner.download, golden, place)
    except HoneError as error:
        if error.slug not in _UNTRUSTED:
            raise
        # The advice of the error is for a recipe, which this command has not.
        hint = _HINT if winner.download.vouched else f"{_HINT} {_VOUCH}"
        raise _explain(winner, f"{error.what} {error.why}", hint=hint) from error
    except Exception as error:  # registries and readers raise anything; it is shown, not lost
        raise _explain(
            winner, describe_exception(error), hint="Compare the versions of both in the registry."
        ) from error
    names = {spec.name for spec in source.inputs}
    if source.runtime is None or names != set(golden.inputs):
        why = f"Its inputs are {', '.join(sorted(names))}" if source.runtime else f"No runtime opens {source.format}"
        raise _explain(winner, f"{why}.", hint=_HINT)
    write_manifest(files, source)
    download = Download(
        folder=files, files=files, artifact=source, version=None, name=winner.name, vouched=winner.download.vouched
    )
    return describe_winner(download, uri, name=winner.name)


def _explain(winner: ServedWinner, why: str, *, hint: str) -> HoneError:
    return HoneError(
        "serving-unsupported", f"The source of {winner.uri} cannot be served for a comparison.", why=why, hint=hint
    )
