"""The layers nccl and cuda on real nodes: the interface that leads to others, the locked versions, drift repaired."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import shutil

import pytest
import yaml

from tests.support.simulated_node_repository import simulated_node_repository
from tools.lab import network

pytestmark = pytest.mark.slow

#: Debian 12 has no NCCL and nothing is locked for it; its nccl.conf follows from the node alone.
WITHOUT, NODE = "node-1", "node-3"
CONF, PROFILE = "/etc/nccl.conf", "/etc/profile.d/trainrig-cuda.sh"
LOCK = {
    "index_date": "2026-11-30T00:00:00Z",
    "profiles": [{"name": "cpu", "pytorch": "2.13.0", "variant": "cpu", "python": ["3.11"]}],
}


@pytest.fixture
def declare(lab, tmp_path):
    """The lab's nodes, some groups and settings, as an inventory of their own."""

    def write(groups, **settings):
        place = tmp_path / "inventory"
        shutil.copytree(lab.inventory, place)
        common = {"ansible_become": True, "trainrig_lock": LOCK, "report_directory": str(tmp_path / "reports")}
        (place / "group_vars/all.yml").write_text(yaml.safe_dump({**common, **settings}), encoding="utf-8")
        nodes = yaml.safe_load((place / "nodes.yml").read_text(encoding="utf-8"))
        names = sorted({name for members in groups.values() for name in members})
        hosts = {name: nodes["all"]["hosts"][name] for name in names}
        content = {name: {"hosts": dict.fromkeys(members)} for name, members in groups.items()}
        content["all"] = {**nodes["all"], "hosts": hosts}
        (place / "nodes.yml").write_text(yaml.safe_dump(content), encoding="utf-8")
        return place

    return write


def flat(run):
    """What was printed, without the line breaks of a table."""
    return " ".join(run.output.split())


def values(machine):
    """What NCCL gets of the file."""
    lines = machine.file(CONF).content_string.splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def other_version(machine, name, version):
    """Somebody puts another version of a package in place of a held one."""
    control = (
        f"Package: {name}\nVersion: {version}\nArchitecture: amd64\nMaintainer: somebody <a@b.c>\nDescription: other"
    )
    machine.check_output(f"mkdir -p /tmp/other/DEBIAN && printf '{control}\\n' > /tmp/other/DEBIAN/control")
    machine.check_output("dpkg-deb --build /tmp/other /tmp/other.deb && dpkg --install --force-depends /tmp/other.deb")


def test_nccl_conf_and_the_systems_nccl(lab, fresh, ansible, host, declare):
    fresh(WITHOUT, NODE)
    inventory = declare(
        {"sources": [NODE], "nccl": [WITHOUT, NODE]},
        trainrig_stack={"origin": "distro", "nccl": "2.22.3", "gpus": ["L40S"], "platforms": ["debian13-x86_64"]},
    )

    def play(*words):
        return ansible("ansible-playbook", *words, inventory=inventory)

    node = host(NODE, sudo=True)
    # A second interface, which a job must not take, and a file that somebody wrote.
    node.check_output("ip link add wan0 type veth peer name wan1 && ip link set wan1 up && ip link set wan0 up")
    node.check_output("ip address add 203.0.113.5/24 dev wan0")
    node.check_output(f"echo NCCL_DEBUG=INFO > {CONF}")
    play("playbooks/lock.yml").ok()

    refused = play("site.yml", "-e", '{"nccl_settings": {"NCCL_P2P_DISABLE": 1, "NCCL_NTRHEADS": 64}}')
    assert refused.status != 0
    assert "nccl_settings.NCCL_P2P_DISABLE: 1: is for debugging" in flat(refused)
    assert "nccl_settings.NCCL_NTRHEADS: 64: is no variable of NCCL's system configuration" in flat(refused)
    assert node.file(CONF).content_string == "NCCL_DEBUG=INFO\n"
    assert not node.package("libnccl2").is_installed, "nothing of the layer is done"

    play("site.yml").ok()
    for name in (WITHOUT, NODE):
        assert values(host(name)) == {"NCCL_SOCKET_IFNAME": "=host0"}
        assert f"{lab.node(name).address} (trainrig_private_address)" in host(name).file(CONF).content_string
    assert node.check_output(f"cat {CONF}.*~") == "NCCL_DEBUG=INFO", "nothing is lost"
    assert node.package("libnccl2").version == "2.22.3-1-1"
    assert set(node.check_output("apt-mark showhold").split()) == {"libnccl2", "libnccl-dev"}
    assert not host(WITHOUT).package("libnccl2").is_installed
    second = play("site.yml").ok()
    assert [second.recap(name)["changed"] for name in (WITHOUT, NODE)] == [0, 0]

    node.check_output(f"echo NCCL_P2P_DISABLE=1 >> {CONF}")
    node.check_output("apt-mark unhold libnccl2")
    other_version(node, "libnccl-dev", "2.21.5-1-1")
    node.check_output("ip address del 203.0.113.5/24 dev wan0")
    plan = play("playbooks/plan.yml").ok()
    assert f"file {CONF} was edited" in flat(plan)
    assert "hold of libnccl2 is not held, was held" in flat(plan)
    assert "package libnccl-dev moved 2.22.3-1-1 -> 2.21.5-1-1" in flat(plan)
    assert "machine interfaces changed" in flat(plan)
    play("site.yml").ok()
    assert values(node) == {"NCCL_SOCKET_IFNAME": "=host0"}
    assert node.package("libnccl-dev").version == "2.22.3-1-1"
    assert set(node.check_output("apt-mark showhold").split()) == {"libnccl2", "libnccl-dev"}
    assert play("site.yml", "--check").ok().recap(NODE)["changed"] == 0


def test_a_toolkit_beside_another_one(lab, fresh, ansible, host, declare, tmp_path):
    fresh(NODE)
    node = host(NODE, sudo=True)
    with simulated_node_repository(tmp_path / "repository", str(network.addresses().cache)) as repository:
        inventory = declare(
            {"sources": [NODE], "cuda": [NODE]},
            trainrig_stack={
                "origin": "nvidia",
                "driver": "580",
                "cuda": "12.8",
                "gpus": ["L40S"],
                "platforms": ["debian13-x86_64"],
            },
            trainrig_repositories=repository.settings,
        )

        def play(*words):
            return ansible("ansible-playbook", *words, inventory=inventory)

        def login(words):
            return node.check_output(f"env -i HOME=/root bash -lc '{words}'")

        play("playbooks/lock.yml").ok()
        play("site.yml", "--tags", "sources")
        node.check_output("DEBIAN_FRONTEND=noninteractive apt-get install -y cuda-nvcc-12-6")
        dry = play("site.yml", "--check").ok()
        assert dry.recap(NODE)["changed"] > 0
        assert not node.file("/usr/local/cuda-12.8").exists
        play("site.yml").ok()
        for release in ("12.6", "12.8"):
            assert f"release {release}," in node.check_output(f"/usr/local/cuda-{release}/bin/nvcc --version")
        assert not node.file(PROFILE).exists
        assert login("command -v nvcc || echo none") == "none"
        assert play("site.yml").ok().recap(NODE)["changed"] == 0

        on_path = ("-e", '{"cuda_path": true}')
        assert "option cuda_path changed: False -> True" in flat(play("playbooks/plan.yml", *on_path).ok())
        play("site.yml", *on_path).ok()
        assert login("command -v nvcc; echo $CUDA_HOME; echo ${LD_LIBRARY_PATH:-none}").split() == [
            "/usr/local/cuda-12.8/bin/nvcc",
            "/usr/local/cuda-12.8",
            "none",
        ]
        node.check_output(f"sed -i s/12.8/12.6/ {PROFILE}")
        node.check_output("apt-mark unhold cuda-toolkit-12-8")
        node.check_output("apt-get remove -y --allow-change-held-packages cuda-toolkit-12-8")
        plan = play("playbooks/plan.yml", *on_path).ok()
        assert f"file {PROFILE} was edited" in flat(plan)
        assert "package cuda-toolkit-12-8 is absent, was installed" in flat(plan)
        play("site.yml", *on_path).ok()
        assert login("echo $CUDA_HOME") == "/usr/local/cuda-12.8"
        assert "cuda-toolkit-12-8" in node.check_output("apt-mark showhold")
        assert play("site.yml").ok().recap(NODE)["changed"] > 0
        assert not node.file(PROFILE).exists
        assert node.file("/usr/local/cuda-12.6/bin/nvcc").exists, "another toolkit stays"

        # A compiler that is not what its package says.
        node.check_output("sed -i s/12.8/12.7/ /usr/local/cuda-12.8/bin/nvcc")
        wrong = play("site.yml", "-e", "trainrig_recheck=all")
        assert wrong.status != 0
        assert "release 12.7" in flat(wrong) and "stack.lock.yml has 12.8" in flat(wrong)
