from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from deliveries import make_job

from hone_runtime.errors import HoneError
from kedro_hone.core.machine.processes import identify_process
from kedro_hone.events.job import HandOver, State
from kedro_hone.events.outcomes import SKIPPED, Bounds, choose_pause, try_later
from kedro_hone.events.queue import Queue
from kedro_hone.events.runner import Runner

HANG = 60.0
BOUNDS = {"attempts": 2, "patience": 86400.0, "seconds": HANG}
NOTE = """
import json, os, sys
from kedro_hone.report.result_file import note_result
note_result(**json.loads(sys.argv[1]))
sys.exit(int(sys.argv[2]))
"""
SLEEP = """
import signal, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
time.sleep(600)
"""
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True);" + SLEEP


@pytest.fixture
def queue(tmp_path):
    return Queue(tmp_path / "queue.db")


@pytest.fixture
def open_runner(queue, tmp_path):
    made = []

    def open_(*command, **changes):
        bounds = {name: changes.pop(name, default) for name, default in BOUNDS.items()}
        given = {"devices": {"cpu": 1}, "bounds": Bounds(**bounds), "command": lambda _: list(command), **changes}
        runner = Runner(queue, project=tmp_path, **given)
        made.append(runner)
        runner.start()
        return runner

    yield open_
    for runner in made:
        runner.stop()


def note(code=0, **result):
    return [sys.executable, "-c", NOTE, json.dumps(result), str(code)]


def wait_for(condition):
    deadline = time.monotonic() + HANG
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found


def wait_for_end(queue, number=1):
    return wait_for(lambda: job if (job := queue.find(number)).state not in {"queued", "running"} else None)


@pytest.mark.parametrize(
    ("code", "result", "ended"),
    [
        (0, {"verdict": "PASS", "published": "models:/digits/2"}, (State.DONE, "")),
        (0, {"verdict": "KEEP"}, (State.DONE, "")),
        (10, {"verdict": "FAIL"}, (State.DONE, "")),
        (11, {"verdict": "INCONCLUSIVE", "message": "Too much noise."}, (State.DONE, "Too much noise.")),
        (
            0,
            {"verdict": "PASS", "published": "models:/digits/2", "awaits": "honed"},
            (State.DONE, "It was published without the alias honed, which an approval moves."),
        ),
        (SKIPPED, {"message": "It is a winner."}, (State.SKIPPED, "It is a winner.")),
        (3, {"slug": "model-optimized", "message": "It is one."}, (State.SKIPPED, "It is one.")),
        (3, {"slug": "registry-missing", "message": "There is none."}, (State.FAILED, "There is none.")),
        (3, {"slug": "model-unknown", "message": "There is none."}, (State.FAILED, "There is none.")),
        (4, {}, (State.FAILED, "It ended with the exit code 4.")),
        # Whatever went wrong afterwards: it is published, and nobody publishes it twice.
        (4, {"published": "models:/digits/2"}, (State.DONE, "")),
    ],
)
def test_what_becomes_of_a_job(queue, open_runner, code, result, ended):
    queue.accept([make_job()])
    open_runner(*note(code, **result))
    job = wait_for_end(queue)
    assert (job.state, job.reason) == ended
    assert (job.exit_code, job.attempts) == (code, 1)
    assert (job.verdict, job.published) == (result.get("verdict", ""), result.get("published", ""))


def test_the_progress_of_an_earlier_attempt_is_not_that_of_the_next(queue, open_runner, tmp_path):
    old = tmp_path / "data" / "hone" / "jobs" / "1" / "progress.json"
    old.parent.mkdir(parents=True)
    old.write_text('{"title": "Publish"}')
    queue.accept([make_job()])
    open_runner(*note(0))
    wait_for_end(queue)
    assert not old.exists()


def test_the_log_says_where_the_next_attempt_begins(queue, open_runner, tmp_path, monkeypatch):
    monkeypatch.setattr("kedro_hone.events.outcomes.choose_pause", lambda _: 0.0)
    queue.accept([make_job()])
    kill = "import os, signal; print('here', flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    open_runner(sys.executable, "-c", kill, attempts=2)
    wait_for_end(queue)
    text = (tmp_path / "data" / "hone" / "jobs" / "1" / "log").read_text()
    assert text.split("\n") == ["here", "", "--- started again, attempt 2 ---", "here", ""]


def test_what_a_killed_run_had_published_is_found_in_its_folder(queue, open_runner, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / "publication.json").write_text(json.dumps({"uri": "models:/digits/3"}))
    queue.accept([make_job()])
    open_runner(*note(4, folder=str(run)))
    job = wait_for_end(queue)
    assert (job.state, job.published) == (State.DONE, "models:/digits/3")


PUBLISH_AND_SLEEP = """
import signal, sys, time
from kedro_hone.report.result_file import note_result
note_result(published="models:/digits/2", verdict="PASS")
print("1", flush=True)
time.sleep(600)
"""


def test_who_published_and_is_late_is_done(queue, open_runner):
    queue.accept([make_job()])
    open_runner(sys.executable, "-c", PUBLISH_AND_SLEEP, seconds=5.0)
    job = wait_for_end(queue)
    assert (job.state, job.published, job.verdict) == (State.DONE, "models:/digits/2", "PASS")


def test_who_published_and_is_cancelled_keeps_what_was_published(queue, open_runner):
    queue.accept([make_job()])
    read_child(open_runner(sys.executable, "-c", PUBLISH_AND_SLEEP))
    queue.cancel(1, reason="by hand")
    wait_for(lambda: queue.find(1).published)
    job = queue.find(1)
    assert (job.state, job.published, job.verdict) == (State.CANCELLED, "models:/digits/2", "PASS")


def test_a_job_of_another_rule_waits_and_what_is_left_of_one_keeps_no_device(queue, open_runner):
    queue.accept(
        [make_job("models:/digits/1"), make_job("models:/digits/2"), make_job("models:/digits/3", rule="renewal")]
    )
    queue.claim("cpu")  # by a service that was killed
    open_runner(*note(0), rule="renewal")
    assert wait_for_end(queue, 3).state is State.DONE
    assert [queue.find(number).state for number in (1, 2)] == [State.QUEUED, State.QUEUED]


def test_jobs_of_a_device_that_is_gone_are_told(queue, open_runner, lines):
    queue.accept([make_job(device="cuda:0")])
    open_runner(*note(0))
    wait_for(lambda: "devices-unknown" in lines())


def test_one_runner_works_on_a_queue_at_a_time(queue, open_runner, lines, monkeypatch):
    monkeypatch.setattr("kedro_hone.events.runner._POLL_SECONDS", 0.02)
    queue.accept([make_job()])
    first = open_runner(sys.executable, "-c", SLEEP)
    read_child(first)
    open_runner(*note(0))
    wait_for(lambda: "listener-running" in lines())
    assert queue.find(1).state is State.RUNNING  # it is no leftover
    first.stop()
    assert wait_for_end(queue).state is State.DONE


def test_a_job_waits_until_its_process_is_noted(queue, open_runner, tmp_path):
    queue.accept([make_job()])
    open_runner(sys.executable, "-c", "import sys; print(sys.stdin.readline().strip(), repr(sys.stdin.read()))")
    wait_for_end(queue)
    assert (tmp_path / "data/hone/jobs/1/log").read_text() == "go ''\n"
    assert queue.find(1).process


@pytest.mark.parametrize("error", [KeyError("odd"), OSError("full"), HoneError("queue-broken", "x", why="y", hint="z")])
def test_a_device_is_served_on_whatever_is_raised(queue, open_runner, monkeypatch, error):
    monkeypatch.setattr("kedro_hone.events.runner._POLL_SECONDS", 0.02)
    real, tries = queue.claim, []

    def claim(*args, **named):
        tries.append(args)
        if len(tries) == 1:
            raise error
        return real(*args, **named)

    monkeypatch.setattr(queue, "claim", claim)
    queue.accept([make_job()])
    open_runner(*note(0))
    assert wait_for_end(queue).state is State.DONE


def test_an_error_of_the_queue_is_logged_once_each_time_that_it_begins(queue, open_runner, lines, monkeypatch):
    monkeypatch.setattr("kedro_hone.events.runner._POLL_SECONDS", 0.02)
    broken, tries = HoneError("queue-broken", "x", why="It is full.", hint="z"), []

    def claim(*_, **__):
        tries.append(1)
        if len(tries) % 4:
            raise broken

    monkeypatch.setattr(queue, "claim", claim)
    open_runner(*note(0))
    wait_for(lambda: len(tries) >= 8)
    assert lines()[:2] == ["queue-broken"] * 2
    assert len(lines()) <= 1 + len(tries) // 4


@pytest.mark.parametrize(
    "command",
    [
        note(3, slug="registry-unreachable", message="It does not respond."),
        note(143),  # as a run that SIGTERM ends in order
        [sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"],
    ],
)
def test_what_may_pass_is_tried_again_for_a_while(queue, open_runner, command):
    queue.accept([make_job()])
    open_runner(*command)
    waits = wait_for(lambda: job if (job := queue.find(1)).not_before else None)
    assert (waits.state, waits.attempts) == (State.QUEUED, 1)
    assert 10 < waits.not_before - time.time() < 31
    assert queue.claim("cpu") is None


def test_after_the_last_attempt_it_has_failed(queue, open_runner):
    queue.accept([make_job()])
    queue.put_back(queue.claim("cpu"), seconds=0, reason="once")
    open_runner(sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    job = wait_for_end(queue)
    assert (job.state, job.reason) == (State.FAILED, "It was ended by a signal (exit code -9). Tried 2 times.")


@pytest.mark.parametrize("slug", ["registry-unreachable", "registry-limited", "registry-full", "store-full"])
def test_what_it_needs_may_be_away_for_any_number_of_attempts(queue, open_runner, slug):
    queue.accept([make_job()])
    for _ in range(9):
        queue.put_back(queue.claim("cpu"), seconds=0, reason="once more")
    open_runner(*note(3, slug=slug, message="Not now."))
    waits = wait_for(lambda: job if (job := queue.find(1)).reason == "Not now." else None)
    assert (waits.state, waits.attempts) == (State.QUEUED, 10)


def test_patience_has_an_end(queue, open_runner):
    queue.accept([make_job()])
    open_runner(*note(3, slug="registry-unreachable", message="It does not respond."), patience=0.0)
    job = wait_for_end(queue)
    assert (job.state, job.reason) == (State.FAILED, "It does not respond. Tried for 0 hours.")


def test_a_clock_that_is_set_back_takes_no_job_its_patience(tmp_path):
    clock = [time.time() + 200_000]
    queue = Queue(tmp_path / "queue.db", now=lambda: clock[0])
    queue.accept([make_job()])
    try_later(queue, queue.claim("cpu"), "Not now.", Bounds(**BOUNDS))
    assert queue.find(1).state is State.QUEUED


@pytest.mark.parametrize("text", ["[]", '{"uri": ' + "[" * 100_000, "{}", ""])
def test_a_publication_that_says_nothing_stops_no_device(queue, open_runner, tmp_path, text):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "publication.json").write_text(text)
    queue.accept([make_job()])
    open_runner(*note(4, folder=str(tmp_path / "run")))
    assert wait_for_end(queue).state is State.FAILED


def test_a_job_that_is_asked_for_again_has_all_its_patience_again(tmp_path):
    clock = [time.time() - 200_000]
    queue = Queue(tmp_path / "queue.db", now=lambda: clock[0])
    queue.accept([make_job()])
    queue.finish(queue.claim("cpu"), State.FAILED)
    clock[0] = time.time()
    queue.start_again(1)
    try_later(queue, queue.claim("cpu"), "Not now.", Bounds(**BOUNDS))
    assert queue.find(1).state is State.QUEUED


def test_what_a_job_is_given(queue, open_runner, tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_MLFLOW_SECRET", "hidden")
    monkeypatch.setenv("HONE_OTHER", "shown")
    queue.accept([make_job(), make_job("models:/digits/2", task=HandOver(repository="o/r", event_type="e"))])
    command = [sys.executable, "-c", "import os, json; print(json.dumps(dict(os.environ)))"]
    hidden = {"hidden": ["HONE_MLFLOW_SECRET"], "for_dispatch": {"HONE_GITHUB_TOKEN": "given"}}
    runner = open_runner(*command, **hidden)
    wait_for_end(queue, 2)
    first, second = (json.loads((runner.find_folder(number) / "log").read_text()) for number in (1, 2))
    assert "HONE_MLFLOW_SECRET" not in {*first, *second}
    assert first["HONE_OTHER"] == "shown"
    assert "HONE_GITHUB_TOKEN" not in first
    assert second["HONE_GITHUB_TOKEN"] == hidden["for_dispatch"]["HONE_GITHUB_TOKEN"]
    assert json.loads((tmp_path / "data/hone/jobs/1/job.json").read_text()) == {
        "id": 1,
        "uri": "models:/digits/1",
        "changed": pytest.approx(time.time(), abs=HANG),
        "task": {"kind": "optimize", "recipe": {}, "env": None, "asked": False},
    }


def read_child(runner, number=1):
    """The process that a job's process has started, once it has."""
    log = runner.find_folder(number) / "log"
    text = wait_for(lambda: log.read_text() if log.exists() and log.read_text().endswith("\n") else None)
    return wait_for(lambda: [int(word) for word in log.read_text().split() if word.isdigit()] or text == "")[-1]


def is_there(pid):
    """Return whether a process runs; SIGKILL returns before its process is gone, so that tests wait for it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_job_that_is_cancelled_ends_with_all_its_processes(queue, open_runner):
    queue.accept([make_job()])
    child = read_child(open_runner(sys.executable, "-c", SLEEP))
    assert queue.cancel(1, reason="by hand")
    wait_for(lambda: not is_there(child))
    assert queue.find(1).state is State.CANCELLED


def test_a_job_that_is_late_has_failed(queue, open_runner):
    queue.accept([make_job()])
    child = read_child(open_runner(sys.executable, "-c", SLEEP, seconds=0.1))
    job = wait_for_end(queue)
    assert (job.state, job.reason) == (State.FAILED, "It took longer than 0 s.")
    wait_for(lambda: not is_there(child))


def test_a_service_that_stops_ends_its_jobs_and_queues_them_again(queue, open_runner):
    queue.accept([make_job()])
    runner = open_runner(sys.executable, "-c", SLEEP)
    child = read_child(runner)
    runner.stop()
    job = queue.find(1)
    assert (job.state, job.not_before <= time.time()) == (State.QUEUED, True)
    assert job.attempts == 0  # a restart of the service is no failure of the run
    wait_for(lambda: not is_there(child))


def test_who_does_not_listen_is_killed(queue, open_runner, monkeypatch):
    monkeypatch.setattr("kedro_hone.events.groups._GRACE_SECONDS", 0.2)
    queue.accept([make_job()])
    runner = open_runner(sys.executable, "-c", DEAF)
    child = read_child(runner)
    runner.stop()
    wait_for(lambda: not is_there(child))


def start_orphan(queue, tmp_path, *, result=None):
    """What a service that was killed leaves: a running job, and its process."""
    queue.accept([make_job()])
    job = queue.claim("cpu")
    number = job.id
    process = subprocess.Popen([sys.executable, "-c", SLEEP], start_new_session=True, stdout=subprocess.PIPE, text=True)
    queue.note_process(number, identify_process(process.pid))
    folder = tmp_path / "data/hone/jobs/1"
    folder.mkdir(parents=True)
    (folder / "job.json").write_text(job.model_dump_json(include={"changed"}))
    (folder / "result.json").write_text(json.dumps(result or {}))
    return process, int(process.stdout.readline())


@pytest.mark.parametrize(
    ("result", "published"),
    [
        ({}, "models:/digits/9"),  # run again
        ({"published": "models:/digits/2"}, "models:/digits/2"),
        ({"folder": "run"}, "models:/digits/3"),  # killed between the registry and the result
    ],
)
def test_what_a_killed_service_left_running_is_ended_and_settled(queue, open_runner, tmp_path, result, published):
    run = tmp_path / "run"
    run.mkdir()
    (run / "publication.json").write_text(json.dumps({"uri": "models:/digits/3"}))
    given = {**result, "folder": str(run)} if "folder" in result else result
    process, child = start_orphan(queue, tmp_path, result=given)
    open_runner(*note(0, published="models:/digits/9"))
    job = wait_for_end(queue)
    assert (job.state, job.published) == (State.DONE, published)
    process.wait(HANG)
    process.stdout.close()
    wait_for(lambda: not is_there(child))


def test_what_a_killed_service_left_running_is_settled_behind_any_number_of_newer_jobs(queue, open_runner, tmp_path):
    process, child = start_orphan(queue, tmp_path, result={"published": "models:/digits/2"})
    queue.accept([make_job(f"models:/digits/{version}", rule="later") for version in range(3, 1203)])
    open_runner(*note(0), rule="all")
    job = wait_for_end(queue)
    assert (job.state, job.published) == (State.DONE, "models:/digits/2")
    process.wait(HANG)
    process.stdout.close()
    wait_for(lambda: not is_there(child))


def test_what_was_published_the_time_before_is_not_the_result_of_a_run_that_died_at_once(queue, open_runner, tmp_path):
    process, _ = start_orphan(queue, tmp_path, result={"published": "models:/digits/2"})
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(HANG)
    process.stdout.close()
    queue.finish(queue.list_left()[0][2], State.DONE, published="models:/digits/2")
    queue.start_again(1)
    queue.claim("cpu")  # and the service dies before the first run's files are removed
    open_runner(*note(0, published="models:/digits/9"))
    assert wait_for_end(queue).published == "models:/digits/9"


def test_a_running_job_whose_row_cannot_be_read_ends_and_keeps_no_device(queue, open_runner, tmp_path):
    process, child = start_orphan(queue, tmp_path)
    queue.accept([make_job("models:/digits/2")])
    with sqlite3.connect(tmp_path / "queue.db") as connection:
        connection.execute("UPDATE jobs SET task = '{}' WHERE id = 1")
    open_runner(*note(0))
    assert wait_for_end(queue, 2).state is State.DONE
    process.wait(HANG)
    process.stdout.close()
    wait_for(lambda: not is_there(child))


def test_what_was_cancelled_when_the_service_died_is_ended_too(queue, open_runner, tmp_path):
    process, child = start_orphan(queue, tmp_path)
    queue.cancel(1, reason="by hand")
    open_runner(*note(0))
    process.wait(HANG)
    process.stdout.close()
    wait_for(lambda: not is_there(child))
    assert queue.find(1).state is State.CANCELLED


def test_a_run_that_cannot_be_watched_is_ended_before_it_runs_again(queue, open_runner, monkeypatch):
    def fail(*_):
        raise MemoryError

    queue.accept([make_job()])
    runner = open_runner(sys.executable, "-c", SLEEP)
    child = read_child(runner)
    monkeypatch.setattr(runner, "_is_cancelled", fail)
    waits = wait_for(lambda: job if (job := queue.find(1)).not_before else None)
    assert "MemoryError" in waits.reason
    wait_for(lambda: not is_there(child))


def test_a_process_that_has_the_number_of_an_old_one_is_left_alone(queue, open_runner, tmp_path):
    process, child = start_orphan(queue, tmp_path)
    host, pid, start = identify_process(process.pid).split(":")
    queue.note_process(1, f"{host}:{pid}:{int(start) + 1}")
    open_runner(*note(0))
    wait_for_end(queue)
    assert is_there(process.pid)
    assert is_there(child)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(HANG)
    process.stdout.close()


@pytest.mark.parametrize("host", ["another-host", ""])
def test_a_process_of_another_machine_is_not_looked_for_here(queue, open_runner, tmp_path, host):
    process, child = start_orphan(queue, tmp_path)
    _, pid, start = identify_process(process.pid).split(":")
    queue.note_process(1, f"{host}:{pid}:{start}")
    open_runner(*note(0))
    wait_for_end(queue)
    assert is_there(process.pid)
    assert is_there(child)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(HANG)
    process.stdout.close()


def test_a_job_whose_service_dies_each_time_is_given_up(queue, open_runner, tmp_path):
    queue.accept([make_job()])
    queue.put_back(queue.claim("cpu"), seconds=0, reason="once")
    queue.claim("cpu")
    open_runner(*note(0))
    assert wait_for_end(queue).state is State.FAILED


def test_a_command_that_cannot_be_started_is_tried_again(queue, open_runner):
    queue.accept([make_job()])
    open_runner("/nowhere/python")
    waits = wait_for(lambda: job if (job := queue.find(1)).not_before else None)
    assert "could not be started" in waits.reason


def test_devices_work_at_once_and_each_has_its_number(queue, open_runner):
    queue.accept([make_job(f"models:/m/{n}", device=device) for n in range(3) for device in ("cpu", "cuda:0")])
    open_runner(sys.executable, "-c", SLEEP, devices={"cpu": 2, "cuda:0": 1})
    wait_for(lambda: queue.count_states()[State.RUNNING] == 3)
    running = sorted(job.device for job in queue.list_jobs(limit=3))
    assert running == ["cpu", "cpu", "cuda:0"]


def test_pauses_grow_to_an_hour():
    pauses = [choose_pause(attempt) for attempt in range(1, 40)]
    assert 15 <= pauses[0] <= 30
    assert 30 <= pauses[1] <= 60
    assert min(pauses[10:]) >= 1800
    assert max(pauses) <= 3600


def test_a_queue_that_cannot_be_written_for_a_while_loses_no_end(queue, open_runner, monkeypatch):
    monkeypatch.setattr("kedro_hone.events.runner._POLL_SECONDS", 0.02)
    real, tries = queue.finish, []

    def finish(*args, **named):
        tries.append(args)
        if len(tries) < 3:
            raise HoneError("queue-broken", "It is full.", why="It is.", hint="Wait.")
        return real(*args, **named)

    monkeypatch.setattr(queue, "finish", finish)
    queue.accept([make_job()])
    open_runner(*note(0, published="models:/digits/2"))
    assert wait_for_end(queue).published == "models:/digits/2"
    assert len(tries) == 3
