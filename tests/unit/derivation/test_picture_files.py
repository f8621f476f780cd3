"""Folders of pictures: their classes, their content, and their splits as a program reads them."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from PIL import Image

from hone_runtime.errors import HoneError
from kedro_hone.derivation.splits import divide, write_splits
from kedro_hone.derivation.tables import read_table


@pytest.fixture
def pictures(tmp_path):
    """Write 90 pictures of two classes, in two formats."""
    chance = np.random.default_rng(2)
    folder = tmp_path / "pictures"
    for at in range(90):
        place = folder / ("cat" if at % 3 else "dog")
        place.mkdir(parents=True, exist_ok=True)
        image = Image.fromarray(chance.integers(0, 256, (6, 6, 3), dtype=np.uint8))
        image.save(place / f"{at:02}.{'png' if at % 2 else 'JPG'}", format="PNG" if at % 2 else "JPEG")
    return folder


def test_the_folders_are_the_classes(pictures):
    (pictures / "cat" / "notes.txt").write_text("no picture")
    table = read_table(pictures)
    assert (table.rows, table.names) == (90, ("images", "label"))
    assert table.notes == ("`label` is the folder of each picture: cat, dog",)
    division = divide(table, target="label")
    assert division.classes == {"cat": 60, "dog": 30}
    assert table.columns["images"][0] == next(iter(sorted((pictures / "cat").iterdir()))).read_bytes()


def test_their_splits_are_read_by_the_program_for_images(pictures, read_splits, tmp_path):
    division = divide(read_table(pictures), target="label")
    model = tmp_path / "model"
    model.mkdir()
    config = {"architectures": ["ViTForImageClassification"], "model_type": "vit", "id2label": {"0": "cat", "1": "dog"}}
    (model / "config.json").write_text(json.dumps(config))
    processor = {"image_processor_type": "ViTImageProcessor", "size": {"height": 6, "width": 6}, "do_resize": False}
    plain = {**processor, "do_normalize": False, "rescale_factor": 1.0}
    (model / "preprocessor_config.json").write_text(json.dumps(plain))
    notes = read_splits(
        "image-classification",
        write_splits(division, tmp_path / "splits"),
        inputs=[{"name": "pixel_values", "dtype": "float32", "shape": ["batch", 3, 6, 6]}],
        outputs=[{"name": "logits", "dtype": "float32", "shape": ["batch", 2]}],
        folder=model,
    )
    assert notes.get("overlaps") == [], notes
    with np.load(tmp_path / "prepared" / "gate" / "feeds.npz") as feeds:
        first = division.table.columns["images"][division.rows["gate"][0]]
        pixels = np.asarray(Image.open(io.BytesIO(first)).convert("RGB"))
        np.testing.assert_array_equal(feeds["pixel_values"][0], np.moveaxis(pixels, -1, 0))


def test_pictures_without_classes_are_a_table_of_one_column(pictures):
    assert read_table(pictures / "dog").names == ("images",)


def test_pictures_of_which_only_some_have_a_class_are_refused(pictures):
    (pictures / "stray.png").write_bytes(b"")
    with pytest.raises(HoneError) as caught:
        read_table(pictures)
    assert "stray.png is in no folder of a class" in caught.value.why
