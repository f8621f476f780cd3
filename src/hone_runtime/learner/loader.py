"""``kedro_hone.load``: load a winner, ready to be called like the source model."""

from __future__ import annotations

import os
import weakref
from collections.abc import Collection
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from hone_runtime.errors import HoneError
from hone_runtime.learner.download import fetch_winner, is_uri
from hone_runtime.learner.mismatch import CHOICES, Loading, OnMismatch
from hone_runtime.learner.model import Interface, Learner
from hone_runtime.learner.openers import open_learner
from hone_runtime.learner.pickles import Origin
from hone_runtime.learner.runtimes import is_code
from hone_runtime.signing.policy import PEM, Policy


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

    Its files are compared with their digests, and the digests with the registry's tag; only the installed kedro-hone
    opens them. Native formats (AOTInductor, TorchScript, IREE) are code, and torch generates code from an exported
    program: they require ``verify`` or ``trust``.

    Args:
        uri_or_path: ``models:/digits@honed``, ``models:/digits/4``, or a folder.
        interface: ``transformers`` for tensors and a ``ModelOutput``, ``pytorch`` for tensors, ``sklearn`` for
            ``predict`` and ``predict_proba``, ``onnx`` for arrays; by default the source's own.
        threads: The number of threads of the runtime; by default as it was measured.
        verify: The required signer, whatever the format.
        trust: ``["native"]`` to run code that is not signed.
        on_mismatch: What to do if the winner's outputs for its golden rows differ from those at the measurement:
            ``fallback`` loads the source instead and warns, ``warn`` only warns, ``refuse`` raises.
        skip_padding: Whether a text encoder skips padding if that saves time: rows are sorted by length and split into
            several calls. By default only if no output has a position for each token. With True also if one has; then
            the positions of padding contain zeros.

    Raises:
        HoneError: ``native-not-trusted``, ``signature-invalid`` or ``signing-unusable``: see ``verify`` and ``trust``.
        HoneError: ``winner-differs``: its outputs differ, and the source cannot or must not replace it.
        HoneError: ``model-unknown``, ``version-unknown``, ``alias-unknown``, ``registry-unknown``,
            ``registry-unreachable``, ``model-corrupt``, or ``model-unsupported`` if it is not a winner of kedro-hone.
        ImportError: The runtime is not installed; the message explains how to install it.
        TypeError: ``verify`` is not a policy.
        ValueError: Unknown interface, reaction to a mismatch or name to trust; or an invalid number of threads.
    """
    asked = str(uri_or_path)
    _check(asked, verify=verify, trust=trust, on_mismatch=on_mismatch)
    origin = Origin.model_construct(  # validated when the winner is opened; nothing is converted
        verify=verify, interface=interface, threads=threads, skip_padding=skip_padding, on_mismatch=on_mismatch
    )
    return _load(asked, origin, vouched=verify is not None or bool(trust))


def _check(asked: str, *, verify: object, trust: Collection[str], on_mismatch: str) -> None:
    """Check the arguments that are invalid for any winner; see ``load``."""
    if isinstance(trust, str) or set(trust) - {"native"}:
        raise ValueError(f'trust is ["native"] or empty, and not {trust!r}')
    if on_mismatch not in CHOICES:
        raise ValueError(f"on_mismatch is {', '.join(CHOICES[:-1])} or {CHOICES[-1]}, and not {on_mismatch!r}")
    if not isinstance(verify, Policy | None):  # any falsy value would disable the check
        raise TypeError(f"verify is a kedro_hone.Policy or None, and not {verify!r:.80}")
    if not asked:
        raise HoneError(
            "model-unknown",
            "The URI or path of the model is empty.",
            why="Perhaps the variable that it comes from is not set.",
            hint="Load models:/<name>@honed or a folder; the current one is '.'.",
        )


def reopen(fields: dict[str, Any]) -> Learner:
    """Load again, by the fields of its ``Origin``, a winner that was loaded elsewhere; its digest must be the same.

    Nothing is trusted, and a signature does not suffice for code: the author of the pickle may have chosen the signer.

    Raises:
        HoneError: As in ``load``; ``model-corrupt``: it is not the winner that was loaded there.
        ValueError: The fields do not identify a winner, or there are unknown ones.
    """
    origin = Origin.model_validate(fields)
    if not origin.digest:
        raise ValueError("it does not identify a winner")
    return _load(origin.uri, origin, vouched=False)


def _load(asked: str, origin: Origin, *, vouched: bool) -> Learner:
    verify = origin.verify and _pin_keys(origin.verify)
    with ExitStack() as stack:
        found = fetch_winner(asked, stack, verify=verify, vouched=vouched, digest=origin.digest)
        loading = Loading(
            download=found if verify is None else replace(found, version=None),  # the evidence has its source's URI
            on_mismatch=origin.on_mismatch,
            open=partial(open_learner, **origin.options),
            stack=stack,
        )
        learner = loading.load()
        place = found.version.uri if found.version else str(found.folder.resolve())
        digest, code = found.artifact.digest, is_code(found.artifact)
        learner.origin = origin.model_copy(
            update={"uri": _pin(place), "digest": digest, "code": code, "verify": verify}
        )
        learner.reopen = reopen
        weakref.finalize(learner, _close, stack.pop_all(), os.getpid())  # runtimes may keep the files mapped
    return learner


def _pin(place: str) -> str:
    """Return a name of a version that is also valid in a process with another current folder."""
    return place if is_uri(place) else str(Path(place).resolve())


def _pin_keys(policy: Policy) -> Policy:
    """Return a policy whose key files are also found by a process with another current folder."""
    keys = (str(key if str(key).startswith(PEM) else Path(key).absolute()) for key in policy.keys)
    return policy.model_copy(update={"keys": tuple(keys)})


def _close(stack: ExitStack, process: int) -> None:
    """Remove the files, unless this is a forked process: then they belong to its parent."""
    if os.getpid() == process:
        stack.close()
