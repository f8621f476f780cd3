from __future__ import annotations

from kedro_hone.core.contract.skipping import collect_skipped, report_skipped
from kedro_hone.core.errors import HoneError


def test_what_is_left_out_is_logged_and_can_be_collected(caplog):
    denied = HoneError("registry-denied", "The Hub denies access.", why="It is gated.", hint="Accept its terms.")
    with collect_skipped() as found:
        report_skipped("hf://org/a@0", denied)
        report_skipped("/models/b\x1b[2J", OSError("no such device: token=abcdefgh12345678"))
    report_skipped("hf://org/c@0", denied)
    assert found == {
        "hf://org/a@0": "The Hub denies access. It is gated.",
        "/models/b\ufffd[2J": "OSError: no such device: token=***",
    }
    assert [record.getMessage().partition(" ")[0] for record in caplog.records] == [*found, "hf://org/c@0"]
