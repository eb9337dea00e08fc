"""The layers on nodes that say they are Ubuntu: simulated os-release, archive and NVIDIA repository, real apt.

What runs is Debian 12 underneath: only names, versions, relations and repositories are Ubuntu's and NVIDIA's.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.nodes.system_layers import STACK, inventory
from tests.support.simulated_node_repository import simulated_node_repository
from tests.support.simulated_nvidia import fill_ubuntu, table
from tests.support.simulated_repository import File, SimulatedRepository, stub
from tools.lab import network

pytestmark = pytest.mark.slow

#: node -> NVIDIA's code of the platform
NODES = {"node-1": "ubuntu2404", "node-2": "ubuntu2204"}
LAYERS = ("sources", "driver", "cuda", "nccl")


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    """(Ubuntu's archive, NVIDIA's repository), at an address that nodes reach."""
    place, address = tmp_path_factory.mktemp("simulated"), str(network.addresses().cache)
    platforms = tuple(sorted(NODES.values()))
    archive = SimulatedRepository(place / "ubuntu", address=address)
    nvidia = simulated_node_repository(place / "nvidia", address, platforms, ("570", "580"))
    for platform in platforms:
        words = table("simulated_ubuntu")["platforms"][platform]
        for pocket in ("", "updates"):
            release = {"Origin": "Ubuntu", "Label": "Ubuntu", "Version": words["series"]}
            suite = "-".join(filter(None, (words["codename"], pocket)))
            index = archive.suite(suite, release, "amd64", ("main", "restricted", "universe", "multiverse"))
            fill_ubuntu(index, platform, pocket)
    archive.publish()
    with archive, nvidia:
        yield archive, nvidia


def with_real_dkms(lab, name, *repositories):
    """Every simulated dkms holds the node's own: it takes its place, and then has to build modules as it did."""
    root = Path(f"/proc/{lab.node(name).leader}/root")
    listed = (root / "var/lib/dpkg/info/dkms.list").read_text(encoding="utf-8").splitlines()
    files = [(path.lstrip("/"), root / path.lstrip("/")) for path in listed if not path.startswith("/usr/share/")]
    entries = tuple(
        (
            name,
            File(link=str(path.readlink()))
            if path.is_symlink()
            else File(path.read_text(), path.stat().st_mode & 0o777),
        )
        for name, path in files
        if path.is_symlink() or path.is_file()
    )
    entries += (("var/lib/dkms/.keep", File()),)  # else dpkg takes the empty directory away with the old package
    assert "usr/sbin/dkms" in dict(entries)
    for repository in repositories:
        for index in repository.indexes:
            for place, package in index.packages.items():
                if package.name == "dkms":
                    index.packages[place] = package._replace(deb=stub(package.control, entries))
        repository.publish()


def pretend(lab, name, archive):
    """The running node says that it is Ubuntu, and its apt knows the simulated archive and nothing else."""
    words = table("simulated_ubuntu")["platforms"][NODES[name]]
    etc = Path(f"/proc/{lab.node(name).leader}/root/etc")
    lines = [
        "NAME=Ubuntu",
        "ID=ubuntu",
        "ID_LIKE=debian",
        f'VERSION_ID="{words["series"]}"',
        f"VERSION_CODENAME={words['codename']}",
    ]
    (etc / "os-release").unlink()
    (etc / "os-release").write_text("# simulated\n" + "\n".join(lines) + "\n", encoding="utf-8")
    (etc / "apt/keyrings").mkdir(exist_ok=True)
    (etc / "apt/keyrings/ubuntu.gpg").write_bytes(archive.keyring.read_bytes())
    suites = " ".join((words["codename"], f"{words['codename']}-updates"))
    source = f"Types: deb\nURIs: {archive.url}\nSuites: {suites}\nComponents: main restricted universe multiverse\n"
    (etc / "apt/sources.list.d/ubuntu.sources").write_text(
        f"{source}Signed-By: /etc/apt/keyrings/ubuntu.gpg\n", encoding="utf-8"
    )
    (etc / "apt/sources.list").write_text("", encoding="utf-8")


def converged(run, place):
    """Nothing is wrong but what is: nodes share this machine's kernel, and their compiler may be older than its."""
    report = json.loads((place / "reports/latest/report.json").read_text(encoding="utf-8"))
    bad = {one["rule"] for one in report["findings"] if one["severity"] in ("fail", "refuse")}
    assert bad <= {"kernel.compiler_differs"}, run.output
    assert all(host["state"] == "ok" for host in report["hosts"].values()), run.output
    return run


def test_the_layers_on_simulated_ubuntu(lab, simulated, kernel_headers, kernel, ansible, host, tmp_path):
    archive, nvidia = simulated
    kernel_headers(*NODES)
    with_real_dkms(lab, next(iter(NODES)), archive, nvidia)
    for name in NODES:
        pretend(lab, name, archive)
    own = {"url": archive.url, "key": str(archive.keyring), "fingerprints": [archive.fingerprint]}

    def play(playbook):
        return ansible("ansible-playbook", playbook, inventory=tmp_path / "inventory")

    for branch in ("570", "580", "570"):
        stack = {**STACK, "driver": branch, "platforms": [f"{code}-x86_64" for code in sorted(NODES.values())]}
        stack = {key: value for key, value in stack.items() if key not in ("cuda", "nccl")}
        repositories = {**nvidia.settings, "ubuntu": own}
        place = inventory(
            lab,
            tmp_path / "inventory",
            dict.fromkeys(NODES, LAYERS),
            nvidia,
            trainrig_stack=stack,
            trainrig_repositories=repositories,
        )
        play("playbooks/lock.yml").ok()
        converged(play("site.yml"), tmp_path)
        systems = yaml.safe_load((place / "stack.lock.yml").read_text(encoding="utf-8"))["systems"]
        locked = {row["platform"].split("-")[0]: row["packages"] for row in systems}
        for name, code in NODES.items():
            one = host(name, sudo=True)
            wanted = {row["name"]: row["version"] for row in locked[code] if row["pin"] and row["layer"] in LAYERS}
            there = dict(line.split("\t") for line in one.check_output("dpkg-query -W").splitlines())
            assert {package: there.get(package) for package in wanted} == wanted
            assert set(one.check_output("apt-mark showhold").split()) == set(wanted), (
                "nothing of the other branch is left"
            )
            other = "580" if branch == "570" else "570"
            assert [package for package in there if f"-{other}" in package and "nvidia" in package] == []
            module = one.check_output(f"modinfo -k {kernel(name)} -F version nvidia")
            assert module == wanted[f"nvidia-driver-{branch}-open"].partition("-")[0]
    plan = play("playbooks/plan.yml").ok().output
    assert "Nothing to do" in plan, plan
    again = converged(play("site.yml"), tmp_path)
    assert [again.recap(name)["changed"] for name in NODES] == [0, 0]
