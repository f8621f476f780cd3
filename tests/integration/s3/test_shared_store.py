"""A store that two machines share in S3: s3fs against moto's server, each machine a process with a folder of its own.

Both are installed into an environment of their own: aiobotocore asks for older versions than the main environment has.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import sysconfig
import time
import urllib.request
from pathlib import Path

import pytest
from dask_cluster import DaskCluster
from small_project import copy_project

pytestmark = pytest.mark.nightly

HERE = Path(__file__).parent
SOURCE = HERE.parents[2] / "src"

PREAMBLE = """
import sys, os
from pathlib import Path
from hone_runtime.values.artifact import StepFacts
from hone_runtime.errors import HoneError
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.steps import StepRecord
from hone_runtime.values.manifest import read_sealed
from kedro_hone.core.store.remote import Remote

def open_store(machine, url="s3://bucket/hone", endpoint=sys.argv[2]):
    options = {"endpoint_url": endpoint, "key": "k", "secret": "s", "client_kwargs": {"region_name": "us-east-1"}}
    return Store(Path(sys.argv[1]) / machine, remote=Remote(url, options))

def locate(store, digest):
    return store.locate(store.find_artifact(digest)).parent

def seal(store, content):
    with store.workspace() as workspace:
        (workspace / "output" / "deep").mkdir(parents=True)
        (workspace / "output" / "model.onnx").write_bytes(content)
        (workspace / "output" / "deep" / "weights.bin").write_bytes(b"weights")
        return store.seal(workspace / "output", format="onnx", inputs=(), outputs=())

def record(store, artifact):
    facts = StepFacts(key="k", adaptor="a.b", run="r", folder="steps/001-a.b", seconds=1, outcome=artifact.kind)
    store.record("k", StepRecord(facts=facts, outcome=artifact, created="now", inputs={}))
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory) -> Path:
    venv = tmp_path_factory.mktemp("s3") / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    pip = [venv / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--requirement", HERE / "requirements.lock"], check=True)
    return venv / "bin" / "python"


@pytest.fixture(scope="module")
def endpoint(python, tmp_path_factory):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    log = tmp_path_factory.mktemp("server") / "log"
    with log.open("wb") as out:
        server = subprocess.Popen([python, "-m", "moto.server", "--port", str(port)], stdout=out, stderr=out)
    try:
        for _ in range(600):
            assert server.poll() is None, log.read_text()
            try:
                urllib.request.urlopen(url, timeout=10).read()
                break
            except OSError:
                time.sleep(0.2)
        request = urllib.request.Request(f"{url}/bucket", method="PUT")  # noqa: S310 - our own server
        urllib.request.urlopen(request, timeout=60).read()  # noqa: S310 - our own server
        yield url
    finally:
        server.kill()
        server.wait()


@pytest.fixture
def cluster(template, python, tmp_path):
    """Two workers of Dask's that have nothing of the store on their machine, and a project to run on them."""
    main = Path(sysconfig.get_path("purelib"))  # behind the environment's own, which has s3fs
    (python.parents[1] / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages" / "main.pth").write_text(
        f"{main}\n"
    )
    project = copy_project(template, tmp_path)
    project.python = str(python)
    cluster = DaskCluster(tmp_path, project.variables, python=str(python))
    try:
        for name, resources in (("one", "build=1 bench=1"), ("two", "build=1")):
            home = tmp_path / f"home-{name}"
            home.mkdir()
            (home / "environments").symlink_to(Path(project.variables["HONE_HOME"]) / "environments")  # built once
            cluster.add(name, resources, HONE_HOME=str(home))
        cluster.wait()
        cluster.project = project
        yield cluster
    finally:
        cluster.close()


@pytest.fixture
def start(python, endpoint, tmp_path):
    def start(script: str) -> subprocess.Popen[str]:
        names = ("PATH", "HOME", "LD_LIBRARY_PATH")
        environment = {name: os.environ[name] for name in names if name in os.environ}
        command = [python, "-c", PREAMBLE + script, tmp_path, endpoint]
        environment |= {"PYTHONPATH": str(SOURCE), "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)

    return start


@pytest.fixture
def run(start):
    def run(script: str) -> str:
        process = start(script)
        out, error = process.communicate(timeout=600)
        assert process.returncode == 0, error
        return out.strip()

    return run


def test_what_one_machine_made_another_finds(run):
    digest = run("""
store = open_store("one")
artifact = seal(store, b"m" * (6 << 20))  # more than one part of a multipart upload
record(store, artifact)
store.store_tree("samples", store.root / "objects" / artifact.digest.removeprefix("sha256:") / "files")
store.write_value("v", {"a": 1})
print(artifact.digest)
""")

    found = run("""
store = open_store("two")
artifact = store.find("k").outcome
tree = sorted(path.name for path in store.find_tree("samples").iterdir())
sealed = read_sealed(store.locate(artifact).parent) is not None
print(artifact.digest, sealed, tree, store.read_value("v"), store.read_value("w"))
""")

    assert found == f"{digest} True ['deep', 'model.onnx'] {{'a': 1}} None"


@pytest.mark.attack(
    what="SIGKILL while a shared store is uploaded to", who="nobody", stopped_by="the manifest is uploaded last"
)
def test_a_machine_killed_while_it_uploads_leaves_nothing_incomplete(start, run):
    uploader = start("""
store = open_store("one")
files = store._remote._files
open_new = files.open
def slow(path, mode):
    stream = open_new(path, mode)
    if path.endswith("artifact.json"):
        print("files are there", flush=True)
        import time; time.sleep(600)
    return stream
files.open = slow
record(store, seal(store, b"killed"))
""")
    assert uploader.stdout.readline() == "files are there\n"
    uploader.send_signal(signal.SIGKILL)
    uploader.communicate()

    digest = run('print(seal(Store(Path(sys.argv[1]) / "alone"), b"killed").digest)')
    after = run(f"""
store = open_store("two")
before = store.find_artifact({digest!r})
seal(store, b"killed")
print(before, read_sealed(locate(open_store("three"), {digest!r})) is not None)
""")

    assert after == "None True"


def test_a_bucket_that_does_not_exist_is_explained(run):
    said = run("""
try:
    open_store("one", "s3://other/hone").write_value("v", 1)
except HoneError as error:
    print(error.slug, error.what, error.why)
""")

    assert said.startswith("store-unreachable The store s3://other/hone cannot be used. ")
    assert "bucket" in said


def test_a_server_that_is_not_there_is_explained(run):
    said = run("""
try:
    open_store("one", endpoint="http://127.0.0.1:1").read_value("v")
except HoneError as error:
    print(error.slug, error.why)
""")

    assert said.startswith("store-unreachable ")
    assert "127.0.0.1:1" in said


def test_the_artifacts_of_a_cluster_are_in_the_store_that_its_machines_share(cluster, endpoint, tmp_path):
    project = cluster.project
    secret = {"key": "k", "secret": "s", "client_kwargs": {"region_name": "us-east-1"}}
    store = {
        "type": "kedro_hone.datasets.StoreDataset",
        "filepath": "s3://bucket/cluster",
        "fs_args": {"endpoint_url": endpoint, **secret},
    }
    catalog = project.root / "conf" / "base" / "catalog.yml"
    lines = [line for line in catalog.read_text().split("\n") if not line.startswith("store:")]
    catalog.write_text("\n".join([*lines, f"store: {json.dumps(store)}", ""]))

    project.set(adaptors={f"shop.{name}": {"enabled": False} for name in ("closed", "round", "slow")})

    runner = ("--runner", "kedro_hone.runner.DaskRunner", "--runner-params", f"scheduler={cluster.address}")
    project.run("--pipelines", "pull,build", *runner)

    source = json.loads((project.work / "work" / "source.json").read_text())["digest"]
    built = {outcome["digest"] for outcome in project.read_outcomes().values()}
    held = {f"sha256:{path.name}" for path in tmp_path.glob("home-*/stores/*/objects/*")}
    assert len(built) == 2
    assert {source, *built} <= held  # the source was pulled elsewhere, by the process of the run
    assert not {f"sha256:{path.name}" for path in project.work.glob("store/objects/*")} & (built - {source})
