"""An opened winner, called like the source model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from hone_runtime.interfaces.tensors import Run
from hone_runtime.learner.checks import ArgumentError, explain_fault
from hone_runtime.learner.interfaces import INTERFACES
from hone_runtime.learner.lengths import serve_any_length
from hone_runtime.learner.padding import ROWS_PER_THREAD, serve_without_padding
from hone_runtime.learner.pickles import Origin, Reopen, reduce
from hone_runtime.learner.rows import serve_any_rows, serve_fixed_rows
from hone_runtime.learner.runtimes import choose_threads, open_session
from hone_runtime.values.artifact import Artifact

Interface = Literal["pytorch", "onnx", "transformers", "sklearn", "keras"]


class Learner:
    """The winner with the source model's own interface.

    Call it with tensors if the source was a PyTorch or Transformers model, and with arrays or a dictionary of arrays if
    it was ONNX.

    Attributes:
        __call__: Returns the outputs, in the source model's structure.
        artifact: The loaded artifact: its specs, format, runtime and digest. Its files are in the folder ``files``.
        run: A function from a dictionary of arrays to a dictionary of arrays: the runtime's own session, with only a
            check whether the process was forked. For models compiled for some sizes, it also splits and pads rows.
        fallback_reason: Why this is the source in place of a winner whose outputs differ here; None for the winner
            itself. The source's version is in ``source_uri``.
        origin: How it was loaded, which is the content of its pickle; None if it was not loaded by ``load``.
        reopen: Loads it again from the content of a pickle; None like ``origin``.
    """

    __slots__ = ("__dict__", "__weakref__", "_call")

    _call: Callable[..., Any]
    __call__: Callable[..., Any]
    origin: Origin | None = None
    reopen: Reopen | None = None
    fallback_reason: str | None = None
    source_uri: str | None = None

    def __init__(
        self,
        artifact: Artifact,
        files: Path,
        *,
        interface: Interface | None = None,
        threads: int | None = None,
        skip_padding: bool | None = None,
    ) -> None:
        """Open a sealed artifact, given the folder of its files; for the other arguments see ``load``.

        Raises:
            HoneError: ``model-unsupported``: it cannot run, or its runtime is unknown.
            ImportError: The runtime, or PyTorch, is not installed.
            ArgumentError: Unknown interface, or one of another kind of source; or invalid number of threads.
        """
        if threads is not None and (type(threads) is not int or threads < 1):
            raise ArgumentError(f"threads is a whole number, 1 at least, and not {threads!r}")
        if skip_padding not in {None, True, False}:
            raise ArgumentError(f"skip_padding is True, False or None, and not {skip_padding!r}")
        called = str(interface or artifact.metadata.get("interface", "onnx"))
        if called not in INTERFACES and interface is None:
            raise explain_fault(f"its interface is {called!r:.80}")
        if called not in INTERFACES:
            raise ArgumentError(f"the interface {called!r} is neither {' nor '.join(map(repr, INTERFACES))}")
        if interface == "transformers" and "transformers" not in artifact.metadata:
            raise ArgumentError("the interface 'transformers' is for winners whose source was a Transformers model")
        if called == "sklearn" and "sklearn" not in artifact.metadata:
            if interface is None:
                raise explain_fault("its interface is 'sklearn', and its source was no estimator")
            raise ArgumentError("the interface 'sklearn' is for winners whose source was an estimator")
        if interface == "keras" and "keras" not in artifact.metadata:
            raise ArgumentError("the interface 'keras' is for winners whose source was a model of Keras")
        self.artifact, self.files = artifact, files
        self._session = open_session(artifact, files, threads=threads)
        run: Run = self._session.run
        try:
            self.run = serve_any_length(serve_any_rows(run, artifact), artifact) if artifact.static_shapes else run
            rows = ROWS_PER_THREAD * choose_threads(artifact, threads)
            served = serve_without_padding(self.run, artifact, rows=rows, zeros=skip_padding)
            self._call = INTERFACES[called](served, artifact)
        except (LookupError, TypeError, ValueError, AttributeError) as error:  # such as an unknown type
            raise explain_fault(f"{type(error).__name__}: {error}") from error

    def list_runs(self) -> tuple[Run, ...]:
        """Return the runtime's own calls: for a composite those of each part, for any shape; else the only one.

        They accept any number of rows.
        """
        runs = tuple(part.run for part in getattr(self._session, "parts", ())) or (self.run,)
        return tuple(serve_fixed_rows(run, self.artifact) for run in runs)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the pickled form: the winner's origin and its digest; see ``pickles``."""
        return reduce(self.origin, self.reopen)

    def __copy__(self) -> Learner:
        """Return itself: it is immutable in use."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Learner:
        """Return itself: it is immutable in use, and threads may share it."""
        return self

    def __repr__(self) -> str:
        return f"<Learner {self.artifact.format} in {self.artifact.runtime}, {self.artifact.digest[:19]}…>"


# The slot's descriptor returns the interface itself. A method would pack the arguments twice, up to a microsecond.
Learner.__call__ = Learner._call  # type: ignore[method-assign]  # noqa: SLF001
