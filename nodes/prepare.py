"""Convert the user's data to the models' inputs: once, so that every candidate gets the same bytes."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from hone_runtime.errors import HoneError
from hone_runtime.text import open_logger, suggest
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.base import Json
from hone_runtime.values.digest import digest_json
from hone_runtime.values.samples import (
    CALIBRATION,
    GATE,
    SEARCH,
    SPLITS,
    TRAINING,
    Samples,
    Split,
    TrackedFile,
)
from hone_runtime.values.slices import SliceRows, Slices
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.programs import call_program, copy_program, digest_programs, find_program, locate_program
from kedro_hone.recipe.clients import CLIENTS
from kedro_hone.recipe.schema import Recipe
from kedro_hone.search.comparison.arrays import is_drawn, open_arrays, read_arrays
from kedro_hone.search.comparison.crops import crop

logger = open_logger(__name__)

VERSION = 5
"""Increase it if the code prepares different samples; it is part of their key in the store."""


_DIVISION = 1
"""The same for slices."""


def prepare(source: Artifact, recipe: Recipe, store: Store, run: RunFolder, **splits: TrackedFile) -> Samples:
    """Prepare the splits and the batch of each shape, and store them with the program's code in one tree of the store.

    Raises:
        HoneError: ``data-unreadable``, ``data-empty``, ``data-overlap``, ``labels-mismatch``, ``program-unknown``,
            ``recipe-invalid`` or ``source-not-rowwise``.
    """
    program = find_program(recipe.program.name, project=run.project)
    given = {name: splits[name] for name in (*SPLITS, TRAINING) if name in splits}
    files = {
        name: file.model_copy(update={"drawn": file.drawn or is_drawn(Path(file.path))}) for name, file in given.items()
    }
    specs = [[spec.model_dump(mode="json") for spec in side] for side in (source.inputs, source.outputs)]
    code = [digest_programs(), program.digest, recipe.program.options]
    drawn = [name for name, file in files.items() if file.drawn]
    rows = [
        {name: file.content for name, file in files.items()},
        *drawn,
        *specs,
        recipe.sizes,  # clients call with the same rows
        recipe.calibration_rows,
    ]
    digest = digest_json(["samples", VERSION, *code, *rows])

    def describe(notes: Json) -> tuple[Samples, list[str]]:
        made = {
            name: Split(
                name=name,
                n=notes["splits"][name]["n"],
                path=file.source,
                md5=file.md5,
                rev=file.resolved_rev,
                sha256=file.sha256,
                drawn=file.drawn,
            )
            for name, file in files.items()
        }
        shapes = {name: f"shapes/{name}.npz" for name in recipe.shapes}
        kept = {"program": notes["program"], "program_digest": program.digest}
        return Samples(digest=digest, splits=made, shapes=shapes, **kept), list(notes["warnings"])

    found = store.read_value(digest, describe)
    if found is None or store.find_tree(digest) is None:
        with store.workspace() as scratch:
            kept = copy_program(program, scratch)
            path = str(locate_program(kept, scratch, digest=program.digest))
            paths = {name: {"path": file.path} for name, file in files.items()}
            job = {"program": path, "program_options": dict(recipe.program.options), "splits": paths}
            notes = call_program("read", job=job, source=source, output=scratch, store=store, run=run)
            if notes["overlaps"]:
                raise _explain_overlap(**notes["overlaps"][0])
            check_limits(source, recipe, scratch)
            calibration = scratch / CALIBRATION / "feeds.npz"
            kept_rows = {name: array[: recipe.calibration_rows] for name, array in read_arrays(calibration).items()}
            np.savez(calibration, allow_pickle=False, **kept_rows)
            cut_shapes(scratch / SEARCH / "feeds.npz", source, recipe, scratch)
            notes["warnings"] += describe_free_sizes(scratch / SEARCH / "feeds.npz", source, recipe)
            store.store_tree(digest, scratch)
        notes |= {"program": kept}
        store.write_value(digest, notes)
        found = describe(notes)
    samples, warnings = found
    for warning in warnings:
        logger.warning("warning   %s", warning)
    return divide(samples, recipe, store, run, gate=files.get(GATE))


def divide(samples: Samples, recipe: Recipe, store: Store, run: RunFolder, *, gate: TrackedFile | None) -> Samples:
    """Return samples with the slices of the gate split, if the recipe names any.

    They have a key of their own in the store: another column changes nothing that was built.

    Args:
        samples: The samples.
        recipe: The recipe.
        store: The store, in which the number of each row's slice is kept.
        run: The run.
        gate: The file of the gate split.

    Raises:
        HoneError: ``recipe-invalid``: the data have no such column. ``data-unreadable``.
    """
    asked = recipe.gates.slices
    if asked is None or gate is None:
        return samples
    key = digest_json(["slices", _DIVISION, samples.digest, asked.by])
    sizes = store.read_value(key)
    if sizes is None or store.find_tree(key) is None:
        with store.workspace() as scratch:
            program = find_program(recipe.program.name, project=run.project)
            job: dict[str, Json] = {"program": program.path, "program_options": dict(recipe.program.options)}
            job |= {"gate": gate.path, "by": asked.by, "rows": samples.splits[GATE].n}
            sizes = call_program("divide", job=job, output=scratch, store=store, run=run)["slices"]
            store.store_tree(key, scratch)
        store.write_value(key, sizes)
    rows = tuple(SliceRows.model_validate(one) for one in sizes)
    return samples.model_copy(update={"slices": Slices(by=asked.by, digest=key, sizes=rows)})


def _explain_overlap(*, splits: list[str], count: int, example_rows: list[int]) -> HoneError:
    (first, second), (row, other) = splits, example_rows
    return HoneError(
        "data-overlap",
        f"The {first} and {second} splits share {count} row(s).",
        why=f"Row {row} of {first} is row {other} of {second}: a score on rows that were used before proves nothing.",
        hint="Remove the shared rows from one of them, then commit the change where DVC tracks them.",
    )


def check_limits(source: Artifact, recipe: Recipe, folder: Path) -> None:
    """Compare the sizes of the prepared splits and of the recipe's shapes with the model's maximum sizes.

    Raises:
        HoneError: ``recipe-invalid`` or ``data-unreadable``: one is larger, such as a text with more tokens than the
            model has positions.
    """
    limits: dict[str, int] = dict(source.metadata.get("transformers", {}).get("limits", {}))
    for shape in recipe.all_shapes:
        if over := sorted(dim for dim, limit in limits.items() if shape.sizes.get(dim, 0) > limit):
            raise HoneError(
                "recipe-invalid",
                f"The shape {shape.name!r} asks for {over[0]} = {shape.sizes[over[0]]}, and the model takes "
                f"{limits[over[0]]} at most.",
                why="The model has positions for that many tokens only.",
                hint="Make the shape smaller.",
            )
    for split in (*SPLITS, TRAINING) if limits else ():
        if not (folder / split).exists():  # no adaptor needs a training split
            continue
        with open_arrays(folder / split / "feeds.npz") as arrays:
            for spec in source.inputs:
                for axis, dim in enumerate(spec.shape):
                    found, limit = arrays[spec.name].shape[axis], limits.get(str(dim))
                    if limit is not None and found > limit:
                        raise HoneError(
                            "data-unreadable",
                            f"The rows of {split} have {dim} = {found}, and the model takes {limit} at most.",
                            why="The model has positions for that many tokens only.",
                            hint="Truncate them in the program, by its option for the length if it has one.",
                        )


def cut_shapes(feeds: Path, source: Artifact, recipe: Recipe, folder: Path) -> None:
    """Write the first rows of the search split's inputs (``feeds``, ``.npz``) for each shape to ``shapes/<name>.npz``.

    Rows are repeated if there are too few.

    Raises:
        HoneError: ``recipe-invalid``: a shape names a dimension that the model does not have, or is larger than this
            machine's memory; ``data-unreadable``: the data are smaller than a shape.
    """
    known = {dim for spec in source.inputs for dim in spec.shape[1:] if isinstance(dim, str)}
    arrays = read_arrays(feeds)
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
    (folder / "shapes").mkdir()
    if CLIENTS in known and max(recipe.clients.values()) > 1:
        raise HoneError(
            "recipe-invalid",
            f"The model has a dimension that is named {CLIENTS}.",
            why="In a shape of the recipe, that is the number of clients that call at once.",
            hint="Rename the dimension in the model.",
        )
    for shape in recipe.all_shapes:
        if unknown := sorted(shape.sizes.keys() - known - {"batch"}):
            near = suggest(unknown[0], known | {"batch"})
            raise HoneError(
                "recipe-invalid",
                f"The shape {shape.name!r} names {unknown[0]!r}, which is not a dimension of the model.",
                why=f"Besides batch, the sizes of the model that may change are: {', '.join(sorted(known)) or 'none'}.",
                hint=f"{near}Name one of these by hone.shapes, or leave it out.",
            )
        needed = shape.batch * sum(arrays[spec.name][:1].nbytes for spec in source.inputs) / 1e9
        if needed > memory:  # which would end the run without a message
            raise HoneError(
                "recipe-invalid",
                f"The shape {shape.name!r} does not fit into the memory of this machine.",
                why=f"A batch of {shape.batch:,} rows takes {needed:,.1f} GB, and there are {memory:,.1f} GB.",
                hint="Make the shape's batch smaller.",
            )
        batch = {}
        for spec in source.inputs:
            rows = np.take(arrays[spec.name], range(shape.batch), axis=0, mode="wrap")
            batch[spec.name] = crop(rows, spec.shape, shape.sizes, rows=arrays)
        np.savez(folder / "shapes" / f"{shape.name}.npz", allow_pickle=False, **batch)


def describe_free_sizes(feeds: Path, source: Artifact, recipe: Recipe) -> list[str]:
    """Return a warning for each shape of the recipe with free sizes other than the batch, with the text to write.

    Graphs of fixed sizes are faster, and only the user who serves the model knows whether these sizes ever change. Rows
    of tokens have any length, so models of Transformers get no warning.
    """
    if "transformers" in source.metadata:
        return []
    with open_arrays(feeds) as arrays:
        sizes = {
            dim: arrays[spec.name].shape[axis]
            for spec in source.inputs
            for axis, dim in enumerate(spec.shape)
            if axis > 0 and isinstance(dim, str) and dim != "batch"
        }
    found = []
    for shape in recipe.all_shapes:
        if free := {dim: size for dim, size in sizes.items() if dim not in shape.sizes}:
            named = ", ".join(f"{dim}: {size}" for dim, size in {**shape.sizes, **free}.items())
            found.append(
                f"the shape {shape.name!r} leaves {', '.join(free)} free. If they never change in production, "
                f"`shapes: {{{shape.name}: {{{named}}}}}` lets toolchains compile for them"
            )
    return found
