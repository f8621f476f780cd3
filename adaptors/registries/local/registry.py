"""Plain paths as a registry: a model's folder or file, and folders of published winners next to it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from typing import Final

from pydantic import TypeAdapter

from kedro_hone.adaptors.registries.model_folder import lock_publication, write_winner
from kedro_hone.core.contract.aliases import find_move
from kedro_hone.core.contract.proof import ProvenWinner
from kedro_hone.core.contract.registry import KEY, Publication, VersionInfo, check_names, derive_key, explain_unknown
from kedro_hone.core.errors import HoneError
from kedro_hone.core.machine.processes import may_be_alive, name_process
from kedro_hone.core.store.disk import remove_tree
from kedro_hone.core.store.manifest import MANIFEST
from kedro_hone.core.values.digest import digest_file, digest_json, digest_tree
from kedro_hone.core.values.regular import read_regular
from kedro_hone.sources.files import make_corrupt
from kedro_hone.sources.source_format import MLMODEL

SUFFIX: Final = "-hone"
"""The folder with the winners of ``models/digits`` is ``models/digits-hone``."""
TAGS: Final = "hone.json"
"""The file with a published version's tags."""
_MODELS: Final = (".onnx", ".pt2")
_STAGE: Final = ".publishing-"
_TAGS: Final = TypeAdapter(dict[str, str])
_LONGEST: Final = 255
"""Bytes of a file's name."""


class LocalRegistry:
    """Plain paths: a folder with ``MLmodel``, ``model.onnx`` or ``model.pt2``, or one such file.

    A winner of ``models/digits`` goes to ``models/digits-hone/1``, ``2`` and so on; an alias is a link next to them.
    Relative paths are under the project, or the current directory when not given.
    """

    def __init__(self, project: Path | None = None) -> None:
        self.root = project or Path()

    def resolve(self, uri: str) -> VersionInfo:
        """Return what is known of a path; its version is the digest of its content, its URI follows all links.

        Raises:
            HoneError: ``model-unknown``, with the nearest name.
        """
        try:
            path = (self.root / uri).resolve()
            known = path.exists()
        except (OSError, ValueError, RuntimeError) as error:  # too long, a null character, or a link to itself
            raise _explain_odd(uri, error) from error
        if not known:
            raise _explain_missing(path)
        with _explain_changes(path):
            return self._describe(path)

    def _describe(self, path: Path) -> VersionInfo:
        # Tags are not signed: in a download they are whatever its author wrote.
        tags = _read_tags(path) if path.parent.name.endswith(SUFFIX) else {}
        model, links = path, dict[str, str]()
        if tags:
            model = path.parent.with_name(path.parent.name.removesuffix(SUFFIX))
            links = _read_aliases(path.parent)
        root = self.root.resolve()
        return VersionInfo(
            uri=str(path),
            name=str(model.relative_to(root) if model.is_relative_to(root) else model),
            version=digest_file(path) if path.is_file() else digest_tree(path),
            aliases=tuple(sorted(alias for alias, version in links.items() if version == path.name)),
            tags=tags,
        )

    def pull(self, uri: str, folder: Path) -> VersionInfo:
        """Copy a path's files, as they are, into an empty directory, which is made when it does not exist.

        With a file come those next to it that continue its name (``model.onnx.data``).

        Raises:
            HoneError: ``model-unknown``.
            FileExistsError: The directory is not empty.
        """
        info = self.resolve(uri)
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise FileExistsError(f"{folder} is not empty")
        path = Path(info.uri)
        with _explain_changes(path):
            if path.is_dir():
                # Links stay links: a link that leads out of the folder is refused later with its name, and not copied.
                shutil.copytree(path, folder, dirs_exist_ok=True, symlinks=True)
            else:
                for file in [path, *sorted(path.parent.glob(f"{path.name}[._]*"))]:
                    shutil.copyfile(file, folder / file.name)
            if self._describe(path).version != info.version:
                raise FileNotFoundError("Its digest is another one than before it was copied.")
        return info

    def find_problem(self, *, name: str | None, alias: str | None) -> str:
        """Return why a folder cannot have a name, or a link in it an alias; empty where both can be.

        A number cannot be an alias, since it is a version.
        """
        last = None if name is None else PurePath(name).name
        odd = alias is not None and (not alias or alias.isdecimal() or "/" in alias or alias.startswith("."))
        problems = {
            f"hone.publish.name: {name!r} names no folder.": name is not None and (not name or last == ".."),
            f"hone.publish.alias: {alias!r} is a version's number, a path or hidden, and an alias is a link.": odd,
            "hone.publish: a path has no null character.": "\0" in (name or "") + (alias or ""),
            f"hone.publish.name: {last!r} has over {_LONGEST} bytes with {SUFFIX}.": _is_long((last or "") + SUFFIX),
            f"hone.publish.alias: {alias!r} has over {_LONGEST} bytes.": _is_long(alias or ""),
        }
        return next((problem for problem, is_so in problems.items() if is_so), "")

    def list_aliases(self, name: str) -> dict[str, str]:
        """Return the version that each link next to the winners of a model points to."""
        return _read_aliases(self._find_home(name))

    def versions_since(self, cursor: str | None) -> tuple[tuple[VersionInfo, ...], str]:
        """Return the models in the root folder that are new or changed, and new winners of them, oldest first.

        A model that is changed in its place is a new version. One that is still being copied may be listed twice: half,
        and whole. Only files whose size or modification time differs from the last poll are read.

        Raises:
            HoneError: ``model-unknown``: the folder does not exist.
        """
        if not self.root.is_dir():
            raise _explain_missing(self.root.resolve())
        known: dict[str, list[str]] = json.loads(cursor) if cursor else {}
        seen: dict[str, list[str]] = {}
        found: list[tuple[int, VersionInfo]] = []
        for path in map(str, _list_models(self.root.resolve())):
            changed, stamp = _read_stamp(Path(path))
            old_stamp, version = known.get(path, ("", ""))
            if stamp != old_stamp:
                info = self.resolve(path)
                if info.version != version:
                    found.append((changed, info))
                version = info.version
            seen[path] = [stamp, version]
        found.sort(key=lambda pair: pair[0])
        return tuple(info for _, info in found), json.dumps(seen)

    def publish(
        self,
        winner: ProvenWinner,
        *,
        name: str,
        tags: Mapping[str, str],
        alias: str | None,
        metrics: Mapping[str, float] | None = None,
        before: Mapping[str, str] | None = None,
    ) -> Publication:
        """Write a new version, which appears whole by one rename; the alias, a link, is moved last.

        The metrics are kept with the tags. What a killed call left is removed by the next call. Processes of one
        machine wait for each other.

        Raises:
            HoneError: ``recipe-invalid``, ``toolchain-unknown``, or ``evidence-incomplete``.
        """
        check_names(self, name=name, alias=alias)
        home, note = self._find_home(name), ""
        # The key has no path, so that a copy of the project does not publish the same again.
        key = derive_key(winner, name=home.name.removesuffix(SUFFIX), tags=tags)
        with lock_publication("", str(home.resolve())):
            home.mkdir(parents=True, exist_ok=True)
            _remove_stages(home)
            place = _find_published(home, key) or _publish(home, winner, tags={KEY: key, **tags}, metrics=metrics or {})
            now = _read_aliases(home)
            if alias is not None and now.get(alias) != place.name:
                note = find_move(alias, before=before, now=now)
                if not note:
                    _move_alias(home, alias, place)
        return Publication(uri=str(place), version=place.name, alias=None if note else alias, note=note)

    def _find_home(self, name: str) -> Path:
        path = (self.root / name).absolute()
        return path.with_name(path.name + SUFFIX)


def _find_published(home: Path, key: str) -> Path | None:
    """Return the version that a publication made already, if it did."""
    published = (each for each in home.iterdir() if each.name.isdecimal())
    return next((each for each in published if _read_tags(each).get(KEY) == key), None)


def _publish(home: Path, winner: ProvenWinner, *, tags: Mapping[str, str], metrics: Mapping[str, float]) -> Path:
    """Write a version next to the others, and give it its number when it is whole."""
    stage = home / f"{_STAGE}{name_process()}"
    stage.mkdir()
    try:
        write_winner(stage, winner, name=home.name.removesuffix(SUFFIX))
        numbers = {f"hone.metric.{metric}": repr(float(value)) for metric, value in metrics.items()}
        content = json.dumps({**tags, **numbers}, indent=1, sort_keys=True)
        (stage / TAGS).write_text(content + "\n", encoding="utf-8")
        return _claim_number(home, stage)
    finally:
        remove_tree(stage)  # it was renamed, unless something failed


def _claim_number(home: Path, stage: Path) -> Path:
    """Rename a finished stage to the next free number; renaming to a folder with content fails, so none is lost."""
    number = max((int(path.name) for path in home.iterdir() if path.name.isdecimal()), default=0)
    while True:
        number += 1
        try:
            return stage.rename(home / str(number))
        except OSError:
            if not (home / str(number)).exists():
                raise


@contextmanager
def _explain_changes(path: Path) -> Iterator[None]:
    """Explain that a model is changed by others while it is read: what was pulled would not be the version named."""
    try:
        yield
    except (shutil.Error, FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        raise HoneError(
            "model-unknown",
            f"{path} was changed or deleted while it was read.",
            why=str(error)[:200],
            hint="Run again when nothing writes to it.",
        ) from error


def _read_aliases(home: Path) -> dict[str, str]:
    aliases = {}
    for link in home.glob("[!.]*"):
        if link.is_symlink():
            with suppress(OSError, RuntimeError):  # a link to itself
                aliases[link.name] = link.resolve().name
    return aliases


def _move_alias(home: Path, alias: str, place: Path) -> None:
    link = home / f"{_STAGE}{name_process()}-link"
    link.symlink_to(place.name)
    link.replace(home / alias)


def _remove_stages(home: Path) -> None:
    """Remove what killed publications left."""
    for path in home.glob(f"{_STAGE}*"):
        publisher = path.name.removeprefix(_STAGE).removesuffix("-link")
        if not may_be_alive(publisher, changed=path.lstat().st_mtime):
            remove_tree(path)


def _read_tags(path: Path) -> dict[str, str]:
    """Return a published version's tags, or none: then it is no such version."""
    file = path / TAGS
    if not file.is_file():
        return {}
    try:
        return _TAGS.validate_json(read_regular(file))
    except (OSError, ValueError) as error:
        raise make_corrupt(file, f"it holds no tags ({type(error).__name__})") from error


def _list_models(root: Path) -> Iterator[Path]:
    for path in sorted(root.iterdir()):
        if path.name.startswith(".") or path.is_symlink():
            continue
        if path.is_file():
            if path.suffix in _MODELS:
                yield path
        elif path.name.endswith(SUFFIX):
            yield from (version for version in sorted(path.iterdir()) if version.name.isdecimal())
        elif any(file.name in {MLMODEL, MANIFEST} or file.suffix in _MODELS for file in path.iterdir()):
            yield path


def _read_stamp(path: Path) -> tuple[int, str]:
    """Return when a model was changed last, in nanoseconds, and what changes with each of its files."""
    files = [path] if path.is_file() else [file for file in sorted(path.rglob("*")) if file.is_file()]
    rows = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    return max((changed for _, _, changed in rows), default=0), digest_json(rows)


def _is_long(name: str) -> bool:
    return len(os.fsencode(name)) > _LONGEST


def _explain_odd(uri: str, error: Exception) -> HoneError:
    return HoneError(
        "model-unknown",
        "No file can have this path.",
        why=f"{uri[:80]!r}: {error}"[:200],
        hint=f"Name a model file or a folder with {MLMODEL}.",
    )


def _explain_missing(path: Path) -> HoneError:
    home = next(parent for parent in path.parents if parent.is_dir())
    names = sorted(file.name for file in home.iterdir())
    missing = path.relative_to(home).parts[0]
    advice = f" Name a model file or a folder with {MLMODEL}."
    return explain_unknown("model-unknown", f"There is no {path}.", missing, names, f"files in {home}:", advice=advice)
