"""Which workers of a Dask cluster take part in a run, with machines that are not here: a client that tells of them."""

from __future__ import annotations

import logging
from concurrent.futures import CancelledError
from dataclasses import replace
from types import SimpleNamespace

import pytest
from distributed import KilledWorker
from distributed.comm import CommClosedError

from hone_runtime.contract.hardware import read_host
from hone_runtime.errors import HoneError
from kedro_hone.runner import cluster as module
from kedro_hone.runner.cluster import Cluster, NodeTask
from kedro_hone.runner.cluster_errors import explain_loss
from kedro_hone.runner.member import Facts, MisplacedError, Setup, digest_code

CODE = digest_code("kedro_hone")
BUILD = NodeTask(name="compile", needs=frozenset({"build"}), priority=1.0)
RACE = NodeTask(name="race", needs=frozenset({"bench"}), priority=1.0)


@pytest.fixture(autouse=True)
def _quickly(monkeypatch):
    monkeypatch.setattr(module, "_FRESH", 0.0)
    monkeypatch.setattr(module, "_POLL", 0.02)


def say(*, cpu="one", machine="m", code=CODE, shared=True):
    return Facts(host=replace(read_host(), fingerprint=cpu), machine=machine, code=code, shared=shared)


class Client:
    """What Dask's client tells of workers, and what becomes of the tasks that it is given."""

    status = "running"
    scheduler = SimpleNamespace(address="tcp://head:8786")

    def __init__(self, **workers):
        self.workers, self.results, self.submitted = workers, [], []

    def scheduler_info(self, *, n_workers):
        assert n_workers == -1
        workers = {
            name: {"name": name, "nthreads": 2, "resources": dict.fromkeys(labels.split(), 1)}
            for name, (labels, _) in self.workers.items()
        }
        return {"workers": workers}

    def run(self, *_, workers, **__):
        return {name: self.workers[name][1] for name in workers}

    def submit(self, *_, **options):
        self.submitted.append(options)
        return Future(self.results.pop(0))


class Future:
    def __init__(self, value):
        self.value = value

    def done(self):
        return self.value is not None

    def exception(self, **_):
        if self.value is None:
            raise TimeoutError
        return self.value if isinstance(self.value, Exception) else None

    def result(self):
        if isinstance(self.value, Exception):
            raise self.value
        return self.value

    def cancel(self):
        pass


@pytest.fixture
def join(tmp_path):
    def join(patience=0.1, **workers):
        setup = Setup(project=tmp_path, package="kedro_hone", folder=tmp_path, mark="t")
        cluster = Cluster(Client(**workers), setup, patience=patience)
        cluster.client = cluster._client
        return cluster

    return join


@pytest.mark.parametrize(
    ("workers", "why"),
    [
        ({}, "None of its 0 workers has the resource 'bench'"),
        ({"a": ("build", say())}, "None of its 1 workers has the resource 'bench'"),
        ({"a": ("bench", say())}, "None of its 1 workers has the resource 'build'"),
        ({"a": ("bench", say()), "b": ("build", say(cpu="two"))}, "has the processor of a, which measures"),
        ({"a": ("bench build", say(shared=False))}, "The worker a at a does not see"),
        ({"a": ("bench build", say(code="old"))}, "The worker a at a runs other code"),
        ({"a": ("bench build", ModuleNotFoundError("No module named 'shop'"))}, "No module named 'shop'"),
    ],
)
def test_a_cluster_that_cannot_run_a_search_is_refused(join, workers, why):
    with pytest.raises(HoneError, match=why) as caught:
        join(**workers)
    assert caught.value.slug == "cluster-unfit"


def test_it_measures_where_most_workers_build_for(join, caplog):
    few, many = say(cpu="few"), say(cpu="many")
    with caplog.at_level(logging.WARNING):
        cluster = join(
            a=("bench build", few), c=("bench", many), b=("bench", many), d=("build", many), e=("build", many)
        )
    assert cluster.bench.name == "b"
    assert "not used: a," in caplog.text


def test_where_every_worker_will_do_dask_chooses(join):
    cluster = join(a=("bench build", say()), b=("build", say(machine="other")))
    cluster.client.results = [b"1", b"2"]
    assert cluster.run(BUILD, b"") == b"1"
    assert cluster.run(RACE, b"") == b"2"
    built, raced = cluster.client.submitted
    assert (built["workers"], built["resources"]) == (None, {"build": 1})
    assert (raced["workers"], raced["resources"]) == (None, {"bench": 1})


def test_no_more_is_given_to_dask_than_can_be_built_at_once(join):
    cluster = join(a=("bench build", say()), b=("build", say(cpu="two")), c=("build", say(machine="other")))
    assert cluster.count_places() == 2
    cluster.client.workers.clear()
    assert cluster.count_places() == 1


def test_what_is_built_is_built_on_machines_like_the_one_that_measures(join):
    cluster = join(a=("bench build", say()), b=("build", say(cpu="two")), c=("build", say(machine="other")))
    cluster.client.results = [b"1"]
    cluster.run(BUILD, b"")
    assert cluster.client.submitted[0]["workers"] == ["a", "c"]


def test_all_that_is_measured_is_measured_on_one_machine(join):
    cluster = join(a=("bench build", say()), b=("bench", say(machine="other")), c=("bench", say()))
    cluster.client.results = [b"1"]
    cluster.run(RACE, b"")
    assert cluster.client.submitted[0]["workers"] == ["a", "c"]


def test_a_resource_that_nobody_offers_is_not_waited_for(join):
    cluster = join(a=("bench build", say()), b=("build", say()))
    cluster.client.results = [b"1", b"2"]
    cluster.run(replace(BUILD, needs=frozenset({"build", "gpu"})), b"")
    cluster.client.workers["c"] = ("build gpu", say())
    cluster.run(replace(BUILD, needs=frozenset({"build", "gpu"})), b"")
    assert [set(one["resources"]) for one in cluster.client.submitted] == [{"build"}, {"build", "gpu"}]


def test_a_worker_that_joins_later_and_does_not_fit_is_left_out(join, caplog):
    cluster = join(a=("bench build", say()))
    cluster.client.workers["b"] = ("build", say(code="old"))
    cluster.client.results = [b"1"]
    cluster.run(BUILD, b"")
    assert cluster.client.submitted[0]["workers"] == ["a"]
    assert "not used: the worker b at b runs other code" in caplog.text


def die():
    return KilledWorker("compile", SimpleNamespace(address="tcp://a"), 3)


def test_a_node_runs_again_where_its_workers_died_or_do_not_fit(join):
    cluster = join(a=("bench build", say()))
    cluster.client.results = [die(), MisplacedError("b"), die(), b"1"]
    assert cluster.run(BUILD, b"") == b"1"


def test_a_node_that_no_worker_takes_ends_the_run(join):
    cluster = join(a=("bench build", say()))
    cluster.client.results = [MisplacedError("a") for _ in range(100)]
    with pytest.raises(HoneError, match="No worker takes compile") as caught:
        cluster.run(BUILD, b"")
    assert caught.value.slug == "cluster-worker-lost"


def test_a_worker_that_comes_back_at_its_address_as_another_is_asked_again(join, caplog):
    cluster = join(a=("bench build", say()), b=("build", say()))
    cluster.client.workers["b"] = ("build", say(code="new"))
    cluster.client.results = [MisplacedError("b"), b"1"]
    assert cluster.run(BUILD, b"") == b"1"
    assert [one["workers"] for one in cluster.client.submitted] == [None, ["a"]]
    assert "not used: the worker b at b runs other code" in caplog.text


def test_a_worker_that_was_away_and_comes_back_is_asked_again(join):
    cluster = join(a=("bench build", say()), b=("build", say(machine="b")))
    del cluster.client.workers["b"]
    assert len(cluster.look()) == 1
    cluster.client.workers["b"] = ("build", say(machine="c"))
    assert [one.facts.machine for one in cluster.look()] == ["m", "c"]


def test_a_node_that_waits_for_workers_is_let_be_when_the_run_ends(join):
    cluster = join(a=("bench build", say()), patience=600)
    cluster.client.workers.clear()
    cluster.close()
    with pytest.raises(CancelledError):
        cluster.run(BUILD, b"")


def test_a_node_whose_workers_always_die_ends_the_run(join):
    cluster = join(a=("bench build", say()))
    cluster.client.results = [die() for _ in range(100)]
    with pytest.raises(HoneError, match="The workers that ran compile died") as caught:
        cluster.run(BUILD, b"")
    assert caught.value.slug == "cluster-worker-lost"
    assert len(cluster.client.results) == 90


def test_a_node_that_waits_for_a_worker_that_is_gone_is_given_to_another_one(join):
    cluster = join(a=("bench build", say()), b=("build", say(cpu="two")))
    cluster.client.results, submit = [None, b"1"], cluster.client.submit

    def lose(*arguments, **options):
        del cluster.client.workers[options["workers"][0]]
        cluster.client.workers["c"] = ("bench build", say())  # the same one, at another address
        return submit(*arguments, **options)

    cluster.client.submit = lose
    assert cluster.run(BUILD, b"") == b"1"
    assert [one["workers"] for one in cluster.client.submitted] == [["a"], ["c"]]


def test_a_machine_that_measures_and_does_not_come_back_ends_the_run(join):
    cluster = join(a=("bench build", say()), b=("bench build", say(machine="other")))
    del cluster.client.workers["a"]
    with pytest.raises(HoneError, match="There is no worker for race any more") as caught:
        cluster.run(RACE, b"")
    assert caught.value.slug == "cluster-worker-lost"


def test_what_a_node_raises_is_raised(join):
    cluster = join(a=("bench build", say()))
    cluster.client.results = [OSError("a disk"), TimeoutError("its own")]
    with pytest.raises(OSError, match="a disk"):
        cluster.run(BUILD, b"")
    with pytest.raises(TimeoutError, match="its own"):
        cluster.run(BUILD, b"")


@pytest.mark.parametrize("error", [CancelledError("lost"), CommClosedError("lost")])
def test_a_lost_scheduler_is_explained(error):
    with pytest.raises(HoneError, match="tcp://head:8786 cannot be reached") as caught, explain_loss(Client()):
        raise error
    assert caught.value.slug == "cluster-unreachable"


def test_nodes_that_wait_are_let_be_when_the_run_ends(join):
    cluster = join(a=("bench build", say()))
    cluster.client.results = [None]
    cluster.close()
    with pytest.raises(HoneError):
        cluster.run(BUILD, b"")
