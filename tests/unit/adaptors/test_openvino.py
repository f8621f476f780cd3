"""How many calls a session of OpenVINO computes at once; ``tests/integration/adaptors`` compares their results."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
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
