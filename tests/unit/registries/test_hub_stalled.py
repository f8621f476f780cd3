from __future__ import annotations

import pytest

from kedro_hone.adaptors.registries.huggingface.explaining import StalledError

PUT = "thrown while requesting PUT http://127.0.0.1:42915/_lfs/19c429ed51cf"


@pytest.mark.parametrize(
    ("heard", "limited"),
    [
        (f"HTTP Error 429 {PUT}", True),
        ("Rate limited. Waiting 60s before retry [Retry 1/5].", True),
        (f"HTTP Error 500 {PUT}", False),  # neither the port nor the digest is a status
        (f"HTTP Error 503 {PUT.replace('_lfs', '429')}", False),
        ("", False),
    ],
)
def test_a_stalled_call_was_limited_where_its_client_said_so(heard, limited):
    assert StalledError(1.5, heard).limited is limited
