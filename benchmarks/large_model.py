"""A model of more than 2 GB from the Hub, through ONNX and int8 weights, and back: memory, time and copies on the disk.

A BERT of a few wide layers is made from a configuration, with random weights, and put on a Hub that runs in this
process. One ``kedro run`` pulls it, exports it, writes it as ONNX with external data, stores its weights in int8,
and publishes the winner; then the winner is published once more, into a folder. Reported are

- the most resident memory that the process of ``kedro run`` had (``VmHWM``), without that of its workers;
- every large file that is on this machine at the end: in the store, the cache of ``huggingface_hub``, the run's folder
  and the published folder. Files of one content are one line, and links of each other are one copy. What the Hub keeps
  is another machine's, and does not count;
- the most that these files took while the run went on, temporary ones included.

::

    python benchmarks/large_model.py  # 17 to 27 minutes, 20 GB of disk; a worker may take 8 GiB of memory
    python benchmarks/large_model.py --layers 2 --width 512 --large 1   # the same with a small model, in two minutes

Exit code 1: the process had more than 500 MB, or a large file is there more than once.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # where the loopback Hub and the small projects are

from hub_client import WRITER, list_variables
from hub_server import Content, Token, serve
from hub_server.exchange import Hub
from small_project import Project, make_template
from text_models import WORDS, save_tokenizer

from kedro_hone.core.contract.catalogue import read_catalogue

MOST_MEGABYTES = 500
NAME = "org/large"
TOOLCHAINS = ["pytorch", "onnxruntime", "openvino"]
ADAPTORS = (
    "pytorch.export",
    "pytorch.onnx",
    "onnxruntime.int8-dynamic",
    "onnxruntime.session",
    "openvino.ir",
    "openvino.int8-weights",
    "openvino.f32",
)
ROWS = {"calibration": 8, "search": 8, "gate": 40}
TOKENS = 16
MEGABYTE = 1_000_000


def make_model(folder: Path, layers: int, width: int, parts: int) -> int:
    """Write a model with random weights by ``save_pretrained``, and return the bytes of these."""
    import torch  # noqa: PLC0415 - slow to import
    from transformers import BertConfig, BertModel  # noqa: PLC0415

    folder.mkdir(parents=True)
    words = [*WORDS, *(f"word{number}" for number in range(2000))]
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=width // 64,
        intermediate_size=4 * width,
        max_position_embeddings=64,
        pad_token_id=0,
    )
    torch.manual_seed(0)
    model = BertModel(config)
    size = sum(value.numel() * value.element_size() for value in model.state_dict().values())
    model.save_pretrained(folder, **({"max_shard_size": size // parts} if parts > 1 else {}))
    save_tokenizer(folder, words)
    return size


def make_project(folder: Path, hub: Hub, threads: int) -> Project:
    """Make a project whose model is on the Hub, and whose data are rows of words under DVC."""
    project = Project(make_template(folder))
    for path in project.splits.glob("*"):
        path.unlink()
    draw = random.Random(0)  # noqa: S311 - data for a model that knows nothing
    for name, rows in ROWS.items():
        texts = (" ".join(f"word{draw.randrange(2000)}" for _ in range(TOKENS - 2)) for _ in range(rows))
        lines = (json.dumps({"text": text}) + "\n" for text in texts)
        (project.splits / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
    project.track(tag="v2", suffix="jsonl")
    catalog = project.root / "conf" / "base" / "catalog.yml"
    catalog.write_text(catalog.read_text().replace("rev: v1}", "rev: v2}").replace(".npz,", ".jsonl,"))
    mine = [name for name in read_catalogue().adaptors if name.partition(".")[0] in TOOLCHAINS]
    project.set(
        model={"uri": f"hf://{NAME}@main"},
        program={"name": "sentence-embedding"},
        shapes={"sentence": {"batch": 1, "length": TOKENS}},
        toolchains=TOOLCHAINS,
        adaptors={name: {"enabled": name in ADAPTORS} for name in mine},
        threads=threads,
        gates={"speedup": 1.0, "drop": 0.1, "drops": {"neighbour_agreement": 0.6}},
        race={"rounds": 6, "block": 3, "burst_ms": 2.0},
    )
    scratch = folder / "tmp"
    scratch.mkdir()
    project.environment |= list_variables(hub, folder) | {"TMPDIR": str(scratch), "HF_HUB_DOWNLOAD_TIMEOUT": "60"}
    return project


def list_files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield every regular file below a folder with its state; those that go meanwhile are left out."""
    for place, _, names in os.walk(folder):
        for name in names:
            path = Path(place, name)
            try:
                state = path.lstat()
            except OSError:
                continue
            if path.is_symlink() or not path.is_file():
                continue
            yield path, state


class Watch:
    """The memory of a process and the bytes of large files below a folder, while it runs."""

    def __init__(self, number: int, folder: Path, large: int) -> None:
        self.memory, self.disk = 0.0, 0
        self._status, self._folder, self._large = Path(f"/proc/{number}/status"), folder, large
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def _look(self) -> None:
        looked = 0.0
        while not self._ended.wait(0.05):
            try:
                lines = dict(line.split(":", 1) for line in self._status.read_text().splitlines() if ":" in line)
            except OSError:  # it ends just now
                continue
            self.memory = max(self.memory, int(lines.get("VmHWM", "0 kB").split()[0]) * 1024 / MEGABYTE)
            if time.monotonic() - looked > 1:
                looked = time.monotonic()
                sizes = {(state.st_dev, state.st_ino): state.st_size for _, state in list_files(self._folder)}
                self.disk = max(self.disk, sum(size for size in sizes.values() if size >= self._large))

    def end(self) -> None:
        """Stop watching."""
        self._ended.set()
        self._thread.join()


def run(project: Project, folder: Path, large: int, *arguments: str) -> tuple[int, Watch]:
    """Run ``kedro run``, print what it says, and return its exit code and what was seen of it."""
    with project.start("run", *arguments) as process:
        watch = Watch(process.pid, folder, large)
        for line in process.stdout or ():
            print(f"  {line}", end="", flush=True)
        code = process.wait()
    watch.end()
    return code, watch


def count_copies(folder: Path, large: int) -> bool:
    """Print the large files below a folder by their content; return whether each is on the disk once."""
    places: dict[tuple[int, int], list[Path]] = defaultdict(list)
    for path, state in list_files(folder):
        if state.st_size >= large:
            places[state.st_dev, state.st_ino].append(path)
    contents: dict[str, list[list[Path]]] = defaultdict(list)
    for paths in places.values():
        with paths[0].open("rb") as stream:
            contents[hashlib.file_digest(stream, "sha256").hexdigest()].append(paths)
    for digest, copies in sorted(contents.items(), key=lambda item: str(item[1])):
        size = copies[0][0].stat().st_size / MEGABYTE
        copied = f"{len(copies)} COPIES" if len(copies) > 1 else "one copy"
        print(f"{digest[:12]} {size:8.0f} MB, {copied}")
        for number, paths in enumerate(copies, 1):
            for path in sorted(paths):
                print(f"    {number}: {path.relative_to(folder)}")
    total = sum(copy[0].stat().st_size for copies in contents.values() for copy in copies) / MEGABYTE
    print(f"{total:.0f} MB of large files on this machine")
    return all(len(copies) == 1 for copies in contents.values())


def measure(arguments: argparse.Namespace, folder: Path) -> bool:
    """Run the whole line, and return whether memory and disk hold."""
    large, machine = int(arguments.large * MEGABYTE), folder / "machine"
    size = make_model(folder / "author", arguments.layers, arguments.width, arguments.parts)
    files = {path.name: Content(path) for path in (folder / "author").iterdir()}
    shards = [name for name in files if name.endswith(".safetensors")]
    print(f"{size / MEGABYTE:.0f} MB of weights in {len(shards)} file(s)", flush=True)
    with serve(folder / "hub") as hub:
        hub.tokens = {WRITER: Token("org")}
        hub.add(NAME, files)
        machine.mkdir()
        project = make_project(machine, hub, arguments.threads)
        watches = []
        for told in ((), ("--pipelines", "publish")):
            if told:
                project.set(publish={"uri": "models/fast"})
            began = time.monotonic()
            code, watch = run(project, machine, large, *told)
            watches.append(watch)
            said = f"kedro {' '.join(('run', *told))}: {time.monotonic() - began:.0f} s, exit code {code}"
            disk = f"at most {watch.disk / MEGABYTE:.0f} MB of large files at a time"
            print(f"{said}, at most {watch.memory:.0f} MB in its process, {disk}", flush=True)
            if code:
                return False
        published = hub.repositories[NAME].files
        print(f"on the Hub: {', '.join(name for name in sorted(published) if published[name].size >= large)}")
    once = count_copies(machine, large)
    peak = max(watch.memory for watch in watches)
    print(f"memory: {peak:.0f} MB, where {MOST_MEGABYTES} is allowed; each large file once: {'yes' if once else 'NO'}")
    return once and peak < MOST_MEGABYTES


def main() -> None:
    """Measure, and say whether it holds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=5)
    parser.add_argument("--width", type=int, default=3072, help="a multiple of 64")
    parser.add_argument("--parts", type=int, default=1, help="about as many files of weights; more than one is merged")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--large", type=float, default=100, help="megabytes from which a file is large")
    parser.add_argument("--folder", type=Path, help="an empty folder, which is kept; a temporary one without")
    arguments = parser.parse_args()
    if arguments.folder is not None:
        sys.exit(0 if measure(arguments, arguments.folder) else 1)
    with tempfile.TemporaryDirectory(prefix="hone-large-") as scratch:
        sys.exit(0 if measure(arguments, Path(scratch)) else 1)


if __name__ == "__main__":
    main()
