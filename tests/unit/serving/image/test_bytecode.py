from __future__ import annotations

import subprocess
import sys
from pathlib import Path, PurePosixPath

from kedro_hone.serving.image.bytecode import add_bytecode, compile_module, read_content

SOURCE = b'''"""Module."""
KINDS = {"a", "b", ("c", 1.5), frozenset({"d", "e"})}
def f(x, *, shared="some text"):
    return x in {"alpha", "beta", "gamma"} and shared == "some text"
class C:
    shared = "some text"
'''


def test_python_imports_the_bytecode_and_not_the_source(tmp_path: Path) -> None:
    for name, content in add_bytecode({PurePosixPath("thing.py"): b"VALUE = 1\n"}).items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(read_content(content))
    (tmp_path / "thing.py").write_text("VALUE = 2\n")
    run = subprocess.run(
        [sys.executable, "-c", "import thing; print(thing.VALUE)"],
        env={"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout == "1\n"


def test_the_bytes_do_not_depend_on_what_the_process_did_before() -> None:
    code = (
        "import sys; exec(sys.argv[1])\nfrom pathlib import PurePosixPath\n"
        "from kedro_hone.serving.image.bytecode import compile_module\n"
        f"sys.stdout.write(compile_module({SOURCE!r}, PurePosixPath('opt/x.py')).hex())"
    )
    shared = "import sys, decimal; kept = [sys.intern('some text'), sys.intern('alpha')]"
    found = {
        subprocess.run(
            [sys.executable, "-c", code, before],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for before, seed in (("", "1"), (shared, "2"), (shared, "3"))
    }
    assert len(found) == 1
    assert compile_module(SOURCE, PurePosixPath("opt/x.py")).hex() in found


def test_it_names_the_place_in_the_image_only(tmp_path: Path) -> None:
    source = tmp_path / "thing.py"
    source.write_text("def f(): pass\n")
    compiled = compile_module(source, PurePosixPath("opt/hone/thing.py"))
    assert compiled is not None
    assert b"/opt/hone/thing.py" in compiled
    assert str(tmp_path).encode() not in compiled


def test_what_is_no_module_has_no_bytecode() -> None:
    assert compile_module(b"print 'Python 2'\n", PurePosixPath("old.py")) is None
    assert compile_module(b"\0", PurePosixPath("binary.py")) is None
