"""A recipe that lists several values of an option."""

from __future__ import annotations

import pytest


@pytest.mark.nightly
def test_each_value_of_an_option_is_a_candidate_whose_name_shows_it(project):
    project.set(adaptors={"shop.fast": {"options": {"slow": [0.02, 0.5]}}, "shop.slow": {"enabled": False}})
    project.run("--pipelines", "assess", code={0, 11})  # whatever a busy machine lets be decided
    named = {one["id"]: one["options"] for one in project.evidence["candidates"] if one["id"].startswith("source.")}
    fast, slower = "source.shop_fast+slow=0-02", "source.shop_fast+slow=0-5"
    assert named[fast] == {"shop.fast": {"slow": 0.02}}
    assert named[slower] == {"shop.fast": {"slow": 0.5}}
    listed = project.call("hone", "routes").output
    assert "shop.fast (slow=0.5)" in " ".join(listed.split())
