"""Whom a winner has to beat: what the alias points to, whoever published it, and never silently nobody."""

from __future__ import annotations

import pytest

from hone_runtime.contract.registry import VersionInfo
from hone_runtime.contract.target import Target
from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.decision import Decision, Verdict
from hone_runtime.values.judgement import GateOutcome, Judgement
from hone_runtime.values.measurement import RaceResult, Standing, Status
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.nodes import challenge as node
from kedro_hone.recipe.schema import read_recipe
from kedro_hone.search.context import RunContext

SOURCE = Artifact(format="onnx", digest="sha256:source", inputs=(), outputs=())
WINNER = SOURCE.model_copy(update={"digest": "sha256:winner"})
PUBLISHED = SOURCE.model_copy(update={"digest": "sha256:published"})
VERSION = VersionInfo(uri="models:/digits/1", name="digits", version="1")


TAGS = {"2": {"hone.source": "models:/digits/1", "hone.digest": "sha256:published"}}


class Registry:
    """A registry of three versions: a source, a winner of ours, and one that somebody made by hand."""

    def __init__(self, aliases):
        self.aliases = aliases

    def resolve(self, uri):
        version = uri.rpartition("/")[2]
        return VersionInfo(uri=f"models:/digits/{version}", name="digits", version=version, tags=TAGS.get(version, {}))

    def list_aliases(self, _):
        if self.aliases is None:
            raise HoneError("registry-offline", "The registry is offline.", why="So it is.", hint="Go online.")
        return self.aliases

    def name_version(self, name, version):
        return f"models:/{name}/{version}"


@pytest.fixture
def challenge(tmp_path, monkeypatch):
    """Call the node with the aliases of the registry, and note what was fetched."""
    run = RunFolder(root=tmp_path / "runs", run_id="one", project=tmp_path)
    recipe = read_recipe({"model": {"uri": "models:/digits/1", "task": "image-classification"}})
    context = RunContext(source=SOURCE, samples=None, recipe=recipe, store=Store(tmp_path / "store"), run=run)
    standings = tuple(Standing(id=one, status=Status.MEASURED, rounds=3) for one in ("won", "other"))
    result = RaceResult(
        validations=(), standings=standings, source_latency=(), rounds=3, seconds=1.0, budget_ended=False, timings="k"
    )
    won = Decision(verdict=Verdict.PASS, reasons=(), winner="won", artifact=WINNER)

    def call(aliases, fetched, assessed=won, error=None, challenged=None):
        registry = Registry(aliases)
        monkeypatch.setattr(node, "find_target", lambda *_, **__: Target(registry, None))

        def fetch(uri, _registry, recipe, *_):
            if error is not None:
                raise error
            fetched.append((uri, recipe.model))
            return None, PUBLISHED

        monkeypatch.setattr(node, "fetch", fetch)
        incumbent, contest = node.challenge(context=context, result=result, assessed=assessed, version=VERSION)
        if error is None and challenged is None:
            return incumbent, [one.id for one in contest.standings if one.status is Status.MEASURED]
        lost = challenged or Decision(verdict=Verdict.KEEP, reasons=("nobody was measured",))
        return node.compare_with_published(
            context=context, assessed=assessed, challenged=lost, contest=contest, incumbent=incumbent
        )

    return call


@pytest.mark.parametrize("aliases", [{}, {"other": "2"}, {"honed": "1"}])
def test_nothing_is_published_but_the_source(challenge, aliases):
    fetched = []
    assert challenge(aliases, fetched) == (SOURCE, [])
    assert not fetched


@pytest.mark.parametrize(("version", "task"), [("2", None), ("3", "image-classification")])
def test_the_winner_meets_what_is_published_whoever_published_it(challenge, version, task):
    fetched = []
    assert challenge({"honed": version}, fetched) == (PUBLISHED, ["won"])
    [(uri, model)] = fetched
    assert (uri, model.uri) == (f"models:/digits/{version}", f"models:/digits/{version}")
    assert model.task == task  # a winner of ours says by itself what it is for


def test_the_winner_is_what_is_published(challenge):
    won = Decision(verdict=Verdict.PASS, reasons=(), winner="won", artifact=PUBLISHED)
    assert challenge({"honed": "2"}, [], won) == (PUBLISHED, [])


def test_without_a_winner_nobody_asks(challenge):
    assert challenge(None, [], Decision(verdict=Verdict.KEEP, reasons=())) == (SOURCE, [])


def test_a_registry_that_cannot_be_asked_is_no_registry_without_a_published_version(challenge):
    with pytest.raises(HoneError, match="offline"):
        challenge(None, [])


def test_what_cannot_be_opened_is_not_beaten(challenge):
    error = HoneError("model-unsupported", "It cannot be converted.", why="It is of another kind.", hint="Convert it.")
    decision = challenge({"honed": "3"}, [], error=error)
    assert (decision.verdict, decision.winner, decision.artifact) == (Verdict.INCONCLUSIVE, None, None)
    assert "against honed: models:/digits/3 cannot be compared: It cannot be converted." in decision.reasons[0]
    assert "the winner is not published, and honed is not moved" in decision.reasons[1]


def test_what_cannot_be_reached_is_tried_again(challenge):
    error = HoneError("registry-unreachable", "It does not answer.", why="It is down.", hint="Start it.")
    with pytest.raises(HoneError, match="does not answer"):
        challenge({"honed": "3"}, [], error=error)


def test_what_the_gates_said_against_what_is_published_is_in_the_decision(challenge):
    """A busy machine was in a reason alone: no judgement said that it stood against the verdict."""

    def judge(candidate, judged, measured):
        return Judgement(name="other_load", candidate=candidate, judgement=judged, measured=measured)

    first = judge("won", GateOutcome.HOLDS, 0.1)
    won = Decision(verdict=Verdict.PASS, reasons=(), winner="won", artifact=WINNER, gates=(first,))
    for verdict, judged, load in (
        (Verdict.INCONCLUSIVE, GateOutcome.UNDECIDED, 0.6),
        (Verdict.PASS, GateOutcome.HOLDS, 0.2),
    ):
        second, published = judge("won", judged, load), judge("source", GateOutcome.FAILS, load)
        challenged = Decision(verdict=verdict, reasons=("because",), gates=(second, published))
        found = challenge({"honed": "2"}, [], assessed=won, challenged=challenged)
        assert (found.verdict, found.gates) == (verdict, (first, second.model_copy(update={"against": "honed"})))
