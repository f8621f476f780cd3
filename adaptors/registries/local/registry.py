"""Plain paths as a registry: a model's folder or file, and folders of published winners next to it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kedro_hone.adaptors.registries import publication
from kedro_hone.adaptors.registries.local.arrivals import SUFFIX, list_arrivals
from kedro_hone.adaptors.registries.model_folder import find_requirements, write_winner
from kedro_hone.adaptors.registries.suggestions import suggest
from kedro_hone.core.contract.proof import ProvenWinner
from kedro_hone.core.contract.registry import RECIPE, Publication, VersionInfo
from kedro_hone.core.errors import HoneError
from kedro_hone.core.values.digest import digest_file, digest_tree
from kedro_hone.sources.source_format import MLMODEL

TAGS: Final = "hone.json"
"""The file with a published version's tags."""
_STAGE: Final = ".publishing-"


class LocalRegistry:
    """Plain paths: a folder with ``MLmodel``, ``model.onnx`` or ``model.pt2``, or one such file.

    A winner of ``models/digits`` goes to ``models/digits-hone/1``, ``2`` and so on; an alias is a link next to them.
    """

    def __init__(self, project: Path | None = None) -> None:
        """Choose what relative paths are under; the current directory when not given."""
        self.root = project or Path()

    def resolve(self, uri: str) -> VersionInfo:
        """Return what is known of a path; its version is the digest of its content, its URI follows all links.

        Raises:
            HoneError: ``model-unknown``, with the nearest name.
        """
        path = (self.root / uri).resolve()
        if not path.exists():
            raise _explain_missing(path)
        digest = digest_file(path) if path.is_file() else digest_tree(path)
        tags = _read_tags(path)
        home = path.parent if tags else None
        return VersionInfo(
            uri=str(path),
            name=self._name(home.with_name(home.name.removesuffix(SUFFIX)) if home else path),
            version=digest,
            aliases=_list_aliases(home, path) if home else (),
            tags=tags,
        )

    def _name(self, model: Path) -> str:
        """Return the name for ``publish`` with which winners go next to the model."""
        root = self.root.resolve()
        return str(model.relative_to(root) if model.is_relative_to(root) else model)

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
        if path.is_dir():
            # Links stay links: a link that leads out of the folder is refused later with its name, and not copied.
            shutil.copytree(path, folder, dirs_exist_ok=True, symlinks=True)
        else:
            for file in [path, *sorted(path.parent.glob(f"{path.name}[._]*"))]:
                shutil.copyfile(file, folder / file.name)
        return info

    def versions_since(self, cursor: str | None) -> tuple[tuple[VersionInfo, ...], str]:
        """Return the models in the root folder that are new or changed, and new winners of them, oldest first.

        A model that is changed in its place is a new version, since the digest of its content is its version. One that
        is still being copied may be listed twice: half, and whole.

        Raises:
            HoneError: ``model-unknown``: the folder does not exist.
        """
        if not self.root.is_dir():
            raise _explain_missing(self.root.resolve())
        return list_arrivals(self.root, self.resolve, cursor)

    def publish(
        self,
        winner: ProvenWinner,
        *,
        name: str,
        tags: Mapping[str, str],
        alias: str | None,
        metrics: Mapping[str, float] | None = None,
    ) -> Publication:
        """Write a new version; the alias, a link, is moved last. The metrics are kept with the tags.

        A version appears by one rename, whole. What a killed call left is removed by the next call. Publishing is
        idempotent.

        Raises:
            HoneError: ``toolchain-unknown``, or ``evidence-incomplete``.
        """
        requirements = find_requirements(winner.artifact)
        path = (self.root / name).absolute()
        home = path.with_name(path.name + SUFFIX)
        home.mkdir(parents=True, exist_ok=True)
        _remove_stages(home)
        key = publication.derive_key(winner, name=str(path), recipe=tags.get(RECIPE))
        published = (each for each in home.iterdir() if each.name.isdecimal())
        place = next((each for each in published if _read_tags(each).get(publication.KEY) == key), None)
        if place is None:
            stage = home / f"{_STAGE}{publication.name_publisher()}"
            stage.mkdir()
            write_winner(stage, winner, requirements=requirements)
            content = {publication.KEY: key, **tags}
            content |= {f"hone.metric.{metric}": repr(float(value)) for metric, value in (metrics or {}).items()}
            (stage / TAGS).write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8")
            place = _claim_number(home, stage)
        if alias is not None:
            _move_alias(home, alias, place)
        return Publication(uri=str(place), version=place.name, alias=alias)


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


def _move_alias(home: Path, alias: str, place: Path) -> None:
    if alias.isdecimal() or "/" in alias or alias.startswith("."):
        raise ValueError(f"{alias!r} cannot be an alias: it is a number or a path")
    link = home / f"{_STAGE}{publication.name_publisher()}-link"
    link.symlink_to(place.name)
    link.replace(home / alias)


def _remove_stages(home: Path) -> None:
    """Remove what killed publications left."""
    for path in home.glob(f"{_STAGE}*"):
        publisher = path.name.removeprefix(_STAGE).removesuffix("-link")
        if publication.is_alive(publisher, changed=path.lstat().st_mtime):
            continue
        if path.is_symlink():
            path.unlink()
        else:
            shutil.rmtree(path)


def _list_aliases(home: Path, place: Path) -> tuple[str, ...]:
    links = (path for path in home.iterdir() if path.is_symlink() and not path.name.startswith("."))
    return tuple(sorted(link.name for link in links if link.resolve() == place))


def _read_tags(path: Path) -> dict[str, str]:
    """Return a published version's tags, or none: then it is no such version."""
    file = path / TAGS
    return dict(json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else {}


def _explain_missing(path: Path) -> HoneError:
    home = next(parent for parent in path.parents if parent.is_dir())
    missing = path.relative_to(home).parts[0]
    why, hint = suggest(missing, sorted(file.name for file in home.iterdir()), f"files in {home}:")
    return HoneError(
        "model-unknown", f"There is no {path}.", why=why, hint=f"{hint} Name a model file or a folder with {MLMODEL}."
    )
