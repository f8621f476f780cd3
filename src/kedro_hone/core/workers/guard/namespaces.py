"""A private file system for a process: it contains only the paths that the process may read (read-only) or write.

It is made in a user namespace, which needs no privileges if the system allows it; users and groups do not change. The
method is that of bubblewrap: make a new root in memory, mount the allowed paths into it, and remove the old root.
"""

# pathlib would take longer to import than the guard takes to start.
# ruff: noqa: PTH103, PTH110, PTH112, PTH114, PTH115, PTH116, PTH120, PTH123, PTH208, PTH211

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
import struct
from collections.abc import Collection, Iterable

_NEW_MOUNTS, _NEW_IPC, _NEW_USER, _NEW_NETWORK = 0x00020000, 0x08000000, 0x10000000, 0x40000000
_NO_SUID, _NO_DEV, _BIND, _RECURSIVE, _PRIVATE = 2, 4, 4096, 16384, 1 << 18
_DETACH = 2
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_MOUNT_SETATTR, _AT_RECURSIVE, _READ_ONLY = 442, 0x8000, 1
_ROOT = "/tmp"  # noqa: S108 - the new root is mounted over it, in this process's view only
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - a new one is mounted over it, in this process's view only
_DRIVER = "/run/nvidia-persistenced/"  # its socket is for users of the driver


def enter(
    libc: ctypes.CDLL,
    *,
    reads: Collection[str],
    writes: Collection[str],
    new_links: dict[str, str],
    shared_bytes: int,
    network: bool,
) -> None:
    """Move this single-threaded process into such a file system, with a ``/dev/shm`` of this size.

    Paths that do not exist are left out. ``new_links`` are made, from path to target.

    Without ``network`` it also gets an empty network of its own, without abstract sockets of others.

    Raises:
        OSError: The kernel does not allow it. The process cannot be used any more: only some of the changes may be
            made.
    """
    user, group = os.geteuid(), os.getegid()
    sockets = _find_sockets()
    _check(libc.unshare(_NEW_USER | _NEW_MOUNTS | _NEW_IPC | (0 if network else _NEW_NETWORK)))
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as stream:
            stream.write(text)
    _check(libc.mount(None, b"/", None, ctypes.c_ulong(_RECURSIVE | _PRIVATE), None))
    readable, writable = _find(reads), _find(writes)  # opened before the new root covers them
    links = _find_links([*(f"/{name}" for name in os.listdir("/")), *reads, *writes])
    _mount_memory(libc, _ROOT, "size=1m,mode=755")
    os.makedirs(_ROOT + _SHARED_MEMORY)  # first: paths of the worker may be below it
    _mount_memory(libc, _ROOT + _SHARED_MEMORY, f"size={shared_bytes},mode=1777")
    placed: set[str] = set()
    for path, descriptor in sorted(readable.items()):
        if not _is_below(path, placed):
            _bind(libc, descriptor, path)
            placed.add(path)
    own = {path: descriptor for path, descriptor in sorted(writable.items()) if not _is_below(path, writable)}
    for path, descriptor in own.items():
        _bind(libc, descriptor, path)
    for path in sockets:
        if _is_below(path, placed) and not _is_below(path, own):
            _hide(libc, path)
    _make_links({**links, **new_links}, {*placed, *own})
    for name, target in (("fd", "fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        with contextlib.suppress(OSError):
            os.symlink(f"/proc/self/{target}", f"{_ROOT}/dev/{name}")
    os.makedirs(_ROOT + _ROOT, exist_ok=True)
    _set_read_only(libc, _ROOT, on=True)
    for path in (*own, _SHARED_MEMORY):
        _set_read_only(libc, _ROOT + path, on=False)
    for descriptor in (*readable.values(), *writable.values()):
        os.close(descriptor)
    os.chdir(_ROOT)
    _check(libc.syscall(_PIVOT_ROOT.get(os.uname().machine, -1), b".", b"."))
    _check(libc.umount2(b".", _DETACH))
    os.chdir("/")


def _find(paths: Iterable[str]) -> dict[str, int]:
    """Open those of the paths that exist, with links resolved: nothing can be mounted through a link.

    Never the host's ``/dev/shm``.
    """
    found: dict[str, int] = {}
    for path in {os.path.realpath(path) for path in paths} - {"/", "/dev", _SHARED_MEMORY}:
        with contextlib.suppress(OSError):
            found[path] = os.open(path, os.O_PATH | os.O_CLOEXEC)
    return found


def _find_sockets() -> list[str]:
    """Return the sockets of this network, with links resolved.

    Sockets bound by relative names are left out, and so are names with a line break. The kernel writes a line break
    unescaped, so the text after it could be the name of any file: only sockets count.
    """
    names = set()
    with contextlib.suppress(OSError), open("/proc/net/unix", encoding="utf-8", errors="surrogateescape") as stream:
        names = {line.rstrip("\n").partition(" /")[2] for line in stream}
    paths = {os.path.realpath("/" + name) for name in names}
    return [path for path in paths if not path.startswith(_DRIVER) and _is_socket(path)]


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


def _find_links(paths: Iterable[str]) -> dict[str, str]:
    """Return each link on the way of these paths, by its resolved name, with its target."""
    found: dict[str, str] = {}
    for path in paths:
        place, parts, hops = "", _split(path), 40
        while parts and hops:
            step = os.path.normpath(f"{place}/{parts.pop()}")
            if not os.path.islink(step):
                place = step.rstrip("/")
                continue
            hops -= 1
            found[step] = target = os.readlink(step)
            place = "" if target.startswith("/") else place
            parts += _split(target)
    return found


def _split(path: str) -> list[str]:
    """Return its parts, the last one first."""
    return [part for part in path.split("/") if part][::-1]


def _make_links(links: dict[str, str], places: Collection[str]) -> None:
    for name, target in links.items():
        if not _is_below(name, places):  # otherwise it is there, and in a folder of the host
            os.makedirs(os.path.dirname(_ROOT + name), exist_ok=True)
            with contextlib.suppress(FileExistsError):
                os.symlink(target, _ROOT + name)


def _is_below(path: str, places: Iterable[str]) -> bool:
    """Whether a path is below one of these places, so that it already exists."""
    parts = path.split("/")
    return any("/".join(parts[:end]) in places for end in range(2, len(parts)))


def _bind(libc: ctypes.CDLL, descriptor: int, path: str) -> None:
    source, target = f"/proc/self/fd/{descriptor}", _ROOT + path
    if not os.path.exists(target):
        if os.path.isdir(source):
            os.makedirs(target)
        else:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    _check(libc.mount(source.encode(), target.encode(), None, ctypes.c_ulong(_BIND | _RECURSIVE), None))


def _hide(libc: ctypes.CDLL, path: str) -> None:
    """Mount a file over a socket: a process may connect to a socket even if it may only read it."""
    place = (_ROOT + path).encode(errors="surrogateescape")
    done = libc.mount(b"/dev/null", place, None, ctypes.c_ulong(_BIND), None)
    if ctypes.get_errno() not in {errno.ENOENT, errno.EACCES}:  # its server ended meanwhile, or no worker can go there
        _check(done)


def _mount_memory(libc: ctypes.CDLL, path: str, options: str) -> None:
    flags = ctypes.c_ulong(_NO_SUID | _NO_DEV)
    _check(libc.mount(b"tmpfs", path.encode(), b"tmpfs", flags, options.encode()))


def _set_read_only(libc: ctypes.CDLL, path: str, *, on: bool) -> None:
    attributes = struct.pack("=4Q", _READ_ONLY if on else 0, 0 if on else _READ_ONLY, 0, 0)
    flags = _AT_RECURSIVE if on else 0
    size = ctypes.c_size_t(len(attributes))
    _check(libc.syscall(_MOUNT_SETATTR, -100, path.encode(), flags, attributes, size))


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
