"""What SparseML's adaptors take."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from kedro_hone.adaptors.sparseml.adaptor import TOOLCHAIN, PruneOptions


def test_two_of_four_is_half():
    assert PruneOptions(pattern="2:4", sparsity=0.5).sparsity == pytest.approx(0.5)
    with pytest.raises(ValidationError, match=r"set sparsity to 0\.5"):
        PruneOptions(pattern="2:4")


def test_what_is_built_from_source_is_pinned_with_its_digest_and_has_its_builder():
    (sources,) = TOOLCHAIN.sources
    assert "gputil==1.4.0 \\\n    --hash=sha256:" in sources.read_text()
    assert "\nsetuptools==" in TOOLCHAIN.lock.read_text()
    assert "gputil==" not in TOOLCHAIN.lock.read_text()
