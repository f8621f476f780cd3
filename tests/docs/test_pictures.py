"""The documentation's pictures show the pages as they are now."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
from PIL import Image

DOCS = Path(__file__).parents[2] / "docs"
sys.path.insert(0, str(DOCS))

from generated.pictures import FOLDER, PICTURES, extract_text, read_text  # noqa: E402 - not importable before

REMEDY = "a page has another text than its picture: run python docs/pictures.py"


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_has_the_text_of_its_page(name):
    text = extract_text(PICTURES[name].make())

    assert len(text.splitlines()) > 10
    assert read_text(FOLDER / name).splitlines() == text.splitlines(), REMEDY


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_has_its_size(name):
    with Image.open(FOLDER / name) as image:
        assert image.size == (PICTURES[name].width, PICTURES[name].height)


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_shown_somewhere(name):
    pages = [DOCS.parent / "README.md", *DOCS.rglob("*.md")]

    assert any(f"images/{name})" in page.read_text() for page in pages)


def test_what_a_reader_does_not_see_is_no_text():
    page = (
        "<head><title>t</title></head><body><p>one <b>t</b>wo</p><script>s</script><select><option>o</select>"
        "<details><summary>fold</summary>inside<details><summary>deep</summary></details></details>"
        "<details open><summary>open</summary>shown</details><p>a<wbr>b &amp;\nc</p></body>"
    )

    assert extract_text(page).splitlines() == ["one two", "fold", "open", "shown", "ab & c"]


@pytest.mark.browser
@pytest.mark.parametrize("name", PICTURES)
def test_the_browser_shows_what_the_picture_has(name):
    pytest.importorskip("playwright.sync_api")
    if not (os.environ.get("CHROMIUM") or shutil.which("chromium")):
        pytest.skip("no chromium on the path: see tools/install-chromium")
    from pictures import open_browser, shoot  # imports playwright

    picture = PICTURES[name]
    with open_browser() as browser:
        shot = shoot(browser, picture)
    assert "".join(shot.text.split()) == "".join(read_text(FOLDER / name).split())
    assert shot.width <= picture.width
    assert shot.height <= picture.height
