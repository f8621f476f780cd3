"""Images by the processor that a model brings: as its own library makes them, files of images, and when it is not."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest

INPUT = {"name": "pixel_values", "dtype": "float32", "shape": ["batch", 3, 8, 8]}
LOGITS = [{"name": "logits", "dtype": "float32", "shape": ["batch", 2]}]
PROCESSOR = {
    "image_processor_type": "ViTImageProcessor",
    "do_resize": True,
    "size": {"height": 8, "width": 8},
    "resample": 2,
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": True,
    "image_mean": [0.5, 0.4, 0.3],
    "image_std": [0.5, 0.25, 0.2],
}
CONFIG = {"model_type": "vit", "id2label": {"0": "cat", "1": "dog"}}


@pytest.fixture
def images(random):
    return random.integers(0, 256, (5, 12, 10, 3), dtype=np.uint8)


@pytest.fixture
def run(run_program, make_model_folder):
    def run(data, **options):
        files = {"config": CONFIG, "preprocessor_config": options.pop("file", PROCESSOR)}
        folder = make_model_folder(tokenizer=False, **{name: file for name, file in files.items() if file})
        given = {"inputs": [INPUT], "outputs": LOGITS, "folder": folder, **options}
        return run_program("image-classification", data, **given)

    return run


def test_the_processors_pixels_are_those_of_pillow(run, images):
    from PIL import Image

    found = run({"images": images, "labels": np.array(["cat", "dog", "dog", "cat", "cat"])})
    resized = [np.asarray(Image.fromarray(image).resize((8, 8), Image.Resampling.BILINEAR)) for image in images]
    wanted = (np.stack(resized) / 255 - PROCESSOR["image_mean"]) / PROCESSOR["image_std"]
    np.testing.assert_allclose(found["feeds"]["pixel_values"], np.moveaxis(wanted, -1, 1), atol=1e-5)
    np.testing.assert_array_equal(found["targets"]["target"], [0, 1, 1, 0, 0])


def test_channels_first_and_gray_are_the_same_images(run, images):
    labels = np.zeros(5, int)
    plain = run({"images": images, "labels": labels})["feeds"]["pixel_values"]
    first = run({"images": np.moveaxis(images, -1, 1), "labels": labels})["feeds"]["pixel_values"]
    np.testing.assert_array_equal(first, plain)
    gray = run({"images": images[..., 0], "labels": labels})["feeds"]["pixel_values"]
    three = run({"images": np.repeat(images[..., :1], 3, axis=3), "labels": labels})["feeds"]["pixel_values"]
    np.testing.assert_array_equal(gray, three)


def test_files_of_images(run, images, tmp_path):
    import pandas as pd
    from PIL import Image

    contents = []
    for image in images:
        file = io.BytesIO()
        Image.fromarray(image).save(file, format="PNG")
        contents.append({"bytes": file.getvalue(), "path": None})
    pd.DataFrame({"image": contents, "label": [0, 1, 1, 0, 0]}).to_parquet(tmp_path / "a.parquet")
    found = run(str(tmp_path / "a.parquet"))
    plain = run({"images": images, "labels": np.array([0, 1, 1, 0, 0])})
    np.testing.assert_array_equal(found["feeds"]["pixel_values"], plain["feeds"]["pixel_values"])
    pd.DataFrame({"image": [{"bytes": b"no image"}], "label": [0]}).to_parquet(tmp_path / "a.parquet")
    error = run(str(tmp_path / "a.parquet"))["error"]
    assert (error["slug"], "row 0 is not an image" in error["why"]) == ("data-unreadable", True)


def test_options_that_scale_come_before_the_processor(run, random):
    images = random.integers(0, 256, (2, 8, 8, 3), dtype=np.uint8)
    data = {"images": images, "labels": np.array([0, 1])}
    found = run(data, scale=1 / 255, channels="last")
    np.testing.assert_allclose(found["feeds"]["pixel_values"], np.moveaxis(images / 255, -1, 1), rtol=1e-5)
    found = run(data, processor=False, channels="last")
    np.testing.assert_array_equal(found["feeds"]["pixel_values"], np.moveaxis(images, -1, 1))


def test_images_that_are_no_bytes_are_taken_as_they_are(run, random):
    images = random.normal(size=(2, 3, 8, 8)).astype(np.float32)
    found = run({"images": images, "labels": np.array([0, 1])})
    np.testing.assert_array_equal(found["feeds"]["pixel_values"], images)


def test_a_processor_that_is_missing_or_broken_is_said(run, images):
    data = {"images": images, "labels": np.zeros(5, int)}
    error = run(data, file={"image_processor_type": "NoSuchProcessor"})["error"]
    assert error["slug"] == "tokenizer-missing"


def test_a_processor_that_is_asked_for_and_not_there(run, images):
    data = {"images": images, "labels": np.zeros(5, int)}
    error = run(data, file=None, processor=True)["error"]
    assert (error["slug"], "no processor" in error["why"]) == ("recipe-invalid", True)


def test_labels_that_the_head_does_not_have(run, images):
    error = run({"images": images, "labels": np.array(["cat", "dog", "bird", "cat", "cat"])})["error"]
    assert (error["slug"], json.dumps(error).count("'bird'")) == ("labels-mismatch", 1)


def test_no_image_at_all_is_said(run, images):
    assert run({"images": images[:0], "labels": np.zeros(0, int)})["error"]["slug"] == "data-empty"
