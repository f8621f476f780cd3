"""Names, errors and URIs of strangers, on their way to a terminal, a log, a pull request's comment or a snippet."""

from __future__ import annotations

import ast
import io
import logging
import re

import click
import pytest
from click.testing import CliRunner
from rich.console import Console

from hone_runtime.contract.job import Job
from hone_runtime.contract.registry import Publication
from hone_runtime.errors import HoneError
from hone_runtime.text import open_logger
from kedro_hone.adaptors.registries.mlflow.connection import run_bounded
from kedro_hone.cli.failures import explain_failures
from kedro_hone.core.workers.host.run import make_environment
from kedro_hone.report.console import print_verdict
from kedro_hone.report.evidence import parse_evidence
from kedro_hone.report.rendering import render_markdown
from kedro_hone.report.view import View

SECRETS = ("hunter2/x", "t0p-s3cret", "ngc-value-1")
SAID = (
    "http://me:hunter2/x@host/p failed; GET https://host/v?token=t0p-s3cret: 403; "
    "dvc remote ssh://me:hunter2/x@host; header ngc-value-1"
)
STRANGE = "www.evil.example ftp://evil.example &commat;victim [x](javascript:a) <img src=x>\x1b[31m"


@pytest.fixture
def evidence(finished):
    return parse_evidence((finished.work / "latest" / "evidence.json").read_bytes())


@pytest.mark.attack(
    what="passwords and tokens in what a library says",
    who="nobody",
    stopped_by="one redactor; workers get an allow-list of variables",
)
def test_passwords_in_what_a_library_says_reach_no_error_no_log_and_no_worker(tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NVIDIA_NGC_PASS", SECRETS[2])
    monkeypatch.setenv("CUDA_AUTH", SECRETS[1])

    @click.command()
    @explain_failures()
    def fail():
        raise RuntimeError(SAID)

    def refuse():
        raise OSError(SAID)

    with pytest.raises(HoneError) as caught:
        run_bounded(refuse, "http://me:hunter2/x@127.0.0.1:9/?token=t0p-s3cret", patience=60)
    with caplog.at_level(logging.WARNING):
        open_logger("attacked").warning(SAID)
    done = CliRunner().invoke(fail)
    (log,) = tmp_path.rglob("bug.log")
    texts = [str(caught.value), caplog.text, done.output, log.read_text()]
    assert [(secret, text) for secret in SECRETS for text in texts if secret in text] == []
    job = Job(function="load", worker="w.py", adaptor="a.b")
    passed_on = str(make_environment(job, inherited={"NVIDIA_NGC_PASS": SECRETS[2], "CUDA_AUTH": SECRETS[1]}))
    assert not [secret for secret in SECRETS if secret in passed_on]


@pytest.mark.attack(
    what="links, mentions and markup in a reason, for the comment on a pull request",
    who="registry",
    stopped_by="Markdown and HTML are escaped",
)
def test_a_reason_of_a_stranger_is_no_link_no_mention_and_no_markup(evidence, tmp_path):
    candidates = [one.model_copy(update={"reason": STRANGE, "note": STRANGE}) for one in evidence.candidates]
    attacked = evidence.model_copy(update={"reasons": (STRANGE,), "candidates": tuple(candidates)})
    markdown = render_markdown(attacked)
    assert "victim" in markdown
    assert not re.search(r"www\.evil|ftp://evil|\x1b|(?<!\\)(&commat;|\[x\]|<img)", markdown)
    stream = io.StringIO()
    print_verdict(attacked, Console(file=stream, width=400, force_terminal=False), folder=tmp_path)
    assert "\x1b" not in stream.getvalue()


@pytest.mark.attack(
    what="code in a URI, for the usage snippet that people paste",
    who="registry",
    stopped_by="it is quoted as Python quotes it",
)
@pytest.mark.parametrize(
    "uri", ['models:/a");import os;os.system("x")#/1', "models:/a\n\\/1", "models:/a```\n/1", '\'"""']
)
def test_a_uri_of_a_stranger_stays_a_text_of_the_usage_snippet(evidence, uri):
    publication = Publication(uri=uri, version="1", alias=None)
    code = ast.parse(View(evidence, publication).usage)
    calls = [node for node in ast.walk(code) if isinstance(node, ast.Call)]
    assert [ast.unparse(call.func) for call in calls] == ["kedro_hone.load", "model"]
    assert calls[0].args[0].value == uri
