"""Mutate the statistics, the gates and the store, and count by module which mutants the unit tests detect.

mutmut makes the mutants: ``[tool.mutmut]`` in ``pyproject.toml`` lists the modules and their tests. Results are stored
in ``mutants/``: a second run tries changed and undetected mutants, and an interrupted one continues. ``mutmut results``
lists undetected mutants, and ``mutmut show NAME`` the change.

A mutant is detected if a test fails or no longer ends. The exit status is 1 if less than 85 % are detected.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

from mutmut.mutation.data import SourceFileMutationData
from mutmut.stats import status_by_exit_code as status_by_code
from mutmut.utils.file_utils import walk_mutatable_files

LEAST = 0.85
NOTICED = ("killed", "timeout")
NOT_RUN = 255
"""The exit code of mutmut if its own runner raised, such as for a missing test. It counts this as a timeout."""


def main() -> None:
    """Run mutmut with the given arguments, such as names of mutants, and print the figures."""
    os.chdir(Path(__file__).resolve().parent.parent)
    shutil.rmtree("mutants/tests", ignore_errors=True)  # mutmut copies them, and leaves removed ones
    for path in walk_mutatable_files():
        forget_unnoticed(path)
    # One seed, so that tests have the same names in each process; one thread, since mutants are tried two at a time.
    environment = os.environ | {"HONE_SEED": "0", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "mutmut", "run", "--max-children", "2", *sys.argv[1:]]
    subprocess.run(command, check=True, env=environment)
    modules = {path: count(path) for path in sorted(walk_mutatable_files())}
    total = sum(modules.values(), Counter())
    others = sorted(total.keys() - {*NOTICED, "survived"})
    columns = [*NOTICED, "survived", *others]
    print(f"\n{'module':44}" + "".join(f"{name:>12}" for name in columns) + f"{'noticed':>12}")
    for path, found in [*((path, found) for path, found in modules.items() if found), ("all", total)]:
        name = str(path).removeprefix("src/kedro_hone/")
        print(f"{name:44}" + "".join(f"{found[name]:12}" for name in columns) + f"{share(found):12.1%}")
    if share(total) < LEAST:
        sys.exit(f"Less than {LEAST:.0%} of the mutants were noticed.")


def forget_unnoticed(path: Path) -> None:
    """Make mutmut try undetected mutants again: it retains a result even if a test was added since."""
    data = SourceFileMutationData(path=path)
    data.load()
    codes = data.exit_code_by_key.items()
    data.exit_code_by_key = {name: code if name_end(code) in NOTICED else None for name, code in codes}
    if codes:
        data.save()


def count(path: Path) -> Counter[str]:
    """Return how many mutants of a module ended in which way."""
    data = SourceFileMutationData(path=path)
    data.load()
    return Counter(name_end(code) for code in data.exit_code_by_key.values())


def name_end(code: int | None) -> str:
    """Return the meaning of the exit status of a mutant's tests."""
    return "not run" if code == NOT_RUN else str(status_by_code[code])


def share(found: Counter[str]) -> float:
    """Return the share of detected mutants."""
    return sum(found[status] for status in NOTICED) / found.total()


if __name__ == "__main__":
    main()
