from __future__ import annotations

import pytest
from served_interfaces import INTERFACES, make_winner

from hone_runtime.errors import HoneError
from kedro_hone.serving.client.interface import make_interface


def test_a_client_has_the_models_name_and_no_path_of_the_machine() -> None:
    made = make_interface(make_winner(*INTERFACES["text"], name="text-net.v2"))
    assert (made.model, made.package, made.distribution, made.title) == (
        "text-net.v2",
        "text_net_v2_client",
        "text-net-v2-client",
        "TextNetV2",
    )
    assert made.version == "1.0.0"
    assert made.made_from == "text-net.v2, sha256:0"


@pytest.mark.parametrize(
    ("name", "package"),
    [("class", "class_client"), ("3d-net", "model_3d_net_client"), ("open-inference", "open_inference_model_client")],
)
def test_any_name_of_a_model_gives_a_package(name: str, package: str) -> None:
    assert make_interface(make_winner(*INTERFACES["text"], name=name)).package == package


def test_names_that_the_generated_code_uses_are_changed() -> None:
    made = make_interface(make_winner(*INTERFACES["keywords"], name="net"))
    assert [one.argument for one in made.inputs] == ["class_", "self_"]
    assert [one.argument for one in made.outputs] == ["np_", "def_"]


def test_a_language_model_gets_no_client() -> None:
    winner = make_winner(*INTERFACES["two inputs"], name="lm", metadata={"cache": {"length": 8}})
    with pytest.raises(HoneError) as refused:
        make_interface(winner)
    assert refused.value.slug == "serving-unsupported"
