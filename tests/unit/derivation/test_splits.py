"""Splits of one file: whole copies and groups, each class on all sides, alike on any machine, and read by programs."""

from __future__ import annotations

import json
import random
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from text_models import WORDS, list_ids, save_tokenizer

from hone_runtime.errors import HoneError
from kedro_hone.core.stats.intervals import needed_rows, smallest_provable_drop
from kedro_hone.core.stats.levels import share_confidence
from kedro_hone.derivation.splits import LEAST_ROWS, describe, divide, write_splits
from kedro_hone.derivation.tables import read_table

SPLITS = ["calibration", "search", "gate"]
PROBABILITIES = {"name": "probabilities", "dtype": "float32", "shape": ["batch", 2]}


@pytest.fixture
def make_table(tmp_path):
    """Make a table of records by writing and reading a file of JSON lines."""

    def make(records, name="a.jsonl"):
        path = tmp_path / name
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
        return read_table(path)

    return make


def list_sides(division, key):
    """Return the splits in which each value of ``key`` (a function of the number of a row) is."""
    sides: dict[object, set[str]] = {}
    for split, rows in division.rows.items():
        for row in rows:
            sides.setdefault(key(row), set()).add(split)
    return sides


def try_dividing(table, **options):
    """Return the division, or the slug of the error."""
    try:
        return divide(table, **options)
    except HoneError as error:
        return error.slug


@given(st.integers(0, 2**32), st.integers(1, 6), st.sampled_from([1, 3, 20, 300]), st.booleans())
@settings(max_examples=60, deadline=None)
def test_no_copy_and_no_group_is_on_two_sides_and_every_class_is_on_all(
    tmp_path_factory, seed, classes, copies, grouped
):
    chance = random.Random(seed)
    records = [
        {
            "x": chance.randrange(4000 // copies),
            "text": chance.choice(["A b", "a  B", "c"]),
            "who": f"w{min(chance.randrange(60), chance.randrange(60))}",
            "label": f"c{min(chance.randrange(classes) for _ in range(2))}",
        }
        for _ in range(chance.randrange(LEAST_ROWS, 600))
    ]
    path = tmp_path_factory.mktemp("t") / "a.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    target = "label" if classes > 1 else None
    division = try_dividing(read_table(path), target=target, group="who" if grouped else None, content=["x", "text"])
    if isinstance(division, str):
        assert division in {"data-indivisible", "target-unusable"}
        return
    rows = sorted(row for split in division.rows.values() for row in split)
    assert len(rows) == len(set(rows)) == len(records) - division.spare - division.repeated
    gate = [records[row] for row in division.rows["gate"]]
    assert len({(one["x"], one["text"] == "c") for one in gate}) == len(gate)
    assert all(
        len(sides) == 1
        for sides in list_sides(division, lambda r: (records[r]["x"], records[r]["text"] == "c")).values()
    )
    if grouped:
        assert all(len(sides) == 1 for sides in list_sides(division, lambda r: records[r]["who"]).values())
        assert len({one["who"] for one in gate}) == len(gate)
    if target:
        found = list_sides(division, lambda r: records[r]["label"])
        assert all(sides == set(SPLITS) for sides in found.values())
        assert found.keys() == {record["label"] for record in records}


def test_classes_of_ten_rows_are_on_all_sides(make_table):
    records = [{"x": at / 7, "label": "rare" if at < 10 else "often"} for at in range(2000)]
    division = divide(make_table(records), target="label", limit=0.01)
    found = {split: Counter(records[row]["label"] for row in rows) for split, rows in division.rows.items()}
    assert found == {
        "calibration": {"rare": 1, "often": 255},
        "search": {"rare": 3, "often": 541},
        "gate": {"rare": 6, "often": 1194},
    }
    assert division.classes == {"often": 1990, "rare": 10}


@pytest.mark.parametrize(
    ("rare", "said"),
    [
        ([1.5, 2.5], "The class `rare` has 2 rows."),
        ([1.5], "The class `rare` has 1 row."),
        ([1.5] * 10, "The class `rare` has 10 rows, of which 1 can be apart"),
        ([1.5, 1.5, 2.5], "The class `rare` has 3 rows, of which 2 can be apart"),
    ],
)
def test_a_class_that_cannot_be_on_all_sides_is_refused(make_table, rare, said):
    records = [{"x": at, "label": "often"} for at in range(200)] + [{"x": x, "label": "rare"} for x in rare]
    with pytest.raises(HoneError) as caught:
        divide(make_table(records), target="label")
    assert caught.value.slug == "data-indivisible"
    assert said in caught.value.why
    assert "needs 3 different rows" in caught.value.why
    assert "--data gate=FILE" in caught.value.hint


def test_the_same_rows_are_split_alike_in_any_order_and_format(customers, write_csv, tmp_path):
    records = customers(600)
    shuffled = random.Random(1).sample(records, len(records))
    typed = [
        {"churned": row["churned"], **row, "spent": float(row["spent"]), "age": int(row["age"])} for row in records
    ]
    (tmp_path / "lines.jsonl").write_text("".join(json.dumps(row) + "\n" for row in typed))
    (tmp_path / "list.json").write_text(json.dumps(typed, ensure_ascii=False), encoding="utf-8-sig")
    parquet.write_table(pa.Table.from_pylist(typed), tmp_path / "table.parquet")
    np.savez(tmp_path / "arrays.npz", **{name: [row[name] for row in typed] for name in typed[0]})
    paths = [
        write_csv(records, "a.csv"),
        write_csv(shuffled, "b.csv"),
        write_csv(shuffled, "c.csv", delimiter=";", encoding="cp1252", decimal=","),
        write_csv(records, "d.tsv", delimiter="\t", encoding="utf-8-sig"),
        *(tmp_path / name for name in ("lines.jsonl", "list.json", "table.parquet", "arrays.npz")),
    ]
    found = set()
    for path in paths:
        table = read_table(path)
        division = divide(table, target="churned", limit=0.02)
        given_ = shuffled if path.name in {"b.csv", "c.csv"} else records
        splits = {split: sorted(list(given_[row].values()) for row in rows) for split, rows in division.rows.items()}
        found.add(json.dumps(splits))
    assert len(found) == 1


def test_the_splits_of_a_file_are_these_on_every_machine(make_table):
    division = divide(make_table([{"x": at, "y": at % 2} for at in range(100)]), target="y")
    assert division.rows["calibration"] == (18, 21, 32, 41, 46, 54, 61, 66, 72, 73, 78, 79, 91, 92, 97)


def test_rows_that_differ_only_in_the_target_are_copies(make_table):
    records = [{"x": at // 2, "label": at % 2} for at in range(400)]
    division = divide(make_table(records), target="label")
    assert all(len(sides) == 1 for sides in list_sides(division, lambda row: row // 2).values())
    assert (division.copies, division.repeated) == (200, len(division.rows["gate"]))  # each content counts once


def test_only_the_content_that_the_model_gets_makes_a_copy(make_table):
    records = [{"id": at, "x": at // 2, "label": at % 3} for at in range(400)]
    assert divide(make_table(records), target="label").copies == 0
    assert divide(make_table(records), target="label", content=["x"]).copies == 200


@pytest.mark.parametrize(
    ("rows", "limit", "sizes"),
    [
        (4120, 0.01, {"calibration": 412, "search": 1236, "gate": 2472}),
        (121, 0.01, {"calibration": 18, "search": 31, "gate": 72}),
        (1000, 0.01, {"calibration": 150, "search": 250, "gate": 600}),
        (80, None, {"calibration": 12, "search": 20, "gate": 48}),
        (30000, 0.01, {"calibration": 1894, "search": 5680, "gate": 11360}),
    ],
)
def test_splits_have_these_sizes(make_table, rows, limit, sizes):
    division = divide(make_table([{"x": at} for at in range(rows)]), limit=limit)
    assert {split: len(found) for split, found in division.rows.items()} == sizes
    assert division.spare == rows - sum(sizes.values())
    assert describe(division)[0].startswith(
        f"3 splits of {rows:,} rows by row hash: calibration {sizes['calibration']:,}"
    )


def test_what_the_gate_can_prove_is_what_the_gates_will_say(make_table):
    level = share_confidence(0.95, finalists=3)
    for rows in (80, 121, 946, 947, 4120):
        division = divide(make_table([{"x": at} for at in range(rows)]), limit=0.01)
        assert division.needed == 947
        assert (
            division.is_provable
            == (rows >= division.needed)
            == (len(division.rows["gate"]) >= needed_rows(0.01, level))
        )
        smallest = smallest_provable_drop(len(division.rows["gate"]), level)
        assert smallest < division.provable < 1.01 * smallest
    assert "the gate split can prove a drop under 0.0738, not under 0.01, which needs 947 rows in all" in describe(
        divide(make_table([{"x": at} for at in range(121)]), limit=0.01)
    )


def test_copies_prove_nothing_and_unbounded_scores_have_no_limit(make_table):
    copied = make_table([{"x": at % 200} for at in range(2000)])
    division = divide(copied, limit=0.01)
    assert (len(division.rows["gate"]), division.repeated) == (120, 1080)
    assert not division.is_provable
    assert "1,080 rows are not in the gate split, where each content counts once" in describe(division)
    assert divide(copied, limit=0.01, bounded=False).provable is None


def test_half_of_the_rows_train_and_those_that_no_other_split_needs(make_table):
    division = divide(make_table([{"x": at} for at in range(4120)]), limit=0.01, trains=True)
    sizes = {split: len(rows) for split, rows in division.rows.items()}
    assert sizes == {"calibration": 256, "search": 568, "gate": 1236, "training": 2060}
    assert sorted(row for rows in division.rows.values() for row in rows) == [*range(4120)]
    assert (division.spare, division.needed) == (0, 1894)  # twice as many as without it
    assert describe(division)[0].startswith("4 splits of 4,120 rows by row hash: calibration 256")
    large = divide(make_table([{"x": at} for at in range(60000)]), limit=0.01, trains=True)
    assert (len(large.rows["gate"]), len(large.rows["training"]), large.spare) == (11360, 41066, 0)


def test_a_copy_of_a_row_that_trains_is_in_no_other_split(make_table):
    division = divide(make_table([{"x": at % 400} for at in range(4000)]), trains=True)
    contents = [{row % 400 for row in rows} for rows in division.rows.values()]
    assert sum(map(len, contents)) == len(set().union(*contents)) == 400


def test_rows_that_are_too_few_to_train_are_refused(make_table):
    """Nine groups of a hundred rows: the other splits take what their classes need, and nothing is left to train."""
    rows = [{"x": at, "g": at // 100, "y": at // 100 % 3} for at in range(900)]
    with pytest.raises(HoneError) as caught:
        divide(make_table(rows), target="y", group="g", trains=True)
    assert "could train" in caught.value.why or "belong together" in caught.value.why


def test_few_rows_and_few_groups_are_refused(make_table):
    with pytest.raises(HoneError) as caught:
        divide(make_table([{"x": at, "y": at % 2} for at in range(12)]), target="y")
    assert caught.value.why == "It has 12 rows, and three splits need 80."
    with pytest.raises(HoneError) as caught:
        divide(make_table([{"x": at} for at in range(159)]), trains=True)
    assert caught.value.why == "It has 159 rows, and splits with one to train need 160."
    with pytest.raises(HoneError) as caught:
        divide(make_table([{"x": at, "g": at % 2} for at in range(100)]), group="g")
    assert "--group" in caught.value.hint
    with pytest.raises(HoneError) as caught:
        divide(make_table([{"x": at, "g": int(at > 95) * at} for at in range(100)]), group="g")
    assert "Too many rows belong together" in caught.value.why
    with pytest.raises(HoneError) as caught:
        divide(make_table([{"y": at % 2} for at in range(100)]), target="y")
    assert "no column but the target" in caught.value.why


def test_a_column_that_does_not_exist_is_refused_with_the_nearest_name(make_table):
    table = make_table([{"x": at, "Churned": at % 2} for at in range(100)])
    for given_, flag in (
        ({"target": "churned"}, "--target"),
        ({"target": "Churnd"}, "--target"),
        ({"group": "Chured"}, "--group"),
    ):
        with pytest.raises(HoneError) as caught:
            divide(table, **given_)
        assert caught.value.hint == f"Did you mean 'Churned'? Name a column: {flag} NAME."


def test_a_semicolon_file_is_read_by_the_program_for_tables(customers, write_csv, read_splits, tmp_path):
    records = customers(900)
    numbers = [{name: row[name] for name in ("spent", "age", "churned")} for row in records]
    path = write_csv(numbers, delimiter=";", encoding="cp1252", decimal=",")
    division = divide(read_table(path), target="churned", limit=0.02)
    paths = write_splits(division, tmp_path / "splits")
    notes = read_splits(
        "tabular-classification",
        paths,
        inputs=[{"name": "x", "dtype": "float32", "shape": ["batch", 2]}],
        outputs=[PROBABILITIES],
        arrays={"target": "churned"},
        classes=["no", "yes"],
    )
    assert notes.get("overlaps") == [], notes
    assert notes["splits"] == {split: {"n": len(rows)} for split, rows in division.rows.items()}
    with np.load(tmp_path / "prepared" / "gate" / "feeds.npz") as feeds:
        wanted = [[float(numbers[row]["spent"]), float(numbers[row]["age"])] for row in division.rows["gate"]]
        np.testing.assert_array_equal(feeds["x"], np.float32(wanted))


def test_json_lines_are_read_by_the_program_for_text(make_table, read_splits, tmp_path):
    chance = random.Random(3)
    words = [word for word in WORDS if word.isalpha()]
    records = [
        {"text": " ".join(chance.choices(words, k=chance.randrange(8, 12))), "label": chance.choice(["good", "bad"])}
        for _ in range(500)
    ]
    division = divide(make_table(records), target="label")
    paths = write_splits(division, tmp_path / "splits")
    assert paths["gate"].read_text().splitlines() == [json.dumps(records[row]) for row in division.rows["gate"]]
    folder = tmp_path / "model"
    folder.mkdir()
    config = {"architectures": ["BertForSequenceClassification"], "model_type": "bert", "max_position_embeddings": 16}
    (folder / "config.json").write_text(json.dumps({**config, "id2label": {"0": "bad", "1": "good"}}))
    save_tokenizer(folder, WORDS)
    logits = {"name": "logits", "dtype": "float32", "shape": ["batch", "classes"]}
    notes = read_splits("text-classification", paths, inputs=list_ids(types=True), outputs=[logits], folder=folder)
    assert notes.get("overlaps") == [], notes
    assert notes["splits"] == {split: {"n": len(rows)} for split, rows in division.rows.items()}


def test_arrays_are_read_by_the_program_for_images(read_splits, tmp_path):
    numbers = np.random.default_rng(5)
    labels = numbers.integers(0, 3, 300)
    images = numbers.normal(size=(300, 1, 4, 4)).astype(np.float32)
    np.savez(tmp_path / "digits.npz", images=images, labels=labels)
    division = divide(read_table(tmp_path / "digits.npz"), target="labels")
    assert division.classes == {str(label): int((labels == label).sum()) for label in range(3)}
    notes = read_splits(
        "image-classification",
        write_splits(division, tmp_path / "splits"),
        inputs=[{"name": "x", "dtype": "float32", "shape": ["batch", 1, 4, 4]}],
        outputs=[{"name": "logits", "dtype": "float32", "shape": ["batch", 3]}],
    )
    assert notes.get("overlaps") == [], notes
    with np.load(tmp_path / "prepared" / "gate" / "feeds.npz") as feeds:
        np.testing.assert_array_equal(feeds["x"], images[list(division.rows["gate"])])


@pytest.mark.parametrize("seed", range(4))
def test_equal_rows_of_several_groups_leave_one_gate_in_any_order(make_table, seed):
    draw = np.random.default_rng(seed)
    blocks = np.arange(400) // 8  # each with rows of three contents, in groups that share contents
    contents, groups = 3 * blocks + draw.integers(0, 3, size=400), 4 * blocks + draw.integers(0, 4, size=400)
    records = [
        {"x": float(content), "label": int(block % 2), "who": str(group)}
        for block, content, group in zip(blocks, contents, groups, strict=True)
    ]
    gates = []
    for order in (records, [records[at] for at in draw.permutation(400)]):
        division = divide(make_table(order), target="label", group="who")
        gates.append(sorted((order[row]["x"], order[row]["who"]) for row in division.rows["gate"]))
    assert gates[0] == gates[1]


def test_the_gate_has_one_row_of_each_group(make_table):
    """Rows of a group are not independent, and the intervals of the gate count each row as independent evidence."""
    records = [{"x": at, "who": f"customer {at % 300}", "label": at % 2} for at in range(3000)]
    division = divide(make_table(records), target="label", group="who")
    gate = [records[row]["who"] for row in division.rows["gate"]]
    assert len(gate) == len(set(gate))
    assert division.repeated == 9 * len(gate)
    again = divide(make_table(records[::-1]), target="label", group="who")
    assert {2999 - row for row in again.rows["gate"]} == {*division.rows["gate"]}
    assert any("each content and each `who` counts once" in line for line in describe(division))


def test_with_a_rare_class_its_rows_decide_what_the_gate_can_prove(make_table):
    table = make_table([{"x": row, "y": "fraud" if row % 33 == 0 else "legit"} for row in range(6000)])
    even = divide(table, target="y")
    division = divide(table, target="y", metric=None)
    assert (division.metric, even.metric) == ("balanced_accuracy", "accuracy")
    assert division.in_gate["fraud"] == pytest.approx(0.6 * 6000 / 33, abs=2)
    assert sum(division.in_gate.values()) == len(division.rows["gate"])
    assert division.provable > 10 * even.provable
    assert division.needed is None
    small = divide(table, target="y", metric=None, limit=0.01)
    assert not small.is_provable
    assert small.needed > 6000


def test_the_gate_is_larger_if_a_class_is_rare(make_table):
    table = make_table([{"x": row, "y": row % 50 == 0} for row in range(40_000)])
    common = divide(table, target="y", limit=0.02)
    rare = divide(table, target="y", limit=0.02, metric=None)
    assert len(common.rows["gate"]) == 20 * needed_rows(0.02, share_confidence(0.95, finalists=3))
    assert len(rare.rows["gate"]) > 3 * len(common.rows["gate"])
    assert rare.is_provable


@pytest.mark.parametrize(
    ("metric", "options"), [("recall", {"positive": "True"}), ("f1", {"positive": "True"}), ("roc_auc", {})]
)
def test_the_gate_is_sized_by_the_rows_that_count_for_a_named_metric(make_table, metric, options):
    table = make_table([{"x": row, "y": row % 50 == 0} for row in range(40_000)])
    common = divide(table, target="y", limit=0.02)
    named = divide(table, target="y", limit=0.02, metric=metric, options=options)
    assert len(named.rows["gate"]) > 4 * len(common.rows["gate"])
    assert named.provable == pytest.approx(smallest_provable_drop(named.in_gate["True"], named.confidence), rel=0.01)
    assert named.is_provable
    small = make_table([{"x": row, "y": row % 50 == 0} for row in range(2_000)])
    division = divide(small, target="y", limit=0.02, metric=metric, options=options)
    assert not division.is_provable
    assert division.needed > 5 * 2_000


def test_no_metric_of_classes_is_derived_where_none_is_rare(make_table):
    table = make_table([{"x": row, "y": row % 5} for row in range(600)])
    assert divide(table, target="y", metric=None).metric == "accuracy"
