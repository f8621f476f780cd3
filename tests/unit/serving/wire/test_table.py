from __future__ import annotations

from wire_sample import make_comparison

from kedro_hone.serving.wire.table import format_comparison


def test_the_table_has_a_line_for_each_server_and_number_of_clients() -> None:
    lines = list(format_comparison(make_comparison()))
    assert lines[0] == "models:/digits/4, in onnxruntime (onnx), against models:/digits/1, in pytorch (pytorch)"
    assert "A processor, 2 cores" in lines[1]
    (source, winner) = (
        next(line for line in lines if name in line and "per second" not in line and "ms:" not in line)
        for name in ("  source", "  winner")
    )
    assert source.split()[:3] == ["1", "source", "200"]
    assert "7.5 " in source  # of all launches together, without an interval
    assert winner.split()[:2] == ["winner", "333"]


def test_what_the_wire_costs_is_the_difference_at_one_client() -> None:
    made = make_comparison()
    assert made.wire_ms == (5 - 4.2, 3 - 2.1)
    assert "0.8 ms a call of the source, 0.9 ms of the winner" in list(format_comparison(made))[-1]
    assert made.model_copy(update={"cells": made.cells[1:]}).wire_ms is None


def test_only_what_was_compared_is_claimed() -> None:
    assert "Both answered the golden rows as recorded." in "\n".join(format_comparison(make_comparison()))
    changed = make_comparison().model_copy(update={"other_outputs": ("label",), "different": 70, "compared": 64})
    text = "\n".join(format_comparison(changed))
    assert "Both" not in text
    assert "Of the source's answers nothing can be compared: label" in text
    assert "70 different answers, of which 64" in text


def test_a_busy_machine_is_named() -> None:
    assert any("30 %" in line for line in format_comparison(make_comparison()))
