"""The public conformance suite for adaptors.

To use it, subclass it with two fixtures::

    from kedro_hone.testing import AdaptorSuite

    class TestHalf(AdaptorSuite):
        @pytest.fixture
        def adaptor(self):
            return half.ADAPTOR

        @pytest.fixture
        def artifact(self, tmp_path):
            return ...  # a small model that the adaptor takes

Compatibility: new mandatory checks come only with minor releases, and the changelog names each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kedro_hone.testing.suite import AdaptorSuite

__all__ = ["AdaptorSuite"]


def __getattr__(name: str) -> object:
    """Import the suite, and with it pytest and numpy, only when it is asked for."""
    if name == "AdaptorSuite":
        from kedro_hone.testing.suite import AdaptorSuite  # noqa: PLC0415

        return AdaptorSuite
    raise AttributeError(name)
