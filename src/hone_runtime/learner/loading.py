"""``kedro_hone.load``: a winner, ready to be called as the source model was."""

from __future__ import annotations

import os
import re
import weakref
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hone_runtime.contract.registries import find_registry
from hone_runtime.contract.tags import DIGEST, FILES
from hone_runtime.errors import HoneError
from hone_runtime.learner.manifest import list_digests, read_artifact
from hone_runtime.learner.mismatch import CHOICES, Loading, OnMismatch
from hone_runtime.learner.model import Interface, Learner
from hone_runtime.learner.openers import open_learner
from hone_runtime.learner.pickling import Origin
from hone_runtime.learner.runtimes import is_code, refuse_code
from hone_runtime.learner.versions import check_version_files
from hone_runtime.signing.policy import PEM, Policy
from hone_runtime.signing.verify import name_model, verify_version
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.manifest import MANIFEST


def load(
    uri_or_path: str | os.PathLike[str],
    *,
    interface: Interface | None = None,
    threads: int | None = None,
    verify: Policy | None = None,
    trust: Collection[str] = (),
    on_mismatch: OnMismatch = "fallback",
    skip_padding: bool | None = None,
) -> Learner:
    """Load a winner.

    Its files are compared with their digests, and these with the registry's tag; what opens them is the installed
    kedro-hone. Native formats (AOTInductor, TorchScript, IREE) are code, and torch makes code of an exported program:
    they need ``verify`` or ``trust``.

    Args:
        uri_or_path: ``models:/digits@honed``, ``models:/digits/4``, or a folder.
        interface: ``transformers`` for tensors and a ``ModelOutput``, ``pytorch`` for tensors, ``sklearn`` for
            ``predict`` and ``predict_proba``, ``onnx`` for arrays; the source's own when not given.
        threads: How many threads the runtime may use; as it was measured when not given.
        verify: Whose signature it must have, whatever its format.
        trust: ``["native"]`` to run code that is not signed.
        on_mismatch: What to do where the winner's outputs for its golden rows are others than where it was measured:
            ``fallback`` loads the source in its place and warns, ``warn`` only warns, ``refuse`` raises.
        skip_padding: Whether a call of a text encoder computes nothing for padding, where that saves time: its rows are
            sorted by length and cut into several calls. Without a value only where no output has a place for each
            token; with True also where one has, and there the places of padding are zeros.

    Raises:
        HoneError: ``native-not-trusted``, ``signature-invalid`` or ``signing-unusable``: as the last two arguments ask.
        HoneError: ``winner-differs``: so it is, and the source cannot take its place, or is not to.
        HoneError: ``model-unknown``, ``version-unknown``, ``alias-unknown``, ``registry-unknown``,
            ``registry-unreachable``, ``model-corrupt``, or ``model-unsupported`` when it is no winner of ours.
        ImportError: The runtime is not installed; the message says what to install.
        TypeError: ``verify`` is no policy.
        ValueError: There is no such interface, number of threads or answer to a mismatch, or nothing of that name to be
            trusted.
    """
    asked = str(uri_or_path)
    _check(asked, verify=verify, trust=trust, on_mismatch=on_mismatch)
    origin = Origin.model_construct(  # who opens it checks these, and converts none
        verify=verify, interface=interface, threads=threads, skip_padding=skip_padding, on_mismatch=on_mismatch
    )
    return _load(asked, origin, vouched=verify is not None or bool(trust))


def _check(asked: str, *, verify: object, trust: Collection[str], on_mismatch: str) -> None:
    """Check what is wrong whatever is loaded; see ``load``."""
    if isinstance(trust, str) or set(trust) - {"native"}:
        raise ValueError(f'trust is ["native"] or empty, and not {trust!r}')
    if on_mismatch not in CHOICES:
        raise ValueError(f"on_mismatch is {', '.join(CHOICES[:-1])} or {CHOICES[-1]}, and not {on_mismatch!r}")
    if not isinstance(verify, Policy | None):  # what counts as False would check nothing
        raise TypeError(f"verify is a kedro_hone.Policy or None, and not {verify!r:.80}")
    if not asked:
        raise HoneError(
            "model-unknown",
            "An empty text names no model.",
            why="The URI or path to load is empty: perhaps a variable that holds it is not set.",
            hint="Load models:/<name>@honed or a folder; the current one is '.'.",
        )


def reopen(fields: dict[str, Any]) -> Learner:
    """Load a winner that was loaded elsewhere, with the same digest, by the fields of its ``Origin``.

    Nothing is trusted, and no signature vouches for code: whoever wrote the pickle may have chosen whose it is.

    Raises:
        HoneError: As ``load``; ``model-corrupt``: it is not the one that was loaded there.
        ValueError: It does not say which winner it is, or has other fields.
    """
    origin = Origin.model_validate(fields)
    if not origin.digest:
        raise ValueError("it does not say which winner it is")
    return _load(origin.uri, origin, vouched=False)


def _load(asked: str, origin: Origin, *, vouched: bool) -> Learner:
    folder, verify = Path(asked), origin.verify and _pin_keys(origin.verify)
    with ExitStack() as stack:
        version = None
        if is_uri(asked) or not folder.is_dir():
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="kedro-hone-")))
            version = find_registry(asked).pull(asked, folder)
        name = version.name if version else name_model(folder)
        read = verify_version(folder, verify, name=name) if verify else {}
        due = version.tags.get(DIGEST) if version else None
        artifact, files = find_artifact(folder, asked, due=due, read=read)
        if origin.digest not in {"", artifact.digest}:
            raise explain_other(asked, artifact.digest, origin.digest)
        if not vouched:
            refuse_code(artifact, files)
        whole = version.tags.get(FILES) if version else None
        check_version_files(folder, due=whole, read={**list_digests(files), **read})
        loading = Loading(
            folder=folder,
            version=None if verify else version,  # what is signed names its source itself
            on_mismatch=origin.on_mismatch,
            open=partial(open_learner, **origin.options),
            vouched=vouched,
            stack=stack,
        )
        learner = loading.load(artifact, files)
        place = version.uri if version else str(folder.resolve())
        learner.origin = origin.model_copy(
            update={"uri": _pin(place), "digest": artifact.digest, "code": is_code(artifact), "verify": verify}
        )
        learner.reopen = reopen
        weakref.finalize(learner, _close, stack.pop_all(), os.getpid())  # runtimes may keep the files mapped
    return learner


def _pin(place: str) -> str:
    """Return what names a version in a process whose current folder is another one, too."""
    return place if is_uri(place) else str(Path(place).resolve())


def _pin_keys(policy: Policy) -> Policy:
    """Return a policy whose files of keys are the same ones in a process whose current folder is another one, too."""
    keys = (str(key if str(key).startswith(PEM) else Path(key).absolute()) for key in policy.keys)
    return policy.model_copy(update={"keys": tuple(keys)})


def _close(stack: ExitStack, process: int) -> None:
    """Remove the files, unless this process was forked from the one whose they are."""
    if os.getpid() == process:
        stack.close()


def explain_other(asked: str, found: str, wanted: str) -> HoneError:
    """Return the error for a winner that is not the one that was loaded in another process."""
    return HoneError(
        "model-corrupt",
        f"{asked} is not the winner that was loaded where this was pickled.",
        why=f"Its digest is {found}, and {wanted} was loaded.",
        hint="Load the version that is wanted in each process, by its number.",
    )


def is_uri(asked: str) -> bool:
    """Return whether a text names a version of a registry: a folder of that name is ``./models:/…``."""
    return re.match(r"[A-Za-z][\w+.-]*:/", asked) is not None


def find_artifact(folder: Path, asked: str, *, due: str | None, read: Mapping[Path, str]) -> tuple[Artifact, Path]:
    """Return the artifact of a model folder of MLflow's, or of the ``artifact`` folder in it, with that folder.

    Its digest must be the one that is ``due``, if any; what was ``read``, with its digest, is not read again.

    Raises:
        HoneError: ``model-unsupported``: there is none; ``model-corrupt``.
    """
    for place in (folder, folder / "artifact"):
        if (place / MANIFEST).is_file():
            return read_artifact(place, due=due, read=read), place
    opened = "that is a path is opened by its own framework, such as ONNX Runtime"
    raise HoneError(
        "model-unsupported",
        f"{asked} holds no winner of kedro-hone.",
        why=f"There is no {MANIFEST} in it: it is a source model, or something else.",
        hint="Load a version that was published, such as models:/<name>@honed; a source "
        f"{opened if Path(asked).exists() else 'is loaded with mlflow.pyfunc'}.",
    )
