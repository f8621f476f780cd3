"""An archive of an exported program runs no code when it is described or loaded, unless the recipe trusts it."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import warnings
import zipfile

import pytest

from hone_runtime.worker.imports import load_file
from kedro_hone.adaptors.pytorch import adaptor as module

pytestmark = pytest.mark.toolchain

archive = load_file("hone_worker_of_archives", str(module.TOOLCHAIN.worker.with_name("archive.py")))

CODE = "__import__('os').system('touch \"$HONE_TRACE\"')"


class Payload:
    """Runs a command when it is unpickled."""

    def __reduce__(self):
        return os.system, ('touch "$HONE_TRACE"',)


@pytest.fixture
def bench(make_bench):
    return make_bench(module)


def rewrite(source, target, change, extra=()):
    """Copy an archive; ``change`` gets each member's name and bytes and returns the new bytes."""
    target.mkdir()
    with zipfile.ZipFile(source / "model.pt2") as old, zipfile.ZipFile(target / "model.pt2", "w") as new:
        root = old.namelist()[0].partition("/")[0]
        for name in old.namelist():
            new.writestr(name, change(name, old.read(name)))
        for name, content in extra:
            new.writestr(f"{root}/{name}", content)
    return target


def change_program(edit):
    """Return a change of the program's JSON."""

    def change(name, content):
        if "/models/" not in name:
            return content
        program = json.loads(content)
        edit(program)
        return json.dumps(program).encode()

    return change


def find_first(value, key):
    """Return the first object with a key, in nested JSON."""
    if isinstance(value, dict):
        if key in value:
            return value
        value = list(value.values())
    for item in value if isinstance(value, list) else ():
        found = find_first(item, key)
        if found is not None:
            return found
    return None


def evil_size(program):
    find_first(program["graph_module"], "expr_str")["expr_str"] = CODE


def evil_nested_size(program):
    find_first(program["graph_module"], "expr_str")["expr_str"] = f'Max("{CODE}", 1)'


def evil_guard(program):
    program["guards_code"] = [CODE]


def evil_operator(program):
    program["graph_module"]["graph"]["nodes"][0]["target"] = "torch.ops.load_library"


def evil_function(program):
    program["graph_module"]["graph"]["nodes"][0]["target"] = "torch.serialization.os.system"


def evil_tree(program):
    for call in program["graph_module"]["module_call_graph"]:
        if call["signature"]:
            call["signature"]["out_spec"] = json.dumps([1, {"type": "builtins.x", "context": "", "children_spec": []}])


def evil_argument(program):
    argument = find_first(program["graph_module"]["graph"]["nodes"], "as_tensor")
    argument.clear()
    argument["as_operator"] = "torch.serialization.os.system"


def change_to(part, new):
    """Return a change of the entry with this part in its name."""
    return lambda name, content: new if part in name else content


def compact_pickled_weights(name, content):
    return pickled_weights(name, content).replace(b": ", b":")


def pickled_weights(name, content):
    return content.replace(b'"use_pickle": false', b'"use_pickle": true') if name.endswith("_config.json") else content


def keep(_name, content):
    return content


CASES = {
    "size": (change_program(evil_size), (), "more than an expression"),
    "nested size": (change_program(evil_nested_size), (), "more than an expression"),
    "operator": (change_program(evil_operator), (), "not a tensor operator"),
    "function": (change_program(evil_function), (), "not a tensor operator"),
    "tree": (change_program(evil_tree), (), "have to be imported"),
    "operator as an argument": (change_program(evil_argument), (), "not a tensor operator"),
    "weights": (pickled_weights, (), "pickled tensors"),
    "weights, written without spaces": (compact_pickled_weights, (), "pickled tensors"),
    "nested brackets": (change_to("/models/", b"[" * 200_000), (), "not an archive"),
    "no program": (change_to("/models/", b"null"), (), "not an archive"),
    "object": (keep, [("data/constants/opaque_obj_0", pickle.dumps(Payload()))], "pickled object"),
    "another program": (keep, [("models/other.json", b"{}")], "not part of an exported program"),
    "legacy weights": (keep, [("data/weights/model.pt", b"x")], "not part of an exported program"),
    "library": (keep, [("data/aotinductor/model/x.so", b"x")], "compiled code"),
}


@pytest.mark.attack(
    what="code, pickles or compiled libraries in the parts of a .pt2",
    who="registry",
    stopped_by="every part is checked against what torch.export writes",
)
@pytest.mark.parametrize("case", CASES)
def test_what_could_run_code_is_found(tmp_path, digits_exported, case):
    change, extra, words = CASES[case]
    changed = rewrite(digits_exported, tmp_path / "changed", change, extra)
    with pytest.raises(archive.Threat, match=words):
        archive.copy_checked(changed / "model.pt2")


@pytest.mark.parametrize("part", ["models/model.json", "model_weights_config.json", "model_constants_config.json"])
def test_json_that_is_too_large_is_not_parsed(digits_exported, monkeypatch, part):
    with zipfile.ZipFile(digits_exported / "model.pt2") as whole:
        sizes = {info.filename: info.file_size for info in whole.infolist() if info.filename.endswith(".json")}
    size = next(size for name, size in sizes.items() if name.endswith(part))
    monkeypatch.setattr(archive, "_LARGEST_JSON", size - 1)
    monkeypatch.setattr(archive.json, "loads", lambda _: pytest.fail("it was parsed"))
    with pytest.raises(archive.Threat, match="is larger than"):
        archive.copy_checked(digits_exported / "model.pt2")


def test_the_real_one_and_other_files(tmp_path, digits_exported):
    assert archive.copy_checked(digits_exported / "model.pt2")
    (tmp_path / "text.pt2").write_text("no archive")
    with pytest.raises(archive.Threat, match="not an archive"):
        archive.copy_checked(tmp_path / "text.pt2")


@pytest.mark.attack(
    what="Python code as a tensor's size in a .pt2",
    who="registry",
    stopped_by="expressions are allowed by their grammar",
)
def test_torch_itself_would_run_it_and_the_worker_does_not(bench, tmp_path, digits_exported, monkeypatch):
    """The fact behind the check: a size of a tensor in the archive is evaluated as python."""
    changed = rewrite(digits_exported, tmp_path / "changed", change_program(evil_size))
    trace = tmp_path / "trace"
    monkeypatch.setenv("HONE_TRACE", str(trace))
    result, _ = bench.call("describe", changed, "pytorch", expect_error=True, variables={"HONE_TRACE": str(trace)})
    assert "could run code" in result["raised"]
    assert not trace.exists()
    command = [sys.executable, "-c", "import sys, torch; torch.export.load(sys.argv[1])", str(changed / "model.pt2")]
    subprocess.run(command, capture_output=True, check=False)
    assert trace.exists()


def evil_program(content):
    program = json.loads(content)
    evil_size(program)
    return json.dumps(program)


def add_program_of_another_name(old, new, root):
    """Torch loads every record below ``models/``."""
    for name in ("data/weights/evil_weights_config.json", "data/constants/evil_constants_config.json"):
        new.writestr(f"{root}/{name}", old.read(f"{root}/{name.replace('evil', 'model')}"))
    new.writestr(f"{root}/data/sample_inputs/evil.pt", b"")
    new.writestr(f"{root}/models/evil.xson", evil_program(old.read(f"{root}/models/model.json")))


def add_program_in_upper_case(old, new, root):
    """Torch finds entries without regard to case; which of two depends on their order."""
    new.writestr(f"{root}/MODELS/model.json", evil_program(old.read(f"{root}/models/model.json")))


def add_legacy_program(old, new, root):
    """Torch reads the format of 2.7 where it cannot read that of today."""
    from torch._export.serde.schema import SCHEMA_VERSION

    new.writestr("version", ".".join(map(str, SCHEMA_VERSION)))
    new.writestr("serialized_exported_program.json", evil_program(old.read(f"{root}/models/model.json")))
    for name in ("state_dict", "constants", "example_inputs"):
        new.writestr(f"serialized_{name}.pt", b"")


@pytest.mark.attack(
    what="a second program in a .pt2, which torch finds and a check does not, by another name, case or format",
    who="registry",
    stopped_by="entries are allowed by name; torch reads a new archive of what was checked",
)
@pytest.mark.parametrize("add", [add_program_of_another_name, add_program_in_upper_case, add_legacy_program])
def test_torch_finds_a_program_that_another_reader_does_not(bench, tmp_path, digits_exported, monkeypatch, add):
    changed = tmp_path / "changed"
    changed.mkdir()
    with zipfile.ZipFile(digits_exported / "model.pt2") as old, zipfile.ZipFile(changed / "model.pt2", "w") as new:
        root = old.namelist()[0].partition("/")[0]
        for name in old.namelist():
            if add is not add_legacy_program or not name.endswith("/archive_format"):
                new.writestr(name, old.read(name))
        add(old, new, root)
    trace = tmp_path / "trace"
    monkeypatch.setenv("HONE_TRACE", str(trace))
    result, _ = bench.call("describe", changed, "pytorch", expect_error=True)
    assert "could run code" in result["raised"]
    assert not trace.exists()
    command = [sys.executable, "-c", "import sys, torch; torch.export.load(sys.argv[1])", str(changed / "model.pt2")]
    done = subprocess.run(command, capture_output=True, check=False)
    assert trace.exists(), done.stderr.decode()


@pytest.mark.attack(
    what="a .pt2 with two entries of one name, or in two folders",
    who="registry",
    stopped_by="entries are allowed by name, once, in one folder",
)
@pytest.mark.parametrize("how", ["two of one name", "compressed", "two folders"])
def test_an_archive_that_torch_did_not_write_is_refused(tmp_path, digits_exported, how):
    words = {"two of one name": "two entries of one name", "compressed": "compressed", "two folders": "in one folder"}
    changed, compress = tmp_path / "model.pt2", zipfile.ZIP_DEFLATED if how == "compressed" else zipfile.ZIP_STORED
    with (
        warnings.catch_warnings(action="ignore"),
        zipfile.ZipFile(digits_exported / "model.pt2") as old,
        zipfile.ZipFile(changed, "w", compress) as new,
    ):
        for name in old.namelist():
            new.writestr(name, old.read(name))
        if how == "two of one name":
            new.writestr(name, old.read(name))
        if how == "two folders":
            new.writestr("other/extra/x", b"")
    with pytest.raises(archive.Threat, match=words[how]):
        archive.copy_checked(changed)


def read_program(stream):
    with zipfile.ZipFile(stream) as whole:
        return json.loads(whole.read("model/models/model.json"))


def test_guards_are_left_out(tmp_path, digits_exported):
    changed = rewrite(digits_exported, tmp_path / "changed", change_program(evil_guard))
    assert read_program(archive.copy_checked(changed / "model.pt2"))["guards_code"] == []


def forget_origins(value):
    """Return an object of JSON without where operators come from, which torch does not get."""
    return {key: each for key, each in value.items() if key not in {"stack_trace", "from_node", "custom"}}


@pytest.mark.attack(
    what="a .pt2 with more in it than a check reads",
    who="registry",
    stopped_by="torch reads a new archive of what was checked",
)
def test_torch_gets_what_was_checked_and_nothing_else(tmp_path, digits_exported):
    changed = rewrite(digits_exported, tmp_path / "changed", keep, [("extra/notes of an author/a.txt", b"x")])
    with zipfile.ZipFile(archive.copy_checked(changed / "model.pt2")) as copy:
        names = copy.namelist()
        assert not [name for name in names if "/extra/" in name]
        assert copy.read("model/data/sample_inputs/model.pt") == b""
        names.remove("model/data/sample_inputs/model.pt")
        with zipfile.ZipFile(changed / "model.pt2") as old:
            for name in names:
                had, kept = old.read(f"{old.namelist()[0].partition('/')[0]}/{name.partition('/')[2]}"), copy.read(name)
                assert kept == had or json.loads(kept) == json.loads(had, object_hook=forget_origins), name


@pytest.mark.attack(
    what="a pickle as the example inputs of a .pt2",
    who="registry",
    stopped_by="example inputs are left out of what torch reads",
)
def test_pickled_example_inputs_are_not_unpickled(bench, tmp_path, digits_exported, monkeypatch):
    """Torch asks for weights only, and after any error for everything."""
    payload = pickle.dumps(Payload())
    changed = rewrite(
        digits_exported, tmp_path / "changed", lambda name, old: payload if "/sample_inputs/" in name else old
    )
    trace = tmp_path / "trace"
    monkeypatch.setenv("HONE_TRACE", str(trace))
    bench.call("describe", changed, "pytorch", expect_error=True, variables={"HONE_TRACE": str(trace)})
    assert not trace.exists()
    pickle.loads(payload)  # noqa: S301 - the fact behind it
    assert trace.exists()


# --- text that torch pastes into source -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def named_program(tmp_path_factory):
    """A program of one positional input ``x``, a keyword ``y`` that it does not use, a buffer and a dictionary."""
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = torch.nn.ModuleDict({"a-b c": torch.nn.ReLU(), "1": torch.nn.Linear(3, 3)})
            self.parts["a-b c"].register_buffer("table", torch.ones(3))

        def forward(self, x, *, y):  # noqa: ARG002
            shifted = torch.div(self.parts["1"](x) + self.parts["a-b c"].table, 2, rounding_mode="floor")
            return {"a key": torch.einsum("bi,bj->bij", shifted, shifted)}

    folder, batch = tmp_path_factory.mktemp("named"), {0: torch.export.Dim("batch", max=1000)}
    rows = torch.ones(2, 3)
    program = torch.export.export(Net().eval(), (rows,), {"y": rows}, dynamic_shapes={"x": batch, "y": batch})
    torch.export.save(program, folder / "model.pt2")
    return folder


def replace_text(old, new):
    """Return a change of a JSON text wherever it is, as a key or a value, in the program and the lists of tensors."""
    old, new = (json.dumps(text).encode() for text in (old, new))
    return lambda name, content: content.replace(old, new) if name.endswith(".json") else content


def change_signatures(edit):
    """Return a change of the signatures of the program and its modules."""

    def change(program):
        for call in program["graph_module"]["module_call_graph"]:
            if call["signature"]:
                edit(call["signature"])

    return change_program(change)


def evil_arguments(signature):
    signature["forward_arg_names"] = ["x", f'y={CODE}):pass\n"""\ndef other():#']  # torch writes it twice


def evil_keyword(signature):
    replace_keys(signature, "in_spec", ["y"], [f"y': 0 or {CODE}, 'y"])


def evil_key(signature):
    """A key of a dictionary may be a member of an enumeration, whose module torch imports."""
    replace_keys(signature, "out_spec", ["a key"], [{"__enum__": True, "fqn": "hone_evil:A", "name": "a"}])


def evil_keywords(signature):
    old, member = json.dumps('["y"]'), json.dumps({"__enum__": True, "fqn": "hone_evil:A", "name": "a"})
    assert old in signature["in_spec"]
    signature["in_spec"] = signature["in_spec"].replace(old, json.dumps(member))


def replace_keys(signature, side, old, new):
    old, new = (json.dumps(json.dumps(keys)) for keys in (old, new))
    assert old in signature[side]
    signature[side] = signature[side].replace(old, new)


def evil_guard_text(program):
    """Torch writes a guard into its own message, between double quotes."""
    code = "__import__('os').system('touch $HONE_TRACE')"
    program["guards_code"] = ["True or L['''+ str(" + code + ") +''']"]


def evil_symbol(program):
    find_first(program["graph_module"], "expr_str")["expr_str"] = "Symbol('s0; import os', integer=True)"


def evil_metadata(program):
    find_first(program["graph_module"]["graph"]["nodes"], "metadata")["metadata"]["source_fn_stack"] = "a\nimport os,b"


def evil_string(program):
    """Inductor writes it into C++, between double quotes."""
    find_first(program["graph_module"]["graph"]["nodes"], "as_string")["as_string"] = 'floor"); system("id'


_CALL = "getattr(__import__('os'),'system')('touch $HONE_TRACE')"  # a name of a buffer is cut at its dots
PASTED = {
    "tensor": (replace_text("y", f"y={CODE}"), "is not a name"),
    "arguments": (change_signatures(evil_arguments), "is not a name"),
    "buffer": (replace_text("parts.a-b c.table", f'training"), {_CALL}, ("'), "is not a name"),
    "guard": (change_program(evil_guard_text), None),
    "key": (change_signatures(evil_key), "have to be imported"),
}
PASTED_ELSEWHERE = {
    "keywords": (change_signatures(evil_keywords), "have to be imported"),
    "keyword": (change_signatures(evil_keyword), "is not a name"),
    "metadata": (change_program(evil_metadata), "end a string"),
    "symbol": (change_program(evil_symbol), "more than an expression"),
    "string": (change_program(evil_string), "end a string"),
}
LOAD = """
import os, sys, torch
for folder in sys.argv[1:]:
    os.environ["HONE_TRACE"] = folder + "/trace"
    try:
        program = torch.export.load(folder + "/model.pt2")
        program.module()(torch.ones(2, 3), y=torch.ones(2, 3))
    except Exception as error:
        print(folder, type(error), error)
"""


def test_names_that_are_unusual_are_taken(named_program):
    assert archive.copy_checked(named_program / "model.pt2")


@pytest.mark.attack(
    what="Python code as the name of a tensor, an argument, a buffer or a key of a .pt2, or in a guard's text",
    who="registry",
    stopped_by="what torch pastes into source must be a name",
)
def test_torch_would_run_names_and_the_check_finds_them(tmp_path, named_program):
    """The fact behind the check: torch pastes names into the source of a function, and executes it."""
    folders = [rewrite(named_program, tmp_path / case, change) for case, (change, _) in PASTED.items()]
    (tmp_path / "hone_evil.py").write_text("import os, pathlib\npathlib.Path(os.environ['HONE_TRACE']).touch()")
    command = [sys.executable, "-c", LOAD, *map(str, folders)]
    done = subprocess.run(command, capture_output=True, check=True, text=True, cwd=tmp_path)
    assert [folder.name for folder in folders if not (folder / "trace").exists()] == [], done.stdout
    for folder, (_, words) in zip(folders, PASTED.values(), strict=True):
        if words is None:
            assert read_program(archive.copy_checked(folder / "model.pt2"))["guards_code"] == []
            continue
        with pytest.raises(archive.Threat, match=words):
            archive.copy_checked(folder / "model.pt2")


@pytest.mark.attack(
    what="C++ or Python in a keyword, symbol, text or metadata of a .pt2, for what torch and Inductor write",
    who="registry",
    stopped_by="keywords and symbols are names, and no text can end a string or a comment",
)
@pytest.mark.parametrize("case", PASTED_ELSEWHERE)
def test_what_would_be_pasted_elsewhere_is_found(tmp_path, named_program, case):
    change, words = PASTED_ELSEWHERE[case]
    with pytest.raises(archive.Threat, match=words):
        archive.copy_checked(rewrite(named_program, tmp_path / "changed", change) / "model.pt2")


# --- honest programs --------------------------------------------------------------------------------------------------


def nested(torch):
    rows = torch.ones(2, 3)

    class Net(torch.nn.Module):
        def forward(self, parts, pair, *, last):
            return {"sum": parts["a b"] + pair[0], "none": None, "both": (pair[1], last)}

    return Net(), ({"a b": rows}, (rows, rows)), {"last": rows}, None


def buffers(torch):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(3))
            self.register_buffer("kept", torch.ones(3), persistent=False)
            self.norm, self.weight = torch.nn.BatchNorm1d(3), torch.nn.Parameter(torch.ones(3, 3))

        def forward(self, x):
            self.count.add_(1)
            return self.norm(x + self.count + self.kept + torch.tensor([1.0, 2.0, 3.0])) @ self.weight

    return Net().eval(), (torch.ones(2, 3),), {}, None


def dynamic(torch):
    class Net(torch.nn.Module):
        def forward(self, x, y):
            return torch.cat([x, y]).reshape(-1)[: x.shape[0] * 2].sum() * (x.shape[0] / 2), x[:, None] * x.shape[
                0
            ] ** 2

    batch = torch.export.Dim("batch", min=2, max=64)
    return Net(), (torch.ones(2, 3), torch.ones(4, 3)), {}, ({0: batch}, {0: 2 * batch})


def constants(torch):
    class Net(torch.nn.Module):
        def forward(self, x, *, whole, endless, flag, text):  # noqa: ARG002
            return (x * whole).masked_fill(x > 0, endless) if flag else x

    return Net(), (torch.ones(2, 3),), {"whole": 3, "endless": float("-inf"), "flag": True, "text": "it is"}, None


def values_unknown_at_export(torch):
    class Net(torch.nn.Module):
        def forward(self, x):
            index = x.to(torch.int64)[0, 0].item()
            torch._check(index >= 0)
            torch._check(index < x.shape[1])
            return x[x > 0], x.narrow(1, index, 1)

    return Net(), (torch.ones(2, 3),), {}, None


def control_flow(torch):
    class Net(torch.nn.Module):
        def forward(self, x):
            step = torch.ops.higher_order.while_loop
            _, last = step(lambda i, _: i < 3, lambda i, v: (i + 1, v * 2), (torch.tensor(0), x), ())
            with torch.no_grad():
                last = last + 1
            return torch.cond(last.sum() > 0, lambda v: v.sin(), lambda v: v.cos(), (last,))

    return Net(), (torch.ones(2, 3),), {}, None


@pytest.mark.parametrize("make", [nested, buffers, dynamic, constants, values_unknown_at_export, control_flow])
def test_honest_programs_compute_the_same(tmp_path, make):
    import torch

    net, args, kwargs, shapes = make(torch)
    program = torch.export.export(net, args, kwargs, dynamic_shapes=shapes)
    torch.export.save(program, tmp_path / "model.pt2")
    loaded = torch.export.load(archive.copy_checked(tmp_path / "model.pt2"))
    feeds = args if shapes is None else tuple(each.repeat(3, 1) for each in args)
    expected, given = program.module()(*feeds, **kwargs), loaded.module()(*feeds, **kwargs)
    pairs = zip(*(torch.utils._pytree.tree_leaves(each) for each in (expected, given)), strict=True)
    assert all(one is two is None or torch.equal(one, two) for one, two in pairs)


def test_sizes_are_compared_without_guards(tmp_path):
    """One dimension is twice another, which a guard says, and torch's own comparison of inputs too."""
    import torch

    net, args, _, shapes = dynamic(torch)
    torch.export.save(torch.export.export(net, args, dynamic_shapes=shapes), tmp_path / "model.pt2")
    loaded = torch.export.load(archive.copy_checked(tmp_path / "model.pt2")).module()
    for one, two in ((4, 7), (70, 140)):
        with pytest.raises((RuntimeError, AssertionError)):
            loaded(torch.ones(one, 3), torch.ones(two, 3))
