"""The registered pipelines, generated from the recipe."""

from __future__ import annotations

import warnings

from kedro.pipeline import Pipeline

from kedro_hone.graph import read_plan
from kedro_hone.pipelines import build, compare, demo, publish, pull


def register_pipelines() -> dict[str, Pipeline]:
    """Return ``pull``, ``build``, ``compare``, ``publish``, ``assess`` (all but publish), ``choose`` and ``demo``."""
    plan = read_plan()
    with warnings.catch_warnings():
        # One namespace feeds another here, and Kedro warns that each such dataset may be misspelt.
        warnings.filterwarnings("ignore", message="One or more dataset names contain")
        parts = {
            "pull": pull.create_pipeline(plan),
            "build": build.create_pipeline(plan),
            "compare": compare.create_pipeline(plan),
            "publish": publish.create_pipeline(),
        }
    assess = parts["pull"] + parts["build"] + parts["compare"]
    whole = {"assess": assess, "__default__": assess + parts["publish"]}
    return {**parts, **whole, "choose": compare.create_choice_pipeline(plan), "demo": demo.create_pipeline()}
