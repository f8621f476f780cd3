from __future__ import annotations

from kedro_hone.core.store.choices import count_choice


def test_choices_are_counted_by_race(tmp_path):
    assert [count_choice(tmp_path, judged="sha256:a", run=str(run), candidate="x") for run in range(3)] == [1, 2, 3]
    assert count_choice(tmp_path, judged="sha256:b", run="3", candidate="x") == 1
    assert count_choice(tmp_path, judged="sha256:a", run="4", candidate="y") == 4


def test_a_line_that_was_cut_off_spoils_no_other(tmp_path):
    count_choice(tmp_path, judged="sha256:a", run="1", candidate="x")
    with (tmp_path / "choices.jsonl").open("a") as stream:
        stream.write('["sha256:a", "2')
    assert count_choice(tmp_path, judged="sha256:a", run="3", candidate="x") == 3
