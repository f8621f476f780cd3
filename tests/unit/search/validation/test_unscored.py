from __future__ import annotations

from kedro_hone.search.comparison.agreement import Difference
from kedro_hone.search.validation.unscored import list_unscored


def differ(output, rows=0, largest=0.0):
    return Difference(output=output, discrete=False, of=200, rows=rows, largest=largest)


def test_each_output_that_no_metric_reads_is_told_where_it_differs_most():
    found = {
        "batch1": [differ("label", 9), differ("probabilities", 2, 0.5), differ("box")],
        "batch64": [differ("label", 9), differ("probabilities", 5, 0.01), differ("box", largest=1e-7)],
    }
    probabilities, box = list_unscored(found, {"label"})
    assert (probabilities.output, probabilities.rows, probabilities.of, probabilities.largest) == (
        "probabilities",
        5,
        200,
        0.01,
    )
    assert probabilities.describe() == (
        "Output probabilities, which no metric scores: other numbers than the source's in 5 of 200 rows (2.50%), "
        "the largest difference 0.01 of its largest value."
    )
    assert box.describe() == "Output box, which no metric scores: as the source's in all 200 rows."


def test_an_output_without_rows_is_told_too():
    (empty,) = list_unscored({"batch1": [Difference(output="y", discrete=True, of=0)]}, ())
    assert "all 0 rows" in empty.describe()
