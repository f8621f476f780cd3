"""What is compression worth: the best compressed candidate of a search next to the best without a compressor.

For each of four networks (see ``compression_models.py``) a separate project is made, in which ``kedro run`` searches
with PyTorch, ONNX Runtime, OpenVINO and the compressors, and publishes nothing. Both candidates at a shape are from
the race of that run: the fastest whose drop on the search split is at most half of the recipe's limit. The ratio is
that of their speed-ups over the source, which was measured in the same rounds. The verdict follows, with the winner's
drop on the gate split::

    python benchmarks/compression.py                              # an hour, on a quiet machine
    python benchmarks/compression.py --network resnet --folder DIR
    python benchmarks/compression.py --network text --adaptor compress.distil --budget 300
    python benchmarks/compression.py --network demo --folder DIR --keep   # print the last run again

The networks are the demo's, a ResNet with the depth of ResNet-18 on digits of 64 by 64 pixels, a BERT classifier of six
layers on generated sentences, and the MiniLM encoder, whose operators in int8 are tuned and for which nothing is
required. Exit code 1: at a shape the ratio is less than required, or there is no such candidate.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import by_hand_models
from compression_models import NETWORKS, Network, make, write_recipe

from hone_runtime.contract.hardware import read_host
from kedro_hone.report.evidence import Evidence, parse_evidence
from kedro_hone.report.records import CandidateRecord

BUDGET = 780.0
"""Of the search, in seconds: with the confirmation a run takes at most 15 minutes."""
LIMITS = {
    "demo": {"batch1": 2.5, "batch64": 3.5},
    "resnet": {"batch1": 2.5, "batch64": 2.0},
    "text": {"batch1": 1.8, "batch64": 1.8},
    "minilm": {},
}
"""The least ratio at each shape."""
SHARE_OF_LIMIT = 0.5
"""The estimated drop on the search split may be at most this share of the limit, since the gate split must prove it."""


def search(network: Network, given: argparse.Namespace) -> float:
    """Run kedro-hone in a network's project, and return the seconds that it took; the store is emptied unless kept."""
    hone = network.project / "data" / "hone"
    if not given.warm:
        shutil.rmtree(hone, ignore_errors=True)
    write_recipe(network, budget=given.budget, compressors=given.adaptor)
    began = time.perf_counter()
    said = by_hand_models.run(network.project, "run", *(["--env", network.env] if network.env != "base" else []))
    (network.project / "run.log").write_text(said)
    return time.perf_counter() - began


def read_evidence(network: Network) -> Evidence:
    """Return the evidence of a network's last run."""
    return parse_evidence((network.project / "data" / "hone" / "latest" / "evidence.json").read_bytes())


def compresses(candidate: CandidateRecord) -> bool:
    """Return whether a compressor changed the network of a candidate, or a tuner chose its operators in int8."""
    return any(name.startswith("compress.") or name.endswith(".int8-tuned") for name in candidate.route)


def holds(candidate: CandidateRecord, evidence: Evidence) -> bool:
    """Return whether a raced candidate's drops on the search split are small enough for the limits of the recipe."""
    quality, gates = candidate.quality, evidence.recipe["gates"]
    if not candidate.ratios or quality is None or quality.drop is None or not isinstance(gates, dict):
        return False
    drops = gates["drops"] if isinstance(gates["drops"], dict) else {}
    others = {one.metric: one.drop for one in quality.others}
    found = [(quality.drop, gates["drop"]), *((others.get(name), limit) for name, limit in drops.items())]
    return all(drop is not None and drop.estimate <= SHARE_OF_LIMIT * float(str(limit)) for drop, limit in found)


def find_best(candidates: Iterable[CandidateRecord], shape: str) -> CandidateRecord | None:
    """Return the fastest at a shape; None if none was measured there."""
    raced = [one for one in candidates if one.ratios.get(shape)]
    return max(raced, key=lambda one: one.ratios[shape], default=None)


def compare(evidence: Evidence, shape: str) -> float | None:
    """Print the best candidates with and without a compressor at a shape; return how much faster the former is."""
    fit = [one for one in evidence.candidates if one.route and one.id != "composite" and holds(one, evidence)]
    pair = [find_best((one for one in fit if compresses(one) is wanted), shape) for wanted in (False, True)]
    for title, one in zip(("without", "with"), pair, strict=True):
        print(f"    {title:8}{_describe(one, shape)}")
    plain, compressed = pair
    if plain is None or compressed is None:
        return None
    return compressed.ratios[shape] / plain.ratios[shape]


def _describe(one: CandidateRecord | None, shape: str) -> str:
    if one is None or one.quality is None:
        return "none with a drop that is small enough"
    median = next(each.p50_ms for each in one.latency if each.shape == shape)
    value = f"{one.quality.metric} {one.quality.candidate:.4f}"
    return f"{median * 1e3:9.1f} us  {one.ratios[shape]:6.2f} times the source  {value}  {one.id}"


def report(network: Network, evidence: Evidence, took: float | None) -> bool:
    """Print the comparison at each shape and the verdict; return whether every ratio is large enough."""
    print(f"\n{network.name}: {evidence.verdict}, {'; '.join(evidence.reasons)}")
    fine, shapes = True, evidence.recipe["shapes"]
    for shape in shapes if isinstance(shapes, dict) else ():
        print(f"  {shape}")
        ratio, least = compare(evidence, shape), LIMITS[network.name].get(shape)
        asked = "nothing is required" if least is None else f"at least {least} is required"
        print(f"    {'no ratio' if ratio is None else f'ratio {ratio:.2f}'}; {asked}")
        fine = fine and (least is None or (ratio is not None and ratio >= least))
    for one in evidence.subject_quality:
        bound = f", at most {one.drop.high:.4f} is proved" if one.drop else ""
        drop = f", drop {one.drop.estimate:.4f}{bound}" if one.drop else ""
        print(f"  gate split, {one.id}: {one.metric} {one.candidate:.4f}, of the source {one.source:.4f}{drop}")
    for speedup in evidence.speedups:
        found = speedup.ratio
        print(f"  {speedup.shape}: {found.estimate:.2f} times the source ({found.low:.2f} to {found.high:.2f})")
    phases = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in evidence.phase_seconds.items())
    print(f"  {'' if took is None else f'the run took {took:.0f} s; '}{phases}")
    _print_training(evidence)
    return fine


def _print_training(evidence: Evidence) -> None:
    """Print what became of each step of a compressor."""
    for step in evidence.steps:
        if step.adaptor.startswith("compress."):
            print(f"    {step.seconds:6.0f} s  {step.adaptor}: {step.outcome}")


def measure(name: str, given: argparse.Namespace, folder: Path) -> bool:
    """Make, search and print one network; return whether its limits are met."""
    network = make(name, folder)
    done = given.keep and (network.project / "data" / "hone" / "latest").exists()
    took = None if done else search(network, given)
    return report(network, read_evidence(network), took)


def main() -> None:
    """Measure the networks; exit code 1 if one falls short."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", action="append", choices=NETWORKS, help="can be repeated; all by default")
    parser.add_argument("--folder", type=Path, help="where the projects and sources are kept for the next time")
    parser.add_argument("--budget", type=float, default=BUDGET, help="of each search, in seconds")
    parser.add_argument(
        "--adaptor", action="append", default=[], help="the only compressor that takes part; can be repeated"
    )
    parser.add_argument("--warm", action="store_true", help="reuse the steps of earlier runs in the folder")
    parser.add_argument("--keep", action="store_true", help="search nothing where a search has ended in the folder")
    given = parser.parse_args()
    host = read_host()
    print(f"{host.cpu}, {host.instructions}, {host.cores} cores, two threads", flush=True)
    with tempfile.TemporaryDirectory(prefix="hone-compression-") as scratch:
        folder = (given.folder or Path(scratch)).resolve()
        fine = [measure(name, given, folder) for name in given.network or NETWORKS]
    sys.exit(0 if all(fine) else 1)


if __name__ == "__main__":
    main()
