"""A causal language model of five million parameters from MLflow's own server and back, in one ``kedro run``."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from tiny_transformers import write_models
from transformers_line import QUIET, call_as_source, check_call, make_project, read_published

pytestmark = [pytest.mark.toolchain, pytest.mark.slow, pytest.mark.nightly]

LOG = """
import sys
import mlflow
import transformers as t
folder = sys.argv[1]
model, tokenizer = t.AutoModelForCausalLM.from_pretrained(folder), t.AutoTokenizer.from_pretrained(folder)
line = t.pipeline("text-generation", model=model, tokenizer=tokenizer)
mlflow.transformers.log_model(line, name="words", registered_model_name="words", pip_requirements=["torch"])
"""


def test_a_language_model_of_the_server_becomes_a_version_that_writes_as_before(uri, template, tmp_path):
    source = write_models(tmp_path, "writer") / "writer"
    project = make_project(template, tmp_path, "causal", "models:/words/1")
    project.environment |= {"MLFLOW_TRACKING_URI": uri}
    command = [sys.executable, "-W", "ignore", "-c", LOG, str(source)]
    variables = {**os.environ, **QUIET, "MLFLOW_TRACKING_URI": uri, "MLFLOW_DISABLE_TELEMETRY": "true"}
    logged = subprocess.run(command, env=variables, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert logged.returncode == 0, logged.stderr

    assert "PASS" in project.run().output

    published = read_published(project)
    assert published == "models:/words/2"
    check_call(call_as_source(project, published, source, "causal"))
