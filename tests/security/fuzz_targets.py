"""The parsers that run in the host, each as a function of an input and an empty folder."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import torch  # noqa: F401 - which a learner imports: nothing is loaded while it is watched
from security.fuzzing import Target
from toolchains.toy import adaptor as toy

import kedro_hone
from hone_runtime.contract.catalogue import list_builtin, register
from hone_runtime.contract.job import Call, End, Job, JobInput, StepResult
from hone_runtime.contract.proof import EVIDENCE, EVIDENCE_FILES, EvidenceFolder, ProvenWinner
from hone_runtime.contract.toolchain import Limits
from hone_runtime.errors import HoneError
from hone_runtime.learner.manifest import read_artifact
from hone_runtime.values.artifact import Artifact, TensorSpec
from hone_runtime.values.manifest import MANIFEST, Manifest
from hone_runtime.values.outcome import Failed
from hone_runtime.worker.imports import load_file
from kedro_hone.adaptors.pytorch import adaptor as pytorch
from kedro_hone.adaptors.registries.local.registry import LocalRegistry
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.remote import Remote
from kedro_hone.core.workers.host.run import _read_outcome
from kedro_hone.core.workers.host.session import WorkerSession
from kedro_hone.core.workers.host.verification import verify_output
from kedro_hone.recipe.schema import read_recipe
from kedro_hone.report.evidence import parse_evidence
from kedro_hone.search.comparison.agreement import compare_outputs
from kedro_hone.search.sources.sealed_files import _read_description
from kedro_hone.sources.detection import read_flavor
from kedro_hone.sources.huggingface.sentences import list_modules

SPEC = {"name": "x", "dtype": "float32", "shape": ["batch", 4]}
TARGETS: list[Target] = []
_ARCHIVE = load_file("hone_fuzzed_archive", str(pytorch.TOOLCHAIN.worker.with_name("archive.py")))
register(*toy.ADAPTORS)


def _target(*refuses: type[BaseException], kind: str = "json") -> Callable[[Callable[[bytes, Path], object]], None]:
    def add(read: Callable[[bytes, Path], object]) -> None:
        name = read.__name__.removeprefix("read_").replace("_", "-")
        TARGETS.append(Target(name=name, read=read, kind=kind, refuses=refuses))

    return add


def _parse(data: bytes) -> object:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):  # not the parser that is meant
        return None


@_target(HoneError)
def read_manifest(data: bytes, folder: Path) -> None:
    (folder / MANIFEST).write_bytes(data)
    (folder / "model.onnx").write_bytes(b"model")
    read_artifact(folder)


@_target(HoneError)
def read_winner(data: bytes, folder: Path) -> None:
    """The attributes of a winner, sealed again by the attacker."""
    np.savez(folder / "weights.npz", w=np.ones((4, 3), np.float32), b=np.ones(3, np.float32))
    (folder / "model.json").write_text('{"nap": 0}')
    attributes = _parse(data)
    if isinstance(attributes, dict) and attributes.get("runtime") in [*list_builtin()]:
        return  # its files are not there
    try:
        Manifest.measure(folder, attributes).write(folder / MANIFEST)
    except (ValueError, RecursionError):
        return
    kedro_hone.load(folder)


@_target()
def read_result(data: bytes, folder: Path) -> None:
    output = folder / "output"
    output.mkdir()
    (output / "model.onnx").write_bytes(b"model")
    (folder / "result.json").write_bytes(data)
    model = JobInput(path=str(folder), format="onnx", inputs=(SPEC,), outputs=(SPEC,))
    job = Job(function="transform", worker="w", adaptor="a.b", input=model, output=str(output), produces="onnx")
    result = _read_outcome(Call(job, folder, Limits()), End(exit=0))
    if isinstance(result, StepResult):
        found = verify_output(job, result)
        if not isinstance(found, Failed):
            Store(folder / "store").seal(output, **found.model_dump(exclude={"path"}))


@_target(HoneError)
def read_described(data: bytes, folder: Path) -> None:
    """The specifications of a source model, as a worker describes it."""
    (folder / "result.json").write_bytes(data)
    result = _read_outcome(Call(Job(function="describe", worker="w", adaptor="source"), folder, Limits()), End(exit=0))
    if isinstance(result, StepResult):
        specs, metadata = _read_description(result.notes, "models:/x/1")
        (folder / "model").mkdir()
        (folder / "model" / "model.onnx").write_bytes(b"model")
        Store(folder / "store").seal(folder / "model", format="onnx", metadata=metadata, **specs)


class _Guard:
    """In the place of the guard of a worker that only sends, and ends."""

    def __init__(self) -> None:
        self.end: End | None = None
        self.reports = self
        self.descriptor = os.open("/dev/null", os.O_RDONLY)

    def receive(self) -> None:
        self.end = End(exit=0)

    def stop(self, reason: str) -> End:
        self.end = End(reason=reason)
        return self.end

    def wait(self) -> End:
        return self.end or End()

    def close(self) -> None:
        os.close(self.descriptor)


@_target(kind="lines")
def read_session(data: bytes, folder: Path) -> None:
    (command_end, commands), (replies, reply_end) = os.pipe(), os.pipe()
    os.write(reply_end, data[: 1 << 15])
    os.close(reply_end)
    call = Call(Job(function="load", worker="w", adaptor="a.b", temporary=str(folder)), folder, Limits(seconds=60))
    with closing(WorkerSession(call, _Guard(), commands=commands, replies=replies)) as session:
        session.load()
        session.arm("batch1", folder)
        session.run(folder, folder)
        session.time("batch1", 2)
    os.close(command_end)


@_target(kind="zip")
def read_arrays(data: bytes, folder: Path) -> None:
    (folder / "found.npz").write_bytes(data)
    np.savez(folder / "expected.npz", y=np.ones((3, 2), np.float32), t=np.array(["a", "b", "c"]))
    source = folder / "expected.npz"
    spec = TensorSpec(name="y", dtype="float16", shape=("batch", 2))
    compare_outputs(folder / "found.npz", reference=source, feeds=source, outputs=(spec,))


@_target(HoneError, kind="yaml")
def read_mlmodel(data: bytes, folder: Path) -> None:
    (folder / "MLmodel").write_bytes(data)
    (folder / "model.onnx").write_bytes(b"model")
    read_flavor(folder, trust=frozenset())


@_target(HoneError)
def read_modules(data: bytes, folder: Path) -> None:
    (folder / "modules.json").write_bytes(data)
    for name in ("1_Pooling", "2_Dense"):
        (folder / name).mkdir()
        (folder / name / "config.json").write_text('{"module_input_name": "sentence_embedding"}')
    list_modules(folder)


@_target(HoneError)
def read_parameters(data: bytes, _: Path) -> None:
    if (parameters := _parse(data)) is not None:
        assert read_recipe(parameters).digest


@_target()
def read_value(data: bytes, folder: Path) -> None:
    store = Store(folder)
    (folder / "values" / "k.json").write_bytes(data)
    store.read_value("k")


@_target()
def read_step(data: bytes, folder: Path) -> None:
    store = Store(folder)
    (folder / "steps" / "k.json").write_bytes(data)
    store.find("k")


@_target()
def read_object(data: bytes, folder: Path) -> None:
    """A manifest that somebody put into the store, or into the one that machines share, with its own digest."""
    found = _parse(data)
    key = str(found.get("digest", "")).removeprefix("sha256:") if isinstance(found, dict) else ""
    key = key if key.isalnum() and key.isascii() and len(key) < 80 else "0" * 64
    for root in (folder / "store", folder / "remote"):
        (root / "objects" / key / "files").mkdir(parents=True)
        (root / "objects" / key / "files" / "model.onnx").write_bytes(b"model")
        (root / "objects" / key / MANIFEST).write_bytes(data)
    Store(folder / "store").find_artifact(f"sha256:{key}")
    Store(folder / "cache", remote=Remote(f"file://{folder}/remote")).find_artifact(f"sha256:{key}")


@_target(HoneError)
def read_evidence(data: bytes, folder: Path) -> None:
    for name in EVIDENCE_FILES:
        (folder / name).write_bytes(data)
    claim = EvidenceFolder.read("1", folder, decision="d")
    artifact = Artifact(digest="sha256:7", format="onnx", inputs=(SPEC,), outputs=(SPEC,))
    try:
        parse_evidence(data)
    finally:
        assert (folder / EVIDENCE).exists()
        ProvenWinner(artifact=artifact, files=folder, source_uri="m", source_digest="d", evidence=claim, folder=folder)


@_target(HoneError)
def read_tags(data: bytes, folder: Path) -> None:
    place = folder / "digits-hone" / "1"
    place.mkdir(parents=True)
    (place / "hone.json").write_bytes(data)
    (place / "model.onnx").write_bytes(b"model")
    LocalRegistry(folder).resolve("digits-hone/1")
    LocalRegistry(folder).pull("digits-hone/1", folder / "pulled")


@_target(_ARCHIVE.Threat, kind="zip")
def read_archive(data: bytes, folder: Path) -> None:
    (folder / "model.pt2").write_bytes(data)
    _ARCHIVE.copy_checked(folder / "model.pt2")
