"""A registry as another package brings it: ``hub://<name>/<number>`` in a folder that ``HUB_HOME`` names."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from hone_runtime.contract.registry import NewVersions, Publication, Registry, VersionInfo
from hone_runtime.errors import HoneError
from kedro_hone.adaptors.registries.model_folder import write_winner


class HubRegistry(Registry):
    def __init__(self):
        self.home = Path(os.environ["HUB_HOME"])

    def resolve(self, uri):
        name, _, version = uri.removeprefix("hub://").partition("/")
        if version == "honed":
            version = (self.home / name / "honed").read_text()
        if not (self.home / name / version).is_dir():
            raise HoneError("model-unknown", f"There is no {uri}.", why="The hub has none.", hint="Look.")
        tags = json.loads((self.home / name / version / "tags.json").read_text())
        return VersionInfo(uri=f"hub://{name}/{version}", name=name, version=version, tags=tags)

    def pull(self, uri, folder):
        info = self.resolve(uri)
        shutil.copytree(self.home / info.name / info.version / "files", folder, dirs_exist_ok=True)
        return info

    def versions_since(self, cursor):
        uris = sorted(f"hub://{path.parent.name}/{path.name}" for path in self.home.glob("*/[0-9]*"))
        infos = (self.resolve(uri) for uri in uris if uri not in (cursor or "").split())
        return NewVersions(tuple(infos), " ".join(uris))

    def find_problem(self, *, name, alias):  # noqa: ARG002
        return "An alias of the hub has no dot." if "." in (alias or "") else ""

    def publish(self, winner, *, name, tags, alias, metrics=None):  # noqa: ARG002
        number = str(len(list((self.home / name).glob("[0-9]*"))) + 1)
        place = self.home / name / number
        (place / "files").mkdir(parents=True)
        write_winner(place / "files", winner, name=name)
        (place / "tags.json").write_text(json.dumps(tags))
        if alias:
            (place.parent / alias).write_text(number)
        return Publication(uri=f"hub://{name}/{number}", version=number, alias=alias)
