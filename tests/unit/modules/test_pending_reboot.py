"""The record of a pending reboot: true for one boot, never half written, and who stands in the way of a reboot."""

import json
import os

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.trainrig.gpu.plugins.modules import pending_reboot

BOOT = "5f0c2a41-7d3e-4b52-9a66-000000000001"
LATER = "5f0c2a41-7d3e-4b52-9a66-000000000002"


@pytest.fixture
def run(tmp_path, capsys, monkeypatch):
    """Runs the module as Ansible would; returns (result, what the record holds now)."""
    path = tmp_path / "state" / "pending_reboot.json"

    def boot(boot_id):
        (tmp_path / "simulated_boot_id").write_text(f"{boot_id}\n", encoding="ascii")

    def call(check=False, **arguments):
        monkeypatch.setattr(pending_reboot, "BOOT_ID", str(tmp_path / "simulated_boot_id"))
        arguments = {"path": str(path), "_ansible_check_mode": check, **arguments}
        with patch_module_args(arguments), pytest.raises(SystemExit):
            pending_reboot.main()
        result = json.loads(capsys.readouterr().out)
        return result, json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

    boot(BOOT)
    call.path, call.boot = path, boot
    return call


def test_reasons_gather_in_one_boot_and_a_second_time_changes_nothing(run):
    result, now = run(reasons=["driver: installed"])
    assert (result["changed"], result["pending"]) == (True, True)
    assert (now["schema"], now["boot_id"], now["reasons"]) == (1, BOOT, ["driver: installed"])
    assert run.path.stat().st_mode & 0o777 == 0o644
    assert run(reasons=["driver: installed"])[0]["changed"] is False
    result, now = run(reasons=["kernel: installed"])
    assert now["reasons"] == result["reasons"] == ["driver: installed", "kernel: installed"]
    assert result["diff"]["before"] == "pending reboot: driver: installed\n"
    assert os.listdir(run.path.parent) == [run.path.name], "nothing is left of the writing"


def test_after_a_boot_the_record_is_void_and_goes(run):
    run(reasons=["driver: installed"])
    assert run(state="checked")[0]["pending"] is True
    run.boot(LATER)
    result, now = run(state="checked", check=True)
    assert (result["changed"], result["pending"], now["boot_id"]) == (True, False, BOOT)
    result, now = run(state="checked")
    assert (result["changed"], result["pending"], result["boot_id"], now) == (True, False, LATER, None)
    assert run(state="checked")[0]["changed"] is False


def test_reasons_of_an_earlier_boot_are_not_carried_on(run):
    run(reasons=["old"])
    run.boot(LATER)
    assert run(reasons=["new"])[1]["reasons"] == ["new"]


def test_absent_removes_what_is_there(run):
    run(reasons=["driver: installed"])
    result, now = run(state="absent")
    assert (result["changed"], now) == (True, None)
    assert run(state="absent")[0]["changed"] is False


def test_check_mode_says_and_does_not_write(run):
    result, now = run(reasons=["driver: installed"], check=True)
    assert (result["changed"], result["pending"], now) == (True, True, None)


@pytest.mark.parametrize("garbage", ["", "[]", "{", '{"schema": 9}', "[" * 100000], ids=range(5))
def test_what_cannot_be_read_is_void(run, garbage):
    run.path.parent.mkdir()
    run.path.write_text(garbage, encoding="utf-8")
    assert run(state="checked")[0]["pending"] is False
    assert not run.path.exists()


def test_a_directory_that_cannot_be_made_is_named(run):
    run.path.parent.write_text("a file", encoding="utf-8")
    result, _now = run(reasons=["driver: installed"])
    assert result["failed"] and str(run.path.parent) in result["msg"] and "To fix it: " in result["msg"]


@pytest.fixture
def simulated_proc(tmp_path, monkeypatch):
    """A /proc of a GPU node: pid -> (name, command line, open files)."""
    monkeypatch.setattr(pending_reboot, "PROC", str(tmp_path / "simulated_proc"))

    def write(pid, name, line, *files):
        fd = tmp_path / "simulated_proc" / str(pid) / "fd"
        fd.mkdir(parents=True)
        (fd.parent / "comm").write_text(f"{name[:15]}\n")
        (fd.parent / "cmdline").write_bytes(line.replace(" ", "\0").encode() + b"\0")
        for number, target in enumerate(files):
            (fd / str(number)).symlink_to(target)

    return write


DAEMONS, JOBS = ["nvidia-persistenced"], ["slurmstepd: ["]


def test_who_uses_the_gpus_is_named_and_services_are_not(run, simulated_proc):
    simulated_proc(7, "python3", "python3 train.py", "/dev/nvidiactl", "/dev/nvidia1", "/dev/nvidia0", "/dev/nvidia0")
    simulated_proc(8, "nvidia-persistenced", "/usr/bin/nvidia-persistenced", "/dev/nvidia0")
    simulated_proc(9, "sshd", "sshd: debian", "/dev/null")
    simulated_proc(10, "nv-fabricmanager", "nv-fabricmanager", "/dev/nvidia-nvswitch0", "/dev/nvidiactl")
    simulated_proc(11, "slurmstepd", "slurmstepd: [4711.batch]")
    simulated_proc(12, "slurmstepd", "/usr/sbin/slurmstepd infinity")
    result, _now = run(state="checked", daemons=DAEMONS, jobs=JOBS)
    assert result["busy"] == ["pid 7 python3 on /dev/nvidia0, /dev/nvidia1", "pid 11 slurmstepd: [4711.batch]"]


def test_an_idle_node_is_not_busy_and_many_are_counted(run, simulated_proc):
    simulated_proc(8, "nvidia-persistenced", "/usr/bin/nvidia-persistenced", "/dev/nvidia0")
    assert run(state="checked", daemons=DAEMONS, jobs=JOBS)[0]["busy"] == []
    for pid in range(20, 33):
        simulated_proc(pid, "python3", "python3 train.py", "/dev/nvidia0")
    busy = run(state="checked", daemons=DAEMONS, jobs=JOBS)[0]["busy"]
    assert (len(busy), busy[-1]) == (11, "and 3 more")


def test_a_process_of_this_machine_is_seen_as_it_is(run):
    pid = os.getpid()
    with open(f"/proc/{pid}/cmdline", "rb") as stream:
        line = stream.read().replace(b"\0", b" ").decode().strip()
    busy = run(state="checked", jobs=[line])[0]["busy"]
    assert any(text.startswith(f"pid {pid} ") for text in busy)
