"""Winners from a registry, in this process and in a fresh one that knows nothing but MLflow."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from proof import TAGS

import kedro_hone
from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import Artifact, TensorSpec
from hone_runtime.values.manifest import Manifest
from kedro_hone.adaptors.registries.mlflow.registry import MlflowRegistry

pytestmark = pytest.mark.toolchain
WEIGHTS = np.arange(12, dtype=np.float32).reshape(4, 3)
X = np.linspace(-1, 1, 20, dtype=np.float32).reshape(5, 4)


def publish(winner, **kwargs):
    return MlflowRegistry().publish(winner, name="digits", tags=TAGS, alias="honed", **kwargs)


def run_fresh(code):
    environment = os.environ | {"PYTHONPATH": str(Path(kedro_hone.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], check=False, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_plain_mlflow_loads_a_winner(make_winner, prove):
    publish(prove(make_winner()))
    code = f"""
import json, mlflow, numpy as np, pandas as pd
x = np.array({X.tolist()}, np.float32)
model = mlflow.pyfunc.load_model("models:/digits@honed")
answers = [model.predict({{"x": x}}), model.predict(pd.DataFrame({{"x": list(x)}}))]
print(json.dumps([answer.tolist() for answer in answers]))
"""
    for answer in run_fresh(code):
        np.testing.assert_allclose(answer, X @ WEIGHTS, rtol=1e-5)


def test_plain_mlflow_loads_a_winner_of_a_pytorch_source(make_winner, prove):
    publish(prove(make_winner(interface="pytorch")))
    code = f"""
import json, mlflow, numpy as np
model = mlflow.pyfunc.load_model("models:/digits@honed")
print(json.dumps(model.predict(np.array({X.tolist()}, np.float32)).tolist()))
"""
    np.testing.assert_allclose(run_fresh(code), X @ WEIGHTS, rtol=1e-5)


def test_a_fresh_process_loads_a_winner(make_winner, prove):
    done = publish(prove(make_winner()))
    code = f"""
import json, sys, kedro_hone, numpy as np
learner = kedro_hone.load({done.uri!r})
answer = learner(np.array({X.tolist()}, np.float32))
heavy = sorted({{"kedro", "dvc", "sklearn", "torch", "onnx"}} & set(sys.modules))
print(json.dumps([answer.tolist(), heavy]))
"""
    answer, heavy = run_fresh(code)
    np.testing.assert_allclose(answer, X @ WEIGHTS, rtol=1e-5)
    assert heavy == []


def test_a_pytorch_source_takes_and_gives_tensors(make_winner, prove):
    import torch

    publish(prove(make_winner(interface="pytorch")))
    learner = kedro_hone.load("models:/digits@honed")
    x = torch.from_numpy(X)
    for given in (x, x.T.contiguous().T, x.clone().requires_grad_()):
        answer = learner(given)
        assert isinstance(answer, torch.Tensor)
        np.testing.assert_allclose(answer.numpy(), X @ WEIGHTS, rtol=1e-5)
    np.testing.assert_allclose(learner(x=x).numpy(), X @ WEIGHTS, rtol=1e-5)
    for given, message in [(X, "is a ndarray"), (x.double(), "is torch.float64; the model takes torch.float32")]:
        with pytest.raises(TypeError, match=message):
            learner(given)
    as_arrays = kedro_hone.load("models:/digits@honed", interface="onnx")
    np.testing.assert_allclose(as_arrays(X), X @ WEIGHTS, rtol=1e-5)


def test_a_winner_in_pytorch(tmp_path, prove):
    import torch

    module = torch.nn.Linear(4, 3, bias=False).eval()
    module.weight.data = torch.from_numpy(WEIGHTS.T.copy())
    folder = tmp_path / "program"
    folder.mkdir()
    batch = torch.export.Dim("batch")
    torch.export.save(
        torch.export.export(module, (torch.ones(2, 4),), dynamic_shapes=({0: batch},)), folder / "model.pt2"
    )
    artifact = Artifact(
        format="pytorch",
        digest="",
        inputs=(TensorSpec(name="input", dtype="float32", shape=("batch", 4)),),
        outputs=(TensorSpec(name="output_0", dtype="float32", shape=("batch", 3)),),
        runtime="pytorch",
        metadata={"interface": "pytorch", "threads": torch.get_num_threads()},
    )
    digest = Manifest.measure(folder, artifact.manifest()).digest
    publish(prove(artifact.model_copy(update={"digest": digest}), files=folder))
    learner = kedro_hone.load("models:/digits@honed", trust=["native"])
    np.testing.assert_allclose(learner(torch.from_numpy(X)).numpy(), X @ WEIGHTS, rtol=1e-5)


def test_a_source_is_named_as_it_was_asked_for(onnx_model):
    import mlflow

    mlflow.onnx.log_model(onnx_model, name="model", registered_model_name="digits", pip_requirements=["onnxruntime"])
    with pytest.raises(HoneError) as caught:
        kedro_hone.load("models:/digits/1")
    assert caught.value.slug == "model-unsupported"
    assert caught.value.what == "models:/digits/1 contains no winner of kedro-hone."
    assert "a source is loaded with mlflow.pyfunc" in caught.value.hint


def test_code_in_the_registry_is_not_executed(make_winner, prove, tmp_path):
    done = publish(prove(make_winner()))
    MlflowRegistry().pull(done.uri, tmp_path / "pulled")
    trap = "raise SystemExit('code from the registry was executed')"
    for place in (tmp_path / "pulled" / "artifact", tmp_path / "pulled"):
        (place / "worker.py").write_text(trap)
    with pytest.raises(HoneError) as caught:
        kedro_hone.load(tmp_path / "pulled")
    assert caught.value.slug == "model-corrupt"
    (tmp_path / "pulled" / "artifact" / "worker.py").unlink()
    with pytest.raises(HoneError, match="differs from what was published"):
        kedro_hone.load(tmp_path / "pulled")
    (tmp_path / "pulled" / "worker.py").unlink()
    np.testing.assert_allclose(kedro_hone.load(tmp_path / "pulled")(X), X @ WEIGHTS, rtol=1e-5)


def test_the_pulled_files_live_as_long_as_the_learner(make_winner, prove):
    publish(prove(make_winner()))
    learner = kedro_hone.load("models:/digits@honed")
    folder = learner.files
    assert (folder / "model.onnx").is_file()
    del learner
    assert not folder.exists()


ROOT = Path(__file__).parents[3]


def list_pyfunc_blocks():
    text = (ROOT / "docs/how-to/use-the-winner.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    for interface in ("onnx", "pytorch"):
        marks = () if interface == "onnx" else pytest.mark.nightly
        yield pytest.param(
            [block for block in blocks if "mlflow.pyfunc" in block], interface, id=interface, marks=marks
        )


@pytest.mark.parametrize(("blocks", "interface"), [*list_pyfunc_blocks()])
def test_the_documented_lines_for_mlflow_run_as_typed(  # noqa: PLR0917 - pytest gives fixtures by name
    blocks, interface, tmp_path, monkeypatch, make_winner, prove
):
    """In the project's folder, with the project's own registry, and nothing in the environment that names it.

    The signature of a winner has the inputs' names where the source was ONNX, and not where it was PyTorch.
    """
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    project = tmp_path / "project"
    MlflowRegistry(project=project).publish(
        prove(make_winner(interface=interface)), name="digits", tags=TAGS, alias="honed"
    )
    monkeypatch.chdir(project)
    (block,) = blocks
    given = f"import json, numpy as np\nimages = np.array({X.tolist()}, np.float32)\n"
    logits = run_fresh(f"{given}{block}\nprint(json.dumps(logits.tolist()))")
    np.testing.assert_allclose(logits, X @ WEIGHTS, rtol=1e-5)
