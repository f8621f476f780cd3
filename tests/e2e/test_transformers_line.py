"""Models of text and images of Transformers: pulled, made faster, published and called as before, in one run each."""

from __future__ import annotations

import pytest
from hub_client import list_variables
from hub_server import Content, Token, serve
from tiny_transformers import write_models
from transformers_line import call_as_source, check_call, make_project, read_published, train_classifier

pytestmark = [pytest.mark.toolchain, pytest.mark.slow]


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    return write_models(tmp_path_factory.mktemp("sources"), "seq2seq", "image")


def test_a_classifier_of_text_that_was_trained_here_goes_from_the_hub_to_the_hub(template, tmp_path):
    source = train_classifier(tmp_path / "trained")
    with serve(tmp_path / "hub") as hub:
        hub.tokens["hf_writer"] = Token("org")
        hub.add("org/texts", {path.name: Content(path) for path in source.iterdir()})
        project = make_project(template, tmp_path, "text", "hf://org/texts")
        project.environment |= list_variables(hub, tmp_path)

        assert "PASS" in project.run().output

        assert project.evidence["quality"][0]["source"] > 0.8
        check_call(call_as_source(project, read_published(project), source, "text"))


@pytest.mark.parametrize("kind", ["seq2seq", "image"])
def test_a_folder_becomes_a_version_that_is_called_as_before(template, sources, tmp_path, kind):
    project = make_project(template, tmp_path, kind, str(sources / kind))

    assert "PASS" in project.run().output

    check_call(call_as_source(project, read_published(project), sources / kind, kind))
