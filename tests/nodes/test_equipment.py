"""The test equipment itself: nodes install simulated drivers for real, and show the hardware that they are given."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support import simulated_hardware as simulated

pytestmark = pytest.mark.slow

NODES = ("node-1", "node-3")
OLD, NEW, OTHER = "550.127.08", "550.144.03", "535.309.01"
PLATFORMS = {"debian12": 0, "debian13": 1}
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch"
NO_DRIVER = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest"


@pytest.fixture
def with_repository(lab, repository, host):
    """Nodes whose apt knows the simulated repository, read."""

    def add(*names):
        for name in names:
            one, index = host(name, sudo=True), repository.indexes[PLATFORMS[lab.node(name).spec.base]]
            root = Path(f"/proc/{lab.node(name).leader}/root")
            (root / "etc/apt/keyrings").mkdir(exist_ok=True)
            (root / "etc/apt/keyrings/nvidia.gpg").write_bytes(repository.keyring.read_bytes())
            line = index.source_line(Path("/etc/apt/keyrings/nvidia.gpg"))
            (root / "etc/apt/sources.list.d/nvidia.list").write_text(f"{line}\n", encoding="utf-8")
            one.check_output("apt-get update -qq -o APT::Update::Error-Mode=any")

    return add


@pytest.fixture
def observe(ansible):
    def look(name):
        # What Ansible prints before the answer is the host's name.
        output = ansible("ansible", name, "-b", "-m", "trainrig.gpu.observe").ok().output
        return json.loads(output[output.index("{") :])["observation"]

    return look


def install(one, version, *packages):
    """One driver version and nothing of another, as a pin says it."""
    family = "src:*nvidia*:any src:cuda-drivers:any src:fabricmanager:any"
    pin = rf"Package: {family}\nPin: version {version}-1\nPin-Priority: 1001\n"
    one.check_output(f"printf '{pin}' >/etc/apt/preferences.d/driver")
    words = " ".join(packages)
    get = "DEBIAN_FRONTEND=noninteractive apt-get -q -y --allow-downgrades"
    one.check_output(f"{get} install {words}")
    # cuda-drivers and nvidia-open want at least their version: a newer driver below them would stay.
    one.check_output(f"{get} dist-upgrade")


def test_a_node_installs_a_driver_that_dkms_builds(lab, kernel_headers, kernel, with_repository, host):
    kernel_headers(*NODES)
    with_repository(*NODES)
    for name in NODES:
        one, release = host(name, sudo=True), kernel(name)
        assert one.check_output("uname -r") != release, "the running kernel has no headers, and that fails nothing"
        for version in (NEW, OTHER, OLD) if name == "node-3" else (NEW,):
            branch = version.split(".")[0]
            install(one, version, "cuda-drivers", f"nvidia-fabricmanager-{branch}")
            assert one.check_output("dkms status") == f"nvidia/{version}, {release}, x86_64: installed"
            module = one.check_output(f"modinfo -k {release} nvidia")
            assert f"version:        {version}" in module.splitlines()
            assert "license:        NVIDIA" in module.splitlines()
            for library in ("libcuda.so.1", "libnvidia-ml.so.1"):
                link = one.check_output(f"readlink -f /usr/lib/x86_64-linux-gnu/{library}")
                assert link.endswith(f".so.{version}")
            assert one.check_output("nv-fabricmanager --version") == f"Fabric Manager version is : {version}"
    one.check_output("apt-get purge -q -y cuda-drivers nvidia-kernel-dkms")
    install(one, "580.178.04", "nvidia-open", "cuda-toolkit-12-6=12.6.3-1", "libnccl2=2.27.5-1+cuda12.4")
    assert "license:        Dual MIT/GPL" in one.check_output(f"modinfo -k {release} nvidia").splitlines()
    assert "release 12.6, V12.6.3" in one.check_output("/usr/local/cuda/bin/nvcc --version")


def test_services_and_nvidia_smi_are_as_the_driver_that_is_loaded(lab, kernel_headers, with_repository, host):
    (node,) = kernel_headers("node-3")
    with_repository("node-3")
    one = host("node-3", sudo=True)
    install(one, NEW, "cuda-drivers", "nvidia-fabricmanager-550")
    units = ("nvidia-persistenced", "nvidia-fabricmanager")

    def starts(unit):
        return one.run(f"systemctl restart {unit}").rc == 0 and one.check_output(f"systemctl is-active {unit}")

    assert [starts(unit) for unit in units] == [False, False], "there is no GPU"
    answer = one.run("nvidia-smi -q -x")
    assert answer.rc == 9
    assert answer.stdout.startswith(NO_DRIVER)
    simulated.equip(node, simulated.hardware(driver=OLD, flavour=""))
    answer = one.run("nvidia-smi -q -x")
    assert answer.rc == 18
    assert answer.stdout.splitlines() == [MISMATCH, "NVML library version: 550.144"]
    assert [starts(unit) for unit in units] == ["active", False], "the fabric manager wants its own driver"
    simulated.equip(node, simulated.hardware(driver=NEW, flavour=""))
    assert one.check_output("nvidia-smi -q -x").count("<gpu id=") == 8
    assert one.check_output("nvidia-smi -L").count("H100") == 8
    assert [starts(unit) for unit in units] == ["active", "active"]


def test_only_a_signed_repository_is_believed(lab, fresh, repository, with_repository, host):
    fresh("node-3")
    try:
        repository.publish("stranger")
        with pytest.raises(AssertionError, match=r"NO_PUBKEY|Missing key|not signed"):
            with_repository("node-3")
    finally:
        repository.publish()
    with_repository("node-3")


def test_a_node_shows_the_hardware_it_is_given(lab, fresh, observe):
    (node,) = fresh("node-3")
    facts = simulated.hardware(driver=NEW, flavour="", kernel="6.12.1-amd64")
    simulated.equip(node, facts)
    seen = observe("node-3")
    gpus = seen["nvidia"]["gpus"]
    assert [gpu["model"] for gpu in gpus] == ["H100_SXM5_80"] * 8
    assert {(gpu["lost"], gpu["ecc"]["uncorrected_volatile"], gpu["fabric"]["state"]) for gpu in gpus} == {
        (False, 0, "Completed")
    }
    assert len(seen["nvidia"]["nvswitches"]) == 4
    assert (seen["nvidia"]["driver"]["module"], seen["nvidia"]["driver"]["module_flavour"]) == (NEW, "proprietary")
    assert seen["nvidia"]["processes"] == []
    assert (seen["machine"]["virt"], seen["os"]["kernel"]) == ("none", "6.12.1-amd64")
    assert seen["boot"]["secure_boot"] is False

    sick = simulated.fabric_in_progress(simulated.ecc_uncorrected(simulated.secure_boot(facts), index=3, count=2))
    simulated.equip(node, simulated.process(sick, 4242, index=1, name="train.py"))
    seen = observe("node-3")
    gpus = seen["nvidia"]["gpus"]
    assert [gpu["ecc"]["uncorrected_volatile"] for gpu in gpus] == [0, 0, 0, 2, 0, 0, 0, 0]
    assert {gpu["fabric"]["state"] for gpu in gpus} == {"In Progress"}
    (found,) = seen["nvidia"]["processes"]
    assert (found["pid"], found["name"], found["gpu_uuid"]) == (4242, "train.py", gpus[1]["uuid"])
    assert seen["boot"]["secure_boot"] is True

    simulated.equip(node, simulated.gpu_lost(facts, index=3))
    gpus = observe("node-3")["nvidia"]["gpus"]
    assert len(gpus) == 8
    assert [gpu["pci_address"] for gpu in gpus if gpu["lost"]] == ["0000:5d:00.0"]

    simulated.equip(node, simulated.no_driver(facts))
    seen = observe("node-3")
    assert [gpu["model"] for gpu in seen["nvidia"]["gpus"]] == ["H100_SXM5_80"] * 8
    assert (seen["nvidia"]["driver"]["module"], seen["nvidia"]["proc_gpus"]) == (None, None)
    assert seen["probes"]["nvidia_smi_xml"]["status"] == "absent"

    simulated.strip(node)
    seen = observe("node-3")
    assert (seen["nvidia"]["gpus"], seen["nvidia"]["nvswitches"]) == ([], None)
    assert seen["machine"]["virt"] == "systemd-nspawn"
    assert [path for path in node.changed() if path.startswith("/usr/local/bin/")] == []
