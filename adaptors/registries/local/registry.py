"""Plain paths as a registry: a model's folder or file, and folders of published winners next to it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from glob import escape
from pathlib import Path

from hone_runtime.contract.aliases import PULL, find_move, format_record_name
from hone_runtime.contract.proof import ProvenWinner
from hone_runtime.contract.registry import (
    NewVersions,
    Publication,
    Registry,
    VersionInfo,
    check_names,
    explain_skipped,
)
from hone_runtime.contract.tags import KEY, derive_key
from hone_runtime.errors import HoneError
from hone_runtime.text import clean_text
from hone_runtime.values.digest import digest_file, digest_tree
from hone_runtime.values.trees import copy_bounded, copy_tree_bounded, measure_tree, require_room
from kedro_hone.adaptors.registries.local import publication, versions
from kedro_hone.adaptors.registries.locks import lock_publication
from kedro_hone.adaptors.registries.model_folder import make_empty


class LocalRegistry(Registry):
    """Plain paths: a folder with ``MLmodel``, ``model.onnx`` or ``model.pt2``, or one such file.

    A winner of ``models/digits`` is published to ``models/digits-hone/1``, ``2`` and so on; an alias is a link next to
    them. Relative paths are relative to the project, or to the current directory if no project is given.
    """

    keeps_versions_apart = True

    def __init__(self, project: Path | None = None) -> None:
        self.root = project or Path()

    def resolve(self, uri: str) -> VersionInfo:
        """Return the description of a path; its version is the digest of its content, its URI has all links resolved.

        Raises:
            HoneError: ``model-unknown``, with the nearest name; ``model-corrupt``: it is neither a file nor a folder.
        """
        try:
            path = (self.root / uri).resolve()
            known = path.exists()
        except (OSError, ValueError, RuntimeError) as error:  # too long, a null character, or a link to itself
            raise versions.explain_odd(uri, error) from error
        if not known:
            raise versions.explain_missing(path)
        with versions.explain_changes(path):
            return self._describe(path)

    def _describe(self, path: Path) -> VersionInfo:
        measure_tree(path)  # before reading all of it: it may be a device, or a whole disk
        # Tags are not signed: in a download they may be anything that its author wrote.
        tags = versions.read_tags(path) if path.parent.name.endswith(versions.SUFFIX) else {}
        model, links = path, dict[str, str]()
        if tags:
            model = path.parent.with_name(path.parent.name.removesuffix(versions.SUFFIX))
            links = versions.read_aliases(path.parent)
        root = self.root.resolve()
        return VersionInfo(
            uri=str(path),
            name=str(model.relative_to(root) if model.is_relative_to(root) else model),
            version=digest_file(path) if path.is_file() else digest_tree(path),
            aliases=tuple(sorted(alias for alias, version in links.items() if version == path.name)),
            tags=tags,
        )

    def pull(self, uri: str, folder: Path) -> VersionInfo:
        """Copy a path's files unchanged into an empty directory, which is created if it does not exist.

        For a file, adjacent files whose names continue its name (``model.onnx.data``) are copied too.

        Raises:
            HoneError: As in ``resolve``; ``model-corrupt``: there is no room for its files.
            FileExistsError: The directory is not empty.
        """
        info = self.resolve(uri)
        make_empty(folder)
        path = Path(info.uri)
        with versions.explain_changes(path):
            if path.is_dir():
                # Links are copied as links: a link out of the folder is refused later, by its name.
                copy_tree_bounded(path, folder)
            else:
                for file in [path, *filter(Path.is_file, path.parent.glob(f"{escape(path.name)}[._]*"))]:
                    require_room(folder, measure_tree(file))
                    copy_bounded(file.resolve(), folder / file.name)
            if self._describe(path).version != info.version:
                raise FileNotFoundError("Its digest differs from the one before it was copied.")
        return info

    def find_problem(self, *, name: str | None, alias: str | None) -> str:
        """Return why a name is invalid for a folder, or an alias for a link in it; empty if both are valid.

        A number cannot be an alias, since it is a version.
        """
        return versions.find_problem(name=name, alias=alias)

    def list_aliases(self, name: str) -> dict[str, str]:
        """Return the version that each link next to the winners of a model points to."""
        return versions.read_aliases(self._find_home(name))

    def name_version(self, name: str, version: str) -> str:
        """Return the URI of a version of a model."""
        return str(self._find_home(name) / version)

    def move_alias(self, uri: str, alias: str) -> None:
        """Make an alias, which is a link, point to a published winner.

        Raises:
            HoneError: As in ``resolve``; ``recipe-invalid``: no link can have that name.
        """
        info = self.resolve(uri)
        check_names(self, name=info.name, alias=alias)
        place = Path(info.uri)
        with lock_publication("", str(place.parent)):
            publication.move_alias(place.parent, alias, place)
            if PULL in info.tags:
                publication.move_alias(place.parent, format_record_name(alias), place)

    def versions_since(self, cursor: str | None) -> NewVersions:
        """Return the models in the root folder that are new or changed, and new winners of them, oldest first.

        A model that is changed in place is a new version. One that is still being copied may be listed twice:
        incomplete, and complete. Only files with a changed size or modification time since the last poll are read. A
        model that cannot be read is left out until it can be.

        Raises:
            HoneError: ``model-unknown``: the folder does not exist.
        """
        if not self.root.is_dir():
            raise versions.explain_missing(self.root.resolve())
        known: dict[str, list[str]] = json.loads(cursor) if cursor else {}
        seen: dict[str, list[str]] = {}
        found: list[tuple[int, VersionInfo]] = []
        paths, failed = versions.list_models(self.root.resolve())
        for path in map(str, paths):
            old_stamp, version = known.get(path, ("", ""))
            try:
                changed, stamp = versions.read_stamp(Path(path))
                info = None if stamp == old_stamp else self._describe_arrival(path)
            except (HoneError, OSError, ValueError) as error:  # such as a name that is not valid text
                failed[path] = error
                continue
            if info is not None and info.version != version:
                found.append((changed, info))
            seen[path] = [stamp, version if info is None else info.version]
        for path in failed:
            seen |= {old: state for old, state in known.items() if Path(old).is_relative_to(path)}
        found.sort(key=lambda pair: pair[0])
        skipped = {clean_text(path): explain_skipped(error) for path, error in failed.items()}
        return NewVersions(tuple(info for _, info in found), json.dumps(seen), skipped)

    def _describe_arrival(self, path: str) -> VersionInfo:
        return self.resolve(path).model_copy(update={"created": versions.read_arrival(Path(path))})

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
        """Write a new version, which appears complete by one rename; the alias, a link, is moved last.

        The metrics are stored with the tags. Leftovers of a killed call are removed by the next call. Processes of one
        machine wait for each other.

        Raises:
            HoneError: ``recipe-invalid``, ``toolchain-unknown``, or ``evidence-incomplete``.
        """
        check_names(self, name=name, alias=alias)
        home, note = self._find_home(name), ""
        # The key does not contain the path, so that a copy of the project does not publish the same again.
        key = derive_key(winner, name=home.name.removesuffix(versions.SUFFIX), tags=tags)
        with lock_publication("", str(home.resolve())):
            home.mkdir(parents=True, exist_ok=True)
            publication.remove_stages(home)
            place = publication.find_published(home, key)
            if place is None:
                place = publication.write_version(home, winner, tags={KEY: key, **tags}, metrics=metrics or {})
            now = versions.read_aliases(home)
            if alias is not None and now.get(alias) != place.name:
                note = find_move(alias, before=before, now=now, ours=versions.find_given(home, alias, tags.get(PULL)))
                if not note:
                    publication.move_alias(home, alias, place)
            if alias is not None and not note and PULL in tags:
                publication.move_alias(home, format_record_name(alias), place)
        return Publication(uri=str(place), version=place.name, alias=None if note else alias, note=note)

    def _find_home(self, name: str) -> Path:
        path = (self.root / name).absolute()
        return path.with_name(path.name + versions.SUFFIX)
