"""The isolation of a worker before its program starts: each layer is tried, and those in force are reported.

Runs in the fork that becomes the worker, so that not even the start of the toolchain's interpreter is outside.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import glob
import os
import resource
import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kedro_hone.core.workers.guard import landlock, namespaces, seccomp
else:  # run by path: our package is not importable
    import landlock
    import namespaces
    import seccomp

_CAPBSET_DROP, _CAP_AMBIENT, _CLEAR_ALL = 24, 47, 4
_CAPSET_VERSION = 0x20080522
_DEVICES = (
    "null",
    "zero",
    "full",
    "tty",
    "random",
    "urandom",
    "nvidia*",
    "nvidia-caps/*",
    "dri/*",
    "kfd",
    "dxg",
    "accel/*",
)
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - named to be closed, not written to
_TASKS = "/proc/self/task"
"""Where a process names its threads. CUDA does so at its start, and ends with error 304 if it cannot."""
_THREADS = 4096
"""The most threads in one worker. Linux counts them for each user namespace, and not for root; the guard counts
processes."""


def isolate(limits: dict[str, Any]) -> dict[str, Any]:
    """Isolate this process permanently according to ``limits``, and return which layers are in force.

    ``limits`` contain the paths that may be read (``reads``), listed (``lists``) and written (``writes``). They also
    contain the size of ``/dev/shm`` (``shared_bytes``), links to make (``links``), and the ``layers`` to try:
    ``namespaces``, ``landlock``, ``seccomp``.

    Raises:
        OSError: There are no namespaces: this process cannot be used any more; try without them in another.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    layers, reads = limits["layers"], [path for path in limits["reads"] if path != "/"]
    # pathlib would take longer to import than the guard takes to start.
    devices = [path for name in _DEVICES for path in glob.glob("/dev/" + name) if not os.path.isdir(path)]  # noqa: PTH112, PTH207
    writes = [*limits["writes"], _SHARED_MEMORY]
    own_files = "namespaces" in layers
    scoped = "landlock" in layers and landlock.find_version(libc) >= landlock.SCOPED
    if own_files:
        namespaces.enter(
            libc,
            reads=[*reads, *devices],
            writes=[*limits["mounts"], _TASKS],
            new_links=limits["links"],
            shared_bytes=limits["shared_bytes"],
            network=scoped,
        )
        with contextlib.suppress(ValueError):  # the hard limit is lower
            resource.setrlimit(resource.RLIMIT_NPROC, (_THREADS, _THREADS))
    in_force: dict[str, Any] = {"namespaces": own_files, "capabilities": drop_capabilities(libc)}
    shown = {"reads": reads, "lists": limits["lists"], "writes": writes, "changes": [*devices, _TASKS]}
    version = landlock.confine(libc, **shown) if "landlock" in layers else 0
    # Only namespaces hide a socket with a path; a network namespace or Landlock hides an abstract socket.
    filtered = "seccomp" in layers and seccomp.confine(libc, connects=own_files)
    return {**in_force, "landlock": version, "seccomp": filtered}


def drop_capabilities(libc: ctypes.CDLL) -> bool:
    """Drop all capabilities, also those that a program of root would get; return whether none can be regained."""
    bounded = True
    for number in range(64):
        if libc.prctl(_CAPBSET_DROP, number, 0, 0, 0) != 0:
            bounded = number > 0 and ctypes.get_errno() == errno.EINVAL  # there are no more
            break
    libc.prctl(_CAP_AMBIENT, _CLEAR_ALL, 0, 0, 0)
    dropped = libc.capset(struct.pack("=Ii", _CAPSET_VERSION, 0), bytes(24)) == 0
    return dropped and (bounded or os.geteuid() != 0)
