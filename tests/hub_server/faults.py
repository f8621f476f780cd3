"""Faults that a test asks the loopback Hub for: what happens at which requests, and how often."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass
class Fault:
    """What happens to requests whose ``METHOD path?query`` a pattern finds.

    Attributes:
        match: A regular expression, searched for in the request's line.
        status: The status of a response without the Hub's own work; None to do the work.
        body: The body of that response; with ``status=200`` it is garbage to the client.
        headers: Further headers of that response.
        hang: Seconds that nothing is sent for, before all else.
        cut: How many bytes of a file are sent before the connection is closed; None sends all.
        pause: Seconds between two blocks of a file: a slow line.
        call: Called when the request arrives, or where ``cut`` or ``after`` says.
        after: The work is done, ``call`` is called, and the connection is closed without a response.
        times: How many requests it happens to.
    """

    match: str
    status: int | None = None
    body: bytes = b'{"error": "a fault was asked for"}'
    headers: Mapping[str, str] = field(default_factory=dict)
    hang: float = 0.0
    cut: int | None = None
    pause: float = 0.0
    call: Callable[[], None] | None = None
    after: bool = False
    times: int = 1_000_000

    def fits(self, line: str) -> bool:
        """Return whether it is due at a request."""
        return self.times > 0 and re.search(self.match, line) is not None
