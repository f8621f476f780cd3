"""Images in a real registry, and what programs of others make of them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from container_registry import REGISTRY, fetch, need, run_registry
from packed_versions import SERVER_PACKAGES, make_environment, write_base, write_version

from kedro_hone.cli import hone
from kedro_hone.cli import image as command
from kedro_hone.core.environments.store import EnvironmentStore
from kedro_hone.serving.environment import SERVER
from kedro_hone.serving.image.base import PYTHON
from kedro_hone.serving.image.blobs import Blobs
from kedro_hone.serving.image.descriptors import LAYER, Descriptor

ASK = """
import json, subprocess, sys, time, urllib.request
server = subprocess.Popen(sys.argv[1:])
body = json.dumps({"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}]}).encode()
for _ in range(600):
    assert server.poll() is None, server.returncode
    try:
        urllib.request.urlopen("http://127.0.0.1:8080/v2/health/ready", timeout=5)
        break
    except OSError:
        time.sleep(0.2)
url = "http://127.0.0.1:8080/v2/models/one/infer"
request = urllib.request.Request(url, data=body, headers={"Content-Type": "application/json"})
print("OUTPUT", json.load(urllib.request.urlopen(request, timeout=60))["outputs"][0]["data"])
server.terminate()
print("EXIT", server.wait())
"""
LIBRARIES = {
    *("libstdc++.so.6", "libgcc_s.so.1", "librt.so.1", "libpthread.so.0", "libdl.so.2", "libutil.so.1", "libm.so.6"),
    *("libresolv.so.2", "libnss_files.so.2", "libnss_dns.so.2"),
}
"""What packages load besides the libraries of Python itself: of GNU's C library and compiler."""


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[str]:
    with run_registry(tmp_path / "registry") as host:
        yield host


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own, and a server's environment of small packages."""
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    environment = make_environment(tmp_path / "venv", SERVER_PACKAGES)
    monkeypatch.setattr(command, "build_server", lambda _: environment)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


def pack(*arguments: object, code: int = 0) -> Result:
    done = CliRunner().invoke(hone, ["image", *map(str, arguments)])
    assert done.exit_code == code, (done.output, done.exception)
    return done


def run(*words: object) -> str:
    return subprocess.run([*map(str, words)], check=True, capture_output=True, text=True).stdout


def make_base(folder: Path) -> Path:
    return write_base(folder / "base", Blobs(folder / "of-base"))


@need(REGISTRY, "skopeo", "umoci")
def test_others_pull_and_unpack_what_was_pushed(registry: str, home: Path, tmp_path: Path) -> None:
    base, target = make_base(tmp_path), f"{registry}/team/one:4"
    version = write_version(tmp_path / "one")
    said = pack(version, "--base", base, "--push", target, "-o", tmp_path / "layout").output
    found = json.loads(run("skopeo", "inspect", "--tls-verify=false", f"docker://{target}"))
    assert found["Digest"] in said
    assert found["Labels"]["org.opencontainers.image.title"] == "one"
    run("skopeo", "copy", "--src-tls-verify=false", f"docker://{target}", f"oci:{tmp_path / 'pulled'}:4")
    for layout in ("pulled", "layout"):
        bundle = tmp_path / f"{layout}-bundle"
        run("umoci", "unpack", "--rootless", "--image", f"{tmp_path / layout}:4", bundle)
        rootfs = bundle / "rootfs"
        assert (rootfs / "etc" / "release").read_text() == "base\n"
        copied = rootfs / "opt" / "hone" / "model"
        for path in (path for path in version.rglob("*") if path.is_file()):
            assert (copied / path.relative_to(version)).read_bytes() == path.read_bytes()
        assert (rootfs / "opt" / "hone" / "runtime" / "hone_runtime" / "text.py").is_file()


@need(REGISTRY)
def test_the_second_push_says_that_nothing_is_sent(registry: str, home: Path, tmp_path: Path) -> None:
    arguments = (write_version(tmp_path / "one"), "--base", make_base(tmp_path), "--push", f"{registry}/one:4")
    assert "0 were there" in pack(*arguments).output
    assert "(0 blobs sent" in pack(*arguments).output


@need(REGISTRY)
def test_an_image_may_be_the_base_of_another(registry: str, home: Path, tmp_path: Path) -> None:
    base, version = make_base(tmp_path), write_version(tmp_path / "one")
    pack(version, "--base", base, "--push", f"{registry}/one:4")
    shutil.rmtree(home)
    pack(version, "--base", f"{registry}/one:4", "-o", tmp_path / "layout")
    (entry, *_) = json.loads((tmp_path / "layout" / "index.json").read_text())["manifests"]
    path = tmp_path / "layout" / "blobs" / "sha256" / entry["digest"].removeprefix("sha256:")
    assert len(json.loads(path.read_text())["layers"]) == 7


@need(REGISTRY, "skopeo")
def test_a_modelpack_needs_no_environment(registry: str, home: Path, tmp_path: Path) -> None:
    target = f"{registry}/models/one:4"
    said = pack(write_version(tmp_path / "one"), "--format", "modelpack", "--push", target).output
    raw = run("skopeo", "inspect", "--raw", "--tls-verify=false", f"docker://{target}")
    assert json.loads(raw)["artifactType"] == "application/vnd.cncf.model.manifest.v1+json"
    assert Descriptor(media_type=LAYER, digest=said.split("packed")[1].split()[0], size=0)


def test_nothing_is_written_without_a_place(home: Path, tmp_path: Path) -> None:
    assert "--output" in pack(write_version(tmp_path / "one"), code=2).output


def test_a_name_that_no_server_can_have_is_refused(home: Path, tmp_path: Path) -> None:
    version = write_version(tmp_path / "one")
    done = pack(version, "--name", "a b", "--base", make_base(tmp_path), "-o", tmp_path / "layout", code=2)
    assert "--name" in done.output


@need(REGISTRY)
def test_a_base_of_another_architecture_is_refused_before_anything_is_pushed(
    registry: str, home: Path, tmp_path: Path
) -> None:
    base = write_base(tmp_path / "base", Blobs(tmp_path / "of-base"), architecture="riscv64", os="linux")
    done = pack(write_version(tmp_path / "one"), "--base", base, "--push", f"{registry}/one:4", code=3)
    assert "linux/riscv64" in done.output
    assert json.loads(fetch(f"http://{registry}/v2/_catalog")[0]) == {"repositories": []}


def test_a_containerfile_has_its_context(home: Path, tmp_path: Path) -> None:
    version, folder = write_version(tmp_path / "one"), tmp_path / "context"
    pack(version, "--containerfile", folder, "--base", "registry.example.org/python:3")
    assert (folder / "model" / "artifact" / "model.onnx").is_file()
    assert (folder / "runtime" / "kedro_hone" / "serving" / "server" / "__main__.py").is_file()
    names = re.findall(r"^[\w-]+", (folder / "requirements.lock").read_text(), re.MULTILINE)
    assert names == ["kserve", "numpy", "onnxruntime", "pydantic"]


def test_a_path_of_this_machine_is_found_in_the_evidence(home: Path, tmp_path: Path) -> None:
    version, base = write_version(tmp_path / "one", note=f"{tmp_path}/model.onnx"), make_base(tmp_path)
    done = pack(version, "--base", base, "-o", tmp_path / "layout", code=3)
    assert "evidence.json" in done.output
    assert not (tmp_path / "layout").exists()
    pack(version, "--base", base, "-o", tmp_path / "layout", "--allow-paths")


def write_python(folder: Path) -> Path:
    """Write a base image of this machine's own Python, with the libraries that it and its modules load."""
    prefix, stdlib = Path(sys.base_prefix), Path(sysconfig.get_path("stdlib"))
    binary = Path(sys.base_prefix, "bin", f"python{PYTHON}").resolve()
    modules = sorted((stdlib / "lib-dynload").glob("*.so"))
    linked = run("ldd", binary, *modules).split()
    cache = run("/sbin/ldconfig", "-p").split()
    wanted = {one for one in linked if one.startswith("/") and not one.endswith(":")}
    wanted |= {one for one in cache if one.startswith("/") and Path(one).name in LIBRARIES}
    layer = folder / "layer.tar"
    with tarfile.open(layer, "w") as archive:
        for path in sorted(wanted):
            archive.add(os.path.realpath(path), path)
        archive.add(binary, prefix / "bin" / "python3")
        archive.add(stdlib, filter=lambda one: None if "site-packages" in one.name or "/test" in one.name else one)
        for name in ("dev", "proc", "tmp"):
            one = tarfile.TarInfo(name)
            one.type, one.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(one)
    environment = {
        "Env": [f"PYTHON_VERSION={sys.version.split()[0]}", f"PATH={prefix / 'bin'}", f"PYTHONHOME={prefix}"]
    }
    return write_base(folder / "python", Blobs(folder / "of-python"), archive=layer, config=environment)


@pytest.mark.nightly  # it compresses half a gigabyte, and unpacks it again
@need("umoci", "bwrap")
@pytest.mark.parametrize("openvino", [False, True], ids=["onnxruntime", "openvino"])
def test_the_image_serves_as_nobody_without_a_file_to_write(
    environments: EnvironmentStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, openvino: bool
) -> None:
    built = environments.ensure(SERVER)
    monkeypatch.setattr(command, "build_server", lambda _: built)
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    version = write_version(tmp_path / "one", openvino=openvino)
    pack(version, "--base", write_python(tmp_path), "-o", tmp_path / "layout")
    run("umoci", "unpack", "--rootless", "--image", f"{tmp_path / 'layout'}:1", tmp_path / "bundle")
    process = json.loads((tmp_path / "bundle" / "config.json").read_text())["process"]
    variables = [word for one in process["env"] for word in ("--setenv", *one.split("=", 1))]
    inside = ["--uid", "10001", "--gid", "10001", "--unshare-all", "--die-with-parent", "--clearenv"]
    mounts = ["--ro-bind", tmp_path / "bundle" / "rootfs", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]  # noqa: S108 - in the sandbox
    said = run("bwrap", *mounts, *inside, *variables, "python3", "-c", ASK, *process["args"])
    assert "OUTPUT [10.0, 10.0]" in said
    assert "EXIT 0" in said
    shutil.rmtree(tmp_path)  # a gigabyte, which pytest would keep for three sessions
