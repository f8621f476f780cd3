from __future__ import annotations

import sys
from types import ModuleType

import pytest

from hone_runtime.contract.toolchain import Toolchain
from kedro_hone.core.environments.installer import _find_commands, _find_reason, _is_not_found, _make_variables, install


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the installer printed nothing"),
        ("Collecting six\nDone\n", "Done"),
        (
            "ERROR: Could not find it\nERROR: No matching distribution found for six==99\n\n[notice] New release",
            "ERROR: No matching distribution found for six==99",
        ),
        ("error: subprocess-exited-with-error\nnote: This is not a problem with pip.\nhint: see above", "error: subp"),
        ("six 1 requires seven, which is not installed.\n", "six 1 requires seven, which is not installed."),
        ("Traceback\nOSError: [Errno 28] No space left on device\n", "OSError: [Errno 28] No space left on device"),
        ("\u00d7 No solution found when resolving dependencies:\n  details", "\u00d7 No solution found"),
        ("WARNING: only this", "WARNING: only this"),
        (
            (
                "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError(\"HTTPConnection("
                "host='127.0.0.1', port=9): Failed to establish a new connection: [Errno 111] Connection refused\")': "
                "/simple/six/\nERROR: No matching distribution found for six==1.16.0\n"
            ),
            "the package index cannot be reached: Failed to establish a new connection: [Errno 111] Connection refused",
        ),
        (
            "error: Failed to fetch: `https://index/six/`\n  cause: operation timed out\n",
            "the package index cannot be reached: https://index/six/",
        ),
        (
            (
                "Downloading six\nERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.\n"
                "    six==1.16.0 from https://index/six-1.16.0-py2.py3-none-any.whl (from -r x.lock (line 1)):\n"
                "        Expected sha256 00\n        Expected     or 11\n             Got        8abb\n"
            ),
            "six==1.16.0: the digest of the downloaded file, 8abb, is not in the lock",
        ),
        (
            (
                "error: Failed to download `six==1.16.0`\n  cause: Hash mismatch for `six==1.16.0`\n\n"
                "         Expected:\n           sha256:00\n\n         Computed:\n           sha256:8abb\n"
            ),
            "six==1.16.0: the digest of the downloaded file, 8abb, is not in the lock",
        ),
    ],
)
def test_the_reason_is_the_line_that_tells_most(text, reason):
    assert _find_reason(text).startswith(reason)


@pytest.mark.parametrize(
    ("text", "not_found"),
    [
        ("ERROR: Could not find a version\nERROR: No matching distribution found for torch==2.13.0+cpu\n", True),
        ("  cause: Because there is no version of torch==2.13.0+cpu and you require torch==2.13.0+cpu, we", True),
        ("  cause: Because torch==2.13.0+cpu has no wheels with a matching platform tag (e.g., `any`) and", True),
        ("  cause: Because torch was not found in the package registry and you require torch==2.13.0+cpu, we", True),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.\n    a\n   Got  8abb\n", False),
        ("error: Failed to fetch: `https://index/torch/`\n  cause: operation timed out\n", False),
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n", False),
        ("", False),
    ],
)
def test_a_package_is_not_found_only_where_the_installer_says_so(text, not_found):
    assert _is_not_found(text) is not_found


def test_variables_that_would_install_elsewhere_do_not_pass():
    inherited = {
        "PATH": "/bin",
        "HOME": "/root",
        "PYTHONPATH": "x",
        "PYTHONHOME": "x",
        "VIRTUAL_ENV": "x",
        "PIP_TARGET": "x",
        "PIP_USER": "1",
        "PIP_INDEX_URL": "https://user:password@index",
        "PIP_CERT": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "GITHUB_TOKEN": "x",
        "HTTPS_PROXY": "x",
    }
    assert set(_make_variables(inherited)) == {"PATH", "HOME", "PIP_INDEX_URL", "PIP_CERT", "HTTPS_PROXY"}


def test_pip_is_the_default_and_uv_is_chosen_by_name(tmp_path, monkeypatch):
    pip = _find_commands({})
    assert pip["install"].startswith("{python} -I {pip} install ")
    assert _find_commands({"HONE_INSTALLER": "pip"}) == pip
    monkeypatch.setenv("PATH", str(tmp_path))
    assert _find_commands({"HONE_INSTALLER": "uv"}) == "HONE_INSTALLER is uv, and there is no uv on the path"
    assert _find_commands({"HONE_INSTALLER": "conda"}) == "HONE_INSTALLER is 'conda'; it can be pip or uv"
    program = tmp_path / "uv"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    uv = _find_commands({"HONE_INSTALLER": "uv"})
    assert uv["install"].startswith("{uv} pip install --compile-bytecode ")  # workers write no bytecode


def test_pip_is_found_without_the_hook_by_which_setuptools_takes_distutils_away(monkeypatch):
    """Who looks for pip with all import hooks has ``distutils`` taken from the process, with a warning."""
    loaded = ModuleType("distutils")
    monkeypatch.setitem(sys.modules, "distutils", loaded)
    assert _find_commands({})["install"].startswith("{python} -I {pip} install ")
    assert sys.modules["distutils"] is loaded


@pytest.mark.parametrize("files", [None, ["__init__.py"], ["__init__.py", "__pip-runner__.py"]])
def test_an_interpreter_with_no_pip_or_an_old_one_gives_each_environment_its_own(tmp_path, monkeypatch, files):
    for name in files or ():
        (tmp_path / "pip").mkdir(exist_ok=True)
        (tmp_path / "pip" / name).touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    own = files is None or len(files) == 1
    start = "{python} -I -m pip install " if own else "{python} -I {pip} install "
    assert _find_commands({})["install"].startswith(start)
    assert ("--without-pip" in _find_commands({})["create"]) == (not own)


def test_each_step_runs_the_command_of_the_installer_in_its_words(tmp_path, monkeypatch):
    """An installer that writes what it is called with, in a folder with a blank and braces in its name."""
    place = tmp_path / "a {b}"
    (place / "bin").mkdir(parents=True)
    program = place / "bin" / "uv"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    program.chmod(0o755)
    for name, text in (("requirements.in", ""), ("requirements.lock", "six==1.16.0 --hash=sha256:ab\n")):
        (place / name).write_text(text)
    (place / "logs").mkdir()
    monkeypatch.setenv("HONE_INSTALLER", "uv")
    monkeypatch.setenv("PATH", f"{place / 'bin'}:/bin:/usr/bin")

    failed = install(Toolchain(name="tiny", folder=place), place / "venv", logs=place / "logs")

    assert failed.reason == "what was installed does not satisfy requirements.lock: six is not installed"
    python, lock = str(place / "venv" / "bin" / "python"), str(place / "requirements.lock")
    assert {path.stem: path.read_text().splitlines() for path in (place / "logs").iterdir()} == {
        "create": ["venv", "--no-project", "--python", sys.executable, str(place / "venv")],
        "install": [
            *("pip", "install", "--compile-bytecode", "--no-progress", "--python", python, "--requirements", lock),
            *("--require-hashes", "--no-deps", "--only-binary", ":all:"),
        ],
        "check": ["pip", "check", "--python", python],
    }
