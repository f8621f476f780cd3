"""Which checks of the conformance suite are left for the night."""

from __future__ import annotations

import pytest

AT_NIGHT = ("pytorch.", "openvino.")
"""Of these toolchains' adaptors a second transformation, for the check of determinism, takes as long as all other
checks of the adaptor together; of the others it is made each time."""
EACH_TIME = ("pytorch.export", "openvino.ir")
"""Those of these toolchains that most of their routes start with."""


@pytest.hookimpl(tryfirst=True)  # before those are deselected that a marker names
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the checks of determinism that take long."""
    for item in items:
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        adaptor = str(parameters.get("adaptor", ""))
        if parameters.get("check") == "deterministic" and adaptor.startswith(AT_NIGHT) and adaptor not in EACH_TIME:
            item.add_marker(pytest.mark.nightly)
