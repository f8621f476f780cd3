"""DVCDataset on real git and DVC repositories."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from kedro.io import DataCatalog, DatasetError

from hone_runtime.errors import HoneError
from kedro_hone.datasets import DVCDataset


class Demo:
    """A repository with DVC, in a folder of another git repository, with a remote next to it.

    Args:
        project: The other repository.
        remote: A folder to make.
        empty: A repository with DVC and nothing in it.
        prefix: Where in the repository DVC is.
    """

    def __init__(self, project: Path, remote: Path, *, empty: Path, prefix: str = "") -> None:
        self.git_root = project / "data" / "demo"
        self.root = self.git_root / prefix
        shutil.copytree(empty, self.git_root)
        remote.mkdir()
        config = f"[core]\n    analytics = false\n    remote = store\n['remote \"store\"']\n    url = {remote}\n"
        (self.root / ".dvc" / "config").write_text(config)  # three commands of DVC would take seconds

    def run(self, *command: str, at: Path | None = None) -> None:
        run(*command, at=at or self.root)

    def commit(self, name: str, *, tag: str | None = None) -> None:
        self.run("dvc", "add", "-q", name)
        self.run("git", "add", "-A", at=self.git_root)
        self.run("git", "commit", "-q", "-m", f"Add {name}")
        if tag:
            self.run("git", "tag", tag)

    def forget_cache(self) -> None:
        shutil.rmtree(self.root / ".dvc" / "cache")

    def write(self, name: str, rows: int) -> bytes:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(path, x=np.arange(rows, dtype=np.float32))
        return path.read_bytes()


def run(*command: str, at: Path) -> None:
    if command[0] == "dvc":
        command = (sys.executable, "-m", *command)
    subprocess.run(command, cwd=at, check=True, capture_output=True)


def make_empty(root: Path, prefix: str = "") -> Path:
    """Make a repository with DVC and nothing in it."""
    run("git", "init", "-q", ".", at=root)
    (root / prefix).mkdir(exist_ok=True)
    run("dvc", "init", "-q", *(["--subdir"] if prefix else []), at=root / prefix)
    return root


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    return make_empty(tmp_path_factory.mktemp("empty"))


@pytest.fixture
def project(tmp_path, monkeypatch):
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "a person")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "person@example.org")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("DVC_SITE_CACHE_DIR", str(tmp_path / "site"))
    monkeypatch.setenv("DVC_NO_ANALYTICS", "1")
    project = tmp_path / "project"
    project.mkdir()
    subprocess.run(["git", "init", "-q", "."], cwd=project, check=True)
    monkeypatch.chdir(project)
    return project


@pytest.fixture
def demo(project, tmp_path, empty):
    return Demo(project, tmp_path / "remote", empty=empty)


def entry(**extra):
    return DVCDataset(**{"path": "data/eval.npz", "repo": "data/demo"} | extra)


def test_a_tag_pins_the_data_while_the_workspace_moves_on(demo):
    first = demo.write("data/eval.npz", 3)
    demo.commit("data/eval.npz", tag="v1")
    second = demo.write("data/eval.npz", 4)
    demo.commit("data/eval.npz")

    pinned, newest = entry(rev="v1").load(), entry().load()

    assert Path(pinned.path).read_bytes() == first
    assert Path(newest.path).read_bytes() == second
    assert pinned.md5 != newest.md5
    assert Path(pinned.path) == Path.cwd() / "data/hone/dvc" / pinned.md5 / "eval.npz"
    assert len(pinned.resolved_rev) == 40
    assert (pinned.source, pinned.repo, pinned.rev) == ("data/eval.npz", "data/demo", "v1")
    assert entry(rev="v1").exists()


def test_it_is_copied_once_and_a_damaged_copy_is_made_again(demo):
    content = demo.write("data/eval.npz", 3)
    demo.commit("data/eval.npz")
    copy = Path(entry().load().path)
    stamp = copy.stat().st_mtime_ns
    assert Path(entry().load().path).stat().st_mtime_ns == stamp

    copy.chmod(0o644)
    copy.write_bytes(b"damaged")

    assert Path(entry().load().path).read_bytes() == content
    assert [path.name for path in copy.parent.parent.iterdir()] == [copy.parent.name]


def test_a_directory_is_one_out(demo):
    demo.write("data/parts/a.npz", 3)
    demo.write("data/parts/deep/b.npz", 4)
    demo.commit("data/parts")

    loaded = entry(path="data/parts").load()

    assert loaded.md5.endswith(".dir")
    assert sorted(path.relative_to(Path(loaded.path)).as_posix() for path in Path(loaded.path).rglob("*.npz")) == [
        "a.npz",
        "deep/b.npz",
    ]
    (Path(loaded.path) / "a.npz").unlink()
    assert (Path(entry(path="data/parts").load().path) / "a.npz").exists()
    inside = entry(path="data/parts/deep/b.npz").load()
    assert Path(inside.path).read_bytes() == (demo.root / "data/parts/deep/b.npz").read_bytes()


def test_the_remote_answers_when_the_cache_is_gone(demo):
    content = demo.write("data/eval.npz", 3)
    demo.commit("data/eval.npz")
    demo.run("dvc", "push", "-q")
    demo.forget_cache()
    assert Path(entry().load().path).read_bytes() == content


@pytest.mark.parametrize(
    ("out", "name"),
    [("data/eval.npz", "data/eval.npz"), ("data/parts", "data/parts"), ("data/parts", "data/parts/a.npz")],
)
def test_data_that_nobody_holds(demo, out, name):
    demo.write("data/eval.npz", 3)
    demo.write("data/parts/a.npz", 4)
    demo.commit(out)
    demo.forget_cache()
    shutil.rmtree(os.environ["DVC_SITE_CACHE_DIR"])

    with pytest.raises(HoneError) as caught:
        entry(path=name).load()

    assert caught.value.slug == "data-not-pulled"
    assert "dvc push --all-tags" in caught.value.hint
    assert not list((Path.cwd() / "data/hone/dvc").rglob("*.npz"))


def test_a_remote_that_does_not_exist(demo):
    demo.write("data/eval.npz", 3)
    demo.commit("data/eval.npz")
    with pytest.raises(HoneError) as caught:
        entry(remote="nowhere").load()
    assert caught.value.slug == "data-not-pulled"
    assert "nowhere" in caught.value.why


@pytest.mark.parametrize("path", ["plain.txt", "nothing.npz", "data", "../outside.npz"])
def test_what_dvc_does_not_track(demo, path):
    demo.write("data/eval.npz", 3)
    (demo.root / "plain.txt").write_text("kept by git")
    demo.commit("data/eval.npz")
    with pytest.raises(HoneError) as caught:
        entry(path=path).load()
    assert caught.value.slug == "data-not-tracked"


def test_a_folder_without_dvc(demo):
    with pytest.raises(HoneError) as caught:
        entry(repo="data").load()
    assert caught.value.slug == "data-not-tracked"
    assert not entry(repo="data").exists()


@pytest.mark.parametrize("rev", ["v9", "0123456789abcdef0123456789abcdef01234567"])
def test_an_unknown_revision(demo, rev):
    demo.write("data/eval.npz", 3)
    demo.commit("data/eval.npz")
    with pytest.raises(HoneError) as caught:
        entry(rev=rev).load()
    assert caught.value.slug == "data-revision-unknown"
    assert rev in caught.value.what


def test_a_shallow_clone_says_what_it_lacks(demo, tmp_path, monkeypatch):
    demo.write("data/eval.npz", 3)
    demo.commit("data/eval.npz", tag="v1")
    demo.write("data/eval.npz", 4)
    demo.commit("data/eval.npz")
    clone = tmp_path / "clone"
    clone.mkdir()
    run("git", "clone", "-q", "--depth", "1", "--no-tags", demo.git_root.as_uri(), "data/demo", at=clone)
    monkeypatch.chdir(clone)
    with pytest.raises(HoneError, match="v1") as caught:
        entry(rev="v1").load()
    assert "shallow" in caught.value.why
    assert "fetch-depth: 0" in caught.value.hint
    del caught
    with warnings.catch_warnings():  # DVC leaves the packs of a repository open whose revision it does not find
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.mark.parametrize("rev", ["HEAD", None])
def test_a_changed_working_file_is_refused_at_head(demo, rev):
    content = demo.write("data/eval.npz", 3)
    demo.commit("data/eval.npz", tag="v1")
    demo.write("data/eval.npz", 4)

    assert not entry(rev=rev).exists()
    with pytest.raises(HoneError) as caught:
        entry(rev=rev).load()
    assert caught.value.slug == "data-modified"
    assert Path(entry(rev="v1").load().path).read_bytes() == content


def test_a_changed_directory_is_refused_and_an_ignored_file_is_no_change(demo):
    demo.write("data/parts/a.npz", 3)
    (demo.root / ".dvcignore").write_text("*.log\n")
    demo.commit("data/parts")
    (demo.root / "data/parts/x.log").write_text("noise")
    assert entry(path="data/parts").load().md5.endswith(".dir")
    demo.write("data/parts/b.npz", 3)
    with pytest.raises(HoneError) as caught:
        entry(path="data/parts").load()
    assert caught.value.slug == "data-modified"


def test_dvc_in_a_folder_of_its_git_repository(project, tmp_path):
    (tmp_path / "empty").mkdir()
    demo = Demo(project, tmp_path / "remote", empty=make_empty(tmp_path / "empty", "inner"), prefix="inner")
    content = demo.write("data/eval.npz", 3)
    demo.commit("data/eval.npz")
    demo.run("dvc", "push", "-q")
    demo.forget_cache()
    assert Path(entry(repo="data/demo/inner").load().path).read_bytes() == content


def test_the_error_is_found_in_what_the_catalog_raises(demo):
    demo.write("data/eval.npz", 3)
    demo.commit("data/eval.npz")
    catalog = DataCatalog.from_config(
        {"gate": {"type": "kedro_hone.datasets.DVCDataset", "path": "data/eval.npz", "repo": "data/demo", "rev": "v9"}}
    )
    with pytest.raises(DatasetError) as caught:
        catalog.load("gate")
    assert HoneError.find(caught.value).slug == "data-revision-unknown"


def test_saving_is_refused(demo):
    with pytest.raises(HoneError):
        entry().save("something")


def test_kedro_made_the_path_absolute(demo):
    demo.write("data/eval.npz", 3)
    demo.commit("data/eval.npz")
    dataset = entry(path=str(Path.cwd() / "data/eval.npz"))
    assert dataset.load().source == "data/eval.npz"
    assert dataset.exists()


def test_a_repository_by_its_url(demo, tmp_path):
    content = demo.write("data/eval.npz", 3)
    demo.commit("data/eval.npz", tag="v1")
    demo.run("dvc", "push", "-q")
    url = f"file://{demo.root}"
    loaded = entry(repo=url, rev="v1").load()
    assert (Path(loaded.path).read_bytes(), loaded.repo) == (content, url)
