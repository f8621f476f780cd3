"""A command in a fork of the command server is what it is when a person starts it."""

from __future__ import annotations

import json
import signal
from concurrent.futures import ThreadPoolExecutor

import command_server
import pytest
from small_project import Project, copy_project

PRINT = """
import json, os, signal, sys, threading, time

class Print:
    @hook_impl
    def after_context_created(self, context):
        found = {
            "argv": sys.argv,
            "path": sys.path,
            "cwd": os.getcwd(),
            "variables": dict(os.environ),
            "threads": threading.active_count(),
            "handled": [str(signal.getsignal(number)) for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGPIPE)],
            "descriptors": len(os.listdir("/proc/self/fd")),
        }
        print(json.dumps(found, sort_keys=True))
        sys.stdout.flush()
        if "SHOP_KILLED" in os.environ:
            os.kill(os.getpid(), signal.SIGKILL)
        if "SHOP_SLEEPS" in os.environ:
            time.sleep(1800)

HOOKS = (*HOOKS, Print())
"""


@pytest.fixture
def project(template, tmp_path, monkeypatch) -> Project:
    """A project that prints what its process is."""
    monkeypatch.delenv("HONE_COLD", raising=False)
    project = copy_project(template, tmp_path)
    settings = project.root / "src" / "shop" / "settings.py"
    settings.write_text(settings.read_text() + PRINT)
    return project


@pytest.mark.parametrize(
    ("module", "command"),
    [
        ("kedro_hone", ("hone", "routes")),
        pytest.param("kedro", ("run", "--pipelines", "nowhere"), marks=pytest.mark.nightly),
        pytest.param("kedro", ("hone", "--help"), marks=pytest.mark.nightly),
        pytest.param("kedro_hone", ("run", "--pipelines", "nowhere"), marks=pytest.mark.nightly),
    ],
)
def test_it_sees_and_prints_what_a_started_command_does(project, monkeypatch, module, command):
    assert command_server.can_be_forked(project.variables)
    forked = project.call(*command, module=module)
    variables = project.variables
    monkeypatch.setenv("HONE_COLD", "1")
    assert not command_server.can_be_forked(variables)
    started = project.call(*command, module=module)
    assert forked.code == started.code
    assert forked.output == started.output.replace('"HONE_COLD": "1", ', "")


def test_variables_that_are_read_at_the_start_start_a_command(project):
    for name, text in (("PYTHONPATH", "elsewhere"), ("KEDRO_ENV", "other"), ("OMP_NUM_THREADS", "7")):
        assert not command_server.can_be_forked(project.variables | {name: text}), name
    assert command_server.can_be_forked(project.variables | {"SHOP": "1"})


def test_a_killed_command_has_the_signal_as_its_exit_code(project):
    project.environment["SHOP_KILLED"] = "1"
    assert project.call("hone", "routes").code == -signal.SIGKILL


def test_one_that_takes_too_long_is_killed(project):
    project.environment["SHOP_SLEEPS"] = "1"
    server = command_server.find_server()
    with pytest.raises(TimeoutError, match="did not end in 5 s"):
        server.call("kedro", "hone", "routes", folder=project.root, variables=project.variables, seconds=5)
    project.wait_for_silence(600)


@pytest.mark.nightly
def test_a_server_that_has_ended_is_replaced(project):
    server = command_server.find_server()
    server._process.kill()
    server._process.wait()
    with pytest.raises((ChildProcessError, BrokenPipeError)):
        server.call("kedro", "hone", folder=project.root, variables=project.variables, seconds=60)
    assert project.call("hone", "report").code == 3
    assert command_server.find_server() is not server


def test_commands_of_several_threads_do_not_mix(project, tmp_path):
    projects = [copy_project(project, tmp_path / str(number)) for number in range(3)]
    with ThreadPoolExecutor() as pool:
        done = list(pool.map(lambda one: one.call("hone", "routes"), projects))
    assert {one.code for one in done} == {0}
    for number, one in enumerate(done):
        printed = json.loads(next(line for line in one.output.splitlines() if line.startswith("{")))
        assert printed["cwd"] == str(projects[number].root)
