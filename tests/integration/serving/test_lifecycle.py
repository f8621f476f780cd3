"""Start, stop, and the death of processes."""

from __future__ import annotations

import http.client
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np
import pytest
from installations import find_environments
from linear_winners import compute_linear, write_failing, write_linear
from running_server import run_serve, send, wait_until

from kedro_hone.core.environments.environment import Environment
from kedro_hone.serving.environment import SERVER
from kedro_hone.serving.launch import MODULE, describe_model, write_files
from kedro_hone.serving.server.configuration import Configuration
from kedro_hone.serving.winner import pull_winner

pytestmark = pytest.mark.toolchain

X = [[0.1, 0.2, 0.3, 0.4]]
VALID = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": X}]}
INFER = "/v2/models/linear/infer"


class Clients:
    """Threads that call a server until they are told to stop.

    Attributes:
        answers: How many requests ended in each way.
    """

    def __init__(self, port: int, count: int) -> None:
        self.answers: Counter[str] = Counter()
        self._port, self._stopping = port, threading.Event()
        self._threads = [threading.Thread(target=self._call, args=(at,)) for at in range(count)]
        for one in self._threads:
            one.start()

    def _call(self, at: int) -> None:
        with closing(http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)) as connection:
            while not self._stopping.is_set():
                x = [[at, self.answers.total() % 7, 0.5, -1]]
                try:
                    self.answers[self._judge(connection, x)] += 1
                except (http.client.HTTPException, OSError) as error:
                    self.answers[type(error).__name__] += 1
                    connection.close()
                    time.sleep(0.05)

    @staticmethod
    def _judge(connection: http.client.HTTPConnection, x) -> str:
        body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": x}]}
        status, found = send(connection, INFER, body)
        if status != 200:
            return str(status)
        same = np.allclose(found["outputs"][0]["data"], compute_linear(x).ravel(), rtol=1e-4)
        return "right" if same else "wrong"

    def stop(self) -> Counter[str]:
        self._stopping.set()
        for one in self._threads:
            one.join(60)
        return self.answers


def test_a_signal_makes_it_not_ready_first_and_every_accepted_request_is_answered(serve, models) -> None:
    with serve(models / "slow") as running:
        probe = running.connect()
        assert send(probe, "/v2/health/ready")[0] == 200
        answers = []
        slow = threading.Thread(target=lambda: answers.append(running.call("/v2/models/slow/infer", VALID)))
        slow.start()
        wait_until(lambda: b'hone_pending_requests{model="slow"} 1.0' in running.call("/metrics")[1])
        os.kill(running.line["pid"], signal.SIGTERM)
        status, found = wait_for_status(probe, 503)
        assert (status, found) == (503, {"error": "the server is stopping"})
        slow.join(60)
        assert answers[0][0] == 200
        assert running.process.wait(60) == 0
        with pytest.raises(ConnectionRefusedError):
            running.call("/v2/health/live")
    assert "stopping" in running.log.read_text()


def test_a_request_over_grpc_is_answered_after_a_signal(serve, models, triton_client) -> None:
    with serve(models / "slow") as running:
        script = Path(__file__).parent / "grpc_slow.py"
        with subprocess.Popen([sys.executable, script, running.line["grpc"]], env=triton_client) as client:
            wait_until(lambda: b'hone_pending_requests{model="slow"} 1.0' in running.call("/metrics")[1])
            assert running.stop() == 0
            assert client.wait(60) == 0


def wait_for_status(connection, status: int):
    due = time.monotonic() + 30
    while (found := send(connection, "/v2/health/ready"))[0] != status:
        assert time.monotonic() < due
        time.sleep(0.01)
    return found


def test_a_stop_under_load_answers_every_request_or_refuses_the_connection(serve, models) -> None:
    with serve(models / "linear") as running:
        clients = Clients(running.http_port, 8)
        wait_until(lambda: clients.answers["right"] > 100)
        assert running.stop() == 0
        answers = clients.stop()
    # A connection that is made at the very moment when the port closes is reset by the kernel; nothing of it was read.
    assert set(answers) <= {"right", "ConnectionRefusedError", "ConnectionResetError"}, answers
    assert answers["ConnectionResetError"] <= 2, answers


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_command_ends_every_process(serve, models, number: int) -> None:
    with serve(models / "linear", "--workers", "2", "--grace-seconds", "2") as running:
        workers = running.list_workers()
        assert len(workers) == 2
        assert running.stop(number) == 0
    assert not [one for one in workers if Path(f"/proc/{one}").exists()]


def test_a_killed_command_leaves_no_process(serve, models) -> None:
    with serve(models / "linear", "--grace-seconds", "1") as running:
        left = [running.line["pid"], *running.list_workers()]
        running.process.kill()
        wait_until(lambda: not [one for one in left if is_running(one)])


def is_running(process: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_killed_process_costs_its_own_requests_only(serve, models) -> None:
    with serve(models / "linear", "--workers", "2") as running:
        clients = Clients(running.http_port, 16)
        wait_until(lambda: clients.answers["right"] > 200)
        for turn in (1, 2):
            killed = running.list_workers()[0]
            before = clients.answers.total() - clients.answers["right"]
            os.kill(killed, signal.SIGKILL)
            wait_until(lambda turn=turn: running.log.read_text().count("is ready") == turn)
            due = clients.answers["right"] + 200
            wait_until(lambda due=due: clients.answers["right"] > due)
            assert clients.answers.total() - clients.answers["right"] - before <= 16
        answers = clients.stop()
        assert answers["wrong"] == 0
        assert not [name for name in answers if name.isdigit()], (
            "a client sees a closed connection, and no other answer"
        )
        wait_until(lambda: b'hone_pending_requests{model="linear"} 0.0' in running.call("/metrics")[1])
        text = running.call("/metrics")[1].decode()
    assert running.log.read_text().count("ended with -9") == 2
    total = [line for line in text.splitlines() if line.startswith("hone_requests_total") and '"linear"' in line]
    assert sum(float(line.split()[1]) for line in total) >= answers["right"], (
        "the counts of both processes, also of those killed"
    )


@pytest.mark.attack(
    what="reading secrets of the user in the variables of a server, through a hole in its libraries",
    who="network",
    stopped_by="the server gets the variables for paths and language only",
)
def test_nothing_of_this_process_is_in_the_servers_variables(serve, models) -> None:
    with serve(models / "linear") as running:
        for process in (running.line["pid"], *running.list_workers()):
            variables = Path(f"/proc/{process}/environ").read_bytes()
            assert b"never-in-the-server" not in variables
            assert b"ORT_DISABLE_TELEMETRY=1" in variables


@pytest.mark.attack(
    what="calling a served model from another machine",
    who="network",
    stopped_by="it listens on the loopback address, unless the user names another one",
)
def test_it_listens_on_this_machine_only(serve, models) -> None:
    with serve(models / "linear") as running:
        ports = {running.http_port, int(running.line["grpc"].rpartition(":")[2])}
        lines = [line.split()[1] for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        lines += [line.split()[1] for line in Path("/proc/net/tcp6").read_text().splitlines()[1:]]
        places = {one.split(":")[0] for one in lines if int(one.split(":")[1], 16) in ports}
    assert places <= {"0100007F", "0000000000000000FFFF00000100007F"}


def test_a_port_in_use_is_an_error_before_anything_is_downloaded(models) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        done = run_serve("models:/nothing/1", "--http-port", str(other.getsockname()[1]))
    assert (done.returncode, done.stdout) == (3, "")
    assert "kedro-hone explain port-in-use" in done.stderr


@pytest.mark.attack(
    what="a second server of the same user that gets a part of the first one's requests",
    who="network",
    stopped_by="ports are bound exclusively before processes share them",
)
def test_two_servers_do_not_share_a_port(serve, models) -> None:
    with serve(models / "linear") as running:
        done = run_serve(models / "linear", "--http-port", str(running.http_port))
    assert done.returncode == 3
    assert "kedro-hone explain port-in-use" in done.stderr


def test_a_winner_whose_outputs_differ_is_not_served(server_environment, tmp_path) -> None:
    folder = write_linear(tmp_path / "differs", outputs_differ=0.5)
    done = run_serve(folder, "--workers", "2")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.count("kedro-hone explain winner-differs") == 1


def test_a_warning_is_enough_where_the_user_says_so(serve, tmp_path) -> None:
    folder = write_linear(tmp_path / "differs", outputs_differ=0.5)
    with serve(folder, "--on-mismatch", "warn", "--name", "other") as running:
        assert running.call("/v2/models/other/infer", VALID)[0] == 200
        assert "differ from its outputs where it was measured" in running.log.read_text()


def test_a_changed_file_is_not_served(tmp_path) -> None:
    folder = write_linear(tmp_path / "changed")
    with (folder / "artifact" / "model.onnx").open("ab") as file:
        file.write(b"\0")
    done = run_serve(folder)
    assert done.returncode == 3
    assert "kedro-hone explain model-corrupt" in done.stderr


def test_two_models_of_one_name_are_refused(models, tmp_path) -> None:
    done = run_serve(models / "linear", models / "linear")
    assert done.returncode == 3
    assert "Two models are named linear" in done.stderr


def test_a_model_that_fails_is_logged_by_the_requests_id_and_serves_on(serve, tmp_path) -> None:
    tensor = {"name": "x", "datatype": "INT64", "shape": [1], "data": [99]}
    with serve(write_failing(tmp_path / "failing")) as running:
        connection = running.connect()
        status, found = send(connection, "/v2/models/failing/infer", {"id": "seven", "inputs": [tensor]})
        assert (status, found["error"]) == (500, "the request failed; the server's log has the reason under 'seven'")
        before = connection.sock
        answered = send(connection, "/v2/models/failing/infer", {"inputs": [{**tensor, "data": [2]}]})
        assert (answered[0], answered[1]["outputs"][0]["data"]) == (200, [3])
        assert connection.sock is before
        assert "request seven: " in running.log.read_text()


def test_a_full_queue_is_refused_and_the_next_request_is_answered(serve, models) -> None:
    with serve(models / "slow", "--max-queue", "2") as running:
        answers: list[int] = []
        threads = [
            threading.Thread(target=lambda: answers.append(running.call("/v2/models/slow/infer", VALID)[0]))
            for _ in range(8)
        ]
        for one in threads:
            one.start()
        for one in threads:
            one.join(120)
        assert set(answers) == {200, 429}
        assert running.call("/v2/models/slow/infer", VALID)[0] == 200


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_one_process_with_given_ports_writes_nothing(server_environment, models, tmp_path) -> None:
    """As in a container with a read-only file system, which has no other command than the server's own."""
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        ports = [other.getsockname()[1] for other in (one, two)]
    with ExitStack() as stack:
        winner = stack.enter_context(pull_winner(str(models / "linear")))
        configuration = Configuration(models=(describe_model(winner),), http_port=ports[0], grpc_port=ports[1])
        path = write_files(configuration, [winner], tmp_path)
        built = find_environments().ensure(SERVER)
        assert isinstance(built, Environment)
        command = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-pid", "--clearenv"]
        command += ["--die-with-parent", "--setenv", "PYTHONPATH", str(tmp_path / "packages")]
        command += ["--setenv", "ORT_DISABLE_TELEMETRY", "1", built.python, "-P", "-m", MODULE, str(path)]
        process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE))
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"Serving linear (version 1)")
        connection = stack.enter_context(closing(http.client.HTTPConnection("127.0.0.1", ports[0], timeout=60)))
        assert send(connection, INFER, VALID)[0] == 200
        process.kill()
