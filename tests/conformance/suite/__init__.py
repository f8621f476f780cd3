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

from kedro_hone.testing.suite import AdaptorSuite

__all__ = ["AdaptorSuite"]
