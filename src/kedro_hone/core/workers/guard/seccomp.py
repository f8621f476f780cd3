"""A filter of system calls: sockets, other processes, and parts of the kernel that no toolchain needs.

``seccomp`` is available to every user, also in containers. Refused calls return an error and raise no signal. See
https://docs.kernel.org/userspace-api/seccomp_filter.html
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct

_SECCOMP = {"x86_64": 317, "aarch64": 277}
_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# On x86-64 and on aarch64. Existing objects of System V can be used by their number alone, without `get`.
_REFUSED = {
    "add_key": (248, 217),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "fanotify_init": (300, 262),
    "kcmp": (312, 272),
    "keyctl": (250, 219),
    "mount": (165, 40),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "msgctl": (71, 187),
    "msgget": (68, 186),
    "msgrcv": (70, 188),
    "msgsnd": (69, 189),
    "open_by_handle_at": (304, 265),
    "perf_event_open": (298, 241),
    "pivot_root": (155, 41),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "request_key": (249, 218),
    "semctl": (66, 191),
    "semget": (64, 190),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "setns": (308, 268),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "shmget": (29, 194),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
}
_OPEN_TREE, _FSPICK = 428, 433
# open_tree to fspick, pidfd_getfd, process_madvise, mount_setattr, open_tree_attr: new ones have one number.
_REFUSED_EVERYWHERE = (*range(_OPEN_TREE, _FSPICK + 1), 438, 440, 442, 467)
_SOCKET, _SOCKETPAIR, _CONNECT = (41, 198), (53, 199), (42, 203)
_CLONE, _PRLIMIT = (56, 220), (302, 261)
# sched_setparam, sched_setscheduler, sched_setattr. Not sched_setaffinity: libraries pass the numbers of their threads
# to it.
_SCHEDULE = ((142, 118), (144, 119), (314, 274))
_PRIORITY = (((141, 140), os.PRIO_USER), ((251, 30), 3))  # setpriority, ioprio_set, and their values for a user
_NOT_THERE = (425, 426, 427, 435)  # io_uring, which opens sockets unfiltered; clone3, since its flags cannot be read
_NEW_NAMESPACES = 0x7E020000
_SET_MODE_FILTER, _SPECULATION_ALLOWED = 1, 4
_X32 = 0x40000000
_KIND = 0xF  # a socket's, without its flags

_LOAD, _AND, _EQUAL, _AT_LEAST, _SET, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCH, _FIRST, _SECOND = 0, 4, 16, 24  # offsets in seccomp_data, of the arguments' lower halves
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000


def confine(libc: ctypes.CDLL, *, connects: bool) -> bool:
    """Forbid system calls to this process and its children permanently; return whether kernel and machine support this.

    Only sockets of the family ``AF_UNIX`` are allowed. Without ``connects`` they cannot connect: only socket pairs
    work.
    """
    machine = os.uname().machine
    if machine not in _SECCOMP:
        return False
    program = make_filter(machine, connects=connects)
    code = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("@HP", len(program) // 8, ctypes.addressof(code))
    # Otherwise kernels before 5.16 also switch off speculation, and all measurements would be slower.
    flags = _SPECULATION_ALLOWED, 0
    return any(libc.syscall(_SECCOMP[machine], _SET_MODE_FILTER, flag, header) == 0 for flag in flags)


def make_filter(machine: str, *, connects: bool) -> bytes:
    """Return the program in the classic BPF of Linux."""
    column = 0 if machine == "x86_64" else 1
    program: list[tuple[int, int, int, int]] = []

    def refuse(number: int, error: int) -> None:
        program.extend(((_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERROR | error)))

    def when(number: int, *body: tuple[int, int, int, int]) -> None:
        program.extend(((_EQUAL, 0, len(body), number), *body))

    eperm, eacces, allow = ((_RETURN, 0, 0, value) for value in (_ERROR | errno.EPERM, _ERROR | errno.EACCES, _ALLOW))
    program += [(_LOAD, 0, 0, _ARCH), (_EQUAL, 1, 0, _ARCHITECTURE[machine]), eperm, (_LOAD, 0, 0, _NUMBER)]
    if machine == "x86_64":
        program += [(_AT_LEAST, 0, 1, _X32), eperm]  # the same calls by other numbers
    family = (_LOAD, 0, 0, _FIRST), (_EQUAL, 1, 0, socket.AF_UNIX), eacces
    # A datagram takes an address without being connected, and SOCK_RAW means the same.
    stream_or_packet = (_EQUAL, 2, 0, socket.SOCK_STREAM), (_EQUAL, 1, 0, socket.SOCK_SEQPACKET), eacces
    kind = () if connects else ((_LOAD, 0, 0, _SECOND), (_AND, 0, 0, _KIND), *stream_or_packet)
    for pair in (_SOCKET, _SOCKETPAIR):
        when(pair[column], *family, *kind, allow)
    when(_CLONE[column], (_LOAD, 0, 0, _FIRST), (_SET, 0, 1, _NEW_NAMESPACES), eperm, allow)
    for call in (_PRLIMIT, *_SCHEDULE):  # of another process
        when(call[column], (_LOAD, 0, 0, _FIRST), (_EQUAL, 1, 0, 0), eperm, allow)
    for call, user in _PRIORITY:
        own = (_LOAD, 0, 0, _SECOND), (_EQUAL, 1, 0, 0), eperm, allow
        when(call[column], (_LOAD, 0, 0, _FIRST), (_EQUAL, 0, 1, user), eperm, *own)
    if not connects:
        refuse(_CONNECT[column], errno.EACCES)
    for number in _NOT_THERE:
        refuse(number, errno.ENOSYS)
    for number in (*(numbers[column] for numbers in _REFUSED.values()), *_REFUSED_EVERYWHERE):
        refuse(number, errno.EPERM)
    program.append(allow)
    return b"".join(struct.pack("=HBBI", *line) for line in program)
