from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hone_runtime.contract.adaptor import Adaptor, Options
from hone_runtime.contract.host import Host
from hone_runtime.contract.toolchain import Toolchain
from hone_runtime.values.artifact import Artifact, Shape, Stage
from kedro_hone.core.store.steps import STORE_VERSION, list_machine_options, step_key


class Bits(Options):
    bits: int = 8
    layers: tuple[str, ...] = ()


def make_adaptor(*, version: int = 1, machine_specific: bool = False, name: str = "tool.half", **environment: str):
    return Adaptor(
        name=name,
        version=version,
        toolchain=Toolchain(name="tool", folder=Path("/tool"), environment=environment),
        stage=Stage.COMPRESS,
        accepts=frozenset({"onnx"}),
        produces="onnx",
        summary="Half.",
        options=Bits,
        machine_specific=machine_specific,
    )


def make_artifact(digest: str = "sha256:00") -> Artifact:
    return Artifact(format="onnx", digest=digest, inputs=(), outputs=())


def make_host(fingerprint: str = "one") -> Host:
    return Host(flags=frozenset(), cores=2, gpu=None, compilers=frozenset(), fingerprint=fingerprint)


def make_key(**changes):
    arguments = {
        "adaptor": make_adaptor(),
        "artifact": make_artifact(),
        "options": Bits(),
        "worker": "sha256:w",
        "environment": "e",
        "host": make_host(),
        "seed": 0,
        **changes,
    }
    return step_key(arguments.pop("adaptor"), arguments.pop("artifact"), arguments.pop("options"), **arguments)


@pytest.mark.parametrize(
    "changes",
    [
        {"artifact": make_artifact("sha256:01")},
        {"adaptor": make_adaptor(version=2)},
        {"adaptor": make_adaptor(name="tool.quarter")},
        {"adaptor": make_adaptor(THREADS="1")},
        {"adaptor": make_adaptor(machine_specific=True)},
        {"options": Bits(bits=4)},
        {"worker": "sha256:x"},
        {"environment": "f"},
        {"seed": 1},
        {"shapes": (Shape(name="batch1", sizes={"batch": 1}),)},
        {"calibration": "sha256:c"},
        {"program": "sha256:c"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_everything_that_shapes_the_result_shapes_the_key(changes):
    assert make_key(**changes)[0] != make_key()[0]


def test_the_same_gives_the_same_key():
    key, inputs = make_key()
    assert (key, inputs) == make_key()
    assert len(key) == 64


def test_what_went_into_the_key_explains_it_in_json():
    """These names are written into the record of each step."""
    _, inputs = make_key(
        adaptor=make_adaptor(THREADS="1"), shapes=(Shape(name="batch1", sizes={"batch": 1}),), calibration="sha256:c"
    )
    assert inputs == {
        "store": STORE_VERSION,
        "input": "sha256:00",
        "adaptor": "tool.half",
        "version": 1,
        "worker": "sha256:w",
        "options": {"bits": 8, "layers": []},
        "environment": "e",
        "variables": {"THREADS": "1"},
        "calibration": "sha256:c",
        "program": None,
        "seed": 0,
        "shapes": [{"name": "batch1", "sizes": {"batch": 1}}],
        "machine": None,
    }
    assert json.loads(json.dumps(inputs)) == inputs


def test_the_machine_counts_only_where_the_result_depends_on_it():
    assert make_key()[0] == make_key(host=make_host("two"))[0]
    specific = make_adaptor(machine_specific=True)
    assert make_key(adaptor=specific)[0] != make_key(adaptor=specific, host=make_host("two"))[0]
    assert make_key(adaptor=specific)[1]["machine"] == "one"


class Lanes(Options):
    bits: int = 8
    lanes: tuple[int, ...] | None = None

    def resolve(self, host: Host) -> Lanes:
        return self.model_copy(update={"lanes": (host.cores, 4) if self.lanes is None else self.lanes})


def test_options_that_the_machine_decides_are_listed_in_json_also_where_the_recipe_set_them():
    adaptor, host = replace(make_adaptor(), options=Lanes), make_host()

    assert list_machine_options(adaptor, Lanes(bits=4).resolve(host), host) == {"lanes": [2, 4]}
    assert list_machine_options(adaptor, Lanes(lanes=(16,)).resolve(host), host) == {"lanes": [16]}
    assert list_machine_options(make_adaptor(), Bits(bits=4), host) == {}
