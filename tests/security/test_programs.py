"""A program (.pt2) cannot run code in the process that loads it: each attack is a real file that a consumer loads."""

from __future__ import annotations

import copy
import json
import zipfile

import pytest
from proof import reseal

import kedro_hone
from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import Artifact, TensorSpec
from hone_runtime.values.manifest import Manifest

pytestmark = [pytest.mark.toolchain]
SPECS = {"inputs": ("x", "y"), "outputs": ("output_0",)}


def write_winner(folder, examples, change=lambda program: program, rename=lambda name: name, options=None, **dynamic):
    """Write a winner that is a program of two inputs, with these example inputs and a change of its JSON.

    ``rename`` changes the name of its buffer where the lists of tensors have it.
    """
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("table", torch.ones(3))

        def forward(self, x, y):  # noqa: ARG002
            return x * 2.0  # the buffer is one of the program's in any case

    folder.mkdir()
    program = torch.export.export(Net(), examples[0], **dynamic)
    program.example_inputs = examples
    torch.export.save(program, folder / "raw.pt2")
    with zipfile.ZipFile(folder / "raw.pt2") as old, zipfile.ZipFile(folder / "model.pt2", "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name.endswith("models/model.json"):
                read = json.loads(content)
                change(read)
                content = json.dumps(read).encode()
            if name.endswith("model_weights_config.json"):
                content = json.dumps({"config": {rename(k): v for k, v in json.loads(content)["config"].items()}})
            new.writestr(name, content)
    (folder / "raw.pt2").unlink()
    specs = {
        side: tuple(TensorSpec(name=name, dtype="float32", shape=(1, 3)) for name in names)
        for side, names in SPECS.items()
    }
    about = {"format": "pytorch", "runtime": "pytorch", "metadata": {"interface": "pytorch"}, **specs}
    artifact = Artifact(digest="sha256:" + "0" * 64, run_options=options or {}, **about)
    Manifest.measure(folder, artifact.manifest()).write(folder / "artifact.json")
    return folder


def use(folder):
    """Load a winner and call it, whatever becomes of it."""
    import torch

    rows = torch.ones(1, 3)
    return kedro_hone.load(folder, trust=["native"])(rows, rows)


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


def make_graph(*, name, nodes=(), output="a"):
    """Return an argument that is a graph of one tensor."""
    tensor = {"dtype": 7, "sizes": [{"as_int": 1}, {"as_int": 3}], "strides": [{"as_int": 3}, {"as_int": 1}]}
    tensor |= {"requires_grad": False, "device": {"type": "cpu"}, "storage_offset": {"as_int": 0}, "layout": 7}
    graph = {"inputs": [{"as_tensor": {"name": "a"}}], "outputs": [{"as_tensor": {"name": output}}], "nodes": []}
    graph |= {"tensor_values": {"a": tensor}, "sym_int_values": {}, "sym_bool_values": {}}
    graph["is_single_tensor_return"] = True
    for target, arguments, result in nodes:
        add_node(graph, target, arguments, result, tensor)
    return {"as_graph": {"name": name, "graph": graph}}


def call(*arguments):
    return "torch.ops.higher_order.wrap_with_set_grad_enabled", ({"as_bool": True}, *arguments)


def call_graphs(*calls):
    """Return a change that adds calls, each with arguments and the name of what it returns; nothing needs them."""

    def change(program):
        graph = program["graph_module"]["graph"]
        for arguments, name in calls:
            add_node(graph, *call(*arguments), name, graph["tensor_values"]["x"])

    return change


def write_folder(trace):
    """The name of a graph is one of GraphModule's own methods, which writes a folder."""
    return call_graphs(((make_graph(name="to_folder"), {"as_string": str(trace)}), "called"))


def shadow_self(trace):
    """In the code of a graph a tensor is ``self``, so that the names of graphs are the tensor's own methods."""
    tensor, kept = {"as_tensor": {"name": "a"}}, ("_operator.getitem", ({"as_tensor": {"name": "self"}}, {"as_int": 0}))
    read = [
        ("torch.ops.aten.neg.default", (tensor,), "self"),
        (*call(make_graph(name="numpy")), "array"),
        (*kept, "kept"),
    ]
    write = [
        ("_operator.getitem", (tensor, {"as_int": 0}), "self"),
        (*call(make_graph(name="tofile"), {"as_string": str(trace)}), "written"),
        (*kept, "kept"),
    ]
    reader = make_graph(name="reader_0", nodes=read, output="array")
    writer = make_graph(name="writer_0", nodes=write, output="kept")
    array = {"as_tensor": {"name": "array"}}
    return call_graphs(((reader, {"as_tensor": {"name": "x"}}), "array"), ((writer, array), "written"))


@pytest.mark.attack(
    what="a name in a .pt2 that is `self` or a method to the source that torch writes, so that operators write files",
    who="registry",
    stopped_by="names that generated source uses are refused, and graphs have names with numbers",
)
@pytest.mark.parametrize("make", [write_folder, shadow_self])
@pytest.mark.filterwarnings("ignore")  # torch has some, where it is not refused
def test_a_name_that_source_uses_is_refused(tmp_path, make):
    import torch

    trace, rows = tmp_path / "trace", torch.ones(1, 3)
    folder = write_winner(tmp_path / "winner", ((rows, rows), {}), make(trace))
    with pytest.raises((HoneError, PermissionError), match="is not a name"):
        use(folder)
    assert not trace.exists()


# --- texts that say something else where torch reads them -------------------------------------------------------------

LINES = "_\uff3finit_\uff3f._\uff3fglobals_\uff3f"  # Python reads identifiers with plain lines in their place


def take_builtins(code):
    """Return a change after which a program looks up ``exec`` in a buffer and lets an operator call it."""

    def change(program):
        module = program["graph_module"]
        (buffer,) = (each["buffer"] for each in module["signature"]["input_specs"] if "buffer" in each)
        buffer["buffer_name"] = LINES
        graph, name = module["graph"], buffer["arg"]["name"]
        tensor = graph["tensor_values"][name]
        looked_up = [name]
        for key in ("__builtins__", "exec"):
            item = {"as_tensor": {"name": looked_up[-1]}}, {"as_string": key}
            looked_up.append(f"found_{key}")
            add_node(graph, "_operator.getitem", item, looked_up[-1], tensor)
        called = {"as_bool": True}, {"as_tensor": {"name": looked_up[-1]}}, {"as_string": code}
        add_node(graph, "torch.ops.higher_order.wrap_with_set_grad_enabled", called, "called", tensor)
        graph["nodes"] = graph["nodes"][-3:] + graph["nodes"][:-3]

    return change


def add_node(graph, target, arguments, name, tensor):
    known = "self" if target.startswith("torch.ops.aten") else ""
    inputs = [{"name": known, "arg": argument, "kind": 1} for argument in arguments]
    output = {"outputs": [{"as_tensor": {"name": name}}], "metadata": {}, "is_hop_single_tensor_return": True}
    graph["nodes"].append({"target": target, "inputs": inputs, **output, "name": name})
    graph["tensor_values"][name] = copy.deepcopy(tensor)


@pytest.mark.attack(
    what="a buffer of a .pt2 whose name is another attribute to Python, so that a program finds `exec` and calls it",
    who="registry",
    stopped_by="a name of a tensor must be as Python normalizes it",
)
@pytest.mark.parametrize("options", [{}, {"compile": True}], ids=["plain", "compiled"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch.compile has one
def test_a_name_that_python_normalizes_is_not_looked_up(tmp_path, options):
    import torch

    trace, rows = tmp_path / "trace", torch.ones(1, 3)
    change = take_builtins(f"open('{trace}', 'w').close()")
    folder = write_winner(tmp_path / "winner", ((rows, rows), {}), change, lambda _: LINES, options)
    with pytest.raises((HoneError, PermissionError), match="is not a name of a tensor"):
        use(folder)
    assert not trace.exists()
    torch.export.load(folder / "model.pt2").module()(rows, rows)  # the fact behind it
    assert trace.exists()


def set_size(expression):
    """Return a change of the size of all tensors; the symbol has no bounds."""

    def change(program):
        for tensor in program["graph_module"]["graph"]["tensor_values"].values():
            tensor["sizes"][0] = {"as_expr": {"expr_str": expression, "hint": {"as_int": 1}}}

    return change


def print_formatted(program):
    """The text is one of `str.format`, which reads attributes and puts them out."""
    graph = program["graph_module"]["graph"]
    text = "{0.register_hook.__func__.__globals__[torch].__file__}"
    add_node(graph, "torch.ops.higher_order.print", ({"as_string": text}, {"as_tensor": {"name": "x"}}), "p", {})
    graph["nodes"][-1].update(outputs=[{"as_none": True}])
    del graph["tensor_values"]["p"]


def count_up(program):
    program["range_constraints"]["u99999999999"] = {"min_val": 0, "max_val": 9}


SAID = "s0; import os"
ODD = {
    # Sympy drops the ends of lines, so that Python and it read other letters.
    "symbol": (
        set_size(f"Symbol('{''.join(f'{chr(92)}{chr(10)}x{ord(c):02x}' for c in SAID)}')"),
        "than an expression",
    ),
    "wide letters": (set_size("Symbol('\uff530')"), "than an expression"),
    "power": (set_size("9**9**9**9"), "than an expression"),
    "called power": (set_size("Pow(Pow(Integer(9), Integer(60)), Integer(60))"), "than an expression"),
    "endless count": (count_up, "than an expression"),
    "print": (print_formatted, "not a tensor operator"),
}


@pytest.mark.attack(
    what="a size of a .pt2 that sympy reads otherwise than Python or computes for hours, and an operator that prints",
    who="registry",
    stopped_by="expressions and operators are allowed by their grammar, without escapes and with small powers",
)
@pytest.mark.parametrize("case", ODD)
def test_an_odd_size_or_operator_is_refused(tmp_path, case):
    import torch

    rows = torch.ones(1, 3)
    change, words = ODD[case]
    folder = write_winner(tmp_path / "winner", ((rows, rows), {}), change)
    with pytest.raises((HoneError, PermissionError), match=words):
        kedro_hone.load(folder, trust=["native"])


@pytest.mark.attack(
    what="a guard of a .pt2 that calls a function of Python, such as `exit`, in the process that loads it",
    who="registry",
    stopped_by="torch gets no guards and no example inputs of a program",
)
def test_a_guard_is_not_run(tmp_path):
    import torch

    rows = torch.ones(1, 3)
    guards = ["max((1, 2), key=exit)"]
    folder = write_winner(tmp_path / "winner", ((rows, rows), {}), lambda program: program.update(guards_code=guards))
    with pytest.raises(SystemExit):  # the fact behind it
        torch.export.load(folder / "model.pt2").module()(rows, rows)
    assert use(folder).tolist() == (rows * 2).tolist()


def put(place, value):
    """Return a change of the value at a place, whose last part is a key or an index."""

    def change(program):
        found = program
        for part in place[:-1]:
            found = found[part]
        found[place[-1]] = value

    return change


GRAPH = ("graph_module", "graph")
FIRST = (*GRAPH, "nodes", 0)
MISFITS = {
    "flag for a number": put((*GRAPH, "tensor_values", "x", "dtype"), True),
    "no member of an enumeration": put((*GRAPH, "tensor_values", "x", "dtype"), 99),
    "endless number for a whole one": put((*FIRST, "inputs", 1, "arg"), {"as_int": "Infinity"}),
    "fraction for a whole number": put((*FIRST, "inputs", 1, "arg"), {"as_int": 1.5}),
    "huge number": put((*FIRST, "inputs", 1, "arg"), {"as_int": 1 << 70}),
    "number for a text": put((*FIRST, "target"), 1),
    "list for a text": put((*FIRST, "name"), []),
    "object for a list": put((*FIRST, "inputs"), {}),
    "list for an object": put((*GRAPH, "tensor_values"), []),
    "two values in one": put((*FIRST, "inputs", 1, "arg"), {"as_float": 1.0, "as_int": 1}),
    "no value in one": put((*FIRST, "inputs", 1, "arg"), {}),
    "unknown key": put((*FIRST, "hook"), "x"),
    "unknown kind": put((*FIRST, "inputs", 1, "arg"), {"as_code": "x"}),
    "object of a class": put((*FIRST, "inputs", 1, "arg"), {"as_custom_obj": {"name": "x", "class_fqn": "os.x"}}),
    "number in metadata": put((*FIRST, "metadata"), {"torch_fn": 1}),
    "tree of another format": put(("graph_module", "module_call_graph", 0, "signature", "out_spec"), "[2, {}]"),
    "guards in a text": put(("guards_code",), "x"),
}


@pytest.mark.attack(
    what="a value of a .pt2 of another type than torch declares",
    who="registry",
    stopped_by="each value is compared with the dataclasses of torch.export, and unknown keys are refused",
)
@pytest.mark.parametrize("case", MISFITS)
def test_a_value_of_another_type_is_refused(tmp_path, case):
    import torch

    rows = torch.ones(1, 3)
    folder = write_winner(tmp_path / "winner", ((rows, rows), {}), MISFITS[case])
    with pytest.raises((HoneError, PermissionError), match="could run code"):
        kedro_hone.load(folder, trust=["native"])


def test_nested_values_are_bounded(tmp_path):
    import torch

    rows, nested = torch.ones(1, 3), {"as_int": 1}
    for _ in range(60):
        nested = {"as_string_to_argument": {"x": nested}}
    folder = write_winner(tmp_path / "winner", ((rows, rows), {}), put((*FIRST, "inputs", 1, "arg"), nested))
    with pytest.raises((HoneError, PermissionError), match="nested too deeply"):
        kedro_hone.load(folder, trust=["native"])
