"""Draw the documentation's pictures in Chromium: ``docs/images/report.png``, ``service.png`` and ``comment.png``.

Run it when ``tests/docs/test_pictures.py`` names a picture that is old. It needs Debian's packages ``chromium``, or any
Chromium in ``$CHROMIUM``, and ``fonts-noto-color-emoji``. Names of pictures as arguments draw these only.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from PIL import Image
from PIL.PngImagePlugin import PngInfo
from playwright.sync_api import Browser, sync_playwright

sys.path.insert(0, str(Path(__file__).parent))

from generated.pictures import FIELD, FOLDER, PICTURES, Picture, extract_text

_READ = """() => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let found = '';
  for (let node; (node = texts.nextNode());) {
    const parent = node.parentElement;
    if (parent.checkVisibility() && !parent.closest('script, select')) found += node.data;
  }
  return found;
}"""
_COLOURS = 256


class Shot(NamedTuple):
    """What the browser shows of a page.

    Attributes:
        image: The picture, as PNG.
        text: The visible text, as the nodes of the document have it.
        width: How wide the whole page is, in pixels; the picture may show a part of it only.
        height: How high it is.
    """

    image: bytes
    text: str
    width: int
    height: int


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Yield Chromium without a window.

    Raises:
        FileNotFoundError: There is none.
    """
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if not chromium:
        raise FileNotFoundError("no chromium on the path: see tools/install-chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


def shoot(browser: Browser, picture: Picture) -> Shot:
    """Return what the browser shows of a picture's page, by daylight."""
    page = browser.new_page(
        viewport={"width": picture.width, "height": picture.height}, color_scheme="light", reduced_motion="reduce"
    )
    page.set_content(picture.make(), wait_until="load")
    width, height = (page.evaluate(f"document.documentElement.scroll{side}") for side in ("Width", "Height"))
    shot = Shot(page.screenshot(), page.evaluate(_READ), width, height)
    page.close()
    return shot


def write_picture(name: str, picture: Picture, shot: Shot) -> None:
    """Write a picture with the text of its page in it.

    Raises:
        ValueError: The page is larger than the picture.
    """
    if shot.width > picture.width or shot.height > picture.height:
        raise ValueError(f"{name} is cut off: the page has {shot.width} x {shot.height} pixels")
    fields = PngInfo()
    fields.add_itxt(FIELD, extract_text(picture.make()), zip=True)
    image = Image.open(io.BytesIO(shot.image)).convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE)
    image.save(FOLDER / name, pnginfo=fields, optimize=True)


def main() -> int:
    """Draw the pictures, or those that are named."""
    with open_browser() as browser:
        for name in sys.argv[1:] or PICTURES:
            write_picture(name, PICTURES[name], shoot(browser, PICTURES[name]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
