"""Changes as a person sees them before they are made."""

from __future__ import annotations

from kedro_hone.scaffold.changes import Change, apply_changes, format_diff, read_change


def test_the_diff_has_what_is_new_and_where(tmp_path):
    old = Change(tmp_path / "a.yml", "one: 1\n", "two: 2\n")
    new, empty = Change(tmp_path / "b.yml", None, "three: 3\n"), Change(tmp_path / ".gitkeep", None, "")
    assert format_diff([old, new, empty], tmp_path).splitlines() == [
        "--- a/a.yml", "+++ b/a.yml", "@@ -1 +1,2 @@", " one: 1", "+two: 2",
        "--- /dev/null", "+++ b/b.yml", "@@ -0,0 +1 @@", "+three: 3",
        "--- /dev/null", "+++ b/.gitkeep",
    ]  # fmt: skip


def test_a_link_stays_a_link_and_a_file_keeps_its_mode(tmp_path):
    target, link = tmp_path / "shared" / "settings.py", tmp_path / "settings.py"
    target.parent.mkdir()
    target.write_text("one = 1\n")
    target.chmod(0o640)
    link.symlink_to(target)
    apply_changes([read_change(link, "two = 2\n")])
    assert link.readlink() == target
    assert target.read_text() == "one = 1\ntwo = 2\n"
    assert target.stat().st_mode & 0o777 == 0o640
