"""What a person sees on a terminal: before there is a recipe, in a project of one's own, and after Ctrl-C."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import kedro
import pytest
from small_project import Project, copy_project

from kedro_hone.core.locks import hold_lock

# Makes the standard input the controlling terminal, so that a Ctrl-C typed there is a signal to the command.
OWN_TERMINAL = """
import fcntl, os, signal, sys, termios
signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell's background job ignores it, and so would what it starts
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
SHOWN, HIDDEN = "\x1b[?25h", "\x1b[?25l"
TEMPLATE = Path(kedro.__file__).parent / "templates" / "project" / "{{ cookiecutter.repo_name }}" / "conf"


def read_until(terminal: int, process: subprocess.Popen, *marks: str, seconds: float = 300.0) -> Iterator[str]:
    """Yield what appears on the terminal, until all marks were seen or the process is gone."""
    seen, deadline = "", time.monotonic() + seconds
    while not (marks and all(mark in seen for mark in marks)):
        ready, _, _ = select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            process.kill()
            pytest.fail(f"nothing more within {seconds} s: {seen[-2000:]!r}")
        try:
            data = os.read(terminal, 1 << 16)
        except OSError:  # Linux says so when the last process has closed its side
            return
        if not data:
            return
        seen += data.decode(errors="replace")
        yield data.decode(errors="replace")


def run_and_interrupt(
    project: Project, *command: str, after: tuple[str, ...], again: str | None = None
) -> tuple[int, str]:
    """Run Python on a pseudo-terminal, type Ctrl-C once some texts were seen; return its exit code and its output.

    It is typed ``again`` once that text was seen.
    """
    project.write()
    terminal, side = pty.openpty()
    try:
        with subprocess.Popen(
            [sys.executable, "-c", OWN_TERMINAL, *command],
            cwd=project.root,
            env={**project.variables, "TERM": "xterm-256color"},
            stdin=side,
            stdout=side,
            stderr=side,
            start_new_session=True,
        ) as process:
            os.close(side)
            output = "".join(read_until(terminal, process, *after))
            os.write(terminal, b"\x03")
            if again is not None:
                output += "".join(read_until(terminal, process, again))
                os.write(terminal, b"\x03")
            output += "".join(read_until(terminal, process))
            code = process.wait(60)
            # Where C code ran when it came, Python ends itself by the signal in the end: a shell says 130 for both.
            return 130 if code == -signal.SIGINT else code, output
    finally:
        os.close(terminal)


def check_terminal(output: str) -> None:
    """Assert that the terminal is left as it was: the cursor shown, no attribute set, nothing after the last line."""
    assert HIDDEN in output
    assert output.rindex(SHOWN) > output.rindex(HIDDEN)
    told = output[output.rindex(SHOWN) :]
    assert "Interrupted; what was built is kept." in told
    assert "\x1b[?25" not in told.removeprefix(SHOWN)
    visible = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", told)  # whole control sequences are not seen
    assert visible.strip() == "Interrupted; what was built is kept.", repr(told)
    assert re.findall(r"\x1b\[([0-9;]*)m", told)[-1:] in ([], ["0"]), repr(told)


def test_ctrl_c_leaves_the_terminal_as_it_was(project):
    project.set(race={"seconds": 600.0, "rounds": 10000})
    code, output = run_and_interrupt(project, "-m", "kedro", "run", "--pipelines", "assess", after=(HIDDEN, "pull"))
    assert code == 130, output
    check_terminal(output)
    project.wait_for_silence()


ASSESS = ("-m", "kedro", "run", "--pipelines", "assess")


@pytest.mark.parametrize(
    "after",
    ["raced", *(pytest.param(phase, marks=pytest.mark.nightly) for phase in ("built", "measured", "launched"))],
)
def test_ctrl_c_ends_the_search_and_what_was_measured_gets_a_verdict(project, after):
    project.set(race={"seconds": 600.0, "rounds": 100000}, confirm={"finalists": 1})
    code, output = run_and_interrupt(project, *ASSESS, after=(HIDDEN, after))
    assert code == 130, output
    assert output.rindex(SHOWN) > output.rindex(HIDDEN)
    assert "interrupted: what was measured is confirmed and judged" in " ".join(output.split())
    evidence = project.evidence
    assert evidence["verdict"] in {"PASS", "KEEP", "INCONCLUSIVE", "FAIL"}
    if after == "launched":
        assert evidence["verdict"] == "INCONCLUSIVE"
    project.wait_for_silence()


@pytest.mark.nightly
def test_a_second_ctrl_c_ends_the_run(project):
    project.set(race={"seconds": 600.0, "rounds": 100000}, confirm={"finalists": 1, "looks": [40]})
    code, output = run_and_interrupt(project, *ASSESS, after=(HIDDEN, "raced"), again="launched")
    assert code == 130, output
    check_terminal(output)
    assert not list(project.root.glob("data/hone/runs/*/evidence.json"))
    project.wait_for_silence()


def test_without_our_command_the_cursor_is_shown_again_all_the_same(project):
    (project.root / "src" / "shop" / "cli.py").unlink()
    code, output = run_and_interrupt(project, "-m", "kedro", "run", "--pipelines", "assess", after=(HIDDEN, "pull"))
    assert code != 0
    assert output.rindex(SHOWN) > output.rindex(HIDDEN), output
    project.wait_for_silence()


@pytest.fixture
def bare(tmp_path) -> Project:
    """A folder with nothing in it."""
    root = tmp_path / "bare"
    root.mkdir()
    return Project(root)


def call(project: Project, *arguments: str, module: str = "kedro_hone") -> subprocess.CompletedProcess[str]:
    """Run a command without writing a recipe first, as somebody who chose nothing: no logging, no telemetry setting."""
    chosen = {"KEDRO_LOGGING_CONFIG", "DO_NOT_TRACK", "KEDRO_DISABLE_TELEMETRY", "PYTHONWARNINGS"}
    variables = {name: value for name, value in project.variables.items() if name not in chosen}
    # Where nobody listens, so that not even this test sends something.
    variables |= {"HTTPS_PROXY": "http://127.0.0.1:9", "XDG_CONFIG_HOME": str(project.root.parent / "config")}
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=project.root,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=600,
    )


def write_parameters(project: Project, text: str) -> None:
    (project.root / "conf" / "base").mkdir(parents=True, exist_ok=True)
    (project.root / "conf" / "local").mkdir(exist_ok=True)
    (project.root / "conf" / "base" / "parameters.yml").write_text(text)


ROUTES = ("hone", "routes")


@pytest.mark.parametrize(
    ("command", "text", "why"),
    [
        pytest.param(("run",), None, "conf/base", id="run-no conf"),
        pytest.param(("run",), "seed: 1\n", "`hone`", id="run-no recipe"),
        pytest.param(("run",), "hone:\n", "`hone`", id="run-an empty recipe"),
        pytest.param(("run",), "hone: models:/digits/1\n", "`hone`", id="run-no section"),
        pytest.param(("run",), "hone: [1\n", "parameters.yml", id="run-no YAML"),
        pytest.param(ROUTES, "seed: 1\n", "`hone`", id="routes-no recipe"),
        pytest.param(ROUTES, None, "conf/base", id="routes-no conf", marks=pytest.mark.nightly),
        pytest.param(ROUTES, "hone:\n", "`hone`", id="routes-an empty recipe", marks=pytest.mark.nightly),
        pytest.param(ROUTES, "hone: models:/digits/1\n", "`hone`", id="routes-no section", marks=pytest.mark.nightly),
        pytest.param(ROUTES, "hone: [1\n", "parameters.yml", id="routes-no YAML", marks=pytest.mark.nightly),
    ],
)
def test_before_there_is_a_recipe_it_says_so(bare, command, text, why):
    if text is not None:
        write_parameters(bare, text)
    done = call(bare, *command)
    assert done.returncode == 3, done.stdout
    assert "hone explain recipe-invalid" in done.stdout
    assert why in done.stdout
    assert "conf/base/parameters.yml" in done.stdout
    assert "Recipe in the documentation lists" in done.stdout
    assert "bug" not in done.stdout
    assert not (bare.root / "data").exists()


def test_commands_that_need_no_recipe_work_without_one(bare):
    assert call(bare, "hone", "toolchains").returncode == 0
    assert "hone explain report-missing" in call(bare, "hone", "report").stdout
    assert "hone explain replay-unknown" in call(bare, "hone", "replay", "1").stdout


@pytest.mark.nightly
def test_without_a_recipe_in_a_project_of_ones_own_it_says_so(project):
    (project.root / "conf" / "base" / "parameters.yml").write_text("seed: 1\n")
    for command in (("hone", "routes"), ("run",)):
        done = call(project, *command, module="kedro")
        assert done.returncode == 3, done.stdout
        assert "hone explain recipe-invalid" in done.stdout


FLOOD = ("Loading data from", "Running node", "Saving data to", "Completed node")


def check_quiet(output: str) -> None:
    assert [text for text in FLOOD if text in output] == [], output
    assert "anonymous usage data" not in " ".join(output.split()), output
    assert "pulled" in output  # our own lines are there


@pytest.mark.nightly
@pytest.mark.parametrize("logging", ["none", "the template's"])
def test_in_a_project_of_ones_own_kedro_does_not_flood_the_console(project, logging):
    project.write()
    if logging != "none":
        text = (TEMPLATE / "logging.yml").read_text().replace("{{ cookiecutter.python_package }}", "shop")
        (project.root / "conf" / "logging.yml").write_text(text)
    done = call(project, "run", "--pipelines", "pull", module="kedro")
    assert done.returncode == 0, done.stdout
    assert [text for text in FLOOD if text in done.stdout] == [], done.stdout
    assert "pulled" in done.stdout


@pytest.mark.nightly
def test_a_logging_configuration_of_ones_own_is_left_alone(project):
    project.write()
    text = (TEMPLATE / "logging.yml").read_text().replace("{{ cookiecutter.python_package }}", "shop")
    (project.root / "conf" / "logging.yml").write_text(text.replace("rich_tracebacks: True", "rich_tracebacks: False"))
    done = call(project, "run", "--pipelines", "pull", module="kedro")
    assert "Running node" in done.stdout


def test_in_a_bare_folder_only_our_own_lines_are_printed(template, tmp_path):
    project = copy_project(template, tmp_path)
    shutil.rmtree(project.root / "src")
    (project.root / "pyproject.toml").unlink()
    project.set(toolchains=["onnxruntime"], model={"uri": "models/plus.onnx"})
    write_plus(project.root / "models" / "plus.onnx")
    project.write()
    done = call(project, "run", "--pipelines", "pull")
    assert done.returncode == 0, done.stdout
    check_quiet(done.stdout)
    assert done.stdout.splitlines()[0].split()[1] == "pulled", done.stdout
    assert not (tmp_path / "config").exists()  # where the telemetry would keep who we are


def write_plus(path: Path) -> None:
    """Write a model that adds one."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 4]) for name in "xy"]
    one = numpy_helper.from_array(np.ones(4, np.float32), "one")
    graph = helper.make_graph([helper.make_node("Add", ["x", "one"], ["y"])], "plus", tensors[:1], tensors[1:], [one])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    path.write_bytes(made.SerializeToString())


def terminate(project: Project, *arguments: str, after: str) -> tuple[int, str]:
    """Run without a terminal, and send SIGTERM to that process alone once a text was printed."""
    project.environment["PYTHONUNBUFFERED"] = "1"
    with project.start("run", "--pipelines", "assess", *arguments) as process:
        output = ""
        for line in process.stdout:
            output += line
            if after in line:
                process.send_signal(signal.SIGTERM)
                break
        else:
            pytest.fail(output)
        output += process.communicate(timeout=600)[0]
        return process.returncode, output


@pytest.mark.parametrize(
    ("arguments", "after"),
    [
        pytest.param((), "built", marks=pytest.mark.nightly),
        ((), "raced"),
        pytest.param(("--runner", "ParallelRunner"), "raced", marks=pytest.mark.nightly),
    ],
    ids=["while building", "while racing", "in the process of a parallel runner"],
)
def test_a_run_that_is_told_to_end_says_so(project, arguments, after):
    project.set(race={"seconds": 600.0, "rounds": 100000}, confirm={"finalists": 1})
    code, output = terminate(project, *arguments, after=after)
    assert code == 143, output
    assert "Terminated; what was built is kept." in " ".join(output.split())
    assert "Traceback" not in output
    assert "bug" not in output
    project.wait_for_silence(120)
    for lock in (project.root.parent / "home" / "locks").glob("*.lock"):
        with hold_lock(lock, purpose="test") as waited:
            assert waited < 60
