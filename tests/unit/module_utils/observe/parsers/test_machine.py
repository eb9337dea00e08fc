"""The machine and the system: odd answers of their tools."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json

import pytest

DF = "Filesystem     1024-blocks  Used Available Capacity Mounted on\n"


def test_shared_memory_that_is_no_file_system_of_its_own(look):
    observation = look(shm=DF + "overlay          103081248 100   9000000       1% /\n")
    assert observation["machine"]["shm_mib"] is None
    assert observation["machine"]["shm_raw"].startswith("overlay")
    assert observation["probes"]["shm"]["notes"] == ["/dev/shm is not a file system of its own: it lies in /"]


def test_full_shared_memory(look):
    machine = look(shm=DF + "shm                  65536 65536         0     100% /dev/shm\n")["machine"]
    assert (machine["shm_mib"], machine["shm_available_mib"]) == (64, 0)


def test_names_of_file_systems_with_blanks(look):
    text = f"==> df -kP <==\n{DF}//nas/my share      2048000   0   1024000       0% /mnt/my share\n"
    assert look(disks=text)["machine"]["filesystems"] == [
        {"device": "//nas/my share", "mount": "/mnt/my share", "size_mib": 2000, "available_mib": 1000}
    ]


@pytest.mark.parametrize(
    ("size", "mebibytes"), [(1048576, 1), ("1048576", 1), ("1.5G", 1536), ("2,5T", 2621440), (None, None)]
)
def test_sizes_of_disks_in_every_form(look, size, mebibytes):
    device = {"name": "sda", "size": size, "ro": "0", "type": "disk", "mountpoint": "/data"}
    text = "==> lsblk -J <==\n" + json.dumps({"blockdevices": [device]}) + "\n"
    (found,) = look(disks=text)["machine"]["block_devices"]
    assert (found["size_mib"], found["mounts"], found["read_only"]) == (mebibytes, ["/data"], False)


def test_a_damaged_list_of_disks_leaves_the_file_systems(look):
    text = f'==> lsblk -J <==\n{{"blockdevices": [\n\n==> df -kP <==\n{DF}/dev/vda1  2048 0 1024 0% /\n'
    observation = look(disks=text)
    assert observation["machine"]["block_devices"] is None
    assert len(observation["machine"]["filesystems"]) == 1
    assert observation["probes"]["disks"]["status"] == "ok"
    assert observation["probes"]["disks"]["notes"][0].startswith("lsblk -J: JSONDecodeError")


def test_a_machine_without_numa(look):
    assert look(numa=("No NUMA support available on this system.\n", 1))["machine"]["numa"] == []


def test_numa_nodes_without_processors(look):
    text = "available: 2 nodes (0-1)\nnode 0 cpus: 0 1 2 3\nnode 0 size: 100 MB\nnode 1 cpus:\nnode 1 size: 200 MB\n"
    assert look(numa=text)["machine"]["numa"] == [
        {"node": 0, "cpus": "0-3", "memory_mib": 100},
        {"node": 1, "cpus": None, "memory_mib": 200},
    ]


@pytest.mark.parametrize(
    ("kind", "container"), [("none", False), ("kvm", False), ("amazon", False), ("lxc", True), ("wsl", True)]
)
def test_what_it_runs_in(look, kind, container):
    observation = look(virt=(f"{kind}\n", 1 if kind == "none" else 0))
    assert (observation["machine"]["virt"], observation["machine"]["container"]) == (kind, container)
    assert observation["probes"]["virt"]["status"] == "ok"


def test_quotes_and_comments_of_os_release(look):
    text = (
        '# made by hand\nNAME=\'Rocky Linux\'\nID="rocky"\nID_LIKE="rhel centos fedora"\n'
        'VERSION_ID="9.6"\nBAD="unclosed\n'
    )
    observation = look(os_release=text)
    assert observation["os"]["id"] == "rocky"
    assert observation["os"]["version_id"] == "9.6"
    assert observation["os"]["id_like"] == ["rhel", "centos", "fedora"]
    assert observation["probes"]["os_release"]["notes"] == ['unbalanced quotes: BAD="unclosed']


@pytest.mark.parametrize(
    ("line", "architecture"),
    [
        ("Linux a 5.14.0-503.el9.x86_64 #1 SMP Tue Nov 12 2024 x86_64 x86_64 x86_64 GNU/Linux", "x86_64"),
        ("Linux b 6.8.0-1024-nvidia-64k #1 SMP 2025 aarch64 aarch64 aarch64 GNU/Linux", "aarch64"),
        ("Linux c 6.12.0 #1 SMP 2025 x86_64 Linux", "x86_64"),
    ],
)
def test_architectures(look, line, architecture):
    assert look(uname=line)["os"]["arch"] == architecture


def test_a_machine_id_that_is_not_set(look):
    text = "==> /etc/machine-id <==\nuninitialized\n\n==> date -u +%s.%N <==\n1.5\n"
    observation = look(identity=text)
    assert observation["identity"] == {"machine_id": None, "clock_unix_s": 1.5, "ntp_synchronized": None}
    assert observation["probes"]["identity"]["notes"] == ["/etc/machine-id holds no machine id"]


def test_documents_of_the_wrong_shape(look):
    observation = look(manifest="[]", pending_reboot="{", python_env="")
    for name, note in (("manifest", "not a JSON object"), ("python_env", "empty")):
        assert observation["probes"][name] == {"status": "unreadable", "notes": [note]}
    assert observation["probes"]["pending_reboot"]["status"] == "unreadable"
    assert (observation["manifest"], observation["pending_reboot"], observation["python_env"]) == (None, None, None)


def test_torch_that_cannot_be_imported(look):
    torch = {"error": "ImportError: libcudart.so.12: cannot open shared object file"}
    text = json.dumps({"interpreter": "/x/bin/python", "python": "3.11.9", "packages": None, "torch": torch})
    environment = look(python_env=text)["python_env"]
    assert environment["torch"]["error"] == torch["error"]
    assert (environment["torch"]["version"], environment["packages"], environment["env"]) == (None, None, None)
