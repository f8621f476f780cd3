from __future__ import annotations

import pytest
from pydantic import model_validator

from kedro_hone.core.contract.toolchain import RunOptions, Toolchain


class Streams(RunOptions):
    streams: int = 1
    threads: int = 4

    @model_validator(mode="after")
    def _fit(self) -> Streams:
        if self.streams > self.threads:
            raise ValueError("more streams than threads")
        return self


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"streams": 2}, None),
        (
            {"streams": 8},
            "the run option combination of tool is {'streams': 8}: Value error, more streams than threads",
        ),
        ({"streams": "2"}, "the run option streams of tool is '2': Input should be a valid integer"),
        ({"CACHE_DIR": "x"}, "tool takes no run option 'CACHE_DIR'"),
    ],
)
def test_a_bad_run_option_or_combination_of_them_is_named(tmp_path, options, says):
    assert Toolchain(name="tool", folder=tmp_path, run_options=Streams).find_bad_option(options) == says
