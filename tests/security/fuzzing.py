"""Mutated inputs for every parser that runs in the host: each is taken as a valid value or refused, and nothing else.

``make fuzz`` reads the corpus as it is, then mutates it for ten minutes; the tests do so for twenty seconds. What is
found is written to the corpus as ``found-*`` and stays a test.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import signal
import sys
import tempfile
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from random import Random

import yaml
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from kedro_hone.sources.mlmodel import read_yaml

CORPUS = Path(__file__).parent / "corpus"
SCRATCH = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - no disk is waited for
SECONDS = 10
"""Of one processor, for one input."""
PATIENCE = 120
"""Seconds by the clock for one input, which may wait; a busy machine needs more than a processor does."""
MEMORY = 256 << 10
"""KiB by which the process may grow while it reads one input."""
TEXTS = {
    "@deep@": "[" * 100_000,
    "@nested@": "[" * 70 + "]" * 70,
    "@huge@": "1" * 5000,
    "@far@": "1e999",
    "@flood@": "x" * 100_000,
}
"""What JSON's writer cannot write, by the text that is replaced."""
VALUES = (
    *(None, True, False, 0, 1, -1, 4, 2**31, 2**63, 1e308, -0.0, float("nan"), float("inf"), [], {}, [[]], {"": None}),
    *(
        "",
        "\0",
        "\ud800",
        "\u202e",
        "é",
        "../x",
        "/etc/passwd",
        "sha256:0",
        "float32",
        "bfloat16",
        "O",
        "U",
        "V8",
        "f4,f4",
        "(2,)f4",
    ),
    *("batch", "x", "onnx", "pytorch", "cpu", "cuda:1", "2026-01-01", "NaN", "1_000", *TEXTS),
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None), max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(codec=None), max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)


@dataclass(frozen=True)
class Target:
    """A parser: what reads an input in an empty folder, the form of its inputs, and with what it refuses them."""

    name: str
    read: Callable[[bytes, Path], object]
    kind: str = "json"
    refuses: tuple[type[BaseException], ...] = ()

    @property
    def corpus(self) -> list[bytes]:
        return [path.read_bytes() for path in sorted((CORPUS / self.name).iterdir())]


class Found(BaseException):
    """An input does what none may do."""


def check(target: Target, data: bytes) -> None:
    """Read one input; ``Found`` where it raises no refusal, takes too long or too much, or reaches outside."""
    with tempfile.TemporaryDirectory(dir=SCRATCH) as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        Path("/proc/self/clear_refs").write_text("5")  # the peak is what is held now
        before = read_peak()
        with watch(Path(folder)), suppress(*target.refuses):
            try:
                target.read(data, Path(folder))
            except target.refuses:
                raise
            except Exception as error:
                raise Found(f"{type(error).__name__}: {str(error)[:300]}") from error
        grown = read_peak() - before
        if grown > MEMORY:
            raise Found(f"took {grown >> 10} MiB of memory")


def read_peak() -> int:
    """Return the most that this process held, in KiB (``ru_maxrss`` is that of the process that started it, too)."""
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])


_FORBIDDEN = (
    "subprocess.",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.fork",
    "os.kill",
    "socket.connect",
    "pickle.find_class",
    "ctypes.dlopen",
)
_CHANGES = (
    "os.remove",
    "os.rename",
    "os.mkdir",
    "os.rmdir",
    "os.link",
    "os.symlink",
    "os.truncate",
    "os.chmod",
    "os.utime",
)
_TO = ("os.rename", "os.link", "os.symlink")
"""Those that name a second place: what a link leads to must be inside, too."""
_watched: list[Path] = []


def _audit(event: str, arguments: tuple[object, ...]) -> None:
    if not _watched:
        return
    writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    places = arguments[: 2 if event in _TO else 1] if writes or event in _CHANGES else ()
    if event.startswith(_FORBIDDEN) or any(_is_outside(place) for place in places):
        raise Found(f"{event} {arguments!r:.200}")


def _is_outside(place: object) -> bool:
    if place is None or isinstance(place, int) or place == "/dev/null":
        return False
    known = isinstance(place, str | bytes | os.PathLike)
    return not known or not Path(os.fsdecode(place)).is_relative_to(_watched[-1])


@contextmanager
def watch(folder: Path) -> Iterator[None]:
    """Raise ``Found`` at what reaches out of a folder, and after too long a time."""

    def stop(number: int, _: object) -> None:
        raise Found(f"took longer than {SECONDS if number == signal.SIGPROF else PATIENCE} s")

    before = {number: signal.signal(number, stop) for number in (signal.SIGPROF, signal.SIGALRM)}
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    _watched.append(folder)
    try:
        yield
    finally:
        _watched.pop()
        for timer in (signal.ITIMER_PROF, signal.ITIMER_REAL):
            signal.setitimer(timer, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def mutate(random: Random, kind: str, data: bytes, fresh: object = None) -> bytes:
    """Return an input changed in its structure, in its bytes, or both; the kind is json, yaml, lines, zip or bytes.

    ``fresh`` is a value that may be put into it.
    """
    with suppress(
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        RecursionError,
        yaml.YAMLError,
        zipfile.BadZipFile,
        NotImplementedError,
    ):
        if kind == "zip" and random.random() < 0.8:
            data = _mutate_zip(random, data, fresh)
        elif kind == "lines":
            lines = data.split(b"\n")
            at = random.randrange(len(lines))
            lines[at : at + 1] = [mutate(random, "json", lines[at], fresh)] * random.choice((0, 1, 1, 1, 2))
            data = random.choice((b"\n", b"\n", b"\n", b"", b"\n\n")).join(lines)
        elif kind in {"json", "yaml"} and b"&" not in data and random.random() < 0.9:  # aliases are endless as JSON
            data = _mutate_document(random, kind, data, fresh)
    if kind == "yaml" and random.random() < 0.1:
        data = _merge_keys(random) + data
    return _mutate_bytes(random, data) if kind == "bytes" or b"&" in data or random.random() < 0.2 else data


def _merge_keys(random: Random) -> bytes:
    """Return rows that are each so many times as long as the one before, once their keys are merged."""
    rows, times = ["a0: &a0 {k: v}"], random.choice((1, 3, 10))
    for level in range(1, random.randrange(2, 9)):
        merged = ",".join([f"*a{level - 1}"] * times)
        rows.append(f"a{level}: &a{level} {{{random.choice(('<<', '!!merge x', '? [x] '))}: [{merged}]}}")
    return "\n".join([*rows, ""]).encode()


def _mutate_document(random: Random, kind: str, data: bytes, fresh: object) -> bytes:
    document = {"": json.loads(data) if kind == "json" else read_yaml(data.decode())}
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        _mutate_tree(random, document, fresh)
    if kind == "yaml" and random.random() < 0.5:
        text = yaml.safe_dump(document.get(""))
    else:
        text = json.dumps(document.get(""), ensure_ascii=random.random() < 0.5)
    if random.random() < 0.1:  # a key twice
        first, brace, rest = text.partition("{")
        key = random.choice(("format", "attributes", "error", "flavors"))
        text = f'{first}{brace}"{key}": {json.dumps(random.choice(VALUES))}, {rest}'
    for name, long in TEXTS.items():
        text = text.replace(random.choice((f'"{name}"', name)), long)
    return text.encode(errors="surrogatepass")


def _mutate_tree(random: Random, document: dict[str, object], fresh: object) -> None:
    places = [(document, "")]
    for part, key in places:
        value = part[key]
        places += [
            (value, name)
            for name in (value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ())
        ]
    part, key = random.choice(places)
    other, name = random.choice(places)
    change, value = random.randrange(8), random.choice(VALUES)
    if change == 0:
        part.pop(key)
    elif change == 3 and isinstance(part, dict):
        part[random.choice([each for each in VALUES if isinstance(each, str)])] = part.pop(key)
    elif change == 4 and isinstance(part[key], dict):
        part[key][random.choice(("x", "", "format", "digest", "\0"))] = deepcopy(value)
    else:
        wraps = ([part[key]], {"x": part[key]}, [part[key]] * 3, str(part[key]), list(VALUES))
        # Copied: values that are in two places would make a circle.
        part[key] = deepcopy({1: other[name], 2: random.choice(wraps), 7: fresh}.get(change, value))


def _mutate_zip(random: Random, data: bytes, fresh: object) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = [(name, archive.read(name)) for name in archive.namelist()]
    at = random.randrange(len(entries))
    name, content = entries[at]
    change = random.randrange(6)
    if change == 0:
        entries.pop(at)
    elif change == 1:
        entries.append(
            (random.choice((name, name.upper(), f"x/{name}", f"../{name}", f"{name}/", "\0", name + ".so")), content)
        )
    elif change == 2:
        entries[at] = (random.choice((*[each for each, _ in entries], "", "/x", name.upper())), content)
    else:
        entries[at] = (name, mutate(random, "json" if content[:1] in b"{[" else "bytes", content, fresh))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", random.choice((zipfile.ZIP_STORED,) * 9 + (zipfile.ZIP_DEFLATED,))) as archive:
        for each, content in entries:
            archive.writestr(each, content)
    return buffer.getvalue()


def _mutate_bytes(random: Random, data: bytes) -> bytes:
    changed = bytearray(data or b"\0")
    for _ in range(random.choice((1, 1, 2, 8))):
        at, until = sorted(random.randrange(len(changed) + 1) for _ in range(2))
        change = random.randrange(4)
        if change == 0 and at < len(changed):
            changed[at] ^= 1 << random.randrange(8)
        elif change == 1:
            changed[at:at] = random.choice(
                (
                    b"\0",
                    b"\xff",
                    b"\n",
                    b"[" * 100,
                    b"&a [*a]",
                    b"<<: *a0\n",
                    b"1:59:59.5",
                    b"!!python/name:os.system ",
                    b"9" * 20,
                    bytes(changed[at:until]),
                )
            )
        elif change == 2:
            del changed[at : min(until, at + 64)]
        else:
            changed[at:until] = random.randbytes(min(until - at, 8))
        changed = changed or bytearray(b"\0")
    return bytes(changed)


def fuzz(target: Target, *, seconds: float, start: int) -> tuple[int, bytes | None, str]:
    """Read the corpus, then mutations of it; return how many, and the first that does what none may do, with why."""
    count, last = 0, b""

    def read(data: bytes) -> None:
        nonlocal count, last
        count, last = count + 1, data
        check(target, data)

    end = time.monotonic() + seconds
    try:
        corpus = target.corpus
        for data in corpus:
            read(data)
        while time.monotonic() < end:

            @seed(start + count)
            @settings(
                max_examples=50,
                database=None,
                deadline=None,
                phases=[Phase.generate],
                suppress_health_check=[*HealthCheck],
            )
            @given(st.integers(0, 2**64), st.sampled_from(corpus), JSON)
            def run(number: int, data: bytes, fresh: object) -> None:
                if time.monotonic() < end:
                    read(mutate(Random(number), target.kind, data, fresh))

            run()
    except Found as found:
        return count, last, str(found)
    return count, None, ""


def main() -> int:
    """Fuzz all targets, each for its share of the time; the exit code is 1 where something was found."""
    from security.fuzz_targets import TARGETS

    arguments = argparse.ArgumentParser()
    arguments.add_argument("--seconds", type=float, default=600)
    arguments.add_argument("--seed", type=int, default=int(time.time()))
    arguments.add_argument("--only", choices=[target.name for target in TARGETS])
    arguments.add_argument(
        "--keep", action="store_true", help="write what is found to the corpus, where it stays a test"
    )
    given = arguments.parse_args()
    chosen = [target for target in TARGETS if given.only in {None, target.name}]
    print(f"seed {given.seed}")
    bad = False
    for target in chosen:
        count, data, why = fuzz(target, seconds=given.seconds / len(chosen), start=given.seed)
        print(f"{target.name:<14} {count:>8} inputs  {why or 'nothing found'}", flush=True)
        if data is not None:
            bad = True
            kept = CORPUS / target.name / f"found-{hashlib.sha256(data).hexdigest()[:8]}"
            if given.keep:
                kept.write_bytes(data)
            print(f"{'':<14} {kept.name}: {data[:2000]!r}")
    return int(bad)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.dont_write_bytecode = True
    warnings.simplefilter("ignore")
    sys.addaudithook(_audit)
    sys.exit(main())
