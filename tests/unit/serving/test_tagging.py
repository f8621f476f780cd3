from __future__ import annotations

import json
import threading
from contextlib import ExitStack, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hone_runtime.contract.registry import Publication
from hone_runtime.errors import HoneError
from kedro_hone.serving import tagging

PUSH = "registry.example.org/team/digits:latest"
MOVED = Publication(uri="models:/digits/2", version="2", alias="honed")


def name_image(version: str) -> str:
    return f"sha256:{version * 64}"


class Moving:
    """A registry of models and one of images, in which others move the alias when the tag is written."""

    def __init__(self, *, before: str, then: tuple[str, ...] = ()) -> None:
        self.alias, self.then, self.tags = before, [*then], []

    def list_aliases(self, _):
        return {"honed": self.alias}

    def name_version(self, name, version):
        return f"models:/{name}/{version}"

    def tag(self, digest, _push):
        self.tags.append(digest)
        if self.then:
            self.alias = self.then.pop(0)


@pytest.fixture
def follow(monkeypatch, tmp_path):
    """Approves version 2 in a registry."""
    monkeypatch.setenv("HONE_HOME", str(tmp_path))
    monkeypatch.setattr(tagging, "find_signer", lambda: None)

    def check(uri, folder, *_):
        version = uri.rpartition("/")[2]
        form = {"form": "image", "digest": name_image(version), "place": PUSH.rpartition(":")[0]}
        (folder / "evidence").mkdir(parents=True)
        evidence = {"forms": [form] if version != "9" else []}
        (folder / "evidence" / "evidence.json").write_text(json.dumps(evidence))

    monkeypatch.setattr(tagging, "check_published", check)

    def act(registry, version="2"):
        monkeypatch.setattr(tagging, "tag", registry.tag)
        moved = Publication(uri=f"models:/digits/{version}", version=version, alias="honed")
        tagging.follow_alias(registry, "digits", moved, image=name_image(version), push=PUSH)

    return act


@pytest.mark.parametrize(
    ("before", "then", "tags"),
    [
        ("2", (), "2"),
        ("3", (), "3"),  # moved on, perhaps by a client that writes no tag
        ("9", (), ""),  # moved on to a version without an image
        ("2", ("3",), "23"),
        ("2", ("3", "4"), "234"),
        ("2", ("2",), "2"),
    ],
)
def test_the_last_tag_is_of_the_version_that_the_alias_points_to(follow, before, then, tags):
    registry = Moving(before=before, then=then)
    follow(registry)
    assert registry.tags == [name_image(one) for one in tags]


@pytest.mark.parametrize(("before", "then"), [("", ()), ("2", ("",)), ("9", ())])
def test_a_tag_that_stays_as_it_is_is_named(follow, caplog, before, then):
    with caplog.at_level("WARNING"):
        follow(Moving(before=before, then=then))
    assert PUSH in caplog.text


def test_one_tag_has_one_lock_however_it_is_written(follow, tmp_path):
    for push in ("team/d", "docker.io/team/d:latest"):
        with tagging._lock_tag(push, MOVED):
            pass
    assert len([*(tmp_path / "locks").iterdir()]) == 1


@pytest.mark.parametrize("fault", ["held", "folder", "link"])
def test_a_lock_that_cannot_be_acquired_is_an_error_that_names_alias_and_tag(follow, tmp_path, monkeypatch, fault):
    monkeypatch.setattr(tagging, "_LOCK_SECONDS", 0.1)
    with tagging._lock_tag(PUSH, MOVED), ExitStack() as stack:
        (path,) = (tmp_path / "locks").iterdir()
        if fault != "held":
            path.unlink()
            path.mkdir() if fault == "folder" else path.symlink_to(tmp_path / "other")
        stack.enter_context(pytest.raises(HoneError, match="'honed' was moved to models:/digits/2, but the tag"))
        follow(Moving(before="2"))
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("then", [("9",), ("3", "4") * 5])
def test_an_alias_that_no_tag_can_follow_is_reported(follow, then):
    with pytest.raises(HoneError, match="may be of another version") as raised:
        follow(Moving(before="2", then=then))
    assert raised.value.slug == "image-push-failed"


def test_a_process_that_ends_after_it_wrote_the_tag_does_not_undo_another_of_this_machine(follow):
    """Without a lock, the second approval writes its tag between the first one's look at the alias and its tag."""
    registry, others = Moving(before="2"), []
    write = registry.tag

    def tag(digest, push):
        if digest == name_image("2"):
            registry.alias = "3"  # the second approval
            others.append(threading.Thread(target=follow, args=(registry, "3")))
            others[0].start()
            others[0].join(0.3)
        write(digest, push)
        if digest == name_image("2"):
            raise KeyboardInterrupt

    registry.tag = tag
    with pytest.raises(KeyboardInterrupt):
        follow(registry)
    others[0].join()
    assert registry.tags == [name_image("2"), name_image("3")]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("image"),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(("forms", "form", "digest", "place")), inner),
)


@given(JSON)
def test_foreign_evidence_is_unreadable_or_has_no_image(claim):
    with suppress(HoneError):
        assert not tagging.find_image(json.dumps(claim).encode(), PUSH)


@pytest.mark.parametrize(
    "evidence", [b"", b"\xff", b"[" * 100_000, b'{"forms": ' + b'[{"form":' * 9_999, b'{"forms": 3}']
)
def test_evidence_that_is_no_json_or_nested_too_deep_is_unreadable(evidence):
    with pytest.raises(HoneError) as raised:
        tagging.find_image(evidence, PUSH)
    assert raised.value.slug == "evidence-unreadable"
