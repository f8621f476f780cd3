"""Landlock by its system calls: the paths that a process may open, and limits on TCP, sockets and signals."""

# pathlib would take longer to import than the guard takes to start.
# ruff: noqa: PTH112

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_FOLDER, _REFER, _TRUNCATE = 1, 1 << 1, 1 << 2, 1 << 3, 1 << 13, 1 << 14
_CHANGE_FOLDER = 0b1_1111_1111 << 4  # remove and make: directories, files, links, sockets, pipes, devices
_TCP, _SCOPES = 0b11, 0b11  # bind and connect; abstract sockets and signals
SCOPED = 6
"""The first version that covers signals and abstract sockets."""


def find_version(libc: ctypes.CDLL) -> int:
    """Return the version of Landlock; -1 or 0 if the kernel does not have or permit it."""
    return int(libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1)))


def confine(
    libc: ctypes.CDLL, *, reads: Iterable[str], lists: Iterable[str], writes: Iterable[str], changes: Iterable[str]
) -> int:
    """Restrict this process and its children permanently to the files below these paths; ``lists`` as folders only.

    From version 4 on TCP is forbidden, from 6 on also signals to and abstract sockets of processes outside. Other
    processes' memory and environment are inaccessible from version 1 on. Returns the version of Landlock, or 0 if the
    kernel does not have (or permit) at least version 2; version 1 forbids every rename between directories.
    """
    version = find_version(libc)
    if version < 2:
        return 0
    look = _EXECUTE | _READ_FILE | _READ_FOLDER
    change = _WRITE_FILE | (_TRUNCATE if version >= 3 else 0)
    everything = look | change | _CHANGE_FOLDER | _REFER
    rules = struct.pack("=3Q", everything, _TCP, _SCOPES)[: 24 if version >= SCOPED else 16 if version >= 4 else 8]
    ruleset = libc.syscall(_CREATE_RULESET, rules, ctypes.c_size_t(len(rules)), ctypes.c_uint32(0))
    if ruleset < 0:
        return 0
    allowed = (
        [(path, _READ_FOLDER) for path in ("/dev", *lists)]
        + [(path, look) for path in reads]
        + [(path, look | change) for path in changes]
    )
    for path, rights in allowed + [(path, everything) for path in writes]:
        try:
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:  # one of the many places that other systems have
            continue
        files_only = _EXECUTE | _READ_FILE | change
        rule = struct.pack("=Qi", rights if os.path.isdir(path) else rights & files_only, descriptor)
        libc.syscall(_ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(1), rule, ctypes.c_uint32(0))
        os.close(descriptor)
    restricted = libc.syscall(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0)) == 0
    os.close(ruleset)
    return version if restricted else 0
