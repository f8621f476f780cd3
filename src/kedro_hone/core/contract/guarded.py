"""A registry of another package, whose every call ends with a result of the contract or with an error for a person."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from kedro_hone.core.contract.proof import ProvenWinner
from kedro_hone.core.contract.registry import Publication, Registry, VersionInfo
from kedro_hone.core.errors import HoneError

_Result = TypeVar("_Result")


class GuardedRegistry:
    """A registry that passes each call on. An exception that is no ``HoneError`` becomes ``registry-broken``.

    Without it the exception of a stranger's code would be reported as a bug of ours, and its ``sys.exit(0)`` would end
    a run as if all had gone well.

    Args:
        registry: The registry of another package.
        origin: Where it comes from, for a person.
        scheme: The scheme of its URIs.
    """

    def __init__(self, registry: Registry, *, origin: str, scheme: str) -> None:
        self.registry, self._origin, self._scheme = registry, origin, scheme

    def resolve(self, uri: str) -> VersionInfo:
        """See ``Registry.resolve``."""
        return self._call("resolve", VersionInfo, lambda: self.registry.resolve(uri))

    def pull(self, uri: str, folder: Path) -> VersionInfo:
        """See ``Registry.pull``."""
        return self._call("pull", VersionInfo, lambda: self.registry.pull(uri, folder))

    def versions_since(self, cursor: str | None) -> tuple[tuple[VersionInfo, ...], str]:
        """See ``Registry.versions_since``."""
        return self._call("versions_since", tuple, lambda: self.registry.versions_since(cursor))

    def publish(
        self,
        winner: ProvenWinner,
        *,
        name: str,
        tags: Mapping[str, str],
        alias: str | None,
        metrics: Mapping[str, float] | None = None,
    ) -> Publication:
        """See ``Registry.publish``."""
        return self._call(
            "publish",
            Publication,
            lambda: self.registry.publish(winner, name=name, tags=tags, alias=alias, metrics=metrics),
        )

    def _call(self, name: str, kind: type, call: Callable[[], _Result]) -> _Result:
        try:
            result = call()
        except HoneError:
            raise
        except (Exception, SystemExit) as error:
            raise self._explain(f"{name} failed: {type(error).__name__}: {error}") from error
        if not isinstance(result, kind):
            raise self._explain(f"{name} returned a {type(result).__name__}, not a {kind.__name__}")
        return result

    def _explain(self, what: str) -> HoneError:
        return HoneError(
            "registry-broken",
            f"The registry of {self._scheme}:/… cannot be used.",
            why=f"It comes from {self._origin}, and its method {what}.",
            hint="Update the package, or report this to those who maintain it.",
        )
