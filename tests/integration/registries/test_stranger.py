"""Somebody else's registry: a folder and an entry point, and the whole line pulls from it and publishes to it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from small_project import copy_project

REGISTRY = Path(__file__).with_name("hub_registry.py")
LOAD = """
import json
import numpy as np
import shop.settings  # the runtime is the project's own
import kedro_hone
print(json.dumps(kedro_hone.load("hub://matrix/honed")(np.ones((8, 4), np.float32)).tolist()))
"""
ARRIVALS = """
import json
from hone_runtime.contract.registries import find_registry
infos, cursor, skipped = find_registry("hub://").versions_since("hub://matrix/1")
print(json.dumps([[info.uri, info.is_optimized] for info in infos]))
"""


def install(site: Path) -> list[str]:
    """Install the registry as pip would; return the files of it that its author writes."""
    (site / "hub_registry").mkdir(parents=True)
    shutil.copyfile(REGISTRY, site / "hub_registry" / "__init__.py")
    info = site / "hub_registry-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hub-registry\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[kedro_hone.registries]\nhub = hub_registry:HubRegistry\n")
    return sorted(path.relative_to(site).as_posix() for path in site.rglob("*") if path.name != "METADATA")


@pytest.fixture
def project(template, tmp_path):
    project = copy_project(template, tmp_path)
    site = tmp_path / "site"
    # One folder and one entry point, and no file of ours.
    assert install(site) == [
        "hub_registry",
        "hub_registry-1.0.dist-info",
        "hub_registry-1.0.dist-info/entry_points.txt",
        "hub_registry/__init__.py",
    ]
    home = tmp_path / "hub"
    shutil.copytree(project.root / "models" / "matrix", home / "matrix" / "1" / "files")
    (home / "matrix" / "1" / "tags.json").write_text("{}")
    project.environment |= {"HUB_HOME": str(home), "PYTHONPATH": f"{project.variables['PYTHONPATH']}:{site}"}
    off = {name: {"enabled": False} for name in ("shop.slow", "shop.convert")}
    project.set(model={"uri": "hub://matrix/1"}, adaptors=off)
    return project


def call(project, code: str):
    environment = project.variables
    environment["PYTHONPATH"] += f":{project.root / 'src'}"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=project.root, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.nightly
def test_the_line_pulls_from_it_and_publishes_to_it(project):
    project.run()
    assert project.evidence["source"]["uri"] == "hub://matrix/1"
    publication = json.loads((project.work / "latest" / "publication.json").read_text())
    assert publication == {
        "uri": "hub://matrix/2",
        "version": "2",
        "alias": "honed",
        "note": "",
        "signer": "",
        "awaits": "",
    }
    assert call(project, ARRIVALS) == [["hub://matrix/2", True]]
    assert np.shape(call(project, LOAD)) == (8, 3)
    assert "hub:" in project.call("hone", "registries").output


def test_it_is_asked_for_the_alias_before_anything_is_pulled(project):
    project.set(publish={"alias": "v.1"})
    error = project.run(code=3)
    assert "An alias of the hub has no dot." in error.output
    assert not list(project.work.rglob("*.onnx"))
