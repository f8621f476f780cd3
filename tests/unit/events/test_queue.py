from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from deliveries import make_job as make

from hone_runtime.errors import HoneError
from kedro_hone.events.job import Optimize, State
from kedro_hone.events.queue import Queue


@pytest.fixture
def clock():
    return [1000.0]


@pytest.fixture
def queue(tmp_path, clock):
    return Queue(tmp_path / "deep" / "queue.db", now=lambda: clock[0])


def test_what_is_accepted_is_claimed_in_order_and_one_at_a_time(queue):
    assert queue.accept([make(), make("models:/digits/2")]) == 2
    first = queue.claim("cpu")
    assert (first.uri, first.state, first.attempts) == ("models:/digits/1", State.RUNNING, 1)
    assert queue.claim("cpu") is None
    assert queue.claim("cuda:0") is None
    queue.finish(first, State.DONE, exit_code=0, verdict="PASS", published="models:/digits/3")
    assert queue.claim("cpu").uri == "models:/digits/2"
    assert queue.find(first.id).published == "models:/digits/3"


def test_other_devices_do_not_wait(queue):
    queue.accept([make(), make(device="cuda:0")])
    assert queue.claim("cpu")
    assert queue.claim("cuda:0")


def test_a_delivery_that_comes_twice_adds_nothing(queue):
    assert queue.accept([make()], delivery="mlflow:1") == 1
    assert queue.accept([make("models:/digits/9")], delivery="mlflow:1") == 0
    assert queue.count_states()[State.QUEUED] == 1


@pytest.mark.parametrize(
    ("changes", "new"),
    [({}, 0), ({"rule": "another"}, 0), ({"task": Optimize(recipe={"threads": 1})}, 1), ({"hardware": "new"}, 1)],
)
def test_one_run_is_enough_for_a_version_a_recipe_and_a_machine(queue, changes, new):
    queue.accept([make()], delivery="a")
    queue.finish(queue.claim("cpu"), State.DONE)
    assert queue.accept([make(**changes)], delivery="b") == new


def test_a_job_that_is_put_back_waits(queue, clock):
    queue.accept([make()])
    queue.put_back(queue.claim("cpu"), seconds=60, reason="unreachable")
    assert queue.claim("cpu") is None
    clock[0] += 61
    assert queue.claim("cpu").attempts == 2


def test_what_was_running_is_queued_again(queue):
    queue.accept([make()])
    claimed = queue.claim("cpu")
    assert queue.list_jobs() == (claimed,)
    assert queue.put_back(claimed, seconds=0, reason="the service died")
    again = queue.claim("cpu")
    assert (again.id, again.attempts) == (claimed.id, 2)


def test_what_was_cancelled_stays_so(queue):
    queue.accept([make()])
    claimed = queue.claim("cpu")
    number = claimed.id
    assert queue.cancel(number, reason="by hand")
    assert not queue.finish(claimed, State.DONE, verdict="PASS")
    assert queue.find(number).state is State.CANCELLED
    assert not queue.cancel(number, reason="again")
    assert not queue.cancel(77, reason="none")
    assert queue.find(77) is None


@pytest.mark.parametrize("write", ["finish", "put_back"])
def test_what_became_of_one_claim_is_not_written_of_the_next(queue, clock, write):
    queue.accept([make()])
    first = queue.claim("cpu")
    queue.cancel(first.id, reason="by hand")
    queue.start_again(first.id)
    clock[0] += 1
    second = queue.claim("cpu")
    assert first.attempts == second.attempts  # which tells nothing
    given = {"state": State.DONE} if write == "finish" else {"seconds": 0, "reason": "once"}
    assert not getattr(queue, write)(first, **given)
    assert queue.find(second.id) == second
    assert getattr(queue, write)(second, **given)


def test_a_job_that_is_queued_again_was_asked_for_again(queue, clock):
    queue.accept([make()])
    queue.finish(queue.claim("cpu"), State.FAILED)
    clock[0] = 2000.0
    assert queue.start_again(1)
    assert not queue.start_again(1)
    assert queue.find(1).created == 2000.0


def test_a_delivery_is_forgotten_once_nobody_sends_it_again(queue, clock):
    queue.accept([make()], delivery="a")
    for days, new in ((29, 0), (2, 1)):
        clock[0] += days * 86400.0
        queue.forget_old()
        assert queue.accept([make(f"models:/digits/{days}")], delivery="a") == new


def test_what_runs_is_listed_behind_any_number_of_newer_jobs(queue):
    queue.accept([make(f"models:/digits/{number}") for number in range(1, 8)])
    queue.claim("cpu")
    assert [job.id for job in queue.list_jobs(limit=3)] == [1, 7, 6]


def test_a_sweep_moves_its_cursor_with_what_it_found(queue):
    assert queue.read_cursor("models") is None
    assert queue.accept_swept("models", "c1", [make(), make()]) == 1
    assert queue.read_cursor("models") == "c1"
    assert [job.uri for job in queue.list_jobs()] == ["models:/digits/1"]


def test_what_fails_in_the_middle_leaves_nothing(queue):
    def requests():
        yield make()
        raise RuntimeError

    with pytest.raises(RuntimeError):
        queue.accept(requests(), delivery="a")
    assert queue.list_jobs() == ()
    assert queue.accept([make()], delivery="a") == 1


def test_threads_that_accept_the_same_add_it_once(queue):
    counts = []
    threads = [
        threading.Thread(target=lambda: counts.append(queue.accept([make(f"models:/m/{n}") for n in range(5)])))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(counts) == 5


ACCEPT = """
import sys
from pathlib import Path
from kedro_hone.events.job import Optimize, JobRequest
from kedro_hone.events.queue import Queue
queue = Queue(Path(sys.argv[1]))
for number in range(100_000):
    one = JobRequest.make(uri=f"models:/m/{number}", rule="r", task=Optimize(), device="cpu", hardware="h")
    queue.accept([one], delivery=str(number))
    print(number, flush=True)
"""


def test_what_was_accepted_outlives_a_kill(tmp_path):
    path = tmp_path / "queue.db"
    process = subprocess.Popen([sys.executable, "-c", ACCEPT, str(path)], stdout=subprocess.PIPE, text=True)
    accepted = [process.stdout.readline() for _ in range(50)]
    os.kill(process.pid, signal.SIGKILL)
    rest = process.stdout.read().split()
    process.stdout.close()
    process.wait()
    last = int(rest[-1]) if rest else int(accepted[-1])
    queue = Queue(path)
    assert queue.count_states()[State.QUEUED] in {last + 1, last + 2}  # the last one may not have been told


def test_a_file_that_is_none_of_ours_is_explained(tmp_path):
    (tmp_path / "queue.db").write_text("no database at all, but long enough to be taken for one" * 50)
    with pytest.raises(HoneError) as raised:
        Queue(tmp_path / "queue.db")
    assert raised.value.slug == "queue-broken"


def test_a_full_disk_is_explained(queue):
    with queue._open() as connection:
        connection.execute("PRAGMA max_page_count = 1")
    with pytest.raises(HoneError, match="full") as raised:
        queue.accept([make(f"models:/m/{n}" + "x" * 500) for n in range(500)])
    assert raised.value.slug == "queue-broken"


def test_a_job_that_a_wrong_clock_put_back_for_years_is_not_stranded(tmp_path):
    now = {"now": 1e9}
    queue = Queue(tmp_path / "clock.db", now=lambda: now["now"])
    queue.accept([make()])
    queue.put_back(queue.claim("cpu"), seconds=60, reason="once")
    assert queue.claim("cpu") is None
    now["now"] = 1e8  # the clock is right again
    assert queue.claim("cpu") is not None


def test_a_job_that_failed_is_queued_again_by_a_later_event_and_by_no_sweep(queue):
    queue.accept([make()], delivery="a")
    queue.finish(queue.claim("cpu"), State.FAILED, exit_code=3, reason="no such data")
    assert queue.accept_swept("models:/", "end", [make()]) == 0
    assert queue.accept([make()], delivery="a") == 0
    assert queue.accept([make()], delivery="b") == 1
    again = queue.claim("cpu")
    assert (again.id, again.attempts, again.reason, again.exit_code) == (1, 1, "", None)


def test_a_version_that_was_a_winner_may_be_none_by_now(queue):
    queue.accept([make()], delivery="a")
    queue.finish(queue.claim("cpu"), State.SKIPPED)
    assert queue.accept_swept("models:/", "end", [make()]) == 0
    assert queue.accept([make()], delivery="b") == 1


def test_a_job_that_is_older_than_its_version_is_of_another_one(queue, clock):
    queue.accept([make()], delivery="a")
    queue.finish(queue.claim("cpu"), State.DONE)
    again = make().model_copy(update={"after": 2000.0})
    clock[0] = 2001.0
    assert queue.accept_swept("models:/", "one", [again]) == 1
    assert queue.accept_swept("models:/", "two", [again]) == 0
    queue.finish(queue.claim("cpu"), State.DONE)
    assert queue.accept_swept("models:/", "three", [again]) == 0
    assert queue.find(1).created == 2001.0


def test_what_could_not_be_decided_is_run_again_by_a_later_event(queue, clock):
    """The machine may have been busy; a tag that a job sets each minute does not occupy the device for ever."""
    queue.accept([make()], delivery="a")
    queue.finish(queue.claim("cpu"), State.DONE, exit_code=11, verdict="INCONCLUSIVE", reason="other programs")
    assert queue.count_verdicts() == {"INCONCLUSIVE": 1}
    assert queue.accept_swept("models:/", "end", [make()]) == 0
    assert queue.accept([make()], delivery="a") == 0
    clock[0] += 3599
    assert queue.accept([make()], delivery="b") == 0
    clock[0] += 2
    assert queue.accept([make()], delivery="c") == 1
    assert queue.count_verdicts() == {}
    queue.finish(queue.claim("cpu"), State.DONE, exit_code=11, verdict="INCONCLUSIVE")
    assert queue.accept([make()], delivery="d") == 0
    clock[0] += 3601
    assert queue.accept([make()], delivery="e") == 1


def test_what_could_not_be_decided_is_run_again_without_its_result_and_after_a_clock_that_was_wrong(queue, clock):
    queue.accept([make()], delivery="a")
    clock[0] += 400 * 86400
    queue.finish(queue.claim("cpu"), State.DONE, exit_code=11)
    clock[0] -= 399 * 86400
    assert queue.accept([make()], delivery="b") == 1


@pytest.mark.parametrize(
    ("state", "verdict"),
    [(State.CANCELLED, ""), (State.CANCELLED, "INCONCLUSIVE"), (State.DONE, "PASS"), (State.DONE, "FAIL")],
)
def test_a_job_that_ended_otherwise_is_not(queue, state, verdict):
    queue.accept([make()], delivery="a")
    queue.finish(queue.claim("cpu"), state, verdict=verdict)
    assert queue.accept([make()], delivery="b") == 0


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE jobs SET task = 'no json' WHERE id = 1",
        "UPDATE jobs SET state = 'queued', rule = CAST(x'ff' AS BLOB) WHERE id = 1",
    ],
)
def test_a_row_that_cannot_be_read_stops_nothing(queue, clock, tmp_path, damage):
    queue.accept([make(), make("models:/digits/2")])
    with sqlite3.connect(tmp_path / "deep" / "queue.db") as connection:
        connection.execute(damage)
    clock[0] += 60
    assert queue.claim("cpu").uri == "models:/digits/2"
    assert queue.count_states()[State.FAILED] == 1
    assert [job.id for job in queue.list_jobs()] == [2]
    assert queue.find(1) is None
    assert queue.list_ended(clock[0]) == ()  # its end is when it was found, so that what it left is kept for a while
    assert queue.list_ended(clock[0] + 1) == (1,)


def test_how_long_the_oldest_job_waits(queue, clock):
    assert queue.find_longest_wait() == 0
    queue.accept([make()])
    clock[0] += 60
    queue.accept([make("models:/digits/2")])
    assert queue.find_longest_wait() == 60
    queue.claim("cpu")
    assert queue.find_longest_wait() == 0


def test_the_first_start_for_a_registry_is_remembered(tmp_path):
    now = iter((1.0, 2.0, 3.0))
    queue = Queue(tmp_path / "queue.db", now=lambda: next(now))
    assert [queue.note_start(registry) for registry in ("models:/", "models:/", "hf://")] == [1.0, 1.0, 3.0]


@pytest.mark.parametrize("left", [(), ("-wal", "-shm")])
def test_a_file_that_somebody_removed_is_made_again(queue, tmp_path, left):
    queue.accept([make()])
    for path in (tmp_path / "deep").glob("queue.db*"):
        if not path.name.endswith(left or "never"):
            path.unlink()
    assert queue.count_states()[State.QUEUED] == 0
    assert queue.accept([make("models:/digits/2")], delivery="b") == 1
    assert queue.claim("cpu").uri == "models:/digits/2"


def test_a_file_that_could_only_be_begun_is_made_whole_later(queue, tmp_path):
    path = tmp_path / "deep" / "queue.db"
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:  # as where the disk was full for the tables
        connection.execute("PRAGMA journal_mode = WAL")
    assert path.stat().st_size
    assert queue.accept([make()]) == 1


def test_a_file_of_another_version_is_refused_at_the_start(queue, tmp_path):
    with sqlite3.connect(tmp_path / "deep" / "queue.db") as connection:
        connection.execute("ALTER TABLE jobs RENAME COLUMN reason TO why")
    with pytest.raises(HoneError, match="no such column: reason") as caught:
        Queue(tmp_path / "deep" / "queue.db")
    assert caught.value.slug == "queue-broken"


def test_a_new_file_that_many_open_at_once_is_one_queue(tmp_path):
    def accept(number):
        return Queue(tmp_path / "new" / "queue.db").accept([make(f"models:/m/{number % 4}")])

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(accept, range(16))) == 4


@pytest.fixture
def log(queue):
    """SQLite's own log of the queue's file, which it removes when the last connection closes."""
    return queue.path.with_name("queue.db-wal")


def test_the_file_is_whole_once_it_is_closed(queue, log):
    queue.accept([make()])
    assert log.stat().st_size
    queue.close()
    assert not log.exists()
    assert queue.accept([make("models:/digits/2")]) == 1


def test_a_file_that_was_replaced_keeps_its_log_when_the_old_one_is_closed(queue, log):
    queue.accept([make()])
    queue.path.unlink()
    other = Queue(queue.path)
    other.accept([make("models:/m/2")])
    assert log.stat().st_size
    assert queue.accept([make("models:/m/3")]) == 1
    assert log.stat().st_size
    for one in (queue, other):
        assert [job.uri for job in one.list_jobs()] == ["models:/m/3", "models:/m/2"]


def test_what_cannot_be_read_now_is_tried_again(queue):
    whole = queue.path.read_bytes()
    queue.close()
    queue.path.write_bytes(b"no database, but longer than its header" * 99)
    with pytest.raises(HoneError):
        queue.check()
    queue.path.write_bytes(whole)
    queue.check()
    assert queue.accept([make()]) == 1


def test_a_queue_of_an_earlier_version_with_its_table_of_requests_is_taken_over(queue):
    queue.accept([make()])
    with queue._open() as connection:
        connection.execute("CREATE TABLE requests (job INTEGER NOT NULL, rule TEXT NOT NULL, at REAL NOT NULL)")
    queue.close()
    assert [job.uri for job in Queue(queue.path).list_jobs()] == ["models:/digits/1"]
