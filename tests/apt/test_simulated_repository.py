"""The simulated repositories are what apt takes them for: signed, exact, and every trap in them really catches."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests.support.simulated_apt_root import AptRefused, SimulatedAptRoot
from tests.support.simulated_nvidia import driver_versions, simulated_nvidia, table
from tests.support.simulated_repository import SigningKey, SimulatedIndex, SimulatedRepository, stub

ROOT = Path(__file__).resolve().parents[2]
BRANCHES = table("simulated_nvidia")["branches"]
Roots = Callable[..., SimulatedAptRoot]
Nvidia = Callable[[str], SimulatedRepository]


def deb_line(repository: SimulatedRepository, suite: str = "") -> str:
    """The source line of the only index, or of that suite."""
    return next(index for index in repository.indexes if suite in ("", index.path)).source_line()


@pytest.fixture
def small(tmp_path: Path, signing_key: SigningKey) -> Iterator[SimulatedIndex]:
    """A flat repository with two versions of one package, published."""
    with SimulatedRepository(tmp_path / "small", signing_key) as repository:
        index = repository.flat("flat", {"Origin": "Example", "Label": "Example packages"}, "amd64")
        index.add("tool", "1.0-1", depends="library (>= 1)")
        index.add("tool", "2.0-1", depends="library (>= 2)")
        index.add("library", "1:3.0-1", architecture="all", files={"etc/library.conf": "on\n"})
        repository.publish()
        yield index


@pytest.fixture
def node(
    simulated_nvidia_repository: Nvidia, simulated_ubuntu_repository: SimulatedRepository, apt_root: Roots
) -> Roots:
    """(platform) -> a node that sees NVIDIA's repository and, of Ubuntu's archive, the base but not Ubuntu's driver."""

    def make(platform: str = "ubuntu2404") -> SimulatedAptRoot:
        # Debian's base has the names that these packages need, too.
        suite = table("simulated_ubuntu")["platforms"].get(platform, {}).get("codename", "noble")
        return apt_root(deb_line(simulated_nvidia_repository(platform)), deb_line(simulated_ubuntu_repository, suite))

    return make


@pytest.fixture
def two_origins(
    simulated_nvidia_repository: Nvidia, simulated_ubuntu_repository: SimulatedRepository, apt_root: Roots
) -> SimulatedAptRoot:
    """A noble node that sees both NVIDIA's and Ubuntu's driver."""
    suites = [deb_line(simulated_ubuntu_repository, f"noble{pocket}") for pocket in ("", "-security", "-updates")]
    return apt_root(deb_line(simulated_nvidia_repository("ubuntu2404")), *suites)


def pin(root: SimulatedAptRoot, packages: str, pattern: str, priority: int = 1000) -> None:
    root.preferences("test", f"Package: {packages}\nPin: {pattern}\nPin-Priority: {priority}\n")


def pin_driver(root: SimulatedAptRoot, version: str) -> None:
    """As the pinning package of an exact version does, where the repository has none for it."""
    pin(root, "src:*nvidia*:any src:cuda-drivers:any", f"version {version}-*")


# --- packages and indexes


def test_dpkg_reads_the_stubs(small: SimulatedIndex, tmp_path: Path) -> None:
    for package in small.packages.values():
        path = tmp_path / package.file_name
        path.write_bytes(package.deb)
        told = subprocess.run(["dpkg-deb", "--field", str(path)], capture_output=True, text=True, check=True).stdout
        assert told.strip() == package.control
    listing = subprocess.run(
        ["dpkg-deb", "--contents", str(tmp_path / "library_3.0-1_all.deb")], capture_output=True, text=True, check=True
    ).stdout
    assert "./etc/library.conf" in listing


def test_the_index_is_what_apt_ftparchive_makes_of_the_files(small: SimulatedIndex) -> None:
    if not shutil.which("apt-ftparchive"):
        pytest.skip("needs apt-ftparchive (Debian and Ubuntu: apt-utils)")
    folder = small.repository.root / "flat"
    theirs = subprocess.run(
        ["apt-ftparchive", "packages", "."], cwd=folder, capture_output=True, text=True, check=True
    ).stdout
    ours = (folder / "Packages").read_text()
    assert _fields(theirs, "SHA512") == _fields(ours)  # it also writes a SHA512, in an order of its own


def _fields(packages: str, *without: str) -> list[dict[str, str]]:
    stanzas = [dict(line.split(": ", 1) for line in one.splitlines()) for one in packages.strip().split("\n\n")]
    kept = [{key: value for key, value in one.items() if key not in without} for one in stanzas]
    return sorted(kept, key=lambda one: (one["Package"], one["Version"]))


def test_the_same_content_gives_the_same_bytes(simulated_nvidia_repository: Nvidia, tmp_path: Path) -> None:
    first = simulated_nvidia_repository("ubuntu2404")
    stub.cache_clear()
    with simulated_nvidia(tmp_path / "again", key=first.key) as again:
        for path in sorted(path for path in first.root.rglob("*") if path.is_file() and path.suffix not in (".gpg",)):
            if path.name != "InRelease":  # a signature says when it was made
                assert (again.root / path.relative_to(first.root)).read_bytes() == path.read_bytes(), path


def test_making_one_is_quick(tmp_path: Path, signing_key: SigningKey) -> None:
    stub.cache_clear()
    start = time.process_time()  # not the clock: other tests run beside it
    with simulated_nvidia(tmp_path / "quick", key=signing_key) as repository:
        assert 500 < len(repository.indexes[0].packages) < 2000
    assert time.process_time() - start < 3


def test_mistakes_of_a_test_are_told(small: SimulatedIndex) -> None:
    with pytest.raises(ValueError, match="no field of a package: dependson"):
        small.add("tool", "3", dependson="library")
    with pytest.raises(KeyError, match=r"no tool=3.0-1; it has 1.0-1, 2.0-1"):
        small.drop("tool", "3.0-1")
    with pytest.raises(KeyError, match="no tool=9"):
        small.wrong_hash("tool", "9")


# --- signatures, hashes, publications


def test_apt_takes_the_signature_and_sees_whose_it_is(small: SimulatedIndex, apt_root: Roots) -> None:
    root = apt_root(small.source_line())
    assert root.candidate("tool") == "2.0-1"
    assert root.candidate("library") == "1:3.0-1"
    policy = root.run("policy")
    assert "o=Example" in policy and "l=Example packages" in policy
    armored = small.repository.key_armored
    assert apt_root(small.source_line(armored)).candidate("tool") == "2.0-1"


def test_another_key_is_refused(small: SimulatedIndex, apt_root: Roots, tmp_path: Path) -> None:
    stranger = SigningKey("simulated stranger")
    keyring = tmp_path / "stranger.gpg"
    keyring.write_bytes(stranger.public)
    stranger.close()
    with pytest.raises(AptRefused, match="NO_PUBKEY"):
        apt_root(small.source_line(keyring))


@pytest.mark.parametrize(
    ("signature", "said"), [("stranger", "NO_PUBKEY"), ("tampered", "BADSIG"), ("missing", "is not signed")]
)
def test_a_bad_signature_is_refused(small: SimulatedIndex, apt_root: Roots, signature: str, said: str) -> None:
    small.repository.publish(signature)  # type: ignore[arg-type]
    with pytest.raises(AptRefused, match=said):
        apt_root(small.source_line())
    small.repository.publish()
    assert apt_root(small.source_line()).candidate("tool") == "2.0-1"


def test_a_wrong_hash_is_found_at_the_download(small: SimulatedIndex, apt_root: Roots) -> None:
    small.wrong_hash("tool", "2.0-1")
    small.repository.publish()
    root = apt_root(small.source_line())
    with pytest.raises(AptRefused, match="Hash Sum mismatch"):
        root.install("tool")
    assert root.install("tool=1.0-1") == {"library": "1:3.0-1", "tool": "1.0-1"}
    assert (root.root / "etc/library.conf").read_text() == "on\n"


def test_a_publication_within_the_same_second_is_seen(small: SimulatedIndex, apt_root: Roots) -> None:
    root = apt_root(small.source_line())
    for version in ("3.0-1", "4.0-1", "5.0-1"):
        small.drop("tool", small.versions("tool")[-1])  # the index keeps its size
        small.add("tool", version, depends="library (>= 2)")
        small.repository.publish()
        root.update()
        assert root.candidate("tool") == version


def test_a_version_that_vanished(small: SimulatedIndex, apt_root: Roots) -> None:
    old, late = (apt_root(small.source_line()) for _ in range(2))
    small.drop("tool", "1.0-1")
    small.repository.publish()
    with pytest.raises(AptRefused, match="404"):
        old.install("tool=1.0-1")  # the lists of yesterday name a file that is gone
    late.update()
    with pytest.raises(AptRefused, match=r"Version '1.0-1' for 'tool' was not found"):
        late.plan("tool=1.0-1")
    assert late.plan("tool")["tool"] == "2.0-1"


def test_what_was_fetched_is_known(small: SimulatedIndex, apt_root: Roots) -> None:
    root = apt_root(small.source_line())
    asked = small.repository.asked
    assert asked == ["/flat/InRelease", "/flat/Packages.gz"]
    root.plan("tool")
    assert len(asked) == 2
    root.install("tool")
    assert sorted(asked[2:]) == ["/flat/./library_3.0-1_all.deb", "/flat/./tool_2.0-1_amd64.deb"]


def test_suites_and_components(tmp_path: Path, signing_key: SigningKey, apt_root: Roots) -> None:
    with SimulatedRepository(tmp_path / "suites", signing_key) as repository:
        stable = repository.suite("stable", {"Origin": "Example"}, "arm64", ("main", "extra"))
        stable.add("tool", "1.0-1")
        stable.add("addition", "1.0-1", component="extra")
        repository.suite("stable-updates", {"Origin": "Example"}, "arm64").add("tool", "1.1-1")
        with pytest.raises(ValueError, match="no component contrib"):
            stable.add("other", "1", component="contrib")
        repository.publish()
        root = SimulatedAptRoot(tmp_path / "arm", [index.source_line() for index in repository.indexes], "arm64")
        root.update()
        assert root.install("tool", "addition") == {"tool": "1.1-1", "addition": "1.0-1"}
        assert root.plan("tool/stable") == {"tool": "1.0-1"}


def test_nobody_needs_to_be_root(small: SimulatedIndex, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("the other tests already run without root")
    shared = Path("/tmp") / f"simulated-nobody-{os.getpid()}"
    shared.mkdir(mode=0o755)
    try:
        shutil.copy(small.repository.keyring, shared / "keyring.gpg")
        SimulatedAptRoot(shared / "root", [small.source_line(shared / "keyring.gpg")])
        for path in [shared, *shared.rglob("*")]:
            os.chown(path, 65534, 65534)
        environment = {"APT_CONFIG": str(shared / "root/apt.conf"), "PATH": os.environ["PATH"], "HOME": "/nonexistent"}
        for command in (["update", "-o", "APT::Update::Error-Mode=any"], ["install", "--simulate", "tool"]):
            run = subprocess.run(
                ["apt-get", *command],
                env=environment,
                user=65534,
                group=65534,
                capture_output=True,
                text=True,
                check=False,
            )
            assert run.returncode == 0, run.stderr
        assert "Inst tool (2.0-1" in run.stdout
    finally:
        shutil.rmtree(shared)


# --- NVIDIA's shape


def test_the_repository_is_recognisable(node: Roots) -> None:
    policy = node().run("policy")
    assert "o=NVIDIA,l=NVIDIA CUDA" in policy
    assert re.search(r"v=24.04,o=Ubuntu,a=noble,n=noble,l=Ubuntu", policy)


def test_it_holds_the_names_that_resolve_gives() -> None:
    """A name of data/packages.yml that no simulated package has would leave its row untested."""
    rows = yaml.safe_load((ROOT / "data/packages.yml").read_text())
    groups = {layout: table("simulated_nvidia")[layout] for layout in ("ubuntu", "debian")}
    for row in rows["driver"]:
        if row["origin"] == "nvidia" and row["family"] in groups:
            known = {name for group in groups[row["family"]].values() for name in group["packages"]}
            assert known.issuperset(row["open"] + row["proprietary"]), row
    for row in rows["with_driver"]["fabric_manager"] + rows["with_driver"]["imex"]:
        if row["origin"] == "nvidia" and "ubuntu" in row["families"]:
            known = {name for group in groups["ubuntu"].values() for name in group["packages"]}
            assert row["name"] in known, row


@pytest.mark.parametrize("branch", BRANCHES)
def test_every_version_is_one_that_the_data_knows(branch: str) -> None:
    known = yaml.safe_load((ROOT / "data/drivers.yml").read_text())["branches"][branch]
    assert known["releases"][-1] in BRANCHES[branch]["releases"], "auto chooses the newest: it has to be there"
    assert set(known["releases"]) >= {*BRANCHES[branch]["releases"], *BRANCHES[branch]["beside"]}


def test_three_branches_have_three_patch_levels_and_each_has_its_trap() -> None:
    assert {branch for branch in BRANCHES if len(driver_versions(branch)) >= 3} >= {"570", "580", "595"}
    assert set(TRAPS) == set(BRANCHES)


def metas(platform: str, branch: str) -> list[str]:
    """What a user names to get the driver of a branch."""
    suffix = f"-{branch}" if platform.startswith("ubuntu") and int(branch) < 580 else ""
    return [f"nvidia-open{suffix}", *([f"cuda-drivers{suffix}"] if int(branch) < 620 else [])]


def has_exact_pin(branch: str, version: str) -> bool:
    return BRANCHES[branch]["exact_pins"] == "all" or version in BRANCHES[branch]["exact_pins"]


@pytest.mark.parametrize("branch", BRANCHES)
@pytest.mark.parametrize("platform", ["ubuntu2204", "ubuntu2404", "debian12"])
def test_the_pinning_package_gives_exactly_the_patch_level(node: Roots, platform: str, branch: str) -> None:
    root = node(platform)
    for version in driver_versions(branch):
        if has_exact_pin(branch, version):
            root.preferences("test", "")
            root.install(f"nvidia-driver-pinning-{version}")  # takes the place of the one before
        else:
            pin_driver(root, version)
        for name in metas(platform, branch):
            plan = root.plan(name)
            assert plan.drivers() == {version}, (name, plan)
            assert plan[name].startswith(version)


@pytest.mark.parametrize("branch", BRANCHES)
@pytest.mark.parametrize("platform", ["ubuntu2404", "debian12"])
def test_the_pinning_package_of_a_branch_gives_its_newest(node: Roots, platform: str, branch: str) -> None:
    root = node(platform)
    assert root.install(f"nvidia-driver-pinning-{branch}").removed == []
    for name in metas(platform, branch):
        assert root.plan(name).drivers() == {driver_versions(branch)[-1]}


def test_only_one_pinning_package_fits(node: Roots) -> None:
    root = node()
    root.install("nvidia-driver-pinning-580.126.20")
    assert root.plan("nvidia-driver-pinning-590").removed == ["nvidia-driver-pinning-580.126.20"]


@pytest.mark.parametrize("branch", BRANCHES)
def test_name_and_version_of_all_of_them_give_exactly_the_patch_level(node: Roots, branch: str) -> None:
    """Without any preference: every package of the closure named with its version, as a lock does."""
    root = node()
    for version in driver_versions(branch):
        pin_driver(root, version)
        closure = root.plan(metas("ubuntu2404", branch)[0])
        root.preferences("test", "")
        free = root.plan(*(f"{name}={found}" for name, found in closure.items()))
        assert free == closure and free.drivers() == {version}


def test_the_other_machine(tmp_path: Path, signing_key: SigningKey) -> None:
    with simulated_nvidia(tmp_path / "sbsa", machine="sbsa", key=signing_key) as repository:
        index = repository.indexes[0]
        assert index.source_line().endswith("/ubuntu2404/sbsa/ /")
        assert {package.architecture for package in index.packages.values()} == {"arm64", "all"}
        assert index.versions("nvidia-fabricmanager") and not index.versions("libnvsdm")


# --- the traps: what happens without precaution


def trap_570(node: Roots) -> None:
    plan = node().plan("nvidia-open-570=570.124.06-0ubuntu1")
    assert plan["nvidia-open-570"] == "570.124.06-0ubuntu1"
    assert plan["nvidia-dkms-570-open"] == "570.211.01-0ubuntu1", "the meta package holds nothing"
    beside = node()
    pin(beside, "src:*nvidia*:any", "version 570.195.03-*")
    both = beside.plan("nvidia-open-570", "nvidia-fabricmanager-570")
    assert both["nvidia-driver-570-open"].startswith("570.195.03")
    assert both["nvidia-fabricmanager-570"].startswith("570.211.01"), "the pin does not reach the fabric manager"
    with pytest.raises(AptRefused, match=r"Version '570.195.03-1' for 'nvidia-fabricmanager-570' was not found"):
        beside.plan("nvidia-fabricmanager-570=570.195.03-1")


def trap_575(node: Roots) -> None:
    root = node()
    root.install("nvidia-open-570")
    plan = root.plan("nvidia-open-575")
    assert plan.drivers() == {"575.57.08"}
    assert {"nvidia-driver-570-open", "libnvidia-compute-570", "nvidia-dkms-570-open"} <= set(plan.removed)


def trap_580(node: Roots) -> None:
    root = node()
    assert root.plan("nvidia-open").drivers() == {"620.70.06"}
    with pytest.raises(AptRefused, match=r"nvidia-open-580 .= 580.126.20-1ubuntu1. but 580.178.04-1ubuntu1"):
        root.plan("nvidia-open=580.126.20-1ubuntu1")
    with pytest.raises(AptRefused, match=r"Version '580.126.20-0ubuntu1'"):
        root.plan("nvidia-open=580.126.20-0ubuntu1")  # the revision of 580.105.08
    root.install("nvidia-driver-pinning-580.126.20")
    both = root.plan("nvidia-open", "nvidia-fabricmanager")
    assert both["nvidia-driver-580-open"] == "580.126.20-1ubuntu1"
    assert both["nvidia-fabricmanager"] == "620.70.06-1ubuntu1", "another branch altogether"
    with pytest.raises(AptRefused, match=r"Version '580.126.20-1' for 'nvidia-fabricmanager-580' was not found"):
        root.plan("nvidia-fabricmanager-580=580.126.20-1")
    assert root.plan("nvidia-fabricmanager=580.126.20-1").drivers() == {"580.126.20"}
    assert "580.159.04-1 " not in root.run("madison", "nvidia-fabricmanager"), "a driver without fabric manager"


def trap_590(node: Roots) -> None:
    root = node()
    root.install("nvidia-driver-pinning-590")
    pin(root, "nvidia-fabricmanager", "version 590.*")
    plan = root.plan("nvidia-open", "nvidia-fabricmanager")
    assert plan["nvidia-driver-open"].startswith("590.48.01")
    assert plan["nvidia-fabricmanager"].startswith("590.44.01")


def trap_595(node: Roots) -> None:
    root = node()
    pin(root, "src:*nvidia*:any", "version 595.8*")
    assert root.plan("nvidia-open").drivers() == {"595.84"}


def trap_610(node: Roots) -> None:
    root = node()
    assert root.candidate("cuda-drivers") == "610.57.04-1ubuntu1"
    assert root.candidate("nvidia-open") == "620.70.06-1ubuntu1"
    with pytest.raises(AptRefused, match="unmet dependencies"):
        root.plan("cuda-drivers")


def trap_620(node: Roots) -> None:
    root = node()
    root.install("nvidia-driver-pinning-610")
    old = root.install("nvidia-open")
    (root.root / "etc/apt/preferences.d/nvidia-driver-pin").unlink()
    assert old.drivers() == {"610.57.04"}
    assert root.plan("nvidia-modprobe", "nvidia-driver-open").drivers() == {"620.70.06"}


TRAPS: dict[str, Callable[[Roots], None]] = {
    "570": trap_570,
    "575": trap_575,
    "580": trap_580,
    "590": trap_590,
    "595": trap_595,
    "610": trap_610,
    "620": trap_620,
}


@pytest.mark.parametrize("branch", TRAPS)
def test_the_trap_of_a_branch_catches(node: Roots, branch: str) -> None:
    TRAPS[branch](node)


def test_ubuntus_empty_package_leads_to_another_branch(two_origins: SimulatedAptRoot) -> None:
    plan = two_origins.plan("nvidia-open-570")
    assert plan["nvidia-driver-570-open"] == "580.173.02-0ubuntu0.24.04.1"
    assert plan["nvidia-driver-580-open"].startswith("580.")
    pin(two_origins, "*nvidia*", "release o=Ubuntu", -1)
    assert two_origins.plan("nvidia-open-570").drivers() == {"570.211.01"}


def test_two_origins_have_the_driver_of_a_patch_level(two_origins: SimulatedAptRoot) -> None:
    versions = two_origins.run("madison", "nvidia-driver-580-open")
    assert "580.173.02-1ubuntu1" in versions and "580.173.02-0ubuntu0.24.04.1" in versions
    pin(two_origins, "nvidia-driver-580-open", "release o=Ubuntu")
    with pytest.raises(AptRefused, match="unmet dependencies"):
        two_origins.plan("nvidia-driver-580-open")  # the one from there, its libraries from here
    pin(two_origins, "*nvidia*", "release o=Ubuntu")
    plan = two_origins.plan("nvidia-driver-580-open")
    assert {version for name, version in plan.items() if "nvidia" in name} == {"580.173.02-0ubuntu0.24.04.1"}


def test_ubuntus_fabric_manager_takes_the_place_of_nvidias(two_origins: SimulatedAptRoot) -> None:
    two_origins.install("nvidia-driver-pinning-580.126.20")
    two_origins.install("nvidia-open")
    plan = two_origins.plan("nvidia-fabricmanager-580")
    assert plan["nvidia-fabricmanager-580"] == "580.173.02-0ubuntu0.24.04.1"
    assert "nvidia-driver-580-open" in plan.removed


def test_ubuntus_own_driver_is_whole(two_origins: SimulatedAptRoot) -> None:
    for names in (
        ["nvidia-driver-580-server-open", "nvidia-fabricmanager-580"],
        ["nvidia-driver-580-server", "nvidia-fabricmanager-580"],
    ):
        plan = two_origins.plan(*names)
        assert plan.drivers() == {"580.173.02"} and "nvidia-kernel-common-580-server" in plan
    prebuilt = two_origins.plan("linux-modules-nvidia-580-server-open-6.8.0-88-generic")
    assert prebuilt["linux-modules-nvidia-580-server-open-6.8.0-88-generic"] == "6.8.0-88.89+2"


def test_ubuntu_keeps_one_version_a_pocket(two_origins: SimulatedAptRoot) -> None:
    versions = re.findall(r"(580\S+ubuntu0\S+)", two_origins.run("madison", "nvidia-driver-580-server"))
    assert versions == ["580.173.02-0ubuntu0.24.04.1", "580.159.03-0ubuntu0.24.04.1"]


def test_a_package_that_is_not_nvidias_is_taken_over(two_origins: SimulatedAptRoot) -> None:
    assert two_origins.candidate("dkms") == "1:3.4.0-1ubuntu1"
    pin(two_origins, "dkms", "release o=Ubuntu")
    assert two_origins.candidate("dkms") == "3.0.11-1ubuntu13"


def test_nccl_follows_the_newest_cuda(node: Roots) -> None:
    root = node()
    assert root.plan("libnccl2")["libnccl2"] == "2.32.3-1+cuda13.4"
    with pytest.raises(AptRefused, match=r"libnccl2 .= 2.27.7-1.cuda12.9. but 2.32.3-1.cuda13.4"):
        root.plan("libnccl-dev=2.27.7-1+cuda12.9")
    assert root.plan("libnccl-dev=2.27.7-1+cuda12.9", "libnccl2=2.27.7-1+cuda12.9")["libnccl2"].endswith("cuda12.9")


def test_the_container_toolkit_is_all_four_or_none(node: Roots) -> None:
    root = node()
    names = ["nvidia-container-toolkit", *table("simulated_nvidia")["others"][5]["packages"]]
    with pytest.raises(AptRefused, match=r"nvidia-container-toolkit-base .= 1.18.2-1. but 1.20.0-1"):
        root.plan("nvidia-container-toolkit=1.18.2-1")
    plan = root.plan(*(f"{name}=1.18.2-1" for name in dict.fromkeys(names)))
    assert {version for name, version in plan.items() if "container" in name} == {"1.18.2-1"}


def test_an_epoch_is_part_of_the_version(node: Roots) -> None:
    root = node()
    with pytest.raises(AptRefused, match=r"Version '4.6.0-1'"):
        root.plan("datacenter-gpu-manager-4-core=4.6.0-1")
    assert root.plan("datacenter-gpu-manager-4-core=1:4.6.0-1")["datacenter-gpu-manager-4-core"] == "1:4.6.0-1"


def test_the_toolkit_brings_no_driver_but_its_big_sister_does(node: Roots) -> None:
    root = node()
    plan = root.plan("cuda-toolkit-12-8")
    assert plan.drivers() == set() and plan["cuda-toolkit-12-8"] == "12.8.1-1"
    older = root.plan("cuda-toolkit-12-8=12.8.0-1")
    assert older["cuda-nvcc-12-8"] == "12.8.1-1", "only the meta package is older"
    root.install("nvidia-driver-pinning-580")
    root.install("nvidia-open")
    moved = root.plan("cuda-12-8")
    assert "nvidia-driver-580-open" in moved.removed and "cuda-drivers" in moved
