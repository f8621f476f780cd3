from __future__ import annotations

import pytest

from kedro_hone.sources.source_format import SourceFormat


def detect(pulled):
    return None


def test_the_least_that_a_source_format_says():
    source = SourceFormat(name="keras-3", noun="a Keras file", detect=detect)
    assert (source.interface, source.order, source.trust) == ("onnx", 50, None)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"name": "Keras 3"}, "lower-case"),
        ({"interface": "jax"}, "the interface 'jax'"),
        ({"baseline": "Keras with 2 threads"}, "the baseline has no {threads}"),
        ({"trust": "module"}, "untrusted must say why"),
        ({"trust": "module", "untrusted": "It is run.", "hint": ""}, "hint must say"),
        ({"unsupported": "Not yet."}, "hint must say"),
        ({"order": None}, "the order None is not a whole number"),
        ({"order": "first"}, "the order 'first' is not a whole number"),
        ({"detect": None}, "detect None cannot be called"),
        ({"seals": None}, "seals None is not a set of formats"),
        ({"refused": "Save it again."}, "is not a mapping"),
        ({"seals": "onnx"}, "seals 'onnx' is not a set of formats"),
    ],
)
def test_what_is_incomplete_is_refused(changes, says):
    with pytest.raises(ValueError, match=says):
        SourceFormat(**({"name": "keras", "noun": "a Keras file", "detect": detect} | changes))
