from __future__ import annotations

from kedro_hone.building.study import Study

SPACE = {("a", "one"): (1, 2, 3), ("b", "two"): (None, "x", ["y", "z"])}


def exhaust(seed, gain=lambda _: 0.1):
    study, asked = Study(SPACE, seed=seed), []
    while (changes := study.ask()) is not None:
        asked.append(changes)
        study.tell(changes, gain(changes))
    return asked


def test_each_combination_is_tried_once_and_each_choice_alone_first():
    asked = exhaust(0)

    assert asked[:4] == [{"a": {"one": 2}}, {"a": {"one": 3}}, {"b": {"two": "x"}}, {"b": {"two": ["y", "z"]}}]
    assert len(asked) == 3 * 3 - 1  # without the recipe's own
    assert all(asked.count(changes) == 1 for changes in asked)


def test_a_seed_and_what_is_told_decide_the_order():
    assert exhaust(7) == exhaust(7)
    assert len({str(exhaust(seed)) for seed in range(5)}) > 1


def test_what_is_no_candidate_may_be_told():
    assert len(exhaust(0, gain=lambda _: None)) == 8


def test_choices_that_wait_are_those_not_tried_alone():
    study = Study(SPACE, seed=0)
    study.tell(study.ask(), 0.0)

    assert study.list_waiting() == [{"a": {"one": 3}}, {"b": {"two": "x"}}, {"b": {"two": ["y", "z"]}}]
    assert study.left == 7
