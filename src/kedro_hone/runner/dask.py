"""The runner of a search on a Dask cluster: nodes run on workers with their resources; otherwise like a local run.

Each node that builds or measures is a task of Dask's. The process of the run loads the node's inputs from the catalog,
sends them as values, and saves the results. So the catalog's datasets, hooks and credentials are only needed there, and
any dataset works. Nodes that neither build nor measure (pull, prepare, report, publish) run there.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from functools import partial, update_wrapper
from typing import Any, ClassVar

from kedro.framework import project
from kedro.io import CatalogProtocol
from kedro.pipeline import Pipeline
from kedro.pipeline.node import Node
from pluggy import PluginManager

from hone_runtime.contract.host import Host
from hone_runtime.text import open_logger
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.runner.cluster import BENCH, BUILD, Cluster, NodeTask
from kedro_hone.runner.cluster_errors import explain_unreachable
from kedro_hone.runner.member import ANSWERS, Setup
from kedro_hone.runner.schedule import ALONE, Schedule
from kedro_hone.runner.search import SearchRunner

_LOGGER = open_logger(__name__)
_NEEDS, _RECIPE = "needs.", "params:hone"
_SECONDS = 10.0
"""How long a scheduler may take to respond."""
_MOST = 1e9
"""The priority of nodes that belong to no route: they run before all others."""
_THREADS = 1000
"""The most threads of the run's process; each waits for a node, so this limits the nodes that are ready at once."""


class DaskRunner(SearchRunner):
    """Runs nodes on the workers of a Dask scheduler, which must be started with the resources that nodes need.

    Args:
        is_async: Ignored.
        scheduler: Its address, such as ``tcp://head:8786``; by default that of Dask's own configuration
            (``DASK_SCHEDULER_ADDRESS``).
        patience: For how many seconds a node waits for a worker that can run it, if none is left.

    Raises:
        HoneError: When it runs: ``cluster-unreachable``, ``cluster-unfit``, ``cluster-worker-lost``.
    """

    _alone: ClassVar[frozenset[str]] = frozenset({ALONE})  # others go on, on other machines

    def __init__(self, is_async: bool = False, scheduler: str | None = None, patience: float = 120.0) -> None:  # noqa: FBT001, FBT002 - Kedro's
        super().__init__(is_async=is_async)
        self._most, self._address, self._patience = _THREADS, scheduler, patience
        self._cluster: Cluster | None = None

    def _run(
        self,
        pipeline: Pipeline,
        catalog: CatalogProtocol[Any, Any],
        hook_manager: PluginManager | None = None,
        run_id: str | None = None,
    ) -> None:
        """Run the pipeline; if every node runs here, no cluster is needed."""
        if not any(map(find_needs, pipeline.nodes)):
            super()._run(pipeline, catalog, hook_manager, run_id)
            return
        with connect(self._address) as client:
            setup = _prepare(catalog.load("run"))
            client.subscribe_topic(setup.topic, _log)
            _LOGGER.info("dask      %s, dashboard %s", client.scheduler.address, client.dashboard_link)
            self._cluster = Cluster(client, setup, patience=self._patience)
            bench = self._cluster.bench
            _LOGGER.info("dask      %d workers; measured on %s", len(self._cluster.look()), bench.name)
            _count_threads(catalog, bench.facts.host)
            super()._run(pipeline, catalog, hook_manager, run_id)

    def _read_host(self) -> Host:
        return super()._read_host() if self._cluster is None else self._cluster.bench.facts.host

    def _count_places(self, together: list[Node], schedule: Schedule) -> int:
        return super()._count_places(together, schedule) if self._cluster is None else self._cluster.count_places()

    def _place(self, node: Node, schedule: Schedule) -> Node:
        """Return a node that runs another one on the cluster."""
        needs = find_needs(node)
        if self._cluster is None or not needs:
            return node
        weight = min(_MOST, schedule.compute_priority(node))
        placed = copy(node)
        order = NodeTask(name=node.name, needs=needs, priority=weight)
        placed.func = update_wrapper(partial(_call, self._cluster, order, node.func), node.func)
        return placed

    def _abandon(self, catalog: CatalogProtocol[Any, Any], *, interrupted: bool) -> None:
        """Abandon nodes that wait for a worker; if the run is interrupted, running nodes are ended, too."""
        super()._abandon(catalog, interrupted=interrupted)
        if self._cluster is not None:
            self._cluster.close()


def find_needs(node: Node) -> frozenset[str]:
    """Return the worker's resources that a node needs, by its tags; empty if it runs in the run's own process."""
    needs = {tag.removeprefix(_NEEDS) for tag in node.tags if tag.startswith(_NEEDS)}
    if BENCH not in needs and node.tags & {"build", "validate"}:
        needs.add(BUILD)
    return frozenset(needs)


def _call(cluster: Cluster, order: NodeTask, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Call a node's function on the cluster."""
    return pickle.loads(cluster.run(order, pickle.dumps((function, arguments, named))))  # noqa: S301 - our own workers'


@contextmanager
def connect(address: str | None) -> Iterator[Any]:
    """Yield a client of a scheduler.

    Raises:
        HoneError: ``cluster-unreachable``: it is not reachable, no address is configured, or Dask is not installed.
    """
    try:
        from dask import config  # noqa: PLC0415 - an extra
        from distributed import Client  # noqa: PLC0415
    except ImportError as error:
        raise explain_unreachable(address or "", error, "Install it: pip install 'kedro-hone[dask]'.") from error
    if not (known := address or config.get("scheduler-address", None)):
        fault = ValueError("no address is given")
        raise explain_unreachable("", fault, "Name it: --runner-params scheduler=tcp://HOST:8786.") from None
    try:
        client = Client(known, timeout=_SECONDS, set_as_default=False, name="kedro-hone")
    except (OSError, ValueError) as error:
        raise explain_unreachable(known, error) from error
    try:
        yield client
    finally:
        client.close(timeout=_SECONDS)


def _prepare(run: RunFolder) -> Setup:
    """Write a mark to the run's folder, which a worker can only find on a shared file system."""
    mark = uuid.uuid4().hex
    folder = run.folder / ANSWERS
    folder.mkdir(parents=True, exist_ok=True)
    (folder / mark).touch()
    package = project.PACKAGE_NAME or "kedro_hone"
    return Setup(project=run.project, package=package, folder=run.folder, mark=mark)


def _count_threads(catalog: CatalogProtocol[Any, Any], host: Host) -> None:
    """Set the number of threads in the recipe if it is missing: otherwise each machine would count its own cores."""
    recipe = catalog.load(_RECIPE)
    if recipe.threads is None:
        catalog.save(_RECIPE, recipe.model_copy(update={"threads": host.cores}))


def _log(event: tuple[float, dict[str, Any]]) -> None:
    """Log a node's line together with the run's own lines."""
    line = event[1]
    open_logger(line["name"]).log(line["level"], "%s", line["text"])
