"""The errors and the exit codes, from ``core.errors``."""

from __future__ import annotations

from generated.models import make_table
from hone_runtime.errors import SLUGS, ExitCode, read_page

CODES = {
    ExitCode.SUCCESS: "The verdict is PASS or KEEP, or the command did what it was asked.",
    ExitCode.INPUT: "The recipe, the model, the data or the machine is not as it should be; the error says what to do.",
    ExitCode.BUG: "A bug in kedro-hone. `data/hone/bug.log` has the traceback: please report it.",
    ExitCode.FAIL: "The verdict is FAIL.",
    ExitCode.INCONCLUSIVE: "The verdict is INCONCLUSIVE.",
    ExitCode.DRAFT: "The verdict is DRAFT: there were no data, and nothing is proved.",
    ExitCode.INTERRUPTED: "Interrupted, such as by Ctrl-C. What was built is kept.",
    ExitCode.TERMINATED: "Ended by SIGTERM, such as by `timeout` or a CI system. What was built is kept.",
}


def list_errors() -> str:
    """Return every error with a link to its page, and the bold sentence at its beginning."""
    return make_table(
        [(f"[`{slug}`]({slug}.md)", " ".join(read_page(slug).split("**")[1].rstrip(".").split())) for slug in SLUGS],
        "slug",
        "what happened",
    )


def list_codes() -> str:
    """Return every exit code."""
    rows = [(str(code.value), CODES[code]) for code in sorted(ExitCode)]
    return make_table(
        [*rows, ("1, 2", "Kedro's and click's own: a failed command, a wrong option.")], "code", "meaning"
    )
