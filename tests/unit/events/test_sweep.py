from __future__ import annotations

import os
import sys
import threading
import time
from functools import partial

import pytest
from deliveries import make_job

from hone_runtime.contract.registry import NewVersions, VersionInfo
from hone_runtime.errors import HoneError
from kedro_hone.events.event import Event, Kind
from kedro_hone.events.queue import Queue
from kedro_hone.events.recurrence import Recurrence
from kedro_hone.events.settings import SweepSection, read_settings
from kedro_hone.events.sweep import Arrivals, Sweep, find_arrivals

HANG = 60.0
SETTINGS = read_settings({"rules": [{"name": "all", "models": "*"}]})


def write_model(folder, text="weights"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_text(text)


def test_what_is_new_in_a_folder_is_found(tmp_path):
    write_model(tmp_path / "models" / "one")
    first = find_arrivals("models", None, project=tmp_path)
    assert [event.kind for event in first.events] == [Kind.VERSION_CREATED]
    assert find_arrivals("models", first.cursor, project=tmp_path).events == ()
    write_model(tmp_path / "models" / "one", "other weights")
    (again,) = find_arrivals("models", first.cursor, project=tmp_path).events
    assert again.uri == first.events[0].uri
    assert again.version != first.events[0].version


def test_a_registry_that_is_none_is_an_error(tmp_path):
    with pytest.raises(HoneError):
        find_arrivals("ftp://x", None, project=tmp_path)


@pytest.fixture
def queue(tmp_path):
    return Queue(tmp_path / "queue.db")


@pytest.fixture
def open_sweep(queue, tmp_path, monkeypatch):
    """Make sweeps whose process says what it is told to, in turn."""
    made = []

    def open_(*said, everything=False, seconds=3600.0, queue=queue):
        script, turn = tmp_path / "arrivals.py", tmp_path / "turn"
        turn.write_text("0")
        script.write_text(
            f"import sys, pathlib\nsaid = {list(said)!r}\nplace = pathlib.Path({str(turn)!r})\n"
            "turn = int(place.read_text())\nplace.write_text(str(turn + 1))\n"
            "code = said[min(turn, len(said) - 1)]\nexec(code)\n"
        )
        monkeypatch.setattr("kedro_hone.events.sweep.build_command", lambda _: [sys.executable, str(script)])
        woken = threading.Event()
        sweep = Sweep(
            queue,
            section=SweepSection.model_construct(every=seconds, first="all" if everything else "now"),
            project=tmp_path,
            rules=SETTINGS.rules,
            choose=lambda event: (make_job(event.uri),),
            wake=woken.set,
        )
        made.append(sweep)
        return sweep

    yield open_
    for sweep in made:
        sweep.stop()


@pytest.fixture
def start():
    """Let sweeps take their turns, until they are stopped or the test ends."""
    made = []

    def start_(sweep):
        schedule = Recurrence(partial(sweep.repeat, "models:/"))
        made.append((sweep, schedule))
        schedule.start()
        return schedule

    yield start_
    for sweep, schedule in made:
        sweep.stop()
        schedule.stop()


def say(*uris, cursor="c", **more):
    events = tuple(Event(kind=Kind.VERSION_CREATED, uri=uri, name="digits", delivery="") for uri in uris)
    return f"print('a warning'); print({Arrivals(events=events, cursor=cursor, **more).model_dump_json()!r})"


def test_the_first_sweep_only_remembers_where_it_is(queue, open_sweep):
    sweep = open_sweep(
        f"import json\nif not json.load(sys.stdin)['since']: sys.exit('all')\n{say(cursor='c')}",
        f"import json\nif json.load(sys.stdin)['since']: sys.exit('not all')\n{say('models:/digits/2', cursor='d')}",
    )
    assert sweep.sweep("models:/") == 0
    assert sweep.failing == {}
    assert sweep.sweep("models:/") == 1
    assert [job.uri for job in queue.list_jobs()] == ["models:/digits/2"]
    assert queue.read_cursor("models:/") == "d"


def test_rules_that_name_nothing_are_told_once(open_sweep, caplog):
    caplog.set_level("WARNING", logger="kedro_hone.events")
    sweep = open_sweep(say(names=("spam",)), say("models:/digits/1"))
    sweep._rules = read_settings({"rules": [{"name": "all", "models": "digits"}]}).rules
    for _ in range(2):
        sweep.sweep("models:/")
    assert [(record.getMessage(), record.details["rules"]) for record in caplog.records] == [
        ("rules-match-nothing", ["all"])
    ]


def test_the_first_sweep_takes_everything_where_it_is_asked_to(queue, open_sweep):
    assert open_sweep(say("models:/digits/1"), everything=True).sweep("models:/") == 1


def test_the_process_is_told_the_cursor(queue, open_sweep):
    sweep = open_sweep(
        say(cursor="first"),
        "import json; told = json.load(sys.stdin)['cursor']\n"
        "print(json.dumps({'events': [], 'cursor': 'after ' + told}))",
    )
    sweep.sweep("models:/")
    sweep.sweep("models:/")
    assert queue.read_cursor("models:/") == "after first"


BYTES = "sys.stdout.buffer.write(bytes([255]))"  # no UTF-8


@pytest.mark.parametrize(
    "said", ["sys.exit('It does not respond.')", "print('nonsense')", "print('{}')", "pass", BYTES]
)
def test_a_registry_that_fails_is_told_and_asked_again(queue, open_sweep, said):
    sweep = open_sweep(said, say(cursor="c"))
    assert sweep.sweep("models:/") == 0
    assert list(sweep.failing) == ["models:/"]
    assert queue.read_cursor("models:/") is None
    sweep.sweep("models:/")
    assert sweep.failing == {}


def test_it_sweeps_now_and_then_and_ends_at_once(open_sweep, start, tmp_path):
    schedule = start(open_sweep(say(), seconds=0.05))
    deadline = time.monotonic() + HANG
    while int((tmp_path / "turn").read_text() or 0) < 3:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    schedule.stop()


def test_a_registry_that_hangs_holds_up_neither_the_start_nor_the_end(open_sweep, start, tmp_path):
    sweep = open_sweep("import time; time.sleep(600)")
    schedule = start(sweep)
    deadline = time.monotonic() + HANG
    while (tmp_path / "turn").read_text() != "1":
        assert time.monotonic() < deadline
        time.sleep(0.02)
    sweep.stop()
    schedule.stop()
    assert sweep.failing == {}


class Registered:
    """A registry of two versions: a source with an alias and a tag, and a winner."""

    def versions_since(self, cursor):
        source = VersionInfo(uri="models:/a/1", name="a", version="1", aliases=("candidate",), tags={"optimize": "yes"})
        winner = VersionInfo(uri="models:/a/2", name="a", version="2", tags={"hone.source": "models:/a/1"})
        return NewVersions((source, winner), f"after {cursor}")


def test_aliases_and_tags_of_a_new_version_count_and_winners_do_not(tmp_path, monkeypatch):
    monkeypatch.setattr("kedro_hone.events.sweep.find_registry", lambda *_, **__: Registered())
    found = find_arrivals("models:/", "x", project=tmp_path)
    assert found.cursor == "after x"
    assert [(event.uri, *event.names[-1:], event.value) for event in found.events] == [
        ("models:/a/1", "version_created", ""),
        ("models:/a/1", "alias_set:candidate", ""),
        ("models:/a/1", "tag_set:optimize", "yes"),
    ]


START = 1_000_000.0


class Dated:
    """A registry that tells the times of its versions: long before a start, just before, after it; and one without."""

    def versions_since(self, cursor):
        times = {"1": START - 3600, "2": START - 5, "3": START + 60, "4": 0.0}
        made = (VersionInfo(uri=f"models:/a/{a}", name="a", version=a, created=at) for a, at in times.items())
        return NewVersions(tuple(made), f"after {cursor}")


def test_what_is_newer_than_the_service_counts_at_its_first_sweep(tmp_path, monkeypatch):
    monkeypatch.setattr("kedro_hone.events.sweep.find_registry", lambda *_, **__: Dated())
    found = find_arrivals("models:/", None, project=tmp_path, since=START)
    assert [event.uri for event in found.events] == ["models:/a/2", "models:/a/3"]  # the clocks may differ a little
    assert len(find_arrivals("models:/", "x", project=tmp_path).events) == 4


def test_what_comes_into_a_folder_after_the_start_is_newer(tmp_path):
    write_model(tmp_path / "models" / "old")
    time.sleep(0.1)
    since = time.time()
    time.sleep(0.1)
    write_model(tmp_path / "models" / "new")
    os.utime(tmp_path / "models" / "new" / "model.onnx", (0, 0))  # as a copy keeps it
    found = find_arrivals("models", None, project=tmp_path, since=since)
    assert [event.name for event in found.events] == ["new"]


def test_a_first_sweep_is_told_when_the_first_service_started(tmp_path, open_sweep):
    now = iter((START, START + 50, START + 100))
    clock = Queue(tmp_path / "queue.db", now=lambda: next(now))
    assert open_sweep("sys.exit('It is down.')", queue=clock).sweep("models:/") == 0
    for _ in range(2):  # the service is started again, and the registry is still down
        sweep = open_sweep("import json; sys.exit(str(json.load(sys.stdin)['since']))", queue=clock)
        sweep.sweep("models:/")
        assert sweep.failing == {"models:/": str(START)}


def test_a_registry_that_is_down_is_asked_again_sooner(queue, open_sweep, start, monkeypatch):
    monkeypatch.setattr("kedro_hone.events.sweep._RETRY_SECONDS", 0.05)
    fails = "sys.exit('It is down.')"
    start(open_sweep(fails, fails, fails, say("models:/digits/1"), seconds=3600.0))
    deadline = time.monotonic() + HANG
    while not queue.list_jobs():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert queue.read_cursor("models:/") == "c"


class Full:
    """A registry of many versions of a few models, with long tags."""

    def versions_since(self, _):
        named = [(f"m{number % 10}", str(number)) for number in range(1000)]
        tags = {"note": "x" * 1000}
        infos = (VersionInfo(uri=f"models:/{a}/{b}", name=a, version=b, tags=tags) for a, b in named)
        return NewVersions(tuple(infos), "c")


def test_of_what_starts_no_run_only_the_names_of_models_are_sent(tmp_path, monkeypatch):
    monkeypatch.setattr("kedro_hone.events.sweep.find_registry", lambda *_, **__: Full())
    found = find_arrivals("models:/", None, project=tmp_path, since=START)
    assert (found.events, found.names) == ((), tuple(f"m{number}" for number in range(10)))
    assert len(found.model_dump_json()) < 1000
    everything = find_arrivals("models:/", None, project=tmp_path)
    assert (len(everything.events), everything.names) == (2000, found.names)
    assert find_arrivals("models:/", "c", project=tmp_path).names == ()


def test_what_is_left_out_is_told_once(queue, open_sweep, caplog):
    caplog.set_level("WARNING", logger="kedro_hone.events")
    sweep = open_sweep(*(say(skipped={"hf://org/bad": why}) for why in ("gated", "gated", "gone")), say())
    sweep.sweep("models:/")
    sweep.sweep("models:/")
    sweep.sweep("models:/")
    told = [record.details for record in caplog.records if record.getMessage() == "version-skipped"]
    assert [(one["uri"], one["reason"]) for one in told] == [("hf://org/bad", "gated"), ("hf://org/bad", "gone")]
    assert queue.read_cursor("models:/") == "c"
    assert sweep.failing == {}


def test_a_process_that_cannot_be_started_is_told(open_sweep, monkeypatch):
    sweep = open_sweep(say(cursor="c"))

    def fail(*_, **__):
        raise BlockingIOError(11, "Resource temporarily unavailable")

    with monkeypatch.context() as patch:
        patch.setattr("kedro_hone.events.sweep.subprocess.Popen", fail)
        assert sweep.sweep("models:/") == 0
    assert "temporarily unavailable" in sweep.failing["models:/"]
    sweep.sweep("models:/")
    assert sweep.failing == {}
