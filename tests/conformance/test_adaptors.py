"""Every built-in adaptor passes the public conformance suite, in its real environment, on a small real model."""

from __future__ import annotations

import json
import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnxruntime import InferenceSession
from tiny_transformers import write_models

from hone_runtime.contract.adaptor import Adaptor, Need, Options
from hone_runtime.contract.catalogue import list_builtin, read_catalogue
from hone_runtime.contract.hardware import read_host
from hone_runtime.contract.job import Job, JobInput, StepResult
from hone_runtime.contract.toolchain import Toolchain, Verification
from hone_runtime.values.artifact import Artifact, Shape, TensorSpec
from hone_runtime.values.digest import digest_tree
from hone_runtime.values.outcome import Failed
from kedro_hone.core.workers.host.run import call_worker
from kedro_hone.programs import LIBRARY, find_program
from kedro_hone.sources.detection import read_flavor
from kedro_hone.sources.formats.transformers import write
from kedro_hone.testing import AdaptorSuite

pytestmark = [pytest.mark.toolchain, pytest.mark.slow]

FOR_LARGE = frozenset({"pytorch.trace"})
"""What these make is for toolchains alone whose own tests run at night, or by `make test-toolchains`."""

COMPILED = frozenset({"pytorch.aoti", "pytorch.aoti-bf16", "pytorch.compile", "pytorch.compile-exported"})
"""These call a C++ compiler for each shape; with one it is seen as well that they keep the contract, each night.

``integration/adaptors/test_pytorch.py`` runs them at several."""

MILD = {"compress.prune-channels": {"ratio": 0.5}, "compress.sparsify": {"sparsity": 0.5, "epochs": 4}}
"""Options of compressors with which two epochs suffice."""

WITHOUT_GPU = pytest.mark.skipif(read_host().gpu is None, reason="this machine has no GPU")


def find_marks(adaptor: Adaptor) -> list[pytest.MarkDecorator]:
    """Return the marks of an adaptor's tests."""
    marks = [pytest.mark.large] if adaptor.toolchain.verification is not Verification.TESTED else []
    trained = adaptor.trains and adaptor.name != "compress.prune-channels"  # one of those that train is enough by day
    marks += [pytest.mark.nightly] if trained or adaptor.name in COMPILED | FOR_LARGE else []
    return [*marks, WITHOUT_GPU] if Need.GPU in adaptor.needs else marks


ADAPTORS = tuple(
    pytest.param(adaptor.name, marks=find_marks(adaptor))
    for adaptor in read_catalogue().adaptors.values()
    if adaptor.toolchain.name in list_builtin()
    and adaptor.toolchain.lockable
    and not {"sklearn", "tflite", "tflite-file", "keras"} & adaptor.accepts
)
"""Those that take a net; ``TestEstimators`` is for estimators, ``TestLiteRT`` for what its converters made, and
``TestTensorFlow`` for models of Keras. Of what is not lockable there is no environment."""


@pytest.fixture(scope="session")
def folder(digits_models, tmp_path_factory) -> Path:
    """A digits net in several formats, with its data."""
    folder = tmp_path_factory.mktemp("digits")
    shutil.copytree(digits_models, folder, dirs_exist_ok=True)
    with np.load(folder / "search.npz") as rows:
        np.savez(folder / "feeds.npz", image=rows["x"])
        np.savez(folder / "targets.npz", target=rows["y"])
    session = InferenceSession(folder / "onnx" / "model.onnx", providers=["CPUExecutionProvider"])
    for rows, outputs in (("feeds.npz", "source.npy"), ("calibration.npz", "teacher.npy")):
        with np.load(folder / rows) as feeds:
            np.save(folder / outputs, session.run(None, {"image": feeds["image"]})[0])
    return folder


@pytest.fixture(scope="session")
def sources(folder) -> dict[str, tuple[Artifact, Path]]:
    """The net as an artifact of every format that some adaptor starts from, as its toolchain describes it."""
    ir = read_catalogue().find_adaptor("openvino.ir")
    onnx = describe("onnxruntime", "onnx", folder / "onnx")
    call(ir.toolchain, "transform", *onnx, output=str(folder / "ir"), adaptor=ir.name, produces=ir.produces)
    program = describe("pytorch", "pytorch", folder / "exported")
    module = describe("pytorch", "pytorch-module", folder / "module", inputs=program[0].inputs)
    converted = describe("openvino", "openvino-ir", folder / "ir")
    script = describe("pytorch", "torchscript-module", folder / "scripted", inputs=program[0].inputs)
    found = {"onnx": onnx, "pytorch": program, "pytorch-module": module, "openvino-ir": converted}
    found["torchscript-module"] = script
    return {**found, "transformers": describe_transformers(folder)}


def describe_transformers(folder: Path, kind: str = "image") -> tuple[Artifact, Path]:
    """Return a small model of Transformers, by default a classifier of images, as the host seals it."""
    pulled, files = write_models(folder / "tiny", kind) / kind, folder / "transformers"
    flavor = read_flavor(pulled, trust=frozenset())
    write(flavor, pulled, files)
    return describe("pytorch", flavor.format, files, metadata=flavor.metadata)


def describe(
    toolchain: str, form: str, folder: Path, inputs: tuple[TensorSpec, ...] = (), metadata: dict[str, Any] | None = None
) -> tuple[Artifact, Path]:
    """Return a folder as an artifact, with the tensors that a toolchain finds in it; a class is told its inputs."""
    unread = Artifact(format=form, digest=digest_tree(folder), inputs=inputs, outputs=(), metadata=metadata or {})
    notes = call(read_catalogue().find_toolchain(toolchain), "describe", unread, folder).notes
    read = {"inputs": notes["inputs"], "outputs": notes["outputs"], "runtime": toolchain}
    read |= {"metadata": {"transformers": notes["transformers"]}} if "transformers" in notes else {}
    return Artifact.model_validate(unread.model_dump() | read), folder


def call(toolchain: Toolchain, function: str, model: Artifact, files: Path, **job: str) -> StepResult:
    """Call a function of a toolchain's worker outside of any trial, in the interpreter of the tests."""
    asked = Job(
        **{"function": function, "worker": str(toolchain.worker), "adaptor": function, "trust": ("module",), **job},
        input=JobInput.of(model, files),
    )
    step = files.with_name(f"step-{function}-{model.format}")
    result = call_worker(asked, python=Path(sys.executable), toolchain=toolchain, folder=step, limits=toolchain.limits)
    assert isinstance(result, StepResult), result
    return result


class TestAdaptor(AdaptorSuite):
    @pytest.fixture(params=ADAPTORS)
    def adaptor(self, request) -> Adaptor:
        return read_catalogue().find_adaptor(request.param)

    @pytest.fixture
    def options(self, adaptor, tmp_path) -> Options:
        """Return the defaults, and of those that train two epochs at a mild strength."""
        options = adaptor.options()
        if adaptor.toolchain.name != "compress":
            return options
        given: dict[str, object] = {"epochs": 2, **MILD.get(adaptor.name, {})}
        if adaptor.name == "compress.distil":
            shutil.copy(Path(__file__).parents[1] / "integration" / "adaptors" / "digits_net.py", tmp_path)
            given["student"] = f"{tmp_path / 'digits_net.py'}:DigitsNet"
        return options.model_copy(update=given)

    @pytest.fixture
    def artifact(self, adaptor, sources) -> Artifact:
        return next(artifact for form, (artifact, _) in sources.items() if form in adaptor.accepts)

    @pytest.fixture
    def files(self, artifact, sources) -> Path:
        return sources[artifact.format][1]

    @pytest.fixture
    def python(self, adaptor, environments) -> Path:
        environment = environments.ensure(adaptor.toolchain)
        assert not isinstance(environment, Failed), environment.reason
        return Path(environment.python)

    @pytest.fixture
    def shapes(self, adaptor) -> tuple[Shape, ...]:
        sizes = (5,) if adaptor.name in COMPILED else (1, 2, 5)
        return tuple(Shape(name=f"batch{size}", sizes={"batch": size}) for size in sizes)

    @pytest.fixture
    def calibration(self, folder) -> Path:
        return folder / "calibration.npz"

    @pytest.fixture
    def training(self, folder) -> Path:
        return folder / "calibration.npz"

    @pytest.fixture
    def program(self, artifact, folder, tmp_path) -> dict[str, object]:
        (output,) = artifact.outputs
        for name in ("source", "teacher"):
            np.savez(tmp_path / f"{name}.npz", **{output.name: np.load(folder / f"{name}.npy")})
        return {
            "path": str(find_program("image-classification", project=Path.cwd()).path),
            "library": str(LIBRARY),
            "options": {},
            "feeds": str(folder / "feeds.npz"),
            "targets": str(folder / "targets.npz"),
            "source": str(tmp_path / "source.npz"),
            "teacher": str(tmp_path / "teacher.npz"),
            "outputs": [spec.name for spec in artifact.outputs],
        }

    @pytest.fixture
    def trust(self) -> tuple[str, ...]:
        return ("module",)


class TestLiteRT(AdaptorSuite):
    """Those of ``litert``, on a net that ``tests/toolchains/litert/record.py`` recorded at three batch sizes."""

    @pytest.fixture(params=["litert.xnnpack", "litert.int8-dynamic", "litert.int8-weights", "litert.int8-static"])
    def adaptor(self, request) -> Adaptor:
        return read_catalogue().find_adaptor(request.param)

    @pytest.fixture
    def python(self, adaptor, environments) -> Path:
        environment = environments.ensure(adaptor.toolchain)
        assert not isinstance(environment, Failed), environment.reason
        return Path(environment.python)

    @pytest.fixture
    def files(self, tmp_path) -> Path:
        return Path(shutil.copytree(Path(__file__).parents[1] / "toolchains" / "litert" / "digits", tmp_path / "net"))

    @pytest.fixture
    def shapes(self) -> tuple[Shape, ...]:
        return tuple(Shape(name=f"batch{size}", sizes={"batch": size}) for size in (1, 5))

    @pytest.fixture
    def artifact(self, files, shapes) -> Artifact:
        return Artifact(
            format="tflite",
            digest=digest_tree(files),
            inputs=(TensorSpec(name="image", dtype="float32", shape=("batch", 1, 8, 8)),),
            outputs=(TensorSpec(name="logits", dtype="float32", shape=("batch", 10)),),
            static_shapes=shapes,
        )

    @pytest.fixture
    def calibration(self, folder) -> Path:
        return folder / "calibration.npz"


class TestLiteRTFile(AdaptorSuite):
    """The one that takes its author's file, which is one of those above."""

    @pytest.fixture
    def adaptor(self) -> Adaptor:
        return read_catalogue().find_adaptor("litert.shapes")

    @pytest.fixture
    def python(self, adaptor, environments) -> Path:
        environment = environments.ensure(adaptor.toolchain)
        assert not isinstance(environment, Failed), environment.reason
        return Path(environment.python)

    @pytest.fixture
    def files(self, tmp_path) -> Path:
        recorded = Path(__file__).parents[1] / "toolchains" / "litert" / "digits" / "model-batch5.tflite"
        shutil.copy(recorded, tmp_path / "model.tflite")
        return tmp_path

    @pytest.fixture
    def shapes(self) -> tuple[Shape, ...]:
        return (Shape(name="batch5", sizes={"batch": 5}),)

    @pytest.fixture
    def artifact(self, files) -> Artifact:
        return Artifact(
            format="tflite-file",
            digest=digest_tree(files),
            inputs=(TensorSpec(name="args_0", dtype="float32", shape=(5, 1, 8, 8)),),
            outputs=(TensorSpec(name="output_0", dtype="float32", shape=(5, 10)),),
        )


@pytest.mark.large
class TestTensorFlow(AdaptorSuite):
    """Those of ``tensorflow``, on a net of Keras."""

    @pytest.fixture(params=["tensorflow.onnx", "tensorflow.tflite", "tensorflow.xla"])
    def adaptor(self, request) -> Adaptor:
        return read_catalogue().find_adaptor(request.param)

    @pytest.fixture
    def python(self, adaptor, environments) -> Path:
        environment = environments.ensure(adaptor.toolchain)
        assert not isinstance(environment, Failed), environment.reason
        return Path(environment.python)

    @pytest.fixture
    def files(self, keras_models, tmp_path) -> Path:
        shutil.copy(keras_models / "digits.keras", tmp_path / "model.keras")
        return tmp_path

    @pytest.fixture
    def artifact(self, files) -> Artifact:
        return Artifact(
            format="keras",
            digest=digest_tree(files),
            inputs=(TensorSpec(name="image", dtype="float32", shape=("batch", 8, 8, 1)),),
            outputs=(TensorSpec(name="logits", dtype="float32", shape=("batch", 10)),),
        )

    @pytest.fixture
    def shapes(self) -> tuple[Shape, ...]:
        return tuple(Shape(name=f"batch{size}", sizes={"batch": size}) for size in (1, 5))


class TestEstimators(AdaptorSuite):
    """``sklearn.onnx`` on a forest of scikit-learn."""

    @pytest.fixture
    def adaptor(self) -> Adaptor:
        return read_catalogue().find_adaptor("sklearn.onnx")

    @pytest.fixture
    def python(self, adaptor, environments) -> Path:
        environment = environments.ensure(adaptor.toolchain)
        assert not isinstance(environment, Failed), environment.reason
        return Path(environment.python)

    @pytest.fixture
    def artifact(self, tmp_path) -> Artifact:
        import sklearn
        from sklearn.datasets import load_iris
        from sklearn.ensemble import RandomForestClassifier

        reference = {"class": "", "file": "model.pkl", "serialization": "pickle", "version": sklearn.__version__}
        forest = RandomForestClassifier(5, random_state=0).fit(*load_iris(return_X_y=True))
        (tmp_path / "model.pkl").write_bytes(pickle.dumps(forest))
        (tmp_path / "estimator.json").write_text(json.dumps(reference))
        return Artifact(
            format="sklearn",
            digest=digest_tree(tmp_path),
            inputs=(TensorSpec(name="X", dtype="float64", shape=("batch", 4)),),
            outputs=(
                TensorSpec(name="label", dtype="int64", shape=("batch",)),
                TensorSpec(name="probabilities", dtype="float32", shape=("batch", 3)),
            ),
        )

    @pytest.fixture
    def trust(self) -> tuple[str, ...]:
        return ("pickle",)


@pytest.fixture(scope="session")
def eager(transformers, tmp_path_factory) -> Artifact:
    """A small encoder with eager attention."""
    copy = tmp_path_factory.mktemp("eager") / "onnx"
    shutil.copytree(transformers / "eager", copy)
    return describe("onnxruntime", "onnx", copy)[0]


class TestFused(AdaptorSuite):
    """Those that fuse attention, on an encoder that has some; the net above has none, so that they refuse it."""

    @pytest.fixture(params=["onnxruntime.fused", "onnxruntime.int8-fused"])
    def adaptor(self, request) -> Adaptor:
        return read_catalogue().find_adaptor(request.param)

    @pytest.fixture
    def files(self, transformers) -> Path:
        return transformers / "eager"

    @pytest.fixture
    def artifact(self, eager) -> Artifact:
        return eager

    @pytest.fixture
    def shapes(self) -> tuple[Shape, ...]:
        return tuple(Shape(name=f"{b}x{n}", sizes={"batch": b, "length": n}) for b, n in ((1, 12), (2, 5), (5, 12)))

    @pytest.fixture
    def python(self) -> Path:
        return Path(sys.executable)


@pytest.fixture(scope="session")
def outliers(tmp_path_factory) -> Path:
    """A folder with a net in which plain int8 misses the gate, as ONNX and as IR, and its data."""
    folder = tmp_path_factory.mktemp("outliers")
    script = Path(__file__).parents[1] / "integration" / "adaptors" / "outlier_models.py"
    done = subprocess.run([sys.executable, script, folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    (folder / "onnx").mkdir()
    (folder / "cnn" / "model.onnx").rename(folder / "onnx" / "model.onnx")
    with np.load(folder / "cnn" / "search.npz") as rows:
        np.savez(folder / "feeds.npz", image=rows["image"])
        np.savez(folder / "targets.npz", target=rows["label"])
    return folder


class TestTuned(AdaptorSuite):
    """Those that tune int8, where there is something to do; of the net above plain int8 holds the gate."""

    @pytest.fixture(params=["onnxruntime.int8-tuned", "openvino.int8-tuned"])
    def adaptor(self, request) -> Adaptor:
        return read_catalogue().find_adaptor(request.param)

    @pytest.fixture
    def source(self, adaptor, outliers, tmp_path) -> tuple[Artifact, Path]:
        shutil.copytree(outliers / "onnx", tmp_path / "net" / "onnx")
        onnx = describe("onnxruntime", "onnx", tmp_path / "net" / "onnx")
        if "onnx" in adaptor.accepts:
            return onnx
        ir, folder = read_catalogue().find_adaptor("openvino.ir"), tmp_path / "net" / "ir"
        call(ir.toolchain, "transform", *onnx, output=str(folder), adaptor=ir.name, produces=ir.produces)
        return describe("openvino", "openvino-ir", folder)

    @pytest.fixture
    def artifact(self, source) -> Artifact:
        return source[0]

    @pytest.fixture
    def files(self, source) -> Path:
        return source[1]

    @pytest.fixture
    def shapes(self) -> tuple[Shape, ...]:
        return tuple(Shape(name=f"batch{size}", sizes={"batch": size}) for size in (1, 2, 5))

    @pytest.fixture
    def calibration(self, outliers) -> Path:
        return outliers / "cnn" / "calibration.npz"

    @pytest.fixture
    def program(self, artifact, outliers) -> dict[str, object]:
        return {
            "path": str(find_program("image-classification", project=Path.cwd()).path),
            "library": str(LIBRARY),
            "options": {},
            "feeds": str(outliers / "feeds.npz"),
            "targets": str(outliers / "targets.npz"),
            "outputs": [spec.name for spec in artifact.outputs],
        }

    @pytest.fixture
    def python(self) -> Path:
        return Path(sys.executable)


@pytest.fixture(scope="session")
def decoder(tmp_path_factory) -> tuple[Artifact, Path]:
    """A small causal language model."""
    return describe_transformers(tmp_path_factory.mktemp("decoder"), "llama")


@pytest.mark.large
class TestGptq(AdaptorSuite):
    """The one that is for language models; what is above is none, so that it refuses it."""

    @pytest.fixture
    def adaptor(self) -> Adaptor:
        return read_catalogue().find_adaptor("neural_compressor_pt.int4-gptq")

    @pytest.fixture
    def artifact(self, decoder) -> Artifact:
        return decoder[0]

    @pytest.fixture
    def files(self, decoder) -> Path:
        return decoder[1]

    @pytest.fixture
    def shapes(self) -> tuple[Shape, ...]:
        return tuple(Shape(name=f"{b}x{n}", sizes={"batch": b, "length": n}) for b, n in ((1, 12), (2, 5), (5, 12)))

    @pytest.fixture
    def calibration(self, tmp_path_factory) -> Path:
        path = tmp_path_factory.mktemp("tokens") / "calibration.npz"
        ids = np.random.default_rng(0).integers(5, 100, (64, 12))
        np.savez(path, input_ids=ids, attention_mask=np.ones_like(ids))
        return path

    @pytest.fixture
    def python(self, adaptor, environments) -> Path:
        environment = environments.ensure(adaptor.toolchain)
        assert not isinstance(environment, Failed), environment.reason
        return Path(environment.python)
