from __future__ import annotations

import pytest
from toolchains.toy import adaptor as toy
from toolchains.toy.model import make_model

from hone_runtime.contract.catalogue import forget_registrations, register
from hone_runtime.values.samples import Samples, Split
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.recipe.schema import read_recipe
from kedro_hone.search.context import RunContext


@pytest.fixture
def context(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    register(*toy.ADAPTORS)
    store, run = Store(tmp_path / "store"), RunFolder(root=tmp_path / "runs", run_id="run", project=tmp_path)
    model = make_model(tmp_path / "source")
    kept = {name: getattr(model, name) for name in ("format", "inputs", "outputs", "runtime")}
    split = Split(name="calibration", n=1, path="p", md5="m", rev="r")
    samples = Samples(
        digest="sha256:0", splits={"calibration": split}, shapes={}, program="p", program_digest="sha256:0"
    )
    recipe = read_recipe({"model": {"uri": "m"}, "program": {"name": "fidelity"}, "toolchains": ["toy"]})
    source = store.seal(tmp_path / "source", **kept)
    yield RunContext(source=source, samples=samples, recipe=recipe, store=store, run=run)
    forget_registrations()
