"""Code that a recipe names, as a pull request may change it: it runs in workers only, and the evidence names it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from kernel import find_layers

from hone_runtime.values.digest import digest_file
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.core.workers.host.code_files import find_code_file
from kedro_hone.programs import call_program, digest_metric, find_program, load_program
from kedro_hone.recipe.schema import read_recipe

EVIL = """
import os, sys
for folder in {folders}:
    try:
        with open(os.path.join(folder, "was-here"), "a") as stream:
            stream.write(f"{{os.getpid()}} {{sys.argv[0]}}")
    except OSError:
        pass
"""
PROGRAM = "from hone_programs.fidelity import *\n"


@pytest.fixture
def place(tmp_path):
    """A project whose code, wherever it is imported, writes ``was-here`` to the project and to a place outside."""
    project, outside = tmp_path / "project", tmp_path / "outside"
    for folder in (project / "src" / "shop_of_mine" / "deep", outside):
        folder.mkdir(parents=True)
    evil = EVIL.format(folders=[str(project), str(outside)])
    package = project / "src" / "shop_of_mine"
    for path in (package / "__init__.py", package / "deep" / "__init__.py", package / "deep" / "net.py"):
        path.write_text(evil)
    (project / "program.py").write_text(PROGRAM + evil)
    return project


def list_marks(place: Path) -> list[Path]:
    return sorted(place.parent.rglob("was-here"))


@pytest.mark.attack(
    what="a package whose `__init__` runs code when its class is looked for",
    who="recipe",
    stopped_by="files are found without an import",
)
def test_looking_for_the_code_of_a_recipe_runs_none_of_it(place):
    assert find_code_file("shop_of_mine.deep.net", project=place) == place / "src" / "shop_of_mine" / "deep" / "net.py"
    assert find_program("shop_of_mine.deep.net", project=place).path.endswith("net.py")
    assert find_program("program.py", project=place).digest.startswith("sha256:")
    assert digest_metric("shop_of_mine.deep.net:score", project=place).startswith("sha256:")
    read_recipe(
        {
            "model": {"uri": "models/x", "module": "shop_of_mine.deep.net:Net"},
            "trust": ["module"],
            "program": {"name": "program.py", "metric": "shop_of_mine.deep.net:score"},
        }
    )
    assert list_marks(place) == []
    assert not [name for name in sys.modules if name.startswith("shop_of_mine")]


@pytest.mark.attack(
    what="a program that writes outside",
    who="recipe",
    stopped_by="it runs in a worker",
    feature="namespaces (Linux 5.12) or Landlock (Linux 5.19)",
)
def test_a_program_by_path_writes_nowhere_but_to_its_output(place, tmp_path):
    run, store = RunFolder(root=tmp_path / "runs", run_id="1", project=place), Store(tmp_path / "store")
    job = {"program": str(place / "program.py"), "program_options": {}, "metric": None, "gate": ""}
    assert call_program("check", job=job, store=store, run=run) == {
        "rows": None,
        "metric": "agreement",
        "classes": [],
        "slices": [],
    }
    if not (find_layers()["namespaces"] or find_layers()["landlock"] >= 2):
        pytest.skip("this kernel has neither Landlock nor namespaces of users")
    assert list_marks(place) == []
    load_program("program.py", project=place)  # what it does in a process that nothing restricts
    assert len(list_marks(place)) == 2


@pytest.mark.attack(
    what="another program than the one that people know",
    who="recipe",
    stopped_by="evidence and reports name it, with its digest",
)
def test_the_evidence_and_the_reports_name_the_program_and_its_digest(unpublished):
    program = unpublished.evidence["program"]
    digest = find_program("likeness.py", project=unpublished.root).digest
    assert program == {"name": "likeness.py", "digest": digest, "metric": "", "metric_digest": ""}
    assert digest_file(unpublished.root / "likeness.py") != digest  # which is also of what it can import
    for name in ("report.md", "report.html"):
        text = (unpublished.work / "latest" / name).read_text()
        assert "likeness.py" in text
        assert digest in text
