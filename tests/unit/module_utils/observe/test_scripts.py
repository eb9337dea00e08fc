"""The shell scripts of the probe table, run by sh over a made-up /boot, /sys and /var."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
import re
import subprocess

import pytest
from ansible_collections.trainrig.gpu.plugins.module_utils.observe import scripts


@pytest.fixture
def sh(tmp_path):
    """sh(script, {path: text or None for a directory}, links={path: target}) -> (status, output)"""

    def run(script, files, links=None, arguments=()):
        for path, text in files.items():
            target = tmp_path / path.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.mkdir() if text is None else target.write_text(text)
        for path, to in (links or {}).items():
            (tmp_path / path.lstrip("/")).symlink_to(to)
        # Every absolute path of the script that belongs to the node is moved under the made-up root.
        moved = re.sub(r"(?<![\w$}*])/(boot|etc|proc|run|sys|var|vmlinuz|\.dockerenv)\b", rf"{tmp_path}/\1", script)
        done = subprocess.run(["sh", "-c", moved, "sh", *arguments], capture_output=True, text=True, check=False)
        assert done.stderr == "", done.stderr
        return done.returncode, done.stdout.replace(str(tmp_path), "")

    return run


MENU = """
menuentry 'Ubuntu' {
\tlinux\t/vmlinuz-6.8.0-60-generic root=/dev/sda1 ro
}
submenu 'Advanced options for Ubuntu' {
\tmenuentry 'Ubuntu, with Linux 6.8.0-51-generic' {
\t\tlinux\t/boot/vmlinuz-6.8.0-51-generic root=/dev/sda1 ro
\t}
}
"""
IMAGES = {"/boot/vmlinuz-6.8.0-51-generic": "", "/boot/vmlinuz-6.8.0-60-generic": "", "/boot/vmlinuz-0-rescue-00aa": ""}
NO_GRUBBY = scripts.KERNELS.replace("command -v grubby", "false")


@pytest.mark.parametrize(
    ("setting", "environment", "default"),
    [
        ("GRUB_DEFAULT=0\n", "", "60"),
        ("", "", "60"),
        ("GRUB_DEFAULT=saved\n", "saved_entry=Advanced options for Ubuntu>Ubuntu, with Linux 6.8.0-51-generic\n", "51"),
        ("GRUB_DEFAULT='Advanced options for Ubuntu>Ubuntu, with Linux 6.8.0-51-generic'\n", "", "51"),
        ("GRUB_DEFAULT=0\n", "next_entry=gnulinux-advanced-0a1b>gnulinux-6.8.0-51-generic-advanced-0a1b\n", "51"),
        ("GRUB_DEFAULT=2\n", "", None),
        ("GRUB_DEFAULT='Windows Boot Manager'\n", "", None),
    ],
)
def test_kernel_that_boots_next(sh, setting, environment, default):
    files = {**IMAGES, "/boot/grub/grub.cfg": MENU, "/etc/default/grub": setting, "/boot/grub/grubenv": environment}
    expected = [("* " if default == number else "") + f"6.8.0-{number}-generic" for number in ("51", "60")]
    assert sh(NO_GRUBBY, files) == (0, "".join(f"{line}\n" for line in expected))


def test_kernel_that_boots_next_where_the_menu_is_not_readable(sh):
    status, text = sh(NO_GRUBBY, IMAGES, links={"/boot/vmlinuz": "vmlinuz-6.8.0-60-generic"})
    assert (status, text) == (0, "6.8.0-51-generic\n* 6.8.0-60-generic\n")


def test_no_kernel_is_no_answer(sh):
    assert sh(NO_GRUBBY, {"/boot": None}) == (127, "")


def test_devices_of_the_bus_without_lspci(sh):
    base = "/sys/bus/pci/devices/0000:18:00.0/"
    files = {"class": "0x030200\n", "vendor": "0x10de\n", "device": "0x2330\n", "revision": "0xa1\n"}
    status, text = sh(scripts.LSPCI, {base + name: value for name, value in files.items()})
    assert (status, text) == (0, "0000:18:00.0 Class [0302]: Device [10de:2330] (rev a1)\n")


def test_gids_as_show_gids_prints_them(sh):
    port = "/sys/class/infiniband/mlx5_0/ports/1/"
    files = {
        port + "gids/0": "fe80:0000:0000:0000:0ac0:ebff:fe00:0001\n",
        port + "gids/1": "0000:0000:0000:0000:0000:ffff:0a00:0105\n",
        port + "gids/2": "0000:0000:0000:0000:0000:0000:0000:0000\n",
        port + "gid_attrs/types/0": "IB/RoCE v1\n",
        port + "gid_attrs/types/1": "RoCE v2\n",
        port + "gid_attrs/ndevs/0": "ens1f0\n",
        port + "gid_attrs/ndevs/1": "ens1f0\n",
    }
    status, text = sh(scripts.GIDS, files)
    assert status == 0
    assert [line.split("\t") for line in text.splitlines()[1:]] == [
        ["mlx5_0", "1", "0", "fe80:0000:0000:0000:0ac0:ebff:fe00:0001", "", "v1", "ens1f0"],
        ["mlx5_0", "1", "1", "0000:0000:0000:0000:0000:ffff:0a00:0105", "10.0.1.5", "v2", "ens1f0"],
    ]


def test_numa_nodes_without_numactl(sh):
    node = "/sys/devices/system/node/node0/"
    files = {
        node + "cpulist": "0-15,32-47\n",
        node + "meminfo": "Node 0 MemTotal:       2097152 kB\nNode 0 MemFree: 1 kB\n",
    }
    assert sh(scripts.NUMA, files) == (0, "node 0 cpus: 0-15,32-47\nnode 0 size: 2048 MB\n")


def test_newest_log_of_a_build_that_failed(sh, tmp_path):
    old, new = "/var/lib/dkms/nvidia/1.0/build/make.log", "/var/lib/dkms/nvidia/2.0/build/make.log"
    for path in (old, new):
        (tmp_path / path.lstrip("/")).parent.mkdir(parents=True)
        (tmp_path / path.lstrip("/")).write_text(f"{path}\n")
    os.utime(tmp_path / old.lstrip("/"), (1000, 1000))
    assert sh(scripts.DKMS_LOG, {}) == (0, f"{new}\n")
    assert sh(scripts.DKMS_LOG.replace("dkms", "nothing"), {}) == (127, "")


@pytest.mark.parametrize("name", [name for name in vars(scripts) if name.isupper()])
def test_scripts_are_plain_sh(name):
    done = subprocess.run(["sh", "-n", "-c", getattr(scripts, name)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


GUEST = "flags\t\t: fpu vme hypervisor lahf_lm\n"
HOST = "flags\t\t: fpu vme lahf_lm\n"


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="other processors do not list a hypervisor")
@pytest.mark.parametrize(
    ("files", "answer"),
    [
        ({"/.dockerenv": "", "/proc/cpuinfo": GUEST}, "docker"),
        ({"/run/.containerenv": "", "/proc/cpuinfo": HOST}, "podman"),
        ({"/run/systemd/container": "lxc\n", "/proc/cpuinfo": HOST}, "lxc"),
        ({"/proc/1/cgroup": "0::/kubepods.slice/pod1\n", "/proc/cpuinfo": HOST}, "container-other"),
        ({"/proc/mounts": "overlay / overlay rw 0 0\n", "/proc/cpuinfo": HOST}, "container-other"),
        ({"/proc/mounts": "overlay / overlay rw 0 0\n", "/run/systemd/system": None, "/proc/cpuinfo": HOST}, "none"),
        ({"/proc/1/cgroup": "0::/init.scope\n", "/proc/cpuinfo": GUEST}, "vm-other"),
        ({"/proc/1/cgroup": "0::/init.scope\n", "/proc/cpuinfo": HOST}, "none"),
    ],
)
def test_virtualisation_without_systemds_tool(sh, files, answer):
    assert sh(scripts.VIRT, files) == (0, f"{answer}\n")


def test_counters_of_rdma_ports(sh):
    port = "/sys/class/infiniband/mlx5_0/ports/1"
    files = {f"{port}/counters/link_downed": "3\n", f"{port}/counters/port_xmit_data": "9\n"}
    files.update({f"{port}/hw_counters/rnr_nak_retry_err": "0\n", f"{port}/hw_counters/lifespan": "10\n"})
    files["/sys/class/infiniband/mlx5_0/device/net/eth2/carrier_changes"] = "2\n"
    names = ("link_downed", "rnr_nak_retry_err", "not_there", "carrier_changes")
    expected = "mlx5_0/1 link_downed 3\nmlx5_0/1 rnr_nak_retry_err 0\nmlx5_0/1 carrier_changes 2\n"
    assert sh(scripts.RDMA_COUNTERS, files, arguments=names) == (0, expected)


def test_no_rdma_no_counters(sh):
    assert sh(scripts.RDMA_COUNTERS, {"/sys/class/x": None}, arguments=("link_downed",)) == (127, "")
