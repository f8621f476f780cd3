"""What the cache of keys and values is worth: ``generate`` of one winner with it and without it, in turns.

A language model of a few million parameters with random weights is converted as a run does it, to OpenVINO's IR or to
ONNX for ONNX Runtime (``--runtime``), and generates so many new tokens greedily from one prompt. ``without`` is the
same winner with ``use_cache=False``, which runs the whole sequence at each step; ``source`` is the Transformers model
itself, with its cache. A ratio is the median over rounds in which all take turns; the tokens of all must be equal, or
the exit code is 1. ``plain`` compares one call of the winner with a cache with one that was converted without: what a
cache costs those who do not generate. Needs
torch, transformers, openvino and onnxruntime::

    python benchmarks/generation.py
    python benchmarks/generation.py --runtime onnxruntime
    python benchmarks/generation.py --tokens 256 --threads 2 --rounds 9
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

PROMPT = 16
SIZES = {"hidden_size": 256, "intermediate_size": 704, "num_hidden_layers": 6, "max_position_embeddings": 1024}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 4000, "initializer_range": 0.1}


def main() -> int:
    """Measure, print the table, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tokens", type=int, default=128, help="how many new tokens")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runtime", choices=("openvino", "onnxruntime"), default="openvino")
    asked = parser.parse_args()
    os.environ.update(HF_HUB_OFFLINE="1", CI="true")
    warnings.simplefilter("ignore")
    sys.path[:0] = [
        str(Path(__file__).parents[1] / "tests"),
        str(Path(__file__).parents[1] / "tests/integration/learner"),
    ]
    import torch  # noqa: PLC0415 - after the warnings
    import transformers  # noqa: PLC0415

    torch.set_num_threads(asked.threads)
    torch.manual_seed(0)
    config = transformers.LlamaConfig(**SIZES, **HEADS, bos_token_id=None, eos_token_id=None, pad_token_id=0)
    source = transformers.LlamaForCausalLM(config).eval()
    with tempfile.TemporaryDirectory() as folder:
        cached, plain = open_winners(Path(folder), source, asked.runtime, threads=asked.threads)
        ids = torch.randint(1, HEADS["vocab_size"], (1, PROMPT))
        wanted = {"max_new_tokens": asked.tokens, "min_new_tokens": asked.tokens, "do_sample": False}
        ways = {
            "with": lambda: cached.generate(input_ids=ids, **wanted),
            "without": lambda: cached.generate(input_ids=ids, use_cache=False, **wanted),
            "source": lambda: source.generate(input_ids=ids, **wanted),
        }
        text = torch.randint(1, HEADS["vocab_size"], (4, 64))
        calls = {"a cache": lambda: cached(text).logits, "no cache": lambda: plain(text).logits}
        with torch.no_grad():
            tokens = [way() for way in ways.values()]
            times = take_turns(ways, asked.rounds)
            plains = take_turns(calls, 20 * asked.rounds)
    count = sum(each.numel() for each in source.parameters())
    size = f"{count / 1e6:.1f} million parameters, {PROMPT} + {asked.tokens} tokens"
    print(f"{size}, {asked.threads} threads, {asked.runtime}")
    for name in ways:
        print(f"{name:8} {statistics.median(times[name]):8.3f} s")
    for name in ("without", "source"):
        ratio = statistics.median(other / one for other, one in zip(times[name], times["with"], strict=True))
        print(f"with the cache {ratio:.2f} times as fast as {name}")
    ratio = statistics.median(one / other for one, other in zip(plains["a cache"], plains["no cache"], strict=True))
    print(f"a plain call of 4 x 64 takes {ratio:.3f} times as long with a cache as with none")
    same = all(torch.equal(each, tokens[0]) for each in tokens)
    print("the tokens are equal" if same else "the tokens differ")
    return 0 if same else 1


def open_winners(folder: Path, source: Any, runtime: str, *, threads: int) -> tuple[Any, Any]:
    """Return a source's winner with a cache, and the one that the same converter makes without."""
    import test_cache  # noqa: PLC0415 - after the path

    from kedro_hone import load  # noqa: PLC0415
    from kedro_hone.core.workers.inside import loading  # noqa: PLC0415

    sys.modules["hone_loading"] = loading
    worker = loading.load_file("_generation_pytorch", str(test_cache.TOOLCHAIN.worker))
    found = []
    for name in ("cached", "plain"):
        if name == "plain":
            worker.caching.is_language_model = lambda _: False
        (folder / name).mkdir()
        converted = test_cache.convert(worker, source, folder / name, runtime)
        files = test_cache.seal(folder / name, *converted, runtime)
        found.append(load(files, threads=threads))
    return found[0], found[1]


def take_turns(calls: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """Return the seconds of each call in each round."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
    return times


if __name__ == "__main__":
    sys.exit(main())
