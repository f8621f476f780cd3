"""Evaluation licences are found by the catalogue of now, wherever in a route the toolchain is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from toolchains.toy import adaptor as toy

from hone_runtime.contract.catalogue import forget_registrations, read_catalogue, register
from hone_runtime.contract.toolchain import Licence
from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.outcome import Candidate


@pytest.fixture(autouse=True)
def _forget():
    yield
    forget_registrations()


def make_candidate(*route, runtime="onnxruntime"):
    artifact = Artifact(format="onnx", digest="sha256:0", inputs=(), outputs=(), runtime=runtime)
    return Candidate(id="one", route=route, outcome=artifact)


@pytest.mark.parametrize(
    ("route", "runtime", "licence", "restricted"),
    [
        (("onnxruntime.session",), "onnxruntime", Licence.EVALUATION, False),
        (("toy.compile",), "toy", Licence.OPEN, False),
        (("toy.compile",), "toy", Licence.EVALUATION, True),
        (("toy.compress", "onnxruntime.session"), "onnxruntime", Licence.EVALUATION, True),
        ((), "toy", Licence.EVALUATION, True),
    ],
)
def test_a_route_is_as_restricted_as_its_toolchains(route, runtime, licence, restricted):
    register(replace(toy.TOOLCHAIN, licence=licence))

    found = read_catalogue().find_restricted(make_candidate(*route, runtime=runtime))

    assert (found is not None and found.name == "toy") is restricted


def test_a_toolchain_that_is_gone_is_an_error():
    with pytest.raises(HoneError) as caught:
        read_catalogue().find_restricted(make_candidate("toy.compile"))
    assert caught.value.slug == "toolchain-unknown"
