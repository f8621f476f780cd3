"""Sessions of OpenVINO: how many calls they compute at once, and which arrays are shared.

``tests/integration/adaptors`` compares the results of sessions for throughput.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import openvino as ov
import pytest
from hone_openvino import calls
from hone_openvino.session import open_session
from served_winners import write_ir


@pytest.mark.parametrize("options", [{}, {"NUM_STREAMS": 2}])
def test_a_session_for_throughput_computes_several_calls_at_once(tmp_path, options):
    write_ir(tmp_path)
    options = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "THROUGHPUT", **options}
    session = open_session({"input": {"path": str(tmp_path), "run_options": options}, "threads": 2})
    infer, meeting = session._infer, threading.Barrier(2)

    def meet(request, feeds):
        meeting.wait(20)  # for another call: with a single request there is none
        return infer(request, feeds)

    session._infer = meet
    rows = np.eye(4, dtype=np.float32)
    with ThreadPoolExecutor(2) as callers:
        found = [call.result() for call in [callers.submit(session.run, {"x": rows * n}) for n in (1, 2)]]

    np.testing.assert_allclose(found[1]["y"], 2 * found[0]["y"], rtol=1e-6)


def test_a_session_for_latency_computes_one_call_at_a_time(tmp_path):
    write_ir(tmp_path)
    session = open_session(
        {"input": {"path": str(tmp_path), "run_options": {"PERFORMANCE_HINT": "LATENCY"}}, "threads": 2}
    )

    assert session._requests._free.qsize() == 1


X = np.arange(12, dtype=np.float32).reshape(3, 4)


def make_read_only():
    array = X.copy()
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("array", "shared"),
    [
        (X, True),
        (X[:1], True),
        (X[::-1], False),
        (np.asfortranarray(X), False),
        (make_read_only(), False),
        (X.astype(np.float64), False),
        (X.astype(">f4"), False),
        (X.tolist(), False),
        (X[:, :3], False),
        (X[0, 0], False),
        (np.array(1, np.float32), False),
    ],
    ids=["plain", "row", "reversed", "Fortran", "read-only", "float64", "bytes", "list", "columns", "number", "scalar"],
)
def test_only_plain_arrays_are_shared_and_all_have_the_same_result(tmp_path, array, shared):
    write_ir(tmp_path)
    session = open_session({"input": {"path": str(tmp_path)}, "threads": 1})
    request, public = (session._compiled.create_infer_request() for _ in range(2))

    def describe(call):
        try:
            return call().tolist()
        except Exception as error:  # noqa: BLE001 - it is compared
            return type(error), str(error)

    assert calls._share(request, {0: array}, session._dtypes) == shared
    wanted = describe(lambda: public.infer({0: array}, share_inputs=True, share_outputs=False)[0])
    assert describe(lambda: session.run({"x": array})["y"]) == wanted


def test_outputs_stay_and_inputs_may_change_after_the_call(tmp_path):
    write_ir(tmp_path)
    session = open_session({"input": {"path": str(tmp_path)}, "threads": 1})
    given = X.copy()
    found = session.run({"x": given})["y"]
    kept = found.copy()
    given[:] = 0
    session.run({"x": X + 1})
    np.testing.assert_array_equal(found, kept)
    np.testing.assert_array_equal(session.run({"x": X.copy()})["y"], kept)


@pytest.mark.parametrize("kind", ["f32", "f16", "bf16", "i64", "i8", "u8", "boolean", "string", "u1", "i4", "nf4"])
def test_arrays_are_shared_only_if_openvino_has_their_type(kind):
    element = getattr(ov.Type, kind)
    port = SimpleNamespace(get_element_type=lambda: element)
    (found,) = calls.find_dtypes([port])
    assert (found is not None) == (kind in {"f32", "f16", "i64", "i8", "u8", "boolean"})
    assert found is None or ov.Type(found) == element
