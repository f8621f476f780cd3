"""A program (.pt2) cannot run code in the process that loads it: each attack is a real file that a consumer loads."""

from __future__ import annotations

import json
import zipfile

import pytest
from proof import reseal

import kedro_hone
from kedro_hone.core.errors import HoneError
from kedro_hone.core.store.manifest import Manifest
from kedro_hone.core.values.artifact import Artifact, TensorSpec

pytestmark = [pytest.mark.toolchain]
SPECS = {"inputs": ("x", "y"), "outputs": ("output_0",)}


def write_winner(folder, examples, change=lambda program: program):
    """Write a winner that is a program of two inputs, with these example inputs and a change of its JSON."""
    import torch

    class Net(torch.nn.Module):
        def forward(self, x, y):  # noqa: ARG002
            return x * 2.0

    folder.mkdir()
    program = torch.export.export(Net(), examples[0])
    program.example_inputs = examples
    torch.export.save(program, folder / "raw.pt2")
    with zipfile.ZipFile(folder / "raw.pt2") as old, zipfile.ZipFile(folder / "model.pt2", "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name.endswith("models/model.json"):
                read = json.loads(content)
                change(read)
                content = json.dumps(read).encode()
            new.writestr(name, content)
    (folder / "raw.pt2").unlink()
    specs = {
        side: tuple(TensorSpec(name=name, dtype="float32", shape=(1, 3)) for name in names)
        for side, names in SPECS.items()
    }
    about = {"format": "pytorch", "runtime": "pytorch", "metadata": {"interface": "pytorch"}, **specs}
    artifact = Artifact(digest="sha256:" + "0" * 64, **about)
    Manifest.measure(folder, artifact.manifest()).write(folder / "artifact.json")
    return folder


def use(folder):
    """Load a winner and call it, whatever becomes of it."""
    import torch

    rows = torch.ones(1, 3)
    return kedro_hone.load(folder)(rows, rows)


def set_input(form, text):
    """Return a change of the input that is a constant: its kind and its value."""

    def change(program):
        (argument,) = (each for each in program["graph_module"]["graph"]["inputs"] if "as_string" in each)
        argument.clear()
        argument[form] = text

    return change


@pytest.mark.attack(
    what="Python as a constant among the inputs of a .pt2, as a text or in the place of a number",
    who="registry",
    stopped_by="a text may be only where one belongs, and no input that is one has quotes",
)
@pytest.mark.parametrize("form", ["as_int", "as_float", "as_bool", "as_string"])
def test_a_text_in_the_place_of_a_number_is_not_run(tmp_path, form):
    import torch

    trace = tmp_path / "trace"
    lines = f"a' #\n, '')\n  return\nopen({str(trace)!r}, 'w')\ndef rest():\n  pass\n#"  # of the function of the guards
    text = f"a' or open({str(trace)!r}, 'w') or 'b" if form == "as_string" else lines
    folder = write_winner(tmp_path / "winner", ((torch.ones(1, 3), "abc"), {}), set_input(form, text))
    with pytest.raises((HoneError, PermissionError)):
        use(folder)
    assert not trace.exists()


@pytest.mark.attack(
    what="Python as a key in nested example inputs of a .pt2, which torch writes into the messages of guards",
    who="registry",
    stopped_by="example inputs that are not plain tensors are left out",
)
def test_a_key_of_the_example_inputs_is_not_run(tmp_path):
    import torch

    trace, rows = tmp_path / "trace", torch.ones(1, 3)
    nested = {f"+str(open({str(trace)!r}, 'w'))+": rows}
    folder = write_winner(tmp_path / "winner", ((rows, rows), {}), lambda program: program)
    rewrite_examples(folder / "model.pt2", ((nested, rows), {}))
    reseal(folder)
    assert use(folder).tolist() == (rows * 2).tolist()
    assert not trace.exists()


def rewrite_examples(path, examples):
    import io

    import torch

    stream = io.BytesIO()
    torch.save(examples, stream)
    with zipfile.ZipFile(path) as old:
        entries = {name: old.read(name) for name in old.namelist()}
    with zipfile.ZipFile(path, "w") as new:
        for name, content in entries.items():
            new.writestr(name, stream.getvalue() if name.endswith("sample_inputs/model.pt") else content)
