"""A source that is no function of each row is refused before anything is built, in a sentence about the source.

The toolchain computes with numpy; the workers, the program and the store are real.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from digits_bench import track

from hone_runtime.contract.catalogue import forget_registrations, register
from hone_runtime.contract.toolchain import Toolchain
from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import Artifact, TensorSpec
from hone_runtime.values.measurement import Status
from hone_runtime.values.outcome import Candidate
from hone_runtime.values.samples import Reference
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.nodes.baseline import take_baseline
from kedro_hone.nodes.prepare import prepare
from kedro_hone.recipe.schema import read_recipe
from kedro_hone.search.context import RunContext
from kedro_hone.search.stability.single_rows import find_unsteady
from kedro_hone.search.validation.validation import validate_candidate

TOOLCHAIN = Toolchain(
    name="odd",
    folder=Path(__file__).with_name("odd_sources"),
    runs=frozenset({"odd"}),
    formats=MappingProxyType({"odd": ("model.json",)}),
)
RARE_FROM = 0.97
SHAPES = {"one": {"batch": 1}, "many": {"batch": 32}}
OUTPUTS = {"classes first of one row": ("classes", 1), "loss of one row": ()}
OPERATORS = {"int8 by batch": ["MatMulInteger"]}
DTYPES = {"labels": "int64", "rank": "int64", "text": "str", "half": "float16"}


def seal(
    store: Store, folder: Path, model: dict[str, Any], *, batch: int | str = "batch", operators: Sequence[str] = ()
) -> Artifact:
    """Seal a model that has a kind, and more of what it takes."""
    folder.mkdir()
    kind = str(model["kind"])
    (folder / "model.json").write_text(json.dumps(model))
    return store.seal(
        folder,
        format="odd",
        inputs=(TensorSpec(name="x", dtype="float32", shape=(batch, 6)),),
        outputs=(TensorSpec(name="y", dtype=DTYPES.get(kind, "float32"), shape=OUTPUTS.get(kind, (batch, 4))),),
        runtime="odd",
        metadata={"operators": list(operators or OPERATORS[kind])} if operators or kind in OPERATORS else {},
    )


@pytest.fixture
def make_setting(tmp_path, monkeypatch):
    """Return a function that returns the context of a run with a kind of source."""
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    register(TOOLCHAIN)

    def call(
        kind: str, *, rows: int = 90, batch: int | str = "batch", operators: Sequence[str] = (), **more: Any
    ) -> RunContext:
        keys: dict[str, Any] = {"shapes": SHAPES, "threads": 1, "gates": {"drop": 0.1, "other_load": 1}}
        recipe = read_recipe({"model": {"uri": "m"}, "program": {"name": "fidelity"}, **keys, **more})
        store, run = Store(tmp_path / "store"), RunFolder(root=tmp_path / "runs", run_id="run", project=tmp_path)
        draw, files = np.random.default_rng(0), {}
        for name in ("calibration", "search", "gate"):
            files[name] = track(tmp_path / f"{name}.npz", {"x": draw.normal(size=(rows, 6)).astype(np.float32)})
        source = seal(store, tmp_path / "source", {"kind": kind}, batch=batch, operators=operators)
        samples = prepare(source=source, recipe=recipe, store=store, run=run, **files)
        return RunContext(source=source, samples=samples, recipe=recipe, store=store, run=run)

    yield call
    forget_registrations()


@pytest.fixture
def take(make_setting):
    """Return a function that takes the baseline of a kind of source."""

    def call(kind: str, **more: Any) -> Reference:
        return take_baseline(context=make_setting(kind, **more))

    return call


RARE = ["wide", "labels", "text", "instance", "group", "half", "bf16", "int8 by row", "unlike parts"]


def nightly(*values: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.nightly)


@pytest.mark.parametrize("kind", ["plain", "masked", *map(nightly, RARE)])
def test_what_is_a_function_of_each_row_is_taken(take, caplog, kind):
    reference = take(kind)

    assert reference.warnings == ()
    assert not caplog.records


def test_a_source_that_quantizes_by_batch_is_taken_with_a_warning(take, caplog):
    (said,) = take("int8 by batch").warnings

    assert (
        "the source quantizes, and its output for a row depends slightly on the other rows of the batch: 'y' of" in said
    )
    assert said in caplog.text


@pytest.mark.parametrize(
    ("kind", "slug"),
    [
        ("least noise", "source-random"),
        ("drawn once", "source-random"),
        ("kept", "source-stateful"),
        ("batch norm", "source-mixes-rows"),
        ("rank", "source-mixes-rows"),
        ("a score beside a box", "source-mixes-rows"),
        ("ragged", "source-not-rowwise"),
        *(nightly(kind, "source-random") for kind in ("dropout", "few rows", "little noise")),
        *(nightly(kind, "source-stateful") for kind in ("counter", "own generator")),
        *(nightly(kind, "source-mixes-rows") for kind in ("centred", "softmax", "first row")),
        *(nightly(kind, "source-mixes-rows") for kind in ("over rows", "fixed noise")),
        nightly("a share beside an income", "source-mixes-rows"),
        *(nightly(kind, "source-not-rowwise") for kind in ("loss", "constant")),
        ("NaN", "source-not-finite"),
    ],
)
def test_what_is_not_has_a_sentence_of_its_own(take, kind, slug):
    with pytest.raises(HoneError) as caught:
        take(kind)

    assert caught.value.slug == slug, caught.value
    assert "ource model" in caught.value.what
    assert "row" in caught.value.why


@pytest.mark.parametrize("batch", [1, 8])
@pytest.mark.parametrize(
    ("kind", "slug"),
    [
        ("centred", "source-mixes-rows"),
        nightly("plain", ""),
        nightly("dropout", "source-random"),
        nightly("counter", "source-stateful"),
    ],
)
def test_a_source_of_one_batch_size_is_tried_at_that(take, kind, slug, batch):
    if batch == 1 and kind == "centred":
        slug = ""  # of a single row there is nothing else to mix with
    shapes = {"only": {"batch": batch}}
    if not slug:
        take(kind, rows=96, batch=batch, shapes=shapes)
        return
    with pytest.raises(HoneError) as caught:
        take(kind, rows=96, batch=batch, shapes=shapes)
    assert caught.value.slug == slug


@pytest.mark.parametrize("kind", OUTPUTS)
def test_each_call_of_a_model_of_single_rows_is_a_row(make_setting, kind):
    context = make_setting(kind, batch=1, shapes={"one": {"batch": 1}})
    reference = take_baseline(context=context)

    with np.load(context.store.locate_tree(reference.digest) / reference.outputs) as outputs:
        assert outputs["y"].shape == (90, *({"classes first of one row": (4, 1)}.get(kind, ())))
    found = validate_candidate(Candidate(id="copy", route=(), outcome=context.source), context, reference=reference)
    assert found.status is Status.MEASURED, found.reason


@pytest.mark.parametrize("kind", ["batch norm", nightly("softmax")])
def test_rows_that_mix_are_seen_where_the_recipe_has_single_rows_only(take, kind):
    with pytest.raises(HoneError, match="mixes the rows"):
        take(kind, shapes={"one": {"batch": 1}})


def test_numbers_that_are_not_finite_are_told_and_allowed(take, caplog):
    reference = take("some NaN")

    assert len(reference.warnings) == 1
    assert "output 'y' is not finite in" in caplog.text
    assert "of 90 rows (NaN in" in caplog.text


def test_where_the_rows_are_is_named(take):
    with pytest.raises(HoneError) as caught:
        take("classes first")

    assert caught.value.why.endswith("its shape is (4, 16): the rows are on axis 1.")
    assert "y.movedim(1, 0)" in caught.value.hint


def find_rows(context: RunContext) -> list[int]:
    """Return the rows of the search split of which the rare kinds make something else."""
    with np.load(context.locate(context.samples.splits["search"].feeds)) as feeds:
        return [int(row) for row in np.flatnonzero(feeds["x"][:, 0] > RARE_FROM)]


@pytest.mark.parametrize("kind", ["rare maximum", "rare mean"])
def test_rows_that_mix_rarely_are_found_where_a_candidate_differs(make_setting, kind):
    context = make_setting(kind)
    reference, rows = take_baseline(context=context), find_rows(context)
    assert len(rows) == 2

    assert find_unsteady(rows, batch=32, context=context, reference=reference).in_calls == ()
    with pytest.raises(HoneError, match="mixes the rows") as caught:
        find_unsteady(rows, batch=1, context=context, reference=reference)

    assert "among the rows beside it, and" in caught.value.why
    assert f"of {len(rows)} rows differ" in caught.value.why


def test_rows_near_a_border_are_those_for_which_the_batch_size_alone_decides(make_setting):
    context = make_setting("border")
    reference, rows = take_baseline(context=context), find_rows(context)
    steady = next(row for row in range(90) if row not in rows)

    assert find_unsteady([*rows, steady], batch=1, context=context, reference=reference).in_calls == tuple(rows)
    assert find_unsteady(range(40), batch=1, context=context, reference=reference).in_calls == ()


def test_an_exact_candidate_is_not_blamed_for_rows_near_a_border(make_setting):
    context = make_setting("border")
    reference = take_baseline(context=context)
    itself = Candidate(id="copy", route=(), outcome=context.source)

    found = validate_candidate(itself, context, reference=reference)

    assert found.status is Status.MEASURED, found.reason
    rows = ", ".join(map(str, find_rows(context)))
    assert found.limits == (f"the source itself returns something else in calls of 1 for these rows: {rows}",)


def test_what_is_the_rounding_of_larger_numbers_mixes_no_rows_and_drops_no_candidate(make_setting):
    """A margin is the difference of prices of 10^5: another batch rounds it otherwise, by no scale of its own."""
    context = make_setting("price less cost")
    reference = take_baseline(context=context)
    itself = Candidate(id="copy", route=(), outcome=context.source)

    found = validate_candidate(itself, context, reference=reference)

    assert found.status is Status.MEASURED, found.reason


def test_a_candidate_that_is_wrong_in_another_row_is_dropped_for_that_one(make_setting, tmp_path):
    """The source is unsteady in two rows; the candidate is off by more in one of them, and by less in another row."""
    context = make_setting("border")
    reference, rows = take_baseline(context=context), find_rows(context)
    with np.load(context.locate(context.samples.splits["search"].feeds)) as feeds:
        other = float(np.delete(feeds["x"][:, 0], rows).max())
    wrong = {"kind": "border and wrong", "above": other - 1e-6, "below": other + 1e-6}
    artifact = seal(context.store, tmp_path / "wrong", wrong)

    found = validate_candidate(Candidate(id="wrong", route=(), outcome=artifact), context, reference=reference)

    assert found.status is Status.DROPPED
    assert "in 1 of 90 rows" in found.reason
    assert not any(f"row {row}," in found.reason for row in rows)


@pytest.mark.parametrize("kind", ["border and garbage", "border and five"])
def test_a_candidate_is_no_further_away_than_the_sources_own_answers_are(make_setting, tmp_path, kind):
    context = make_setting("border")
    reference, rows = take_baseline(context=context), find_rows(context)
    artifact = seal(context.store, tmp_path / "wrong", {"kind": kind})

    found = validate_candidate(Candidate(id="wrong", route=(), outcome=artifact), context, reference=reference)

    assert found.status is Status.DROPPED
    assert f"in {len(rows)} of 90 rows" in found.reason or "allows" in found.reason


def test_the_true_largest_error_is_reported_of_excused_rows(make_setting):
    context = make_setting("border")
    reference = take_baseline(context=context)

    found = validate_candidate(Candidate(id="copy", route=(), outcome=context.source), context, reference=reference)

    with np.load(context.store.locate_tree(reference.digest) / reference.outputs) as outputs:
        assert found.largest_error == pytest.approx(1 / np.abs(outputs["y"]).max(), rel=1e-3)


@pytest.mark.parametrize("kind", ["step", "step of one"])
def test_single_rows_at_a_step_do_not_end_the_run(make_setting, kind):
    context = make_setting(kind)
    reference, rows = take_baseline(context=context), find_rows(context)

    found = validate_candidate(Candidate(id="copy", route=(), outcome=context.source), context, reference=reference)

    assert found.status is Status.MEASURED, found.reason
    named = ", ".join(map(str, rows))
    assert f"the source itself returns something else among copies for these rows: {named}" in found.limits


def test_an_exact_candidate_is_not_blamed_for_rows_that_mix(make_setting):
    context = make_setting("rare maximum")
    reference = take_baseline(context=context)

    with pytest.raises(HoneError, match="mixes the rows"):
        validate_candidate(Candidate(id="copy", route=(), outcome=context.source), context, reference=reference)


@pytest.mark.parametrize(("kind", "kept"), [("plain", True), ("unsteady at 0", False)])
def test_rows_of_a_probe_for_which_the_source_differs_from_itself_are_left_out(take, kind, kept):
    assert ("zeros" in {probe.name for probe in take(kind).probes}) is kept


ONLY_NAMED: list[list[str]] = [
    ["aten.linear", "aten.quantile"],
    nightly(["Linear", "VectorQuantizer"]),
    ["quantized_decomposed.dequantize_per_tensor", "aten.linear"],
    nightly(["aten.nanquantile"]),
]


@pytest.mark.parametrize("operators", ONLY_NAMED)
def test_a_wrong_candidate_is_dropped_whatever_its_operators_are_called(make_setting, tmp_path, operators):
    context = make_setting("middle", operators=operators, rows=120, gates={"drop": 0.07, "other_load": 1})
    reference = take_baseline(context=context)
    wrong = seal(context.store, tmp_path / "wrong", {"kind": "middle and wrong"}, operators=operators)

    found = validate_candidate(Candidate(id="wrong", route=(), outcome=wrong), context, reference=reference)

    assert found.status is Status.DROPPED
    assert "of 120 rows" in found.reason


@pytest.mark.parametrize("operators", ONLY_NAMED)
def test_a_source_that_mixes_rows_is_refused_whatever_its_operators_are_called(take, operators):
    with pytest.raises(HoneError, match="mixes the rows"):
        take("middle and mixed", operators=operators)
