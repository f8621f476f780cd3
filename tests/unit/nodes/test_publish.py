from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from hone_runtime.errors import HoneError
from hone_runtime.values.forms import WinnerForm
from kedro_hone.nodes.publish import pack_image_of
from kedro_hone.recipe.publish import ImageSection


def test_an_image_that_was_made_for_another_place_is_not_published():
    """Its approval would look for an image of the recipe's place in the evidence, and find none."""
    made = WinnerForm(form="image", digest=f"sha256:{'2' * 64}", place="registry.example.org/old/digits")
    recipe = SimpleNamespace(publish=SimpleNamespace(image=ImageSection(push="registry.example.org/new/digits:latest")))
    context = SimpleNamespace(recipe=recipe, run=SimpleNamespace(project=Path()))
    evidence = SimpleNamespace(forms=(made,), run_id="20260101-000000")
    with pytest.raises(HoneError, match=r"lists an image for registry\.example\.org/old/digits") as raised:
        pack_image_of(SimpleNamespace(), evidence, context, name="digits")
    assert raised.value.slug == "evidence-incomplete"
