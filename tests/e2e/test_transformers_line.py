"""Models of text and images of Transformers: pulled, made faster, published and called as before, in one run each."""

from __future__ import annotations

import pytest
from hub_client import list_variables
from hub_server import Content, Token, serve
from transformers_line import call_as_source, check_call, make_project, read_published, train_model

pytestmark = [pytest.mark.toolchain, pytest.mark.slow, pytest.mark.nightly]


def test_a_classifier_of_text_that_was_trained_here_goes_from_the_hub_to_the_hub(template, tmp_path):
    source = train_model(tmp_path / "trained", "text")
    with serve(tmp_path / "hub") as hub:
        hub.tokens["hf_writer"] = Token("org")
        hub.add("org/texts", {path.name: Content(path) for path in source.iterdir()})
        project = make_project(template, tmp_path, "text", "hf://org/texts")
        project.environment |= list_variables(hub, tmp_path)

        assert "PASS" in project.run().output

        assert project.evidence["quality"][0]["source"] > 0.8
        check_call(call_as_source(project, read_published(project), source, "text"))


@pytest.mark.parametrize("kind", ["seq2seq", "image"])
def test_a_folder_becomes_a_version_that_is_called_as_before(template, tmp_path, kind):
    source = train_model(tmp_path / kind, kind)
    project = make_project(template, tmp_path, kind, str(source))

    assert "PASS" in project.run().output

    assert project.evidence["quality"][0]["source"] > 0.4, "of four labels: a quarter is chance"
    check_call(call_as_source(project, read_published(project), source, kind))
