from __future__ import annotations

import logging
import re
import subprocess
import sys
from pathlib import Path

import kedro
import pytest
from controls import CONTROLS, find_controls

from hone_runtime.text import begin_sentence, clean_text, hide_secrets, open_logger, suggest

ROOT = Path(__file__).parents[3]
OURS = ROOT / "conf" / "logging.yml"
KEDROS = Path(kedro.__file__).parent / "framework" / "project" / "rich_logging.yml"
MESSAGE = "cannot open [/usr/lib/libx.so] [bold]bold[/bold]"


def log(path: Path, logger: str = "race.logger") -> str:
    """Return what a process prints that has a logging configuration and logs ``MESSAGE``."""
    code = (
        "import logging.config, sys, yaml\n"
        "from kedro_hone.nodes import race\n"
        "logging.config.dictConfig(yaml.safe_load(open(sys.argv[1])))\n"
        f"{logger}.warning('%s', sys.argv[2])\n"
    )
    command = [sys.executable, "-c", code, str(path), MESSAGE]
    done = subprocess.run(command, capture_output=True, text=True, env={"COLUMNS": "200", "TERM": "dumb"}, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("path", [OURS, KEDROS], ids=["ours", "kedro's"])
def test_a_message_is_not_read_as_markup(path):
    assert MESSAGE in log(path)


def test_our_configuration_reads_no_markup_in_a_warning_of_a_library_either():
    assert MESSAGE in log(OURS, "logging.getLogger('py.warnings')")


def test_every_logger_of_ours_is_opened_here():
    names = ("src/kedro_hone", "src/hone_runtime", "nodes", "pipelines", "adaptors", "tests/conformance/suite")
    folders = [ROOT / name for name in names]
    ours = re.compile(r'logging\.getLogger(?!\("(?:huggingface_hub|kedro\.io\.data_catalog)"\))')  # others'
    found = [path for folder in folders for path in folder.rglob("*.py") if ours.search(path.read_text())]
    # The service's formatter cleans each line whole, once; the hooks attach handlers, and log nothing themselves.
    handlers = [f"src/kedro_hone/hooks/{name}.py" for name in ("lines", "logs", "tracker")]
    servers = ["src/kedro_hone/serving/server/logs.py"]  # its lines are cleaned by its own `log`
    known = ["src/hone_runtime/text.py", "src/kedro_hone/events/log.py", *handlers, *servers]
    assert sorted(path.relative_to(ROOT).as_posix() for path in found) == known


def test_a_logger_that_is_opened_twice_has_one_filter():
    assert open_logger("kedro_hone.twice") is open_logger("kedro_hone.twice")
    assert len(logging.getLogger("kedro_hone.twice").filters) == 1


def test_control_characters_are_replaced_one_by_one():
    assert clean_text("a\tb\nc\x1b[31md\x07e\u202ef\x9b") == "a\tb\nc\ufffd[31md\ufffde\ufffdf\ufffd"
    assert len(clean_text(CONTROLS)) == len(CONTROLS)
    assert not find_controls(clean_text(CONTROLS))


def test_a_lone_surrogate_which_no_file_or_terminal_takes_is_replaced():
    assert clean_text("a\ud800b\udfff") == "a\ufffdb\ufffd"


def test_other_text_stays():
    text = "größer ▸ 模型 \u200b\u200f\u2028 [/x] \\ é ✅"
    assert clean_text(text) == text


@pytest.mark.attack(what="escape sequences in a log line", who="registry", stopped_by="control characters are replaced")
def test_a_log_message_holds_no_control_characters(caplog):
    open_logger("kedro_hone.model").warning("%s cannot be read: %s", "ma\x1b[31mtrix", CONTROLS)

    assert "ma\ufffd[31mtrix cannot be read" in caplog.messages[0]
    assert not find_controls(caplog.text)


@pytest.mark.attack(what="line breaks in a log line", who="registry", stopped_by="each is replaced by its escape")
def test_a_log_message_is_one_line(caplog):
    open_logger("kedro_hone.model").warning("%s cannot be read", "x\n  ::error::owned\u2028y")

    assert caplog.messages == [r"x\n  ::error::owned\u2028y cannot be read"]


def test_a_log_message_without_them_keeps_its_arguments(caplog):
    open_logger("kedro_hone.model").warning("%d rows in %s", 3, "x")

    assert caplog.records[0].args == (3, "x")


@pytest.mark.attack(
    what="a failure that prints a URL with its password",
    who="nobody",
    stopped_by="one redactor of errors, logs and reports",
)
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("at https://me:word@host/x and sqlite:///a", "at https://***@host/x and sqlite:///a"),
        ("sftp://me:w@rd@host/x", "sftp://***@host/x"),
        ("zip://x::http://me:word@host/a.zip", "zip://x::http://***@host/a.zip"),
        ("s3://bucket/a@b and file:///me@home", "s3://bucket/a@b and file:///me@home"),
        ("az://c/a?sv=1&sig=abc%3D&se=2", "az://c/a?sv=1&sig=***&se=2"),
        ("https://host/a?auth=abc&x=1, code=3", "https://host/a?auth=***&x=1, code=3"),
    ],
)
def test_urls_lose_their_user_and_password(text, shown):
    assert hide_secrets(text) == shown


def test_the_nearest_name_is_suggested():
    assert suggest("opnvino", {"openvino": 1, "onnxruntime": 2}) == "Did you mean 'openvino'? "
    assert suggest("model", ["models", "hub"], "the scheme {}") == "Did you mean the scheme models? "
    assert suggest("zzz", ["models"]) == ""


@pytest.mark.attack(
    what="a failure that prints a token or a header of authorization",
    who="nobody",
    stopped_by="one redactor of errors, logs and reports",
)
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://me:a/b@host/x", "http://***@host/x"),
        ("at postgresql+psycopg://u:p@h/db now", "at postgresql+psycopg://***@h/db now"),
        ("https://a-token@host/x", "https://***@host/x"),
        ("https://h/x?token=abc123&page=1", "https://h/x?token=***&page=1"),
        (
            "https://h/?X-Amz-Signature=dead&X-Amz-Credential=AK%2F1",
            "https://h/?X-Amz-Signature=***&X-Amz-Credential=***",
        ),
        ("{'Authorization': 'Bearer abcdefghijkl'}", "{'Authorization': 'Bearer ***'}"),
        ("Authorization: Basic dXNlcjpwYXNz", "Authorization: Basic ***"),
        ("password='hunter22', retries=3", "password='***', retries=3"),
        ('{"api_key": "abcdef"}', '{"api_key": "***"}'),
        ("password=$(s3cretvalue", "password=***"),
        (r"log:\nhf_" + "a1" * 17, r"log:\n***"),
        ("url%3Dghp_" + "A1" * 18, "url%3D***"),
        ("AKIAIOSFODNN7EXAMPLE", "***"),
    ],
)
def test_secrets_are_hidden(text, shown):
    assert hide_secrets(text, {}) == shown
    assert clean_text(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "https://host:8080/a/b",
        "https://host/path/@user",
        "models:/name@alias",
        "hf://org/name@revision",
        "git@github.com:x/y",
        "Unexpected token: }",
        "the token = 5, basic settings are good",
        "export HONE_MLFLOW_SECRET=$(openssl rand -hex 32)",
    ],
)
def test_other_texts_stay(text):
    assert hide_secrets(text, {}) == text


@pytest.mark.attack(
    what="a worker's error that quotes a secret of the environment",
    who="worker",
    stopped_by="one redactor of errors, logs and reports",
)
def test_values_of_variables_with_secret_names_are_hidden():
    variables = {
        "CUDA_AUTH": "s3cr3t-value",
        "NVIDIA_NGC_PASS": "another-one",
        "PATH": "/usr/local/bin",
        "A_TOKEN": "abc",
        "B_TOKEN": " read-from-a-file\n",
    }
    text = "s3cr3t-value, another-one, /usr/local/bin, abc, read-from-a-file"
    assert hide_secrets(text, variables) == "***, ***, /usr/local/bin, abc, ***"


def test_a_secret_that_begins_another_does_not_show_the_others_end():
    variables = {"A_TOKEN": "s3cr3t-value", "B_TOKEN": "s3cr3t-value-and-more"}

    assert hide_secrets("s3cr3t-value-and-more s3cr3t-value", variables) == "*** ***"


@pytest.mark.parametrize("name", ["worker.py", "files/model.onnx", "model_2", "hone-files.json,", "iPhone", "x86"])
def test_a_name_at_the_start_of_a_sentence_stays_as_it_is(name):
    assert begin_sentence(f"{name} is not there") == f"{name} is not there"


@pytest.mark.parametrize("clause", ["its file is cut", "the model's file is cut", "missing: a file", "empty"])
def test_a_word_at_the_start_of_a_sentence_has_a_capital(clause):
    assert begin_sentence(clause) == clause[0].upper() + clause[1:]
    assert begin_sentence("") == ""
