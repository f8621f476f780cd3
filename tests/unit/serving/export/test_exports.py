from __future__ import annotations

from dataclasses import replace

import pytest
from served_winners import Y, make_composite, make_ir_winner, make_onnx_winner, make_static_winner, make_winner

from hone_runtime.errors import HoneError
from kedro_hone.serving.export.exports import TARGETS, export_winner, list_misfits
from kedro_hone.serving.export.target import Request

PLAIN = Request()


def list_fitting(winner, request: Request = PLAIN) -> set[str]:
    return {name for name, misfit in list_misfits(winner, request).items() if not misfit}


def write_nothing(files) -> None:
    (files / "model.onnx").write_text("-")


def test_which_targets_fit_which_winner(tmp_path, stack) -> None:
    assert list_fitting(make_onnx_winner(tmp_path / "a", stack=stack)) == {
        "triton",
        "ovms",
        "kserve",
        "mlserver",
        "onnx",
    }
    ir = make_ir_winner(tmp_path / "b", stack=stack)
    assert list_fitting(ir) == {"triton", "ovms", "kserve", "mlserver", "openvino"}
    assert list_fitting(ir, Request(max_batch=4)) == {"mlserver"}
    assert list_fitting(make_composite(tmp_path / "c", stack=stack)) == {"triton", "ovms", "kserve", "mlserver"}
    for form, runtime, ending, due in [
        ("aot-inductor", "pytorch", ".pt2", {"triton", "kserve", "mlserver"}),
        ("tflite", "litert", ".tflite", {"tflite", "mlserver"}),
        ("executorch", "executorch", ".pte", {"executorch", "mlserver"}),
    ]:
        winner = make_static_winner(tmp_path / form, form=form, runtime=runtime, ending=ending, stack=stack)
        assert list_fitting(winner) == due


@pytest.mark.parametrize(
    "attributes",
    [
        {"format": "transformers", "runtime": "pytorch"},
        {"runtime": "onnxruntime_gpu", "device": "cuda:0"},
        {"metadata": {"cache": {}}},
    ],
    ids=["format", "device", "cache"],
)
def test_what_only_kedro_hone_opens(tmp_path, stack, attributes) -> None:
    winner = make_winner(tmp_path / "w", write_nothing, stack=stack, run=False, outputs=(Y,), **attributes)
    assert list_fitting(winner) == {"mlserver"}
    with pytest.raises(HoneError) as refused:
        export_winner(winner, "triton", PLAIN, tmp_path / "out")
    assert refused.value.slug == "serving-unsupported"
    assert refused.value.hint == "These targets fit it: mlserver."


def test_files_that_compute_something_else_are_not_written(tmp_path, stack) -> None:
    winner = make_onnx_winner(tmp_path / "w", stack=stack)
    wrong = winner.golden.outputs["label"].unpack()
    outputs = {**winner.golden.outputs, "label": type(winner.golden.outputs["y"]).of((wrong + 1) % 3)}
    winner = replace(winner, golden=winner.golden.model_copy(update={"outputs": outputs}))
    for target in ("triton", "onnx"):
        with pytest.raises(HoneError, match="label") as refused:
            export_winner(winner, target, PLAIN, tmp_path / "out")
        assert refused.value.slug == "winner-differs"
    assert [path.name for path in tmp_path.iterdir()] == ["w"]


def test_a_winner_without_golden_rows_is_exported_and_says_so(tmp_path, stack) -> None:
    winner = make_winner(tmp_path / "w", write_nothing, stack=stack, run=False)
    exported = export_winner(winner, "triton", PLAIN, tmp_path / "out")
    assert exported.gap == "the winner has no golden rows"
    assert not (tmp_path / "out" / "golden").exists()
    assert "no golden rows" in (tmp_path / "out" / "README.md").read_text()


def test_equal_winners_give_equal_files(tmp_path, stack) -> None:
    winner = make_ir_winner(tmp_path / "w", stack=stack)
    for target in TARGETS:
        if list_misfits(winner, PLAIN)[target] or target == "kserve":
            continue
        contents = []
        for number in (1, 2):
            folder = tmp_path / f"{target}-{number}"
            export_winner(winner, target, PLAIN, folder)
            contents.append({p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()})
        assert contents[0] == contents[1]


def test_every_readme_has_the_check_and_what_is_unverified(tmp_path, stack) -> None:
    winner = make_onnx_winner(tmp_path / "w", stack=stack)
    for name, port in {"triton": 8000, "ovms": 8000, "mlserver": 8080}.items():
        export_winner(winner, name, PLAIN, tmp_path / name)
        readme = (tmp_path / name / "README.md").read_text()
        assert f"http://localhost:{port}/v2/models/digits/infer" in readme
        assert "--data-binary @golden/request.json" in readme
        assert TARGETS[name].unverified in readme
        assert ("Unverified" in readme) == (name != "mlserver")
