"""The section about the wire."""

from __future__ import annotations

from sample import make_evidence
from wire_sample import make_comparison

from hone_runtime.values.wire import WireOutcome
from kedro_hone.report.evidence import dump_evidence, parse_evidence
from kedro_hone.report.files import write_reports


def write_page(folder, wire) -> str:
    evidence = parse_evidence(dump_evidence(make_evidence(wire=wire)))
    assert evidence.wire == wire
    write_reports(evidence, folder)
    return (folder / "report.html").read_text()


def test_the_page_shows_both_at_each_number_of_clients(tmp_path):
    page = write_page(tmp_path, WireOutcome(comparison=make_comparison()))
    assert page.count('<th scope="row">4</th>') == 2
    assert "The wire adds 0.800 ms to a call of the source, and 0.900 ms to one of the winner" in page
    assert "other processes used 30 % of them" in page


def test_the_page_names_the_reason_without_figures(tmp_path):
    page = write_page(tmp_path, WireOutcome(reason="The source is <code>."))
    assert "Not measured: The source is &lt;code&gt;." in page


def test_a_run_that_did_not_ask_for_it_has_no_section(tmp_path):
    assert "Through the wire" not in write_page(tmp_path, None)
