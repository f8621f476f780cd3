"""The variables of a worker: never the host's own, which may hold secrets."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kedro_hone.core.contract.toolchain import Toolchain
from kedro_hone.core.workers.host.job import Job

_PASSED_ON = re.compile(
    r"PATH|LANG|LANGUAGE|LC_[A-Z]+|TZ|LD_LIBRARY_PATH|CC|CXX|(CUDA|NVIDIA|ROCR|HIP)_[A-Z0-9_]+|SOURCE_DATE_EPOCH"
)
SECRET: Final = re.compile(r"TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|API_?KEY|ACCESS_?KEY")
"""Found in the names of variables that no other program is given."""
_THREADS = ("OMP", "MKL", "OPENBLAS", "NUMEXPR", "BLIS")
_FIXED: Final = MappingProxyType(
    {
        "PYTHONSAFEPATH": "1",  # no directory of ours on the import path
        "PYTHONNOUSERSITE": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",  # the order of sets of strings must not decide what a toolchain writes
        # By default glibc hands freed memory back to the kernel after each call or not, depending on the layout of the
        # heap, and page faults then cost as much as the model. Kept, every launch is as fast as the luckiest.
        # https://www.gnu.org/software/libc/manual/html_node/Memory-Allocation-Tunables.html
        "MALLOC_MMAP_THRESHOLD_": str(32 << 20),  # the highest that every glibc takes
        "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
        "DO_NOT_TRACK": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
    }
)


def make_environment(
    job: Job, *, toolchain: Toolchain | None = None, inherited: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return all variables of a worker: an allow-list of ours, its own folders, threads, and the toolchain's.

    Args:
        job: Whose temporary folder and number of threads count.
        toolchain: Whose variables are added last.
        inherited: Where the allow-list is applied; variables whose names look like secrets are left out.
    """
    passed = {name: text for name, text in inherited.items() if _PASSED_ON.fullmatch(name) and not SECRET.search(name)}
    scratch = job.temporary or ""
    return {
        **passed,
        **_FIXED,
        **{f"{library}_NUM_THREADS": str(job.threads) for library in _THREADS},
        "HOME": scratch,
        "TMPDIR": scratch,
        "XDG_CACHE_HOME": f"{scratch}/cache",
        "TORCHINDUCTOR_CACHE_DIR": f"{scratch}/inductor",
        "TRITON_CACHE_DIR": f"{scratch}/triton",
        **(toolchain.environment if toolchain else {}),
    }
