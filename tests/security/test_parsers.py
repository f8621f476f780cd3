"""A stranger's file is refused at once, with an error for people: no parser takes minutes, gigabytes, or breaks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import kedro_hone
from hone_runtime.contract.proof import EVIDENCE, EVIDENCE_FILES
from hone_runtime.errors import HoneError
from hone_runtime.learner.runtimes import choose_threads
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.manifest import MANIFEST, Manifest
from kedro_hone.adaptors.registries.local.registry import LocalRegistry
from kedro_hone.sources.detection import read_flavor

FLAVORS = "flavors: {onnx: {data: model.onnx}}\n"
READ = """
import resource, sys
from pathlib import Path
from hone_runtime.errors import HoneError
from kedro_hone.sources.detection import read_flavor

before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
try:
    read_flavor(Path(sys.argv[1]), trust=frozenset())
except HoneError as error:
    print(error.slug, end=" ")
print(resource.getrusage(resource.RUSAGE_SELF).ru_utime - before)
"""

LOAD = """
import sys
import kedro_hone
from hone_runtime.errors import HoneError

try:
    kedro_hone.load(sys.argv[1])
except HoneError as error:
    print(error.slug)
"""
PROVE = """
import sys
from pathlib import Path
from hone_runtime.contract.proof import EvidenceFolder, ProvenWinner
from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import Artifact

folder = Path(sys.argv[1])
given = {"source_uri": "m", "source_digest": "d", "evidence": EvidenceFolder.read("1", folder, decision="d")}
artifact = Artifact(digest="sha256:7", format="onnx", inputs=(), outputs=())
try:
    ProvenWinner(artifact=artifact, files=folder, folder=folder, **given)
except HoneError as error:
    print(error.why)
"""


def write_model(folder: Path, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "MLmodel").write_text(text)
    (folder / "model.onnx").write_bytes(b"model")
    return folder


def catch(call) -> HoneError:
    with pytest.raises(HoneError) as caught:
        call()
    return caught.value


def limit(size: int) -> str:
    """Return the start of a script whose process may not take more than so many bytes of memory."""
    return f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({size}, {size}))\n"


def run(script: str, *arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr[-1000:]
    return done.stdout


def make_bomb(levels: int) -> str:
    """Return YAML that is ten times as long for each level, once its keys are merged."""
    rows = ["a0: &a0 {k: v}"]
    for level in range(1, levels + 1):
        merged = ",".join([f"*a{level - 1}"] * 10)
        rows.append(f"a{level}: &a{level} {{<<: [{merged}]}}")
    return "\n".join(rows) + "\n"


@pytest.mark.attack(
    what="an MLmodel whose merge keys are gigabytes, or whose number is one of 480 kB to the base of 60",
    who="registry",
    stopped_by="YAML is read without merge keys, other bases, and dates",
)
@pytest.mark.parametrize("text", [make_bomb(9), f"x: 1{':59' * 160_000}\n"], ids=["merged", "base-60"])
def test_an_mlmodel_that_grows_when_it_is_read(tmp_path, text):
    write_model(tmp_path / "m", text + FLAVORS)
    seconds = run(limit(8 << 30) + READ, tmp_path / "m")
    assert float(seconds) < 10  # of one processor: the flavor was found, and it took minutes before


def repeat(name: str, shape: str, count: int) -> str:
    """Return a signature that says a name and a shape often, in few bytes."""
    first = f"{{type: tensor, name: &n {name}, tensor-spec: {{dtype: float32, shape: &s [{shape}]}}}}"
    again = ",{type: tensor, name: *n, tensor-spec: {dtype: float32, shape: *s}}"
    return FLAVORS + f"signature: {{inputs: [{first}{again * count}]}}\n"


@pytest.mark.attack(
    what="an MLmodel whose signature says a long name or a long shape thousands of times, by aliases",
    who="registry",
    stopped_by="what a signature says is bounded as it is written out",
)
@pytest.mark.parametrize(
    "text", [repeat("x", "1," * 100_000, 10_000), repeat("n" * 400_000, "1,-1,-1,-1", 8_000)], ids=["shape", "name"]
)
def test_a_signature_that_grows_when_it_is_read(tmp_path, text):
    write_model(tmp_path / "m", text)
    assert "no end" in run(limit(8 << 30) + READ.replace("error.slug", "error.why"), tmp_path / "m")


def sign(text: str) -> str:
    return FLAVORS + "signature: {inputs: '" + text + "'}\n"


def describe(dtype: str, size: object = 1) -> str:
    return sign(f'[{{"type": "tensor", "tensor-spec": {{"dtype": "{dtype}", "shape": [{size}]}}}}]')


@pytest.mark.attack(
    what="an MLmodel with an endless size, a signature of brackets only, or a type that is no Python",
    who="registry",
    stopped_by="every error of what reads it is a refusal",
)
@pytest.mark.parametrize(
    "text",
    [
        describe("float32", "1e999"),
        sign("[" * 100_000),
        describe("(2,f8"),
        describe("(" * 300 + "f8"),
        f"x: !!bool x\n{FLAVORS}",
        f"x: !!float 1{':59' * 300}.5\n{FLAVORS}",
    ],
    ids=["endless", "brackets", "type", "types", "tag", "tag-base-60"],
)
def test_an_mlmodel_that_breaks_its_reader(tmp_path, text):
    error = catch(lambda: read_flavor(write_model(tmp_path / "m", text), trust=frozenset()))
    assert error.slug == "model-corrupt"


def test_a_number_to_the_base_of_60_is_text(tmp_path):
    flavor = read_flavor(write_model(tmp_path / "m", f"x: 1{':59' * 300}.5\n{FLAVORS}"), trust=frozenset())
    assert flavor.format == "onnx"


@pytest.mark.attack(
    what="a link to itself in a model's folder, or as an alias of its winners",
    who="registry",
    stopped_by="a link that cannot be followed is refused, and is no alias",
)
def test_a_link_to_itself(tmp_path):
    model = write_model(tmp_path / "m", FLAVORS)
    (model / "loop").symlink_to("loop")
    (tmp_path / "m-hone" / "1").mkdir(parents=True)
    (tmp_path / "m-hone" / "1" / "hone.json").write_text('{"a": "b"}')
    (tmp_path / "m-hone" / "honed").symlink_to("honed")
    (tmp_path / "m-hone" / "good").symlink_to("1")
    registry = LocalRegistry(tmp_path)
    assert catch(lambda: read_flavor(model, trust=frozenset())).slug == "model-external-data"
    assert catch(lambda: registry.resolve("m-hone/honed")).slug == "model-unknown"
    assert registry.list_aliases("m") == {"good": "1"}
    assert registry.resolve("m-hone/1").aliases == ("good",)


@pytest.mark.attack(
    what="links to what never ends, in a model's folder or next to its file",
    who="registry",
    stopped_by="what is outside the folder is not read, and what is no file is not copied",
)
def test_links_to_what_never_ends(tmp_path):
    model, registry = write_model(tmp_path / "m", FLAVORS), LocalRegistry(tmp_path)
    before = registry.resolve("m").version
    (tmp_path / "outside").write_bytes(b"as /proc/self/pagemap, which has 256 GiB")
    (model / "link").symlink_to("../outside")
    assert registry.resolve("m").version == before
    (tmp_path / "net.onnx").write_bytes(b"net")
    (tmp_path / "net.onnx.data").write_bytes(b"weights")
    (tmp_path / "net.onnx.zero").symlink_to("/dev/null")
    (tmp_path / "net.onnx_old").mkdir()
    registry.pull("net.onnx", tmp_path / "pulled")
    assert sorted(path.name for path in (tmp_path / "pulled").iterdir()) == ["net.onnx", "net.onnx.data"]


def seal(folder: Path, **attributes: object) -> Path:
    """Write a manifest as an attacker would: its digests fit."""
    folder.mkdir(exist_ok=True)
    (folder / "model.onnx").write_bytes(b"model")
    spec = {"name": "x", "dtype": "float32", "shape": ["batch", 4]}
    given = {"format": "onnx", "runtime": "onnxruntime", "inputs": [spec], "outputs": [spec], **attributes}
    Manifest.measure(folder, given).write(folder / MANIFEST)
    return folder


@pytest.mark.attack(
    what="a manifest of 3 GiB, which needs no space on a disk",
    who="registry",
    stopped_by="no more is read than a manifest can have",
)
def test_a_manifest_of_gigabytes(tmp_path):
    with (tmp_path / MANIFEST).open("wb") as stream:
        stream.truncate(3 << 30)
    assert run(limit(2 << 30) + LOAD, tmp_path) == "model-corrupt\n"


@pytest.mark.attack(
    what="evidence of 3 GiB, which needs no space on a disk",
    who="registry",
    stopped_by="no more is read than evidence can have",
)
def test_evidence_of_gigabytes(tmp_path):
    for name in EVIDENCE_FILES:
        (tmp_path / name).touch()
    with (tmp_path / EVIDENCE).open("wb") as stream:
        stream.truncate(1 << 30)
    assert f"{EVIDENCE} is larger than" in run(limit(1 << 30) + PROVE, tmp_path)


@pytest.mark.attack(
    what="a winner whose tensors have a type that is no Python",
    who="registry",
    stopped_by="a type is one word",
)
@pytest.mark.parametrize("dtype", ["(2,f8", "i4,,(", "(" * 300 + "f8"])
def test_a_type_that_is_no_python(tmp_path, dtype):
    spec = {"name": "x", "dtype": dtype, "shape": ["batch", 4]}
    folder = seal(tmp_path / "m", format="toy", runtime="toy", inputs=[spec])
    assert catch(lambda: kedro_hone.load(folder)).slug == "model-corrupt"


@pytest.mark.attack(
    what="a winner that says it was measured with thousands of threads",
    who="registry",
    stopped_by="a runtime gets no more threads than a few for each core",
)
def test_thousands_of_threads():
    cores = len(os.sched_getaffinity(0))
    asks = Artifact(digest="sha256:1", format="onnx", inputs=(), outputs=(), metadata={"threads": 4096})
    assert choose_threads(asks, None) <= max(64, 4 * cores)
    assert choose_threads(asks.model_copy(update={"metadata": {"threads": 3}}), None) == 3
    assert choose_threads(asks, 100) == 100
    assert choose_threads(asks.model_copy(update={"metadata": {}}), None) == cores
