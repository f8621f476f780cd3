"""The contract of a source format: one kind of model in a registry, described by a value."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from pydantic import Field

from hone_runtime.learner.interfaces import INTERFACES
from hone_runtime.values.artifact import TensorSpec
from hone_runtime.values.base import Format, Json, Value

MLMODEL: Final = "MLmodel"
"""The name of MLflow's description of a model."""
OURS: Final = "kedro_hone"
"""The name of kedro-hone's flavor in it."""
THREADS: Final = "{threads}"
"""In a baseline's sentence, the placeholder for ``2 threads``."""


@dataclass(frozen=True, kw_only=True)
class MlModel:
    """The content of an ``MLmodel`` file: each flavor's entry by its name, and the signature's sides, if it has one.

    A side that is a table has no tensors. For such an input, ``columns`` contains each column's name and MLflow's type;
    a number that may be missing is a double there, which can be NaN. ``signature`` contains the sides as written by
    MLflow. ``python`` is the version of Python that wrote the model; empty if it does not name one.
    """

    flavors: Mapping[str, Json]
    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()
    columns: tuple[tuple[str, str], ...] = ()
    signature: Mapping[str, str] = field(default_factory=dict)
    python: str = ""


@dataclass(frozen=True, kw_only=True)
class AuthorClass:
    """The class in a recipe: the model's code, with the pulled files as its state.

    Attributes:
        place: ``package.module:Class`` or ``path/to/file.py:Class``, searched from the project's root.
    """

    place: str
    kwargs: Mapping[str, Json]
    project: Path


@dataclass(frozen=True, kw_only=True)
class Pulled:
    """The input of a source format.

    Attributes:
        folder: The pulled files, as in the registry. No link in it leads out of it.
        due: The digest in the registry for the winner in it; None if absent.
        trust: The names that the recipe trusts.
        task: The recipe's task of a model of Transformers; None if it is that of the model.
        signature: The recipe's signature of a SavedModel; None if it has none.
    """

    folder: Path
    mlmodel: MlModel | None = None
    due: str | None = None
    author: AuthorClass | None = None
    trust: frozenset[str] = frozenset()
    task: str | None = None
    signature: str | None = None


class Flavor(Value):
    """A source model's files, and their metadata without opening them.

    Attributes:
        format: The format of the resulting artifact.
        files: The model's files: path in the pulled folder (absolute for the user's own code), and name in the
            artifact.
        texts: Small files that are written into the artifact: name and content.
        source: The name of the source format that recognised them; filled in by ``read_flavor``.
        interface: As in ``SourceFormat``, which is the default if ``detect`` leaves it empty.
        inputs: The inputs according to the files; those of the signature if ``detect`` leaves it empty. The same for
            ``outputs``.
        metadata: Other information in the files; it is passed to the toolchain and stored in the artifact.
    """

    format: Format
    files: tuple[tuple[str, str], ...]
    texts: tuple[tuple[str, str], ...] = ()
    source: str = ""
    interface: str = ""
    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()
    metadata: dict[str, Json] = Field({})


@dataclass(frozen=True, kw_only=True)
class SourceFormat:
    """One kind of source model.

    Attributes:
        name: Unique, in lower case with dashes, such as ``pytorch-module``.
        noun: The noun for such a model in messages, with its article: ``an ONNX file``.
        detect: Checks a pulled folder and returns its model, or None if it is of another kind. It only reads names and
            small text files: it imports nothing, opens no model file, and runs none of its code.
        seals: The formats of the resulting artifacts. Empty for any format.
        interface: How callers call the model: ``pytorch`` (tensors) or ``onnx`` (arrays).
        baseline: How the source is run when candidates are measured against it, as words that follow "measured
            against", with ``{threads}`` for the number of threads. If empty: the runtime's and format's names.
        order: Formats are tried in ascending order, and the first that recognises a folder is used. Built-in formats
            are pytorch-module (10), published (20), transformers (25), onnx (30), sklearn (35), pytorch (40), diffusers
            (80), tensorflow (81), keras (82), litert (83), torchscript (85), estimator-pickle (88) and pickle (90).
        trust: What the recipe must list under ``trust`` before such a model is used; None for nothing.
        untrusted: Why trust is needed; required with ``trust``.
        unsupported: Why such a model is recognised but not supported; None if it is supported.
        hint: A remedy if it is not trusted or not supported.
        refused: Remedies if the toolchain's worker refuses such a model, by the refusal's slug; the empty text is the
            key for any other. Otherwise there is a general hint.
        takes_class: Whether the recipe's ``model.module`` is part of such a model.
        takes_task: Whether the recipe's ``model.task`` is the task of such a model.
        takes_signature: Whether the recipe's ``model.signature`` selects a part of such a model.
        write: Writes the recognised files from the pulled folder into the artifact's, if copying them does not suffice.
    """

    name: str
    noun: str
    detect: Callable[[Pulled], Flavor | None]
    seals: frozenset[Format] = frozenset()
    interface: str = "onnx"
    baseline: str = ""
    order: int = 50
    trust: Literal["module", "pickle"] | None = None
    untrusted: str = ""
    unsupported: str | None = None
    hint: str = ""
    refused: Mapping[str, str] = field(default_factory=dict)
    takes_class: bool = False
    takes_task: bool = False
    takes_signature: bool = False
    write: Callable[[Flavor, Path, Path], None] | None = None

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z][a-z0-9-]*", self.name):
            raise ValueError(f"source format name {self.name!r}: use lower-case letters, digits and dashes")
        problems = {
            f"the order {self.order!r} is not a whole number": not isinstance(self.order, int),
            f"detect {self.detect!r} cannot be called": not callable(self.detect),
            f"seals {self.seals!r} is not a set of formats": not isinstance(self.seals, frozenset | set),
            f"the interface {self.interface!r} is none of {set(INTERFACES)}": self.interface not in INTERFACES,
            f"the baseline has no {THREADS}": self.baseline and THREADS not in self.baseline,
            f"untrusted must say why {self.trust!r} has to be trusted": self.trust and not self.untrusted,
            f"refused {self.refused!r} is not a mapping": not isinstance(self.refused, Mapping),
            "hint must say what to do when it is not taken": (self.trust or self.unsupported) and not self.hint,
        }
        if found := [problem for problem, is_so in problems.items() if is_so]:
            raise ValueError(f"source format {self.name}: {'; '.join(found)}")
