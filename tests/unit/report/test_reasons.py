"""Candidates that failed for one reason share a row of the report."""

from __future__ import annotations

from kedro_hone.core.values.measurement import Status
from kedro_hone.report.records import CandidateRecord
from kedro_hone.report.view import group_reasons


def record(name, reason="", failure=None):
    return CandidateRecord(id=name, route=(name,), status=Status.FAILED, reason=reason, failure_class=failure)


def test_one_reason_of_one_class_is_one_group_in_the_order_given():
    rows = [record("a", "x", "convert"), record("b", "y"), record("c", "x", "convert"), record("d", "x", "load")]

    assert [[one.id for one in group] for group in group_reasons(rows)] == [["a", "c"], ["b"], ["d"]]


def test_without_a_reason_each_stands_alone():
    assert [len(group) for group in group_reasons([record("a"), record("b")])] == [1, 1]
