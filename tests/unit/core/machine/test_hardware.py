from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from kedro_hone.core.machine import hardware as host
from kedro_hone.core.machine.hardware import describe_hardware, find_gpu, read_cpu, read_host

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


def test_the_first_core_of_an_x86_is_read(tmp_path):
    (tmp_path / "cpuinfo").write_text(X86)
    assert read_cpu(tmp_path / "cpuinfo") == ("Some CPU @ 3.00GHz", frozenset({"fpu", "avx2", "avx512_vnni"}))


def test_arm_names_its_lines_differently(tmp_path):
    (tmp_path / "cpuinfo").write_text(ARM)
    model, flags = read_cpu(tmp_path / "cpuinfo")
    assert model.endswith("0x41 0xd0c")
    assert flags == {"fp", "asimd"}


def test_a_system_without_cpuinfo_has_a_model_and_no_flags(tmp_path):
    model, flags = read_cpu(tmp_path / "none")
    assert model
    assert flags == frozenset()


def test_the_fingerprint_is_stable_and_follows_the_flags(tmp_path, monkeypatch):
    assert read_host() == read_host()
    (tmp_path / "cpuinfo").write_text(X86)
    monkeypatch.setattr(host, "_CPUINFO", tmp_path / "cpuinfo")
    first = read_host()
    assert first.flags == {"fpu", "avx2", "avx512_vnni"}
    (tmp_path / "cpuinfo").write_text(X86.replace("avx512_vnni", "avx2"))
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
    assert find_gpu() is None


def test_the_first_gpu_is_named_with_its_driver(programs):
    without = read_host().fingerprint
    programs("nvidia-smi", "echo 'NVIDIA H100, PCIe, 570.1'; echo 'NVIDIA L4, 570.1'")
    gpu = find_gpu()
    assert gpu is not None
    assert (gpu.name, gpu.driver) == ("NVIDIA H100, PCIe", "570.1")
    assert read_host().gpu == "NVIDIA H100, PCIe"
    assert read_host().fingerprint != without
    assert describe_hardware()["driver"] == "570.1"


def test_the_evidence_knows_the_memory():
    kilobytes = int(Path("/proc/meminfo").read_text().split()[1])
    assert describe_hardware()["memory_bytes"] == kilobytes * 1024


@pytest.mark.parametrize("text", ["echo 'no driver' >&2; exit 9", "exit 0"])
def test_a_driver_that_does_not_work_is_no_gpu(programs, text):
    programs("nvidia-smi", text)
    assert find_gpu() is None


def test_a_program_that_cannot_be_started_is_no_gpu(programs, tmp_path):
    (tmp_path / "nvidia-smi").write_bytes(b"\x7fELF")
    (tmp_path / "nvidia-smi").chmod(0o755 | stat.S_IXUSR)
    assert find_gpu() is None


def test_hardware_has_what_the_evidence_asks_for():
    hardware = describe_hardware()
    assert set(hardware) == {
        "cpu",
        "cores",
        "flags",
        "instructions",
        "gpu",
        "driver",
        "memory_bytes",
        "os",
        "governor",
        "load",
    }
    assert len(hardware["load"]) == 3
    assert hardware["flags"] == sorted(hardware["flags"])
