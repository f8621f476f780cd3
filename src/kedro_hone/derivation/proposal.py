"""A recipe and a catalog for a model and its data, with a sentence for each thing that was derived."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.contract.registries import find_registry
from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import Artifact, Stage
from hone_runtime.values.samples import GATE, SEARCH
from kedro_hone.core.stats.levels import share_confidence
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.derivation.class_labels import check_classes
from kedro_hone.derivation.columns import describe_columns
from kedro_hone.derivation.drawn import ROWS, Drawing, draw_splits
from kedro_hone.derivation.entries import list_entries
from kedro_hone.derivation.example import read_example
from kedro_hone.derivation.leaks import describe_unused, list_inputs
from kedro_hone.derivation.limit import DEFAULT_DROP, choose_drop
from kedro_hone.derivation.local_copies import fetch_data
from kedro_hone.derivation.metric import (
    CLASSIFIERS,
    choose_metric,
    describe_metric,
    find_own_metric,
    find_provable,
    is_bounded,
)
from kedro_hone.derivation.origins import Origin, name_origin
from kedro_hone.derivation.program import FIDELITY, ChosenProgram, choose_program
from kedro_hone.derivation.project import DATA, merge, nest
from kedro_hone.derivation.request import WHOLE, Request
from kedro_hone.derivation.rows import Table
from kedro_hone.derivation.shapes import choose_shapes, describe_shapes
from kedro_hone.derivation.splits import Division, describe, divide, round_up, write_splits
from kedro_hone.derivation.tables import read_table
from kedro_hone.derivation.targets import check_target, count_classes, find_column
from kedro_hone.derivation.training import check_training
from kedro_hone.programs import call_program, copy_program, find_program, list_options, locate_program
from kedro_hone.recipe.schema import Recipe, read_recipe
from kedro_hone.search.sources.versions import fetch

_DRAFT_DROP: Final = 0.05
"""The limit of a draft's drop, which a few hundred drawn rows can show."""


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """What was derived from a request.

    Attributes:
        recipe: The value of ``hone`` in the parameters.
        catalog: The entries of the splits.
        source: The model, which is sealed in the project's store.
        lines: What was derived, and from what: one sentence each.
        origin: The file that was divided into the splits; None if there is none.
    """

    recipe: Mapping[str, Any]
    catalog: Mapping[str, Any]
    source: Artifact
    lines: tuple[str, ...] = ()
    origin: Origin | None = None


@dataclass(frozen=True, kw_only=True)
class _Data:
    """The files of the splits, relative to the project or URLs, and what is known of their rows.

    ``classes`` is the number of rows of each class in the gate split, ``all_classes`` in all data, if known.
    """

    files: Mapping[str, str]
    chosen: ChosenProgram
    rows: int = 0
    classes: Mapping[str, int] | None = None
    all_classes: Mapping[str, int] | None = None
    lines: tuple[str, ...] = field(default_factory=tuple)
    origin: Origin | None = None


def propose(request: Request, folder: Path) -> Proposal:
    """Pull the model, read the data, and derive the recipe and the catalog; the splits are written to the folder.

    Args:
        request: What the user named.
        folder: The root of the project to be.

    Raises:
        HoneError: The model cannot be pulled, the data cannot be read, or something has to be named by a flag.
    """
    store = Store(folder / "data" / "hone" / "store")
    run = RunFolder(root=folder / "data" / "hone" / "derivation", run_id="model", project=folder)
    settings = nest(request.settings)
    asked = read_recipe(merge({"model": {"uri": request.source}}, settings))
    registry = find_registry(request.source, project=folder)
    version, source = fetch(registry.find_source(request.source), registry, asked, store, run)
    if isinstance(asked.toolchains, tuple) and source.runtime not in asked.toolchains:
        settings |= _add_converters(str(source.runtime), asked)
        asked = read_recipe(merge({"model": {"uri": request.source}}, settings))
    data = _read_data(request, source, asked, folder) if request.data else _draw_data(request, source, folder)
    with name_origin(data.origin):
        feeds = _prepare_inputs(data, source, folder, store, run) if _has_free_sizes(source) else None
    shapes, why = choose_shapes(request, source, feeds)
    options = dict(data.chosen.options)
    own = find_own_metric(data.chosen.name, options) or _ask_program(data, folder, store, run)
    metric = choose_metric(asked.program.metric, own, data.all_classes, options)
    drop = _find_drop(request, data, asked, metric.key or metric.name)
    if (length := max((sizes.get("length", 0) for sizes in shapes.values()), default=0)) and data.chosen.takes_length:
        options.setdefault("length", length)
    recipe = {
        "model": {"uri": request.source},
        "program": {
            "name": data.chosen.name,
            **({"options": options} if options else {}),
            **({"metric": metric.key} if metric.key else {}),
        },
        "shapes": shapes,
        "gates": {"drop": drop},
    }
    recipe = merge(recipe, settings)
    gates = read_recipe(recipe).gates
    limits = {metric.name: gates.drop}
    limits |= {describe_metric(name, data.all_classes, options): most for name, most in gates.drops.items()}
    lines = (
        f"model     {version.uri}, {source.format}: {_describe_inputs(source)}",
        f"task      {data.chosen.name}, {data.chosen.why}",
        *data.lines,
        f"shapes    {describe_shapes(shapes)}, {why}",
        *([f"metric    {metric.name}: {metric.why}"] if metric.why else []),
        *(f"gate      the {name} may get worse by at most {most:g}" for name, most in limits.items()),
    )
    return Proposal(
        recipe=recipe,
        catalog=list_entries(data.files, drawn=not request.data),
        source=source,
        lines=lines,
        origin=data.origin,
    )


def _read_data(request: Request, source: Artifact, asked: Recipe, folder: Path) -> _Data:
    whole = request.data.get(WHOLE)
    place = fetch_data(whole or request.data[SEARCH], folder)
    needs = list_inputs(source)
    table = read_table(place, needs=needs)
    columns = describe_columns(table)
    chosen = _drop_undeclared(choose_program(request, source, columns), request, folder)
    trains = check_training(request, chosen, asked)
    free = chosen.name == FIDELITY and chosen.target is None
    notes = describe_unused(source, chosen.options.get("arrays") or {}, columns) if free else ()
    if whole is not None:
        division = _divide(table, request, chosen, asked, trains=trains)
        check_classes(columns, source, request, chosen)
        files = {split: str(path.relative_to(folder)) for split, path in write_splits(division, folder / DATA).items()}
        lines = tuple(f"data      {line}" for line in describe(division))
        return _Data(
            files=files,
            chosen=chosen,
            rows=len(division.rows[GATE]),
            classes=division.in_gate,
            all_classes=division.classes,
            lines=(*lines, *notes),
            origin=Origin(file=place.name, rows=division.rows),
        )
    if request.group is not None:
        why = "It keeps rows together where one file is divided, and named splits are used as they are."
        hint = "Give one file without a split's name; or divide it by groups yourself, and leave --group out."
        raise HoneError("option-invalid", "--group has no effect on named splits.", why=why, hint=hint)
    gate = read_table(fetch_data(request.data[GATE], folder), needs=needs)
    labels = None
    for each in (table, gate):
        if chosen.target is not None:
            named = find_column(each, chosen.target, flag="--target")
            labels = check_target(each, named, classes=chosen.name in CLASSIFIERS)
        check_classes(describe_columns(each), source, request, chosen)
    classes = None if labels is None or chosen.name not in CLASSIFIERS else count_classes(labels)
    return _Data(
        files=request.data,
        chosen=chosen,
        rows=gate.rows,
        classes=classes,
        all_classes=classes,
        lines=(f"data      the splits that --data names; {gate.rows:,} rows in {GATE}", *notes),
    )


def _ask_program(data: _Data, folder: Path, store: Store, run: RunFolder) -> str:
    """Return the name of the metric of a program of the user, from its worker."""
    job = {
        "program": find_program(data.chosen.name, project=folder).path,
        "program_options": dict(data.chosen.options),
        "gate": str(fetch_data(data.files[GATE], folder)),
        "metric": None,
    }
    return str(call_program("check", job=job, store=store, run=run)["metric"])


def _find_drop(request: Request, data: _Data, asked: Recipe, metric: str) -> float:
    """Return the limit of the gate ``drop``, from what was asked for and what the rows of the gate split can prove."""
    if not request.data:
        return request.max_drop or _DRAFT_DROP
    if not is_bounded(data.chosen.name, asked.program.metric):
        return choose_drop(request, None)
    level = share_confidence(asked.gates.confidence, finalists=asked.confirm.finalists)
    options = data.chosen.options
    least = find_provable(metric, data.classes, data.rows, options=options, confidence=level)
    return choose_drop(request, round_up(least), metric=metric)


def _divide(table: Table, request: Request, chosen: ChosenProgram, asked: Recipe, *, trains: bool) -> Division:
    return divide(
        table,
        target=chosen.target,
        group=request.group,
        content=chosen.content,
        classes=chosen.name in CLASSIFIERS,
        limit=request.max_drop or DEFAULT_DROP,
        finalists=asked.confirm.finalists,
        confidence=asked.gates.confidence,
        bounded=is_bounded(chosen.name, asked.program.metric),
        metric=asked.program.metric,
        options=chosen.options,
        trains=trains,
    )


def _drop_undeclared(chosen: ChosenProgram, request: Request, folder: Path) -> ChosenProgram:
    """Return the program without those derived options that the user's own program does not declare."""
    declared = list_options(find_program(chosen.name, project=folder))
    if declared is None:
        return chosen
    asked = {*request.options, *(["arrays"] if request.inputs else []), *(["classes"] if request.classes else [])}
    options = {name: value for name, value in chosen.options.items() if name in declared or name in asked}
    return replace(chosen, options=options)


def _draw_data(request: Request, source: Artifact, folder: Path) -> _Data:
    registry = find_registry(request.source, project=folder)
    example = read_example(request.source, registry, source)
    sizes = {dim: size for shape in reversed(request.shapes) for dim, size in shape.items()}
    files = draw_splits(Drawing(source=source, example=example, sizes=sizes), folder / DATA)
    origin = "in the range of the model's example" if example else "from its signature, as it has no example"
    lines = (
        f"data      NONE: {sum(ROWS.values())} rows were drawn, {origin}. The verdict is a DRAFT, never published",
    )
    named = {split: str(path.relative_to(folder)) for split, path in files.items()}
    chosen = choose_program(request, source, ())
    return _Data(files=named, chosen=chosen, lines=lines)


def _has_free_sizes(source: Artifact) -> bool:
    return any(isinstance(dim, str) for spec in source.inputs for dim in spec.shape[1:])


def _prepare_inputs(
    data: _Data, source: Artifact, folder: Path, store: Store, run: RunFolder
) -> dict[str, NDArray[Any]]:
    """Return the model's inputs for the search split, as the program makes them."""
    program = find_program(data.chosen.name, project=folder)
    with store.workspace() as scratch:
        kept = copy_program(program, scratch)
        job = {
            "program": str(locate_program(kept, scratch, digest=program.digest)),
            "program_options": dict(data.chosen.options),
            "splits": {SEARCH: {"path": str(fetch_data(data.files[SEARCH], folder))}},
        }
        call_program("read", job=job, source=source, output=scratch, store=store, run=run)
        with np.load(scratch / SEARCH / "feeds.npz") as arrays:
            return {name: arrays[name] for name in arrays.files}


def _add_converters(runtime: str, asked: Recipe) -> dict[str, Any]:
    """Return the recipe's toolchains with that of the source, of which only the converters take part."""
    known = read_catalogue().adaptors.values()
    others = [one.name for one in known if one.toolchain.name == runtime and one.stage is not Stage.CONVERT]
    named = {name: section.model_dump(exclude_unset=True) for name, section in asked.adaptors.items()}
    return {
        "toolchains": [runtime, *asked.toolchains],
        "adaptors": {**{name: {"enabled": False} for name in others}, **named},
    }


def _describe_inputs(source: Artifact) -> str:
    sides = (source.inputs, source.outputs)
    texts = [", ".join(f"{spec.name} ({', '.join(map(str, spec.shape))})" for spec in side[:6]) for side in sides]
    return " → ".join(f"{text}{' …' if len(side) > 6 else ''}" for text, side in zip(texts, sides, strict=True))
