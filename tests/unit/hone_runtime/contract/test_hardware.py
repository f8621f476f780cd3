from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from hone_runtime.contract import hardware
from hone_runtime.contract.hardware import read_host
from hone_runtime.values.hardware import Hardware

X86 = """processor\t: 0
model name\t: Some CPU @ 3.00GHz
flags\t\t: fpu avx2 avx512_vnni

processor\t: 1
model name\t: Another CPU
flags\t\t: fpu
"""
ARM = """processor\t: 0
Features\t: fp asimd
CPU implementer\t: 0x41
CPU part\t: 0xd0c
"""


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """A PATH of our own; the returned function puts a program on it."""
    monkeypatch.setenv("PATH", str(tmp_path))

    def put(name: str, text: str = "exit 0") -> None:
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)

    return put


@pytest.fixture
def cpuinfo(tmp_path, monkeypatch):
    """A file in the place of ``/proc/cpuinfo``, which is not there yet."""
    monkeypatch.setattr(hardware, "_CPUINFO", tmp_path / "cpuinfo")
    return tmp_path / "cpuinfo"


def test_the_first_core_of_an_x86_is_read(cpuinfo):
    cpuinfo.write_text(X86)
    host = read_host()
    assert (host.cpu, host.flags) == ("Some CPU @ 3.00GHz", frozenset({"fpu", "avx2", "avx512_vnni"}))


def test_arm_names_its_lines_differently(cpuinfo):
    cpuinfo.write_text(ARM)
    host = read_host()
    assert host.cpu.endswith("0x41 0xd0c")
    assert host.flags == {"fp", "asimd"}


def test_a_system_without_cpuinfo_has_a_model_and_no_flags(cpuinfo):
    host = read_host()
    assert host.cpu
    assert host.flags == frozenset()


def test_the_fingerprint_is_stable_and_follows_the_flags(cpuinfo):
    assert read_host() == read_host()
    cpuinfo.write_text(X86)
    first = read_host()
    assert first.flags == {"fpu", "avx2", "avx512_vnni"}
    cpuinfo.write_text(X86.replace("avx512_vnni", "avx2"))
    assert read_host().fingerprint != first.fingerprint


def test_cores_are_those_that_this_process_may_use():
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        assert read_host().cores == 1
    finally:
        os.sched_setaffinity(0, allowed)


def test_compilers_are_looked_up_on_the_path(programs):
    assert read_host().compilers == frozenset()
    programs("g++")
    assert read_host().compilers == {"c++"}


def test_without_a_driver_there_is_no_gpu(programs):
    assert read_host().gpu is read_host().driver is None


def test_the_first_gpu_is_named_with_its_driver(programs):
    without = read_host().fingerprint
    programs("nvidia-smi", "echo 'NVIDIA H100, PCIe, 570.1'; echo 'NVIDIA L4, 570.1'")
    host = read_host()
    assert (host.gpu, host.driver) == ("NVIDIA H100, PCIe", "570.1")
    assert host.fingerprint != without


def test_a_process_asks_for_the_gpu_once(programs, tmp_path):
    programs("nvidia-smi", f"echo >> {tmp_path / 'asked'}; echo 'NVIDIA L4, 570.1'")
    assert read_host() == read_host()
    assert (tmp_path / "asked").read_text() == "\n"


def test_the_evidence_knows_the_memory():
    kilobytes = int(Path("/proc/meminfo").read_text().split()[1])
    assert read_host().memory_bytes == kilobytes * 1024


@pytest.mark.parametrize("text", ["echo 'no driver' >&2; exit 9", "exit 0"])
def test_a_driver_that_does_not_work_is_no_gpu(programs, text):
    programs("nvidia-smi", text)
    assert read_host().gpu is read_host().driver is None


def test_a_program_that_cannot_be_started_is_no_gpu(programs, tmp_path):
    (tmp_path / "nvidia-smi").write_bytes(b"\x7fELF")
    (tmp_path / "nvidia-smi").chmod(0o755 | stat.S_IXUSR)
    assert read_host().gpu is read_host().driver is None


def test_a_host_knows_what_the_evidence_records():
    host = read_host()
    assert [name for name in Hardware.model_fields if not hasattr(host, name)] == ["threads"]
    assert "(kernel " in host.os
