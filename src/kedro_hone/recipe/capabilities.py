"""The limits of a toolchain in its ``capabilities.yml``: a route that must fail is refused before anything starts.

The key ``takes`` is below a version, for all adaptors of the toolchain, or below an adaptor's name, only for it::

    package: iree-base-compiler  # the package of the versions; needed if there are several
    versions:
      - version: ">=3.13,<3.14"
        takes: {domains: [ai.onnx], without: [QuantizeLinear]}
        adaptors:
          iree.cpu:
            takes: {opsets: [1, 26], ir: 13, any_of: [MatMul, Gemm], where: VNNI}
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import yaml
from packaging.specifiers import SpecifierSet
from pydantic import Field, ValidationError, field_validator

from hone_runtime.contract.adaptor import Adaptor
from hone_runtime.contract.host import INSTRUCTIONS, Host
from hone_runtime.contract.toolchain import Toolchain
from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.base import Json, Value
from hone_runtime.values.outcome import Refused
from kedro_hone.core.problems import explain_unknown

CAPABILITIES: Final = "capabilities.yml"
"""The file in a toolchain's folder with its limits, and the tests of each adaptor."""

MOST_OPERATORS: Final = 60
"""The most kinds of operators stored for a source; a list of that length may be truncated, so missing ones prove
nothing."""

_OF_FILE: Final = frozenset({"toolchain", "package", "versions"})
_OF_VERSION: Final = frozenset(
    {"version", "formats", "precisions", "opsets", "takes", "notes", "not_offered", "adaptors", "rounds"}
)
_OF_ADAPTOR: Final = frozenset(
    {
        *("precisions", "opsets", "operators", "fusions", "granularity", "scheme", "strategies"),
        *("takes", "usual", "note"),
    }
)
"""The keys of an adaptor in a file, in addition to its options by name."""


UNREADABLE: Final = (yaml.YAMLError, ValueError, TypeError, KeyError, AttributeError, RecursionError)
"""The exceptions when reading an invalid file."""


class UnknownKey(ValueError):  # noqa: N818 - a reason, as the file's author reads it
    """Why a key of a file is not read."""


class Takes(Value):
    """The models and machines that an adaptor takes; missing keys are no limits."""

    opsets: tuple[int, int | None] | None = Field(None, description="The lowest and highest opset of ONNX, or null.")
    ir: int | None = Field(None, description="The highest version of ONNX's file format.")
    domains: tuple[str, ...] = Field((), description="Operators of other domains are not taken; `ai.onnx` is ONNX's.")
    without: tuple[str, ...] = Field((), description="Operators that are not taken.")
    any_of: tuple[str, ...] = Field((), description="Operators of which it needs one: it does nothing to others.")
    unless_quantized: str | None = Field(
        None, min_length=1, description="Why a model that a step has quantized is not taken; null if it is."
    )
    where: str = Field("", description="Vector instructions that the machine must have, such as `VNNI`.")
    converts: bool = Field(
        default=False,
        description="Whether the worker converts other models to these `opsets` and `ir`, which its job then contains.",
    )

    @field_validator("where")
    @classmethod
    def _know(cls, name: str) -> str:
        if name and name not in INSTRUCTIONS:
            raise ValueError(f"{name!r} is none of {', '.join(sorted(INSTRUCTIONS))}")
        return name

    def find_limit(self, artifact: Artifact, host: Host) -> tuple[str, str] | None:
        """Return why an artifact or a machine is refused, as a slug and a reason; None if there is no reason."""
        known = artifact.metadata
        if self.where and not host.can(self.where):
            return "host", f"needs a CPU with {self.where}, and this one has {host.instructions}"
        if self.unless_quantized and "quantization" in known:
            return "quantized", f"the model is quantized ({known['quantization']}): {self.unless_quantized}"
        if not self.converts and (found := self._find_bad_version(known)):
            return found
        if self.domains and (odd := sorted(_read_names(known, "domains") - {*self.domains})):
            return "operator", f"takes operators of {', '.join(self.domains)}, the model has some of {', '.join(odd)}"
        return self._find_operator(_read_names(known, "operators"))

    def _find_bad_version(self, known: Mapping[str, Json]) -> tuple[str, str] | None:
        opset, written = known.get("opset"), known.get("ir_version")
        lowest, highest = self.opsets or (1, None)
        if isinstance(opset, int) and not lowest <= opset <= (highest or opset):
            span = f"{lowest} to {highest}" if highest else f"from {lowest} on"
            return "opset", f"takes ONNX's opsets {span}, and the model has {opset}"
        if self.ir and isinstance(written, int) and written > self.ir:
            return "ir", f"takes ONNX's file format up to version {self.ir}, and the model has {written}"
        return None

    def _find_operator(self, operators: frozenset[str]) -> tuple[str, str] | None:
        if odd := sorted(operators & {*self.without}):
            return "operator", f"does not take {', '.join(odd)}, which the model has"
        if self.any_of and 0 < len(operators) < MOST_OPERATORS and not operators & {*self.any_of}:
            return "operator", f"works on {', '.join(self.any_of)}, and the model has none of them"
        return None


def _read_names(known: Mapping[str, Json], key: str) -> frozenset[str]:
    """Return names in an artifact's metadata, which workers write: invalid entries are left out."""
    found = known.get(key)
    return frozenset(one for one in found if isinstance(one, str)) if isinstance(found, list) else frozenset()


def find_limit(
    adaptor: Adaptor, artifact: Artifact, host: Host, *, find_versions: Callable[[], Mapping[str, str]]
) -> Refused | None:
    """Return a refusal if an adaptor does not take an artifact according to its toolchain's ``capabilities.yml``.

    Nothing is started or imported. ``find_versions`` returns the installed versions of the toolchain; it is called if
    the file has rows for several versions.

    Raises:
        HoneError: ``capabilities-invalid``.
    """
    for takes in read_takes(adaptor, find_versions=find_versions):
        if found := takes.find_limit(artifact, host):
            return Refused(by=adaptor.name, slug=found[0], reason=found[1])
    return None


def find_versions_to_write(
    adaptor: Adaptor, *, find_versions: Callable[[], Mapping[str, str]]
) -> dict[str, Json] | None:
    """Return the ``opsets`` and ``ir`` in which an adaptor's worker must first write a model; None if unlimited.

    Raises:
        HoneError: ``capabilities-invalid``.
    """
    converting = [takes for takes in read_takes(adaptor, find_versions=find_versions) if takes.converts]
    return converting[-1].model_dump(mode="json", include={"opsets", "ir"}) if converting else None


def read_takes(adaptor: Adaptor, *, find_versions: Callable[[], Mapping[str, str]]) -> tuple[Takes, ...]:
    """Return the limits of a version, for all adaptors of the toolchain and for this one; raises as ``find_limit``."""
    path = adaptor.toolchain.folder / CAPABILITIES
    try:
        known = read_file(path)
        require_known_keys(known, adaptor)
        row = _choose_row(known, find_versions)
        sections = (row.get("takes"), ((row.get("adaptors") or {}).get(adaptor.name) or {}).get("takes"))
        return tuple(Takes.model_validate(each) for each in sections if each is not None)
    except UNREADABLE as error:
        raise explain_invalid(adaptor.name, path, error) from error


def find_rounding(toolchain: Toolchain, dtype: str) -> str:
    """Return how a toolchain's runtime rounds values of a type, as a clause without a subject; empty if unknown."""
    rows = read_file(toolchain.folder / CAPABILITIES).get("versions") or []
    return next((str(row["rounds"][dtype]) for row in rows if dtype in (row.get("rounds") or {})), "")


def list_versions(toolchain: Toolchain) -> tuple[str, ...]:
    """Return the ranges of versions in a toolchain's file; empty without a file."""
    return tuple(str(row["version"]) for row in read_file(toolchain.folder / CAPABILITIES).get("versions", ()))


@lru_cache(maxsize=64)
def read_file(path: Path) -> Mapping[str, Json]:
    """Return the content of a file; empty if absent.

    Raises:
        yaml.YAMLError: It is not YAML.
        UnicodeDecodeError: It is not in UTF-8.
    """
    return yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else {}


def require_known_keys(known: Mapping[str, Json], adaptor: Adaptor) -> None:
    """Check the keys of an adaptor in a file: a misspelt key would limit nothing.

    Raises:
        UnknownKey: There is an unknown key.
        AttributeError: Something is not a mapping; may also be a ``TypeError``.
    """
    _require_keys((), known, _OF_FILE)
    for number, row in enumerate(known.get("versions") or ()):
        place = ("versions", str(number))
        of_it = (row.get("adaptors") or {}).get(adaptor.name) or {}
        own = (*place, "adaptors", adaptor.name)
        _require_keys(place, row, _OF_VERSION)
        _require_keys(own, of_it, _OF_ADAPTOR | adaptor.options.model_fields.keys())
        for where, section in ((place, row.get("takes")), (own, of_it.get("takes"))):
            _require_keys((*where, "takes"), section if isinstance(section, Mapping) else {}, Takes.model_fields)


def require_known_adaptors(toolchain: Toolchain, names: Collection[str]) -> None:
    """Check the names of adaptors in a file: keys below a misspelt name would limit nothing.

    Args:
        toolchain: The toolchain of the file.
        names: The names of all its adaptors.

    Raises:
        HoneError: ``capabilities-invalid``.
    """
    path = toolchain.folder / CAPABILITIES
    try:
        for number, row in enumerate(read_file(path).get("versions") or ()):
            _require_keys(("versions", str(number), "adaptors"), row.get("adaptors") or {}, names)
    except UNREADABLE as error:
        raise explain_invalid(toolchain.name, path, error) from error


def _require_keys(place: tuple[str, ...], section: Mapping[str, Json], known: Collection[str]) -> None:
    for odd in (key for key in {**section} if key not in known):
        raise UnknownKey(explain_unknown(".".join((*place, str(odd))), str(odd), sorted(known)))


def explain_invalid(name: str, path: Path, error: Exception) -> HoneError:
    """Return the error for a file with invalid entries of an adaptor."""
    reason = str(error) if isinstance(error, UnknownKey) else f"{type(error).__name__}: {error}"
    if isinstance(error, ValidationError):
        each = error.errors(include_url=False)
        reason = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in each)
    return HoneError(
        "capabilities-invalid",
        f"The capabilities of the adaptor {name} cannot be read.",
        why=f"{path}: {reason}",
        hint="Correct it there; Write an adaptor in the documentation describes the file.",
    )


def _choose_row(known: Mapping[str, Json], find_versions: Callable[[], Mapping[str, str]]) -> Mapping[str, Any]:
    """Return the row of the installed version; if there is only one row, that one; empty if none fits."""
    rows = known.get("versions") or []
    if len(rows) > 1:
        installed = find_versions().get(known["package"], "")
        rows = [row for row in rows if installed and SpecifierSet(row["version"]).contains(installed, prereleases=True)]
    return rows[0] if rows else {}
