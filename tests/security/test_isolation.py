"""Toolchains are code of strangers, and a model may take one over: what a worker reaches for and does not get."""

from __future__ import annotations

import ctypes
import json
import os
import socket
import subprocess
import sys
import tempfile
import venv
from dataclasses import replace
from pathlib import Path

import pytest
from kernel import find_layers

from hone_runtime.contract.job import Job, JobInput, StepResult
from hone_runtime.contract.toolchain import Limits
from hone_runtime.values.outcome import Failed, FailureClass
from kedro_hone.core.workers.host import reach, run

LIMITS = Limits(seconds=120, memory_mb=1024, log_kb=64)

WORKER = """
import ctypes, errno, json, os, resource, signal, socket, stat, struct, subprocess, sys, time

def attack(job):
    if "aim" in job: job["target"] = "/" + job["aim"]
    try:
        return {"got": globals()["try_" + job["how"]](job)}
    except OSError as error:
        if error.errno == errno.EFBIG or job.get("raises"): raise
        return {"denied": errno.errorcode.get(error.errno, str(error)), "text": str(error)}

def system_call(number, *arguments):
    libc = ctypes.CDLL(None, use_errno=True)
    result = libc.syscall(ctypes.c_long(number), *arguments)
    if result < 0: raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result

def try_read(job): return open(job["target"]).read()
def try_read_in_a_child(job): return subprocess.run(["cat", job["target"]], capture_output=True).stdout.decode()
def try_open_to_write(job): return os.open(job["target"], os.O_WRONLY)
def try_list(job): return os.listdir(job["target"])
def try_link(job):
    os.symlink(job["target"], job["output"] + "/link"); return open(job["output"] + "/link").read()
def try_hard_link(job): os.link(job["target"], job["output"] + "/link"); return open(job["output"] + "/link").read()
def try_environment(job): return open(f"/proc/{job['host']}/environ").read()
def try_memory(job): return open(f"/proc/{job['host']}/mem", "rb").fileno()
def try_tree(job): return os.listdir(f"/proc/{job['host']}/root")
def try_tcp(job): return socket.create_connection(("127.0.0.1", job["port"]), 5).getpeername()
def try_listen(job): return socket.create_server(("127.0.0.1", 0)).getsockname()
def try_udp(job): return socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"secret", ("127.0.0.1", job["port"]))
def try_netlink(job): return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).fileno()
def try_vsock(job): return socket.socket(40, socket.SOCK_STREAM).fileno()
def try_unix(job):
    s = socket.socket(socket.AF_UNIX); s.connect(job["target"]); return "connected"
def try_unix_datagram(job):
    a, b = socket.socketpair(socket.AF_UNIX, job["kind"]); return a.sendto(b"secret", job["target"])
def try_abstract(job):
    s = socket.socket(socket.AF_UNIX); s.connect("\\0" + job["name"]); return "connected"
def try_stop_host(job): return os.kill(job["host"], 0)
def try_kill_guard(job): return os.kill(os.getppid(), 0)
def try_trace(job): return system_call(101 if os.uname().machine == "x86_64" else 117, 16, job["host"], 0, 0)
def try_peek(job):
    class Piece(ctypes.Structure): _fields_ = [("start", ctypes.c_void_p), ("size", ctypes.c_size_t)]
    mine, theirs = ctypes.create_string_buffer(8), Piece(job["address"], 8)
    own = Piece(ctypes.addressof(mine), 8)
    number = 310 if os.uname().machine == "x86_64" else 270
    system_call(number, job["host"], ctypes.byref(own), ctypes.c_ulong(1), ctypes.byref(theirs), ctypes.c_ulong(1), 0)
    return mine.raw.decode()
def try_take_descriptor(job): return system_call(438, os.pidfd_open(job["host"]), 0, 0)
def try_limits(job): return resource.prlimit(job["host"], resource.RLIMIT_NOFILE)
def try_keyring(job):
    number = 248 if os.uname().machine == "x86_64" else 217
    return system_call(number, b"user", b"hone", b"secret", ctypes.c_size_t(6), -4)
def try_bpf(job):
    return system_call(321 if os.uname().machine == "x86_64" else 280, 0, ctypes.create_string_buffer(128), 128)
def try_events(job):
    attributes = struct.pack("=IIQQQQQ", 1, 112, 0, 0, 0, 0, 1).ljust(112, b"\\0")
    number = 298 if os.uname().machine == "x86_64" else 241
    return system_call(number, attributes, job["host"], -1, -1, ctypes.c_ulong(0))
def try_ring(job): return system_call(425, 4, ctypes.create_string_buffer(256))
def try_user_namespace(job): return system_call(272 if os.uname().machine == "x86_64" else 97, 0x10000000)
def try_cloned_namespace(job):
    number = 56 if os.uname().machine == "x86_64" else 220
    child = system_call(number, ctypes.c_ulong(0x10000000 | signal.SIGCHLD), None, None, None, None)
    if child == 0: os._exit(0)
    return child
def try_mount(job):
    number = 165 if os.uname().machine == "x86_64" else 40
    return system_call(number, b"none", job["output"].encode(), b"tmpfs", ctypes.c_ulong(0), None)
def try_shared_memory(job):
    return system_call(29 if os.uname().machine == "x86_64" else 194, 0, ctypes.c_size_t(1 << 20), 0o1600)
def try_call(job):
    buffer = ctypes.create_string_buffer(b"\\1", 256)
    make = {str: str.encode, int: ctypes.c_long, type(None): lambda _: buffer}
    arguments = [make[type(one)](one) for one in job["arguments"]]
    return system_call(job["numbers"][os.uname().machine != "x86_64"], *arguments)
def try_calls(job):
    libc, column = ctypes.CDLL(None, use_errno=True), int(os.uname().machine != "x86_64")
    def call(number):
        libc.syscall(ctypes.c_long(number), *[ctypes.c_long(-1)] * 6)
        return errno.errorcode[ctypes.get_errno()]
    return {name: call(numbers[column]) for name, numbers in job["calls"].items()}
def try_chmod(job): os.chmod(job["target"], 0o777)
def try_open_chmod(job): os.fchmod(os.open(job["target"], os.O_RDONLY), 0o777)
def try_utime(job): os.utime(job["target"], (0, 0))
def try_attribute(job): os.setxattr(job["target"], "user.hone", b"x")
def try_chown(job): os.chown(job["target"], 12345, 12345)
def try_privileges(job):
    lines = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines())
    child = subprocess.run(["cat", "/proc/self/status"], capture_output=True).stdout.decode()
    child = dict(line.split(":\\t", 1) for line in child.splitlines())
    names = ("CapInh", "CapPrm", "CapEff", "CapAmb")
    return [int(status[name], 16) for status in (lines, child) for name in names] + [int(lines["NoNewPrivs"]) - 1]
def try_root(job): return open("/etc/shadow").read()
def try_large_file(job):
    with open(job["output"] + "/large", "wb") as stream: stream.truncate(job["size"])
    return os.path.getsize(job["output"] + "/large")
def try_large_file_in_c(job):
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL); return try_large_file(job)
def try_forks(job):
    end = time.monotonic() + 60
    for _ in range(job["count"]):
        if os.fork() == 0:
            while time.monotonic() < end: time.sleep(1)
            os._exit(0)
    time.sleep(60)
def try_fork_bomb(job):
    for _ in range(job["doublings"]): os.fork()
    time.sleep(60)
def try_leave_in_memory(job):
    open("/dev/shm/" + job["name"], "wb").write(b"x"); return os.listdir("/dev/shm")
def try_fill_memory(job):
    with open("/dev/shm/" + job["name"], "wb") as stream:
        for _ in range(job["mib"]): stream.write(bytes(1 << 20))
def try_claim(job):
    import __main__
    write = __main__.write_json
    __main__.write_json = lambda path, value: write(path, dict(value, isolation={"namespaces": True}))
def try_report(job): return os.open(f"/proc/{os.getppid()}/fd/1", os.O_WRONLY)
def try_core(job): return resource.getrlimit(resource.RLIMIT_CORE)
def try_ordinary_work(job):
    import getpass, multiprocessing, multiprocessing.managers, shutil, ssl, tempfile, threading
    from concurrent.futures import ProcessPoolExecutor
    for kind in ("fork", "spawn"):
        context = multiprocessing.get_context(kind)
        with ProcessPoolExecutor(1, mp_context=context) as pool: assert pool.submit(abs, -3).result() == 3
    a, b = socket.socketpair(); a.send(b"x"); assert b.recv(1) == b"x"
    path = job["output"] + "/file"
    with open(path, "w") as stream: stream.write("x")
    os.chmod(path, 0o640); os.utime(path, (1, 1)); shutil.copy2(path, job["temporary"])
    os.rename(job["temporary"] + "/file", job["output"] + "/moved")
    with tempfile.NamedTemporaryFile(delete=False) as stream: stream.write(b"x")
    os.rename(stream.name, job["output"] + "/temporary")
    with open("/dev/null", "w") as stream: stream.write("x")
    seen = "/proc/cpuinfo", "/proc/self/maps", "/sys/devices/system/cpu/online", "/etc/ld.so.cache", "/dev/urandom"
    for place in seen:
        with open(place, "rb") as stream: assert stream.read(4)
    assert getpass.getuser()
    # CUDA names its threads by this file, and does not start where it cannot.
    def name(): open(f"/proc/self/task/{threading.get_native_id()}/comm", "w").write("mine")
    thread = threading.Thread(target=name); name(); thread.start(); thread.join()
    assert open("/proc/self/comm").read() == "mine\\n"
    # CPython's own sockets between processes: what data loaders and managers use
    try:
        manager = multiprocessing.managers.SyncManager()  # its socket is below TMPDIR, in a path of 107 bytes at most
        manager.start()
        with manager: shared = len(manager.list([1, 2]))
    except (OSError, EOFError) as error: shared = str(error)
    found = os.stat(path)
    return {"owner": [found.st_uid, found.st_gid], "me": [os.getuid(), os.getgid(), os.geteuid()], "manager": shared,
            "mode": stat.S_IMODE(found.st_mode)}
"""

EVERY = ("namespaces", "landlock", "seccomp")


@pytest.fixture
def worker(tmp_path) -> Path:
    path = tmp_path / "code" / "worker.py"
    path.parent.mkdir()
    path.write_text(WORKER)
    return path


@pytest.fixture
def attack(worker, tmp_path):
    """Mount an attack in a real worker, and return what the worker got, or by which error it was denied."""

    def attack(how, *, limits=LIMITS, target=None, python=Path(sys.executable), folder=tmp_path / "step", **more):
        if target is not None:  # no absolute path, which the worker might read since the job names it
            more["aim"] = str(target).lstrip("/")
        job = Job(
            function="attack",
            worker=str(worker),
            adaptor="evil",
            output=str(tmp_path / "scratch" / "output"),
            how=how,
            host=os.getpid(),
            **{"temporary": str(tmp_path / "scratch" / "temporary"), **more},
        )
        return run.call_worker(job, python=python, toolchain=None, folder=folder, limits=limits)

    return attack


@pytest.fixture
def only(monkeypatch):
    """Leave out what other kernels and containers do not have."""

    def only(*layers):
        monkeypatch.setattr("kedro_hone.core.workers.host.reach.LAYERS", layers)

    return only


@pytest.fixture
def secret(tmp_path) -> Path:
    path = tmp_path / "home" / ".ssh" / "id"
    path.parent.mkdir(parents=True)
    path.write_text("secret")
    return path


def expect_layers() -> dict[str, bool | int]:
    """What must be in force of the layers that are tried."""
    there = {**find_layers(), "landlock": find_layers()["landlock"] * (find_layers()["landlock"] >= 2)}
    return {"capabilities": True} | {name: held if name in reach.LAYERS else 0 for name, held in there.items()}


def refuse(result, *errors: str, landlock: int = 2) -> None:
    """Skip only where the kernel lacks a layer, whatever the worker's guard says."""
    assert isinstance(result, StepResult), result
    assert result.end.isolation == expect_layers()
    lacks = [name for name in reach.LAYERS if find_layers()[name] < (landlock if name == "landlock" else 1)]
    if lacks:
        pytest.skip(f"this kernel or container has no {', '.join(lacks)}")
    assert "got" not in result.notes, result.notes
    assert not errors or result.notes["denied"] in errors, result.notes


HIDDEN = ("ENOENT", "EACCES")
ROOT = pytest.mark.skipif(os.getuid() != 0, reason="no other user may do that in any case")


@pytest.mark.attack(
    what="reading a key in the home folder, by its path or by a link",
    who="worker",
    stopped_by="only what the step needs can be read",
    feature="namespaces (Linux 5.12) or Landlock (Linux 5.19)",
)
@pytest.mark.parametrize("layers", [EVERY, ("namespaces",), ("landlock",)], ids="-".join)
@pytest.mark.parametrize("how", ["read", "link", "hard_link"])
def test_reading_a_key_in_the_home_folder(attack, only, secret, how, layers):
    only(*layers)
    refuse(attack(how, target=secret))


def test_a_denied_read_is_not_called_a_write(attack, only, secret):
    only("landlock")
    failed = attack("read", target=secret, raises=True)
    assert isinstance(failed, Failed)
    assert (failed.trespass, failed.failure) == (None, FailureClass.LOAD)
    assert "Permission denied" in failed.reason


@pytest.mark.attack(
    what="reading a key with another program",
    who="worker",
    stopped_by="what a worker starts is confined as it is",
    feature="namespaces (Linux 5.12) or Landlock (Linux 5.19)",
)
def test_reading_a_key_with_another_program(attack, secret):
    assert attack("read_in_a_child", target=secret).notes == {"got": ""}


@pytest.mark.attack(
    what="listing the home folder",
    who="worker",
    stopped_by="only what the step needs can be read",
    feature="namespaces (Linux 5.12) or Landlock (Linux 5.19)",
)
@pytest.mark.parametrize("layers", [EVERY, ("namespaces",), ("landlock",)], ids="-".join)
def test_listing_the_home_folder(attack, only, secret, layers):
    only(*layers)
    refuse(attack("list", target=secret.parent), *HIDDEN)


@pytest.mark.attack(
    what="reading the project's credentials and another run",
    who="worker",
    stopped_by="only what the step needs can be read",
    feature="namespaces (Linux 5.12) or Landlock (Linux 5.19)",
)
def test_reading_the_project_and_another_run(attack, tmp_path):
    project = tmp_path / "project"
    (project / "conf" / "local").mkdir(parents=True)
    (project / "conf" / "local" / "credentials.yml").write_text("secret")
    refuse(attack("read", target=str(project / "conf" / "local" / "credentials.yml")), *HIDDEN)
    (tmp_path / "other-step").mkdir()
    (tmp_path / "other-step" / "job.json").write_text("secret")
    refuse(attack("read", target=str(tmp_path / "other-step" / "job.json")), *HIDDEN)


@pytest.mark.attack(
    what="a model whose description names files of the host, for its worker to read",
    who="registry",
    stopped_by="what a model says of itself opens nothing",
    feature="namespaces (Linux 5.12) or Landlock (Linux 5.19)",
)
def test_a_model_that_names_files_to_read(attack, secret, tmp_path):
    (tmp_path / "model").mkdir()
    model = JobInput(path=str(tmp_path / "model"), format="toy", metadata={"weights": str(secret)})
    refuse(attack("read", input=model, target=secret), *HIDDEN)


@pytest.mark.attack(
    what="code in a package's .pth file, which runs when the interpreter starts",
    who="package index",
    stopped_by="the worker is confined before its interpreter starts",
    feature="namespaces (Linux 5.12) or Landlock (Linux 5.19)",
)
def test_a_package_that_runs_code_when_its_interpreter_starts(attack, secret, tmp_path):
    """Nor does it widen what its workers read by a line that puts the home folder on the import path."""
    venv.create(tmp_path / "env", symlinks=True)
    (site,) = (tmp_path / "env").glob("lib/python3*/site-packages")
    (site / "evil.pth").write_text(f"{secret.parent}\nimport os; open({str(tmp_path / 'planted')!r}, 'w').close()\n")
    refuse(attack("read", target=secret, python=tmp_path / "env" / "bin" / "python"), *HIDDEN)
    assert not (tmp_path / "planted").exists()


@pytest.mark.attack(
    what="reading the environment and the memory of the host",
    who="worker",
    stopped_by="processes outside cannot be traced",
    feature="namespaces (Linux 5.12) or Landlock (Linux 5.19)",
)
@pytest.mark.parametrize("layers", [EVERY, ("namespaces",), ("landlock",)], ids="-".join)
@pytest.mark.parametrize("how", ["environment", "memory"])
def test_reading_the_hosts_environment_and_memory(attack, only, how, layers):
    only(*layers)
    refuse(attack(how), "EACCES", "EPERM")


@pytest.mark.attack(
    what="looking through /proc at the host's files",
    who="worker",
    stopped_by="processes outside cannot be traced",
    feature="namespaces (Linux 5.12) or Landlock (Linux 5.19)",
)
def test_looking_through_the_hosts_root(attack):
    refuse(attack("tree"), "EACCES", "EPERM")


@pytest.fixture
def server():
    """A server that tells whoever connects a secret."""
    opened = []

    def serve(family, address, kind=socket.SOCK_STREAM):
        listening = socket.socket(family, kind)
        opened.append(listening)
        listening.bind(address)
        if kind == socket.SOCK_STREAM:
            listening.listen(8)
        return listening

    yield serve
    for one in opened:
        one.close()


@pytest.mark.attack(
    what="sending data away by TCP",
    who="worker",
    stopped_by="no network",
    feature="seccomp or Landlock (Linux 6.7)",
)
@pytest.mark.parametrize("layers", [EVERY, ("seccomp",), ("landlock",)], ids="-".join)
def test_sending_data_away_by_tcp(attack, only, server, layers):
    only(*layers)
    port = server(socket.AF_INET, ("127.0.0.1", 0)).getsockname()[1]
    refuse(attack("tcp", port=port), "EACCES", landlock=4)
    refuse(attack("listen"), "EACCES", landlock=4)


@pytest.mark.attack(
    what="sending data away by UDP",
    who="worker",
    stopped_by="no network",
    feature="seccomp",
)
def test_sending_data_away_by_udp(attack, server):
    receiver = server(socket.AF_INET, ("127.0.0.1", 0), socket.SOCK_DGRAM)
    refuse(attack("udp", port=receiver.getsockname()[1]), "EACCES")
    receiver.setblocking(False)
    with pytest.raises(BlockingIOError):
        receiver.recv(9)


@pytest.mark.attack(
    what="talking to the kernel or to a hypervisor by sockets",
    who="worker",
    stopped_by="no socket but of the local family",
    feature="seccomp",
)
@pytest.mark.parametrize("how", ["netlink", "vsock"])
def test_other_families_of_sockets(attack, how):
    refuse(attack(how), "EACCES")


@pytest.mark.attack(
    what="asking Docker's daemon, or the user's systemd, by its socket",
    who="worker",
    stopped_by="sockets outside are not there, or cannot be connected to",
    feature="namespaces (Linux 5.12) or seccomp",
)
@pytest.mark.parametrize("layers", [EVERY, ("namespaces",), ("seccomp",), ("landlock", "seccomp")], ids="-".join)
def test_asking_a_daemon_by_its_socket(attack, only, server, tmp_path, layers):
    """Such as Docker's, the user's own systemd or an SSH agent: who may talk to them is not confined any more."""
    only(*layers)
    server(socket.AF_UNIX, str(tmp_path / "daemon"))
    refuse(attack("unix", target=str(tmp_path / "daemon")), *HIDDEN)


@pytest.mark.attack(
    what="sending a daemon datagrams",
    who="worker",
    stopped_by="sockets outside are not there, or cannot be connected to",
    feature="namespaces (Linux 5.12) or seccomp",
)
@pytest.mark.parametrize("layers", [EVERY, ("seccomp",), ("landlock", "seccomp")], ids="-".join)
def test_sending_a_daemon_datagrams(attack, only, server, tmp_path, layers):
    """A raw socket of the local family is a datagram socket in Linux."""
    only(*layers)
    receiver = server(socket.AF_UNIX, str(tmp_path / "log"), socket.SOCK_DGRAM)
    for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW):
        refuse(attack("unix_datagram", target=str(tmp_path / "log"), kind=int(kind)), *HIDDEN)
    receiver.setblocking(False)
    with pytest.raises(BlockingIOError):
        receiver.recv(9)


@pytest.mark.attack(
    what="asking a daemon by an abstract socket",
    who="worker",
    stopped_by="a network namespace, Landlock's scope, or no connection at all",
    feature="namespaces (Linux 5.12), Landlock (Linux 6.12) or seccomp",
)
@pytest.mark.parametrize("layers", [EVERY, ("landlock",), ("seccomp",), ("namespaces", "seccomp")], ids="-".join)
def test_asking_a_daemon_by_an_abstract_socket(attack, only, server, layers):
    only(*layers)
    name = f"hone-test-{os.getpid()}"
    server(socket.AF_UNIX, "\0" + name)
    refuse(attack("abstract", name=name), "EPERM", "EACCES", "ECONNREFUSED", landlock=6)


@pytest.mark.attack(
    what="stopping the host, or killing the guard",
    who="worker",
    stopped_by="signals stay within the worker",
    feature="Landlock (Linux 6.12)",
)
@pytest.mark.parametrize("how", ["stop_host", "kill_guard"])
def test_sending_signals_to_host_and_guard(attack, how):
    refuse(attack(how), "EPERM", landlock=6)


@pytest.mark.attack(
    what="tracing the host, reading its memory, taking its open files, changing its limits",
    who="worker",
    stopped_by="these calls are refused",
    feature="seccomp",
)
@pytest.mark.parametrize("layers", [EVERY, ("seccomp",)], ids="-".join)
@pytest.mark.parametrize("how", ["trace", "peek", "take_descriptor", "limits", "events"])
def test_reaching_into_the_host(attack, only, how, layers):
    only(*layers)
    secret = ctypes.create_string_buffer(b"secret!", 8)
    refuse(attack(how, address=ctypes.addressof(secret)), "EPERM")


@pytest.mark.attack(
    what="keys, BPF, new namespaces and mounts",
    who="worker",
    stopped_by="these calls are refused",
    feature="seccomp",
)
@pytest.mark.parametrize("layers", [EVERY, ("seccomp",)], ids="-".join)
@pytest.mark.parametrize("how", ["keyring", "bpf", "user_namespace", "cloned_namespace", "mount"])
def test_parts_of_the_kernel_that_no_toolchain_needs(attack, only, how, layers):
    only(*layers)
    refuse(attack(how), "EPERM")


CALLS = {  # without the filter, each of them has another fault to find with arguments of -1
    "chroot": (161, 51),
    "fsconfig": (431, 431),
    "kcmp": (312, 272),
    "keyctl": (250, 219),
    "mount_setattr": (442, 442),
    "mq_open": (240, 180),
    "open_tree": (428, 428),
    "pidfd_getfd": (438, 438),
    "process_madvise": (440, 440),
    "process_vm_writev": (311, 271),
    "request_key": (249, 218),
    "setns": (308, 268),
    "umount2": (166, 39),
    "userfaultfd": (323, 282),
}


@pytest.mark.attack(
    what="entering namespaces, writing the memory of others, and calls that the kernel alone would check",
    who="worker",
    stopped_by="these calls are refused, whatever their arguments",
    feature="seccomp",
)
def test_calls_are_refused_before_the_kernel_looks_at_them(attack, only):
    only("seccomp")
    result = attack("calls", calls=CALLS)
    assert result.end.isolation == expect_layers()
    if not find_layers()["seccomp"]:
        pytest.skip("this kernel or container has no seccomp")
    assert result.notes["got"] == dict.fromkeys(CALLS, "EPERM")


@pytest.mark.attack(
    what="opening sockets by io_uring, which no filter of calls sees",
    who="worker",
    stopped_by="this call does not exist",
    feature="seccomp",
)
def test_a_ring_that_opens_sockets_past_the_filter(attack):
    refuse(attack("ring"), "ENOSYS")


@pytest.mark.attack(
    what="leaving shared memory of System V behind",
    who="worker",
    stopped_by="these calls are refused",
    feature="seccomp",
)
def test_leaving_shared_memory_of_system_v(attack):
    refuse(attack("shared_memory"), "EPERM")


SHMGET, MSGGET, SEMGET, MQ_OPEN = (29, 194), (68, 186), (64, 190), (240, 180)
REMOVE = 0
IPC = {  # None is the address of a buffer
    "attach": ((30, 196), SHMGET, 0, 0),
    "remove-memory": ((31, 195), SHMGET, REMOVE, None),
    "send": ((69, 189), MSGGET, None, 8, 0),
    "receive": ((70, 188), MSGGET, None, 8, 0, 0o4000),
    "remove-queue": ((71, 187), MSGGET, REMOVE, None),
    "change-semaphore": ((65, 193), SEMGET, None, 1),
    "change-semaphore-in-time": ((220, 192), SEMGET, None, 1, 0),
    "remove-semaphore": ((66, 191), SEMGET, 0, REMOVE, 0),
    "remove-named-queue": ((241, 181), MQ_OPEN),
}


@pytest.fixture
def system_v():
    """Make memory, queues and semaphores of the host, and remove what is left of them."""
    libc, column = ctypes.CDLL(None, use_errno=True), int(os.uname().machine != "x86_64")
    removals = []

    def make(kind) -> int | str:
        if kind is MQ_OPEN:
            name = f"hone-test-{os.getpid()}"
            os.close(libc.syscall(kind[column], name.encode(), os.O_CREAT | os.O_RDWR, 0o600, None))
            removals.append(lambda: libc.syscall((241, 181)[column], name.encode()))
            return name
        arguments = {SHMGET: (0, ctypes.c_size_t(4096), 0o600), MSGGET: (0, 0o600), SEMGET: (0, 2, 0o600)}[kind]
        number = libc.syscall(kind[column], *arguments)
        assert number >= 0
        removal = {SHMGET: libc.shmctl, MSGGET: libc.msgctl, SEMGET: lambda one, _, __: libc.semctl(one, 0, 0)}[kind]
        removals.append(lambda: removal(number, REMOVE, None))
        return number

    yield make
    for remove in removals:
        remove()


@pytest.mark.attack(
    what="reading, writing or removing the host's memory, queues and semaphores of System V and POSIX",
    who="worker",
    stopped_by="these calls are refused, and there are none of others",
    feature="namespaces (Linux 5.12) or seccomp",
)
@pytest.mark.parametrize("layers", [EVERY, ("namespaces",), ("seccomp",)], ids="-".join)
@pytest.mark.parametrize("how", IPC)
def test_reaching_the_hosts_memory_of_system_v(attack, only, system_v, how, layers):
    only(*layers)
    numbers, kind, *more = IPC[how]
    arguments = [system_v(kind), *more]
    errors = ("EPERM",) if "seccomp" in layers else ("EINVAL", "ENOENT")
    refuse(attack("call", numbers=numbers, arguments=arguments), *errors)


@pytest.mark.attack(
    what="changing modes, times, attributes and owners outside its folders",
    who="worker",
    stopped_by="all other file systems are read-only",
    feature="namespaces (Linux 5.12)",
)
@pytest.mark.parametrize("how", ["chmod", "open_chmod", "utime", "attribute", pytest.param("chown", marks=ROOT)])
def test_changing_modes_times_and_owners_outside_its_folders(attack, how, tmp_path):
    (tmp_path / "model").mkdir()
    target = tmp_path / "model" / "weights"
    target.write_text("x")
    target.chmod(0o444)
    before = target.stat()
    model = JobInput(path=str(target.parent), format="toy")
    refuse(attack(how, input=model, target=target), "EROFS", "EPERM", "EINVAL")
    after = target.stat()
    assert (after.st_mode, after.st_mtime, after.st_uid) == (before.st_mode, before.st_mtime, before.st_uid)
    assert os.listxattr(target) == []


@pytest.mark.attack(
    what="using the rights of root",
    who="worker",
    stopped_by="no capabilities, and no new privileges",
)
@pytest.mark.parametrize("layers", [EVERY, ()], ids="-".join)
def test_using_the_rights_of_root(attack, only, layers):
    only(*layers)
    assert set(attack("privileges").notes["got"]) == {0}


@pytest.mark.attack(
    what="reading /etc/shadow as root",
    who="worker",
    stopped_by="only what the step needs can be read",
    feature="namespaces (Linux 5.12) or Landlock (Linux 5.19)",
)
@ROOT
def test_reading_the_passwords_as_root(attack):
    refuse(attack("root"), *HIDDEN)


@pytest.mark.attack(
    what="forking more and more",
    who="worker",
    stopped_by="the guard counts processes and kills all of them; so does the kernel, except root's",
)
def test_forking_more_and_more(attack):
    for how in ("forks", "fork_bomb"):
        failed = attack(how, count=600, doublings=11, limits=replace(LIMITS, memory_mb=8192))  # which they do not reach
        assert isinstance(failed, Failed)
        assert "more than 512 processes" in failed.reason
        assert failed.failure is FailureClass.CRASH


@pytest.mark.attack(
    what="a file of 64 GiB",
    who="worker",
    stopped_by="a file's size is limited by the kernel",
)
@pytest.mark.parametrize("how", ["large_file", "large_file_in_c"])
def test_a_file_that_is_too_large(attack, how, tmp_path):
    failed = attack(how, size=64 << 30)
    assert isinstance(failed, Failed)
    assert failed.failure is FailureClass.BAD_OUTPUT
    assert "a file of more than" in failed.reason


@pytest.mark.attack(
    what="leaving files in /dev/shm behind",
    who="worker",
    stopped_by="shared memory is the worker's own",
    feature="namespaces (Linux 5.12)",
)
def test_leaving_files_in_memory(attack):
    name = f"hone-test-{os.getpid()}"
    assert name in attack("leave_in_memory", name=name).notes["got"]
    assert not Path("/dev/shm", name).exists()  # noqa: S108


@pytest.mark.attack(
    what="filling memory with files in /dev/shm",
    who="worker",
    stopped_by="shared memory is the worker's own, and sized",
    feature="namespaces (Linux 5.12)",
)
def test_filling_memory_with_files(attack):
    limits = Limits(seconds=60, memory_mb=256, log_kb=64)
    refuse(attack("fill_memory", limits=limits, name="filling", mib=300), "ENOSPC")


@pytest.mark.attack(
    what="dumping its memory to a file of the host",
    who="worker",
    stopped_by="core dumps are off",
)
def test_dumping_its_memory(attack):
    assert attack("core").notes["got"] == [0, 0]


@pytest.mark.parametrize("nested", [True, False])
def test_a_step_in_shared_memory(attack, nested):
    """Where fast temporary folders often are: the worker sees its own ones, and no others."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place, tempfile.TemporaryDirectory(dir="/dev/shm") as other:
        weights, secret = Path(other, "model", "weights"), Path(other, "secret")
        weights.parent.mkdir()
        for path in (weights, secret):
            path.write_text("x")
        more = {"input": JobInput(path=str(weights.parent), format="toy"), "folder": Path(place, *["step"] * nested)}
        result = attack("read", target=weights, **more)
        assert isinstance(result, StepResult), result
        assert (result.notes, result.end.isolation) == ({"got": "x"}, expect_layers())
        refuse(attack("read", target=secret, **more), *HIDDEN)
        refuse(attack("chmod", target=weights, **more), "EROFS")


@pytest.mark.attack(
    what="changing a setting of the kernel, such as what it starts for a core",
    who="worker",
    stopped_by="of `/proc` only its own threads can be written to",
    feature="namespaces (Linux 5.12) or Landlock (Linux 5.19)",
)
@pytest.mark.parametrize("layers", [EVERY, ("namespaces",), ("landlock",)], ids="-".join)
@pytest.mark.parametrize("setting", ["sys/kernel/core_pattern", "self/oom_score_adj", "self/task/../oom_score_adj"])
def test_changing_the_kernel(attack, only, setting, layers):
    only(*layers)
    refuse(attack("open_to_write", target=f"/proc/{setting}"), "EROFS", "EACCES")


@pytest.mark.parametrize("layers", [EVERY, ("landlock", "seccomp"), ("seccomp",), ("landlock",), ()], ids="-".join)
def test_ordinary_work_goes_on(attack, only, layers, tmp_path):
    """Processes, pipes, temporary files, modes and times of its own files, and what runtimes read of the machine."""
    only(*layers)
    result = attack("ordinary_work", temporary=str(tmp_path / "scratch" / ("long" * 20)))
    assert isinstance(result, StepResult), (result, Path(getattr(result, "log", "/dev/null")).read_text())
    found = result.notes["got"]
    assert found["owner"] == [os.getuid(), os.getgid()]
    assert found["me"] == [os.getuid(), os.getgid(), os.geteuid()]
    assert found["mode"] == 0o640
    assert found["manager"] == 2 or "namespaces" not in layers


CONTAINER = """
import ctypes, json, sys
from pathlib import Path
sys.path.append(sys.argv[1])
import seccomp
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(38, 1, 0, 0, 0)
assert seccomp.confine(libc, connects=True)  # refuses namespaces, as Docker does
from hone_runtime.contract.toolchain import Limits
from kedro_hone.core.workers.host import reach, run
job = run.Job.model_validate_json(Path(sys.argv[2]).read_text())
for _ in range(2):
    result = run.call_worker(
        job, python=Path(sys.executable), toolchain=None, folder=Path(sys.argv[3]), limits=Limits()
    )
print(json.dumps([result.notes, result.end.isolation]))
"""


@pytest.mark.attack(
    what="reading a key in a container that forbids namespaces",
    who="worker",
    stopped_by="each part is in force without the others",
    feature="Landlock (Linux 5.19)",
)
def test_a_container_without_namespaces(worker, secret, tmp_path):
    """Nothing fails for lack of them, what is left still hides the key, and the log says so once."""
    job = Job(function="attack", worker=str(worker), adaptor="evil", how="read", aim=str(secret).lstrip("/"))
    (tmp_path / "job.json").write_text(job.model_dump_json())
    guard = Path(run.__file__).parents[1] / "guard"
    command = [sys.executable, "-c", CONTAINER, str(guard), str(tmp_path / "job.json"), str(tmp_path / "step")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("Workers are isolated without namespaces (") == 1
    notes, isolation = json.loads(done.stdout)
    assert (isolation["namespaces"], isolation["seccomp"]) == (False, True)
    assert isolation["landlock"] == find_layers()["landlock"]
    assert notes["denied"] == "EACCES" or not isolation["landlock"]


@pytest.mark.attack(
    what="claiming to be isolated",
    who="worker",
    stopped_by="its guard says what is in force, and its result has no such claim",
)
def test_claiming_to_be_isolated(attack, only):
    only()
    assert isinstance(attack("claim"), Failed)


@pytest.mark.attack(
    what="writing into the guard's reports to the host",
    who="worker",
    stopped_by="processes outside cannot be traced",
    feature="namespaces (Linux 5.12) or Landlock (Linux 5.19)",
)
@pytest.mark.parametrize("layers", [EVERY, ("namespaces",), ("landlock",)], ids="-".join)
def test_writing_the_guards_reports(attack, only, layers):
    only(*layers)
    refuse(attack("report"), "EACCES", "EPERM")


def test_a_session_has_what_was_in_force(worker, tmp_path):
    job = Job(function="load", worker=str(worker), adaptor="evil")
    session = run.open_session(job, python=Path(sys.executable), folder=tmp_path / "step", limits=LIMITS)
    session.load()
    assert session.close().isolation == expect_layers()


def test_what_was_in_force_is_said(attack, only):
    assert attack("core").end.isolation == expect_layers()
    only()
    without = {"namespaces": False, "landlock": 0, "seccomp": False, "capabilities": True}
    assert attack("core").end.isolation == without == expect_layers()
