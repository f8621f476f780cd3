from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import kedro_hone
from hone_runtime.errors import HoneError
from hone_runtime.learner import Learner
from hone_runtime.learner.manifest import read_artifact, write_manifest
from hone_runtime.learner.pyfunc import PyfuncModel
from hone_runtime.learner.rows import plan_pieces, serve_fixed_rows
from hone_runtime.values.artifact import Artifact, TensorSpec

# The tests' folders are no packages, since pytest imports them by importlib.
_SPEC = importlib.util.spec_from_file_location("hone_test_toy", Path(__file__).with_name("toy.py"))
toy = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(toy)


@pytest.fixture
def installed(tmp_path, install):
    install(toy.make_toolchain(tmp_path / "toolchain"))


def test_arrays_in_arrays_out(tmp_path, installed):
    learner = Learner(*toy.make_model(tmp_path / "a"))
    x, y = toy.predict(5)
    np.testing.assert_array_equal(learner(x), y)
    np.testing.assert_array_equal(learner(x=x), y)
    assert set(learner({"x": x})) == {"y"}
    np.testing.assert_array_equal(learner({"x": x})["y"], y)
    np.testing.assert_array_equal(learner(x.tolist()), y)


def test_a_worker_may_have_parts_and_each_has_its_own(tmp_path, installed, install):
    artifact = toy.make_artifact(tmp_path / "a")
    x, y = toy.predict(5)
    np.testing.assert_array_equal(Learner(artifact, tmp_path / "a")(x), y)
    for sign in (1, -1):
        source = f"{toy.WORKER.replace('* (index', '* sign.SIGN * (index')}\nfrom . import sign\n"
        toolchain = toy.make_toolchain(tmp_path / f"toolchain{sign}", source)
        toolchain.worker.with_name("sign.py").write_text(f"SIGN = {sign}\n")
        install(toolchain)
        np.testing.assert_array_equal(Learner(artifact, tmp_path / "a")(x), sign * y)


def test_run_is_the_session_itself(tmp_path, installed):
    learner = Learner(*toy.make_model(tmp_path / "a"))
    assert learner.run == learner._session.run


def test_a_subclass_may_have_a_call_of_its_own(tmp_path, installed):
    class Own(Learner):
        def __call__(self, *args):
            return "own", self._call(*args)

    learner = Own(*toy.make_model(tmp_path / "a"))
    x, y = toy.predict(2)
    for call in (learner, learner.__call__):  # transformers calls the latter
        kind, found = call(x)
        assert (kind, found.tolist()) == ("own", y.tolist())


def test_several_outputs_of_arrays_are_a_dictionary(tmp_path, installed):
    learner = Learner(*toy.make_model(tmp_path / "a", outputs=("y", "z")))
    x, y = toy.predict(2)
    outputs = learner(x)
    np.testing.assert_array_equal(outputs["y"], y)
    np.testing.assert_array_equal(outputs["z"], 2 * y)


def test_several_inputs_are_bound_like_arguments(tmp_path, installed):
    learner = Learner(*toy.make_model(tmp_path / "a", inputs=("a", "b")))
    x, y = toy.predict(2)
    np.testing.assert_array_equal(learner(x, b=x), 2 * y)
    for args, kwargs, message in [
        ((x,), {}, "b was not given"),
        ((x, x), {"b": x}, "b was given twice"),
        ((x, x, x), {}, "takes 2 inputs"),
        ((x, x), {"c": x}, "no input c"),
        ((x,), {"bb": x}, "no input bb; it takes a, b"),
        (({"a": x, "d": x},), {}, "no input d"),
    ]:
        with pytest.raises(TypeError, match=message):
            learner(*args, **kwargs)


def test_another_type_is_refused_before_the_runtime_misreads_it(tmp_path, installed):
    learner = Learner(*toy.make_model(tmp_path / "a"))
    x, _ = toy.predict(2)
    with pytest.raises(TypeError, match="x is float64; the model takes float32"):
        learner(x.astype(np.float64))
    with pytest.raises(TypeError, match="x is int64; the model takes float32"):
        learner({"x": x.astype(np.int64)})


def square(folder, **kwargs):
    """Return an artifact with inputs ``a`` and ``b`` of ("batch", 4) and of ("batch", "size")."""
    artifact = toy.make_artifact(folder, inputs=("a", "b"), **kwargs)
    first, second = artifact.inputs
    return artifact.model_copy(update={"inputs": (first, second.model_copy(update={"shape": ("batch", "size")}))})


@pytest.mark.parametrize("interface", ["onnx", "pytorch"])
@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((2, 3), (2, 4)), r"a has the shape \(2, 3\); the model takes \(batch, 4\)"),
        (((2, 4, 1), (2, 4)), r"a has the shape \(2, 4, 1\); the model takes \(batch, 4\)"),
        (((4,), (2, 4)), r"a has the shape \(4\); the model takes \(batch, 4\)"),
        (((2, 4), (3, 4)), r"b has the shape \(3, 4\); the model takes \(batch, size\), and batch is 2"),
    ],
)
def test_another_shape_is_refused_before_the_runtime_is_called(tmp_path, installed, interface, shapes, message):
    torch = pytest.importorskip("torch")
    learner = Learner(square(tmp_path / "a", interface=interface), tmp_path / "a")
    make = torch.zeros if interface == "pytorch" else lambda shape: np.zeros(shape, np.float32)
    values = [make(shape) for shape in shapes]
    calls = [lambda: learner(*values), lambda: learner(a=values[0], b=values[1])]
    if interface == "onnx":
        calls.append(lambda: learner(dict(zip("ab", values, strict=True))))
    for call in calls:
        with pytest.raises(ValueError, match=message):
            call()
    assert learner._session.calls == []


@pytest.mark.parametrize("interface", ["onnx", "pytorch"])
def test_a_single_input_of_another_shape_is_refused(tmp_path, installed, interface):
    torch = pytest.importorskip("torch")
    learner = Learner(*toy.make_model(tmp_path / "a", interface=interface))
    x, y = toy.predict(3)
    given, bad = (torch.from_numpy(x), torch.zeros(3, 5)) if interface == "pytorch" else (x, x[:, :3])
    np.testing.assert_array_equal(np.asarray(learner(given)), y)
    with pytest.raises(ValueError, match=r"x has the shape \(3, .\); the model takes \(batch, 4\)"):
        learner(bad)
    assert learner._session.calls == [3]


def test_an_input_that_a_dictionary_lacks_is_named(tmp_path, installed):
    learner = Learner(*toy.make_model(tmp_path / "a", inputs=("a", "b")))
    with pytest.raises(TypeError, match="b was not given"):
        learner({"a": toy.predict(2)[0]})


@pytest.mark.parametrize(
    ("outputs", "structure"),
    [
        (("y",), None),
        (("y", "z"), None),
        (("y",), {"kind": "tuple", "items": ["y"]}),
        (("y", "z"), {"kind": "list", "items": ["y", "z"]}),
        (("y",), {"kind": "dict", "items": [["loss", None], ["scores", "y"]]}),
        (("y", "z"), {"kind": "dict", "items": [["b", "y"], [1, "z"]]}),
    ],
)
def test_tensors_come_back_in_the_sources_structure(tmp_path, installed, outputs, structure):
    torch = pytest.importorskip("torch")
    noted = {"structure": structure} if structure else {}
    artifact = toy.make_artifact(tmp_path / "a", outputs=outputs, interface="pytorch", **noted)
    x, array = toy.predict(3)
    y = torch.from_numpy(array)
    values = {"y": y, "z": 2 * y, None: None}
    found = Learner(artifact, tmp_path / "a")(torch.from_numpy(x))
    if structure is None:
        wanted = y if len(outputs) == 1 else (y, 2 * y)
    elif structure["kind"] == "dict":
        wanted = {key: values[name] for key, name in structure["items"]}
        assert list(found) == list(wanted)
    else:
        wanted = {"tuple": tuple, "list": list}[structure["kind"]](values[name] for name in structure["items"])
    assert type(found) is type(wanted)
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize(
    ("rows", "sizes", "pieces"),
    [
        (8, [8], [(8, 8)]),
        (3, [8], [(8, 3)]),
        (20, [8], [(8, 8), (8, 8), (8, 4)]),
        (9, [1, 8], [(8, 8), (1, 1)]),
        (3, [1, 8], [(1, 1), (1, 1), (1, 1)]),
        (5, [1, 8], [(8, 5)]),
        (1, [4, 16], [(4, 1)]),
        (65, [4, 64], [(64, 64), (4, 1)]),
    ],
)
def test_plan_pieces(rows, sizes, pieces):
    assert plan_pieces(rows, sizes) == pieces
    assert sum(used for _, used in pieces) == rows


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 8, 9, 21])
def test_static_models_serve_any_number_of_rows(tmp_path, installed, rows):
    learner = Learner(*toy.make_model(tmp_path / "a", batches=(2, 8)))
    x, y = toy.predict(rows)
    np.testing.assert_array_equal(learner(x), y)
    assert set(learner._session.calls) <= {2, 8}


@pytest.mark.parametrize("rows", [1, 4, 6, 8])
def test_the_kept_rows_of_a_model_of_a_fixed_batch_are_run_in_batches_of_it(rows):
    spec, calls = TensorSpec(name="x", dtype="float32", shape=(4, 2)), []
    outputs = tuple(TensorSpec(name=name, dtype="float32", shape=(4,)) for name in ("y", "size"))

    def run(feeds):
        calls.append(len(feeds["x"]))
        return {"y": feeds["x"].sum(1), "size": np.float32(len(feeds["x"]))}

    artifact = Artifact(format="onnx", digest="", inputs=(spec,), outputs=outputs)
    x = np.arange(2.0 * rows).reshape(rows, 2)
    found = serve_fixed_rows(run, artifact)({"x": x})
    assert set(calls) == {4}
    assert found["y"].tolist() == x.sum(1).tolist()
    free = artifact.model_copy(update={"inputs": (spec.model_copy(update={"shape": ("batch", 2)}),)})
    assert serve_fixed_rows(run, free) is run


@pytest.mark.parametrize("rows", [1, 3])
def test_each_call_of_a_model_of_single_rows_is_a_row_of_its_kept_outputs(rows):
    spec = TensorSpec(name="x", dtype="float32", shape=(1, 2))
    outputs = tuple(
        TensorSpec(name=name, dtype="float32", shape=shape) for name, shape in (("y", ("time", 1)), ("z", ()))
    )

    def run(feeds):
        return {"y": feeds["x"].T, "z": np.float32(feeds["x"].sum())}

    artifact = Artifact(format="onnx", digest="", inputs=(spec,), outputs=outputs)
    x = np.arange(2.0 * rows).reshape(rows, 2)
    found = serve_fixed_rows(run, artifact)({"x": x})
    assert found["y"].tolist() == x[:, :, None].tolist()
    assert found["z"].tolist() == x.sum(1).tolist()


def test_static_models_say_what_they_cannot_serve(tmp_path, installed):
    artifact = toy.make_artifact(tmp_path / "a", batches=(2,))
    learner = Learner(artifact, tmp_path / "a")
    with pytest.raises(ValueError, match="there are no rows"):
        learner(np.zeros((0, 4), np.float32))
    with pytest.raises(ValueError, match="the model takes"):
        learner(np.zeros((2, 5), np.float32))
    outputs = (artifact.outputs[0].model_copy(update={"shape": (3,)}),)
    fixed = Learner(artifact.model_copy(update={"outputs": outputs}), tmp_path / "a")
    with pytest.raises(HoneError, match="cannot be put together"):
        fixed(np.zeros((4, 4), np.float32))


def test_threads_are_as_recorded_unless_given(tmp_path, installed):
    recorded = toy.make_artifact(tmp_path / "a", threads=3)
    assert Learner(recorded, tmp_path / "a")._session.job["threads"] == 3
    assert Learner(recorded, tmp_path / "a", threads=5)._session.job["threads"] == 5
    free = Learner(*toy.make_model(tmp_path / "b"))
    assert free._session.job["threads"] == len(os.sched_getaffinity(0))


@pytest.mark.parametrize("chosen", [None, "0"])
def test_no_runtime_sends_anything_home_unless_the_user_chose_so(tmp_path, installed, monkeypatch, chosen):
    """Also where the toolchain, a stranger's perhaps, sets no variable; ONNX Runtime reads it when it is imported."""
    monkeypatch.setenv("ORT_DISABLE_TELEMETRY", chosen or "")  # so that it is removed at the end
    if chosen is None:
        monkeypatch.delenv("ORT_DISABLE_TELEMETRY")
    toy.make_artifact(tmp_path / "model")
    kedro_hone.load(tmp_path / "model")
    assert os.environ["ORT_DISABLE_TELEMETRY"] == (chosen or "1")


def test_load_from_a_folder(tmp_path, installed):
    toy.make_artifact(tmp_path / "model" / "artifact")
    x, y = toy.predict(2)
    np.testing.assert_array_equal(kedro_hone.load(tmp_path / "model")(x), y)
    np.testing.assert_array_equal(kedro_hone.load(tmp_path / "model" / "artifact")(x), y)


def test_what_is_no_winner_is_said(tmp_path):
    (tmp_path / "model.onnx").write_bytes(b"x")
    with pytest.raises(HoneError) as caught:
        kedro_hone.load(tmp_path)
    assert caught.value.slug == "model-unsupported"
    with pytest.raises(HoneError) as caught:
        kedro_hone.load(tmp_path / "nowhere")
    assert caught.value.slug == "model-unknown"


def test_what_was_asked_for_is_named_and_not_where_it_was_put(tmp_path):
    file = tmp_path / "model.onnx"
    file.write_bytes(b"x")
    for asked in (tmp_path, str(file)):
        with pytest.raises(HoneError) as caught:
            kedro_hone.load(asked)
        assert caught.value.what == f"{asked} contains no winner of kedro-hone."
        assert "a source that is a path is opened by its own framework, such as ONNX Runtime" in caught.value.hint


@pytest.mark.attack(
    what="a published file that was changed, added, removed or linked",
    who="registry",
    stopped_by="every file is compared with its digest before it is opened",
)
@pytest.mark.parametrize("harm", ["change", "remove", "add", "manifest", "attributes", "link"])
def test_changed_files_are_caught(tmp_path, harm):
    toy.make_artifact(tmp_path / "a")
    weights = tmp_path / "a" / "weights.npy"
    if harm == "change":
        weights.write_bytes(weights.read_bytes()[:-1] + b"\x7f")
    elif harm == "remove":
        weights.unlink()
    elif harm == "add":
        (tmp_path / "a" / "evil.py").write_text("")
    elif harm == "attributes":
        manifest = tmp_path / "a" / "artifact.json"
        assert '"runtime": "toy"' in manifest.read_text()
        manifest.write_text(manifest.read_text().replace('"runtime": "toy"', '"runtime": "pytorch"'))
    elif harm == "link":
        weights.rename(tmp_path / "weights.npy")
        weights.symlink_to(tmp_path / "weights.npy")
    else:
        (tmp_path / "a" / "artifact.json").write_text("[]")
    with pytest.raises(HoneError) as caught:
        read_artifact(tmp_path / "a")
    assert caught.value.slug == "model-corrupt"


def test_a_manifest_round_trips(tmp_path):
    artifact = toy.make_artifact(tmp_path / "a", batches=(1, 4), interface="pytorch", threads=2)
    assert read_artifact(tmp_path / "a") == artifact


@pytest.mark.attack(
    what="a file exchanged between its validation and its publication",
    who="store",
    stopped_by="every file is compared with its digest when it is published",
)
def test_files_that_changed_since_they_were_sealed_are_not_published(tmp_path):
    artifact = toy.make_artifact(tmp_path / "a", seal=False)
    (tmp_path / "a" / "weights.npy").write_bytes(b"other")
    with pytest.raises(HoneError) as caught:
        write_manifest(tmp_path / "a", artifact)
    assert caught.value.slug == "model-corrupt"
    assert not (tmp_path / "a" / "artifact.json").exists()


def test_nobody_is_told_to_install_by_name_what_no_index_has(tmp_path, install):
    source = "def load(job):\n    import a_runtime_that_is_not_there\n"
    install(replace(toy.make_toolchain(tmp_path / "t", source), lockable=False))
    with pytest.raises(ImportError, match="no package of a similar name") as caught:
        Learner(*toy.make_model(tmp_path / "a"))
    assert "pip install" not in str(caught.value)


def test_missing_runtime_says_what_to_install(tmp_path, install):
    source = "def load(job):\n    import a_runtime_that_is_not_there\n"
    install(toy.make_toolchain(tmp_path / "t", source, extra="toy"))
    with pytest.raises(ImportError, match=r"pip install 'kedro-hone\[toy\]'"):
        Learner(*toy.make_model(tmp_path / "a"))


def test_unknown_runtime_and_no_runtime(tmp_path):
    artifact = toy.make_artifact(tmp_path / "a")
    with pytest.raises(HoneError, match="runtime 'toy' is not known"):
        Learner(artifact, tmp_path / "a")
    with pytest.raises(HoneError, match="cannot run by itself"):
        Learner(artifact.model_copy(update={"runtime": None}), tmp_path / "a")
    with pytest.raises(ValueError, match="neither"):
        Learner(artifact, tmp_path / "a", interface="jax")
    for interface, what in (("keras", "a model of Keras"), ("sklearn", "an estimator")):
        with pytest.raises(ValueError, match=f"whose source was {what}"):
            Learner(artifact, tmp_path / "a", interface=interface)


def test_pyfunc_takes_arrays_dictionaries_and_tables(tmp_path, installed):
    import pandas as pd

    x, y = toy.predict(3)
    one = PyfuncModel(Learner(*toy.make_model(tmp_path / "a")))
    for data in [x, {"x": x}, x.astype(np.float64), pd.DataFrame(x), pd.DataFrame({"x": list(x)})]:
        np.testing.assert_array_equal(one.predict(data), y)
    two = PyfuncModel(Learner(*toy.make_model(tmp_path / "b", inputs=("a", "b"), outputs=("y", "z"))))
    outputs = two.predict(pd.DataFrame({"a": list(x), "b": list(x)}))
    np.testing.assert_array_equal(outputs["z"], 4 * y)


def test_imports_stay_light():
    code = (
        "import sys, kedro_hone; kedro_hone.load; import hone_runtime.learner.pyfunc\n"
        "heavy = {'kedro', 'dvc', 'mlflow', 'sklearn', 'torch', 'onnxruntime', 'openvino', 'pandas', 'scipy'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    source = Path(kedro_hone.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": str(source)}
    )
    assert done.stdout.strip() == "[]"


def test_loading_a_folder_imports_no_mlflow(tmp_path):
    toy.make_artifact(tmp_path / "a")
    toy.make_toolchain(tmp_path / "t")
    code = (
        "import sys, json, kedro_hone; from pathlib import Path\n"
        "from hone_runtime.contract.catalogue import register\n"
        "from hone_runtime.contract.toolchain import Toolchain\n"
        f"register(Toolchain(name='toy', runs={{'toy'}}, data={{'toy'}}, folder=Path({str(tmp_path / 't')!r})))\n"
        f"output = kedro_hone.load({str(tmp_path / 'a')!r})([[1, 0, 0, 0]])\n"
        "print(json.dumps([output.tolist(), sorted({'kedro', 'dvc', 'mlflow', 'torch'} & set(sys.modules))]))"
    )
    source = Path(kedro_hone.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": str(source)}
    )
    assert json.loads(done.stdout) == [[[0.0, 1.0, 2.0]], []]


def test_unknown_attributes_of_the_package():
    with pytest.raises(AttributeError, match="no attribute 'laod'"):
        _ = kedro_hone.laod


@pytest.mark.parametrize("threads", [0, -3, 1.5, "2", True])
def test_threads_are_a_number_of_them(tmp_path, installed, threads):
    toy.make_artifact(tmp_path / "a")
    with pytest.raises(ValueError, match="threads"):
        kedro_hone.load(tmp_path / "a", threads=threads)


@pytest.mark.parametrize(
    ("uri", "slug"), [("", "model-unknown"), ("//[x", "registry-unknown"), ("a\0b", "model-unknown")]
)
def test_what_names_nothing_is_said(tmp_path, installed, monkeypatch, uri, slug):
    toy.make_artifact(tmp_path / "artifact")  # also where a winner is in the current folder
    monkeypatch.chdir(tmp_path)
    with pytest.raises(HoneError) as caught:
        kedro_hone.load(uri)
    assert caught.value.slug == slug
    assert kedro_hone.load(".").artifact.format == "toy"
