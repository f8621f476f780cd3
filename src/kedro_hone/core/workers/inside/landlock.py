"""Restricting where this process may write: Landlock by its system calls. For workers: the standard library only."""

# pathlib would cost each worker time to import.
# ruff: noqa: PTH110, PTH112, PTH207

from __future__ import annotations

import ctypes
import glob
import os
import struct
from typing import Any

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_WRITE_FILE, _REFER, _TRUNCATE = 1 << 1, 1 << 13, 1 << 14
_CHANGE_FOLDER = 0b1_1111_1111 << 4  # remove and make: directories, files, links, sockets, pipes, devices
_DEVICES = ("null", "zero", "full", "tty", "nvidia*", "dri/*", "kfd", "dxg", "accel/*")


def confine(folders: list[str]) -> int:
    """Let this process and its children write only below the given folders, for good.

    Reading stays free. Devices that computing needs and ``/dev/shm`` stay writable. Where the kernel offers it, signals
    to processes outside are forbidden as well, so that a worker cannot stop its guard. Returned is the version of
    Landlock, or 0 when the kernel does not have (or permit) version 2 at least.
    """
    libc = ctypes.CDLL(None, use_errno=True)

    def call(number: int, *arguments: Any) -> int:
        return int(libc.syscall(ctypes.c_long(number), *arguments))

    version = call(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    if version < 2:  # version 1 forbids every rename between directories
        return 0
    in_file = _WRITE_FILE | (_TRUNCATE if version >= 3 else 0)
    in_folder = in_file | _CHANGE_FOLDER | _REFER
    scoped = 0b10 if version >= 6 else 0
    rules = struct.pack("=3Q", in_folder, 0, scoped)[: 24 if version >= 6 else 16 if version >= 4 else 8]
    ruleset = call(_CREATE_RULESET, rules, ctypes.c_size_t(len(rules)), ctypes.c_uint32(0))
    if ruleset < 0:
        return 0
    allowed = [(path, in_folder) for path in [*folders, "/dev/shm"]]  # noqa: S108
    allowed += [(path, in_file) for name in _DEVICES for path in glob.glob("/dev/" + name) if not os.path.isdir(path)]
    for path, rights in allowed:
        if os.path.exists(path):
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
            rule = struct.pack("=Qi", rights, descriptor)
            call(_ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(1), rule, ctypes.c_uint32(0))
            os.close(descriptor)
    restricted = call(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0)) == 0
    os.close(ruleset)
    return version if restricted else 0
