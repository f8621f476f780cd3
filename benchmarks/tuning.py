"""What does TVM's tuning gain, what does it cost, and does a second run find it again at once?

The digits network is compiled without tuning, tuned from nothing, and compiled once more with the records of that. All
three, and ONNX Runtime, are then measured in interleaved rounds in processes of their own::

    python benchmarks/tuning.py                     # six minutes, of which tuning takes 270 s
    python benchmarks/tuning.py --seconds 60

Exit code 1: at some shape the tuned model is less than five times as fast as the untuned one, the second compilation
took over ten seconds, or its result is slower than the first by a tenth or more.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # where the network and its data are

from digits_bench import Bench, make_bench, read_splits

from kedro_hone.building.steps import transform
from kedro_hone.comparing.probe import compare, measure_together
from kedro_hone.comparing.timings import Timings
from kedro_hone.core.contract.catalogue import read_catalogue
from kedro_hone.core.machine.hardware import read_host
from kedro_hone.core.values.artifact import Artifact

TESTS = Path(__file__).parents[1] / "tests"
SHAPES = {"batch1": {"batch": 1}, "batch64": {"batch": 64}}
LEAST_GAIN, LONGEST, SLOWER = 5.0, 10.0, 0.9


def main() -> None:
    """Compile, measure and judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=270.0, help="of tuning")
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "models").mkdir()
        script = TESTS / "integration" / "adaptors" / "digits_models.py"
        subprocess.run([sys.executable, "-W", "ignore", str(script), str(folder / "models")], check=True)
        bench = _open(folder)
        made = {"ONNX Runtime": _build(bench, "onnxruntime.session"), "untuned": _build(bench, "tvm.cpu", trials=0)}
        made["tuned"] = _build(bench, "tvm.cpu", trials=10_000, seconds=seconds)
        made["again"] = _build(bench, "tvm.cpu", trials=10_000, seconds=seconds + 1)  # another step, the same records
        fit = _judge(bench, {name: artifact for name, (artifact, _) in made.items()})
        for run in ("tuned", "again"):
            artifact, took = made[run]
            print(f"{run}: {took:.1f} s, {artifact.metadata['tuning']}")
    print(read_host().instructions)
    sys.exit(not (fit and made["again"][1] <= LONGEST))


def _open(folder: Path) -> Bench:
    place, models = folder / "bench", folder / "models"
    place.mkdir()
    keys = {"shapes": SHAPES, "threads": 2}
    return make_bench(
        place, models / "onnx" / "model.onnx", read_splits(models), form="onnx", runtime="onnxruntime", **keys
    )


def _build(bench: Bench, name: str, **options: object) -> tuple[Artifact, float]:
    adaptor, started = read_catalogue().find_adaptor(name), time.monotonic()
    asked = adaptor.options.model_validate(options)
    made = transform(adaptor, asked, bench.setting.source, bench.setting, reference=bench.reference, routes=())
    if not isinstance(made, Artifact):
        raise SystemExit(f"{name}: {made}")
    return made, time.monotonic() - started


def _judge(bench: Bench, artifacts: dict[str, Artifact]) -> bool:
    """Print how many times as fast as the untuned one each is; return whether what is asked holds."""
    timings = Timings()
    measure_together(artifacts, bench.setting, timings)
    fit = True
    for name, rival in (("tuned", "untuned"), ("again", "tuned"), ("tuned", "ONNX Runtime")):
        probed = compare(name, rival, timings, bench.setting.recipe)
        if probed is None:
            raise SystemExit(f"{name} or {rival} failed: {timings.failures}")
        for shape, ratio in probed.shapes.items():
            said = f"{ratio.estimate:.2f} ({ratio.low:.2f} to {ratio.high:.2f}) times as fast as {rival}"
            print(f"{shape}: {name} is {said}")
            fit &= rival == "ONNX Runtime" or ratio.estimate >= (LEAST_GAIN if rival == "untuned" else SLOWER)
    return fit


if __name__ == "__main__":
    main()
