"""The system part of a lock, made by real apt from simulated repositories: exact, coherent, or one clear refusal."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.family import member
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.versions import driver_part
from ansible_collections.trainrig.gpu.plugins.module_utils.lock.systems import Wish
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.answer import FILES
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.declaration import declared
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import load
from ansible_collections.trainrig.gpu.plugins.plugin_utils.system_lock import SystemLocker, SystemLockError

from tests.support.simulated_repository import SimulatedRepository

TODAY = "2026-11-30"
FAMILY = load("families")["driver"]
WITH_DRIVER = load("families")["exactly_driver"]


def at(repository, **more):
    return {"url": repository.url, "key": str(repository.keyring), "fingerprints": [repository.fingerprint], **more}


@pytest.fixture
def lock(simulated_nvidia_repository, simulated_ubuntu_repository):
    def make(stack, platform="ubuntu2404-x86_64", gpus=("H100_SXM5_80",), installed=None, **repositories):
        wishes, problems = declared(stack, {name: load(name) for name in FILES})
        assert problems == []
        places = {"ubuntu": at(simulated_ubuntu_repository), **repositories}
        if platform.startswith("ubuntu") and "nvidia" not in places:
            places["nvidia"] = at(simulated_nvidia_repository(platform.split("-")[0]))
        return SystemLocker(places, TODAY).locked(Wish("default", platform, tuple(gpus), installed or {}, wishes))

    return make


def family(system):
    """name -> driver version, of everything locked that is versioned with the driver."""
    rows = {row["name"]: row["version"] for row in system["packages"]}
    ours = {name for name in rows if member(FAMILY, name) or member(WITH_DRIVER, name)}
    return {name: part for name in ours if (part := driver_part(rows[name]))}


@pytest.mark.parametrize("platform", ["ubuntu2204-x86_64", "ubuntu2404-x86_64"])
@pytest.mark.parametrize(
    ("driver", "version"),
    [
        ("570", "570.211.01"),
        ("570.133.20", "570.133.20"),
        ("580", "580.178.04"),
        ("580.126.20", "580.126.20"),
        ("580.95.05", "580.95.05"),
        # 590.48.01 has no fabric manager: the newest set that is whole is taken.
        ("590", "590.44.01"),
        ("595.84", "595.84"),
        ("610", "610.57.04"),
    ],
)
def test_everything_of_the_driver_is_of_one_version(lock, platform, driver, version):
    toolkit = {"cuda": "12.8"} if driver.startswith("570") else {}
    system = lock({"driver": driver, **toolkit}, platform)
    assert system["resolution"]["driver"]["version"] == version
    versions = family(system)
    assert set(versions.values()) == {version}, versions
    assert any(member(WITH_DRIVER, name) for name in versions), "an HGX board gets its fabric manager"
    assert all(row["pin"] for row in system["packages"] if row["name"] in versions)
    assert {row["origin"] for row in system["packages"] if row["name"] in versions} == {"nvidia"}


def test_an_exact_driver_without_its_fabric_manager_is_refused(lock):
    with pytest.raises(SystemLockError, match=r"nvidia-fabricmanager 590\.48\.01 is not on offer"):
        lock({"driver": "590.48.01"})
    assert lock({"driver": "590.48.01"}, gpus=["L40S"])["resolution"]["driver"]["version"] == "590.48.01"


def test_the_pinning_package_comes_first(lock):
    assert lock({"driver": "580.126.20"})["install"]["driver"][0] == "nvidia-driver-pinning-580.126.20"
    assert lock({"driver": "570.133.20", "cuda": "12.8"})["install"]["driver"] == ["nvidia-open-570"]


def test_old_branches_have_to_go(lock):
    system = lock({"driver": "580"})
    assert {"nvidia-open-570", "libnvidia-compute-570"} <= set(system["remove"])
    assert not set(system["remove"]) & {row["name"] for row in system["packages"]}
    assert "nvidia-driver-580-open" not in system["remove"]


def test_reasons_say_that_the_repository_decided(lock):
    reasons = {row["choice"]: row["reason"] for row in lock({"driver": "590"})["because"]}
    assert "the newest of branch 590 that is on offer" in reasons["driver 590.44.01"]


def test_cuda_and_nccl_of_one_toolkit(lock):
    system = lock({"driver": "580", "cuda": "13.0", "pytorch": "2.9", "nccl": "2.27.7"}, gpus=["L40S"])
    rows = {row["name"]: row["version"] for row in system["packages"]}
    assert rows["libnccl2"] == rows["libnccl-dev"] == "2.27.7-1+cuda13.0"
    assert system["install"]["cuda"] == ["cuda-toolkit-13-0"]
    assert "cuda-drivers" not in rows, "a toolkit moves no driver"


def test_the_distribution_s_driver_where_nvidia_s_repository_is_not_wanted(lock):
    system = lock({"origin": "distro", "driver": "580"}, gpus=["L40S"])
    assert {row["origin"] for row in system["packages"]} == {"ubuntu"}
    assert {origin["id"] for origin in system["origins"]} == {"ubuntu"}


def test_made_twice_it_is_the_same(lock):
    assert lock({"driver": "580"}) == lock({"driver": "580"})


def test_a_driver_that_is_kept_is_not_installed(lock):
    installed = {"driver": "580.95.05", "library": "580.95.05", "module": "open"}
    system = lock({"cuda": "13.0"}, gpus=["L40S"], installed=installed)
    assert system["resolution"]["driver_kept"]
    assert "driver" not in system["install"]
    assert family(system) == {}


def test_a_vanished_version(lock, own_nvidia_repository):
    place = at(own_nvidia_repository)
    before = lock({"driver": "580.126.20"}, gpus=["L40S"], nvidia=place)
    index = own_nvidia_repository.indexes[0]
    for row in before["packages"]:
        if row["origin"] == "nvidia" and "580.126.20" in row["version"]:
            index.drop(row["name"], row["version"])
    own_nvidia_repository.publish()
    with pytest.raises(SystemLockError, match=r"nvidia-open 580\.126\.20 is not on offer: nvidia has .*580\.178\.04"):
        lock({"driver": "580.126.20"}, gpus=["L40S"], nvidia=place)
    assert lock({"driver": "580"}, gpus=["L40S"], nvidia=place)["resolution"]["driver"]["version"] == "580.178.04"


def test_what_is_not_on_offer_any_more(lock, own_nvidia_repository, simulated_ubuntu_repository):
    places = {"nvidia": at(own_nvidia_repository), "ubuntu": at(simulated_ubuntu_repository)}
    system = lock({"driver": "580"}, nvidia=places["nvidia"])
    locker = SystemLocker(places, "")
    assert locker.missing(system) == []
    index = own_nvidia_repository.indexes[0]
    index.drop("libnvidia-compute-580", "580.178.04-1ubuntu1")
    index.wrong_hash("nvidia-fabricmanager", "580.178.04-1")
    own_nvidia_repository.publish()
    gone = ["libnvidia-compute-580=580.178.04-1ubuntu1", "nvidia-fabricmanager=580.178.04-1"]
    assert locker.missing(system) == gone, "another version only, and another file of the same name"


def test_a_mirror_with_credentials_and_a_key_in_armour(lock, simulated_nvidia_repository, tmp_path):
    repository = simulated_nvidia_repository("ubuntu2404")
    key = tmp_path / "keys of ours" / "nvidia.asc"
    key.parent.mkdir()
    key.write_text(f"The mirror's key:\n\n{repository.key_armored.read_text(encoding='ascii')}", encoding="ascii")
    place = at(repository, url=repository.url.replace("://", "://joe:s3cr3t@"), key=str(key))
    system = lock({"driver": "580"}, nvidia=place)
    assert system == lock({"driver": "580"})
    assert "s3cr3t" not in str(system)


def test_nothing_to_ask_for(lock, own_nvidia_repository):
    system = lock({"accelerator": "cpu"}, nvidia=at(own_nvidia_repository))
    assert (system["packages"], system["install"], system["origins"]) == ([], {}, [])
    assert system["resolution"]["pytorch"]["variant"] == "cpu"
    assert own_nvidia_repository.asked == []
    assert SystemLocker({}, "").missing(system) == []


@pytest.mark.parametrize("signature", ["stranger", "tampered", "missing"])
def test_a_bad_signature(lock, own_nvidia_repository, signature):
    own_nvidia_repository.publish(signature=signature)
    with pytest.raises(SystemLockError, match=r"(?s)default-ubuntu2404-x86_64: .*ubuntu2404/x86_64"):
        lock({"driver": "580"}, nvidia=at(own_nvidia_repository))


def test_a_mirror_that_signs_itself_has_to_be_named(lock, simulated_nvidia_repository):
    place = at(simulated_nvidia_repository("ubuntu2404"))
    del place["fingerprints"]
    with pytest.raises(SystemLockError, match=r"trainrig_repositories\.nvidia\.key: signed by .* not by EB693B30"):
        lock({"driver": "580"}, nvidia=place)


def test_another_repository_at_the_address(lock, tmp_path):
    with SimulatedRepository(tmp_path / "other") as other:
        other.flat("ubuntu2404/x86_64", {"Origin": "Somebody", "Label": "Else"}, "amd64").add(
            "nvidia-open", "580.95.05-1"
        )
        other.publish()
        with pytest.raises(
            SystemLockError, match=r"nvidia\.url: the repository calls itself Somebody / Else, not NVIDIA"
        ):
            lock({"driver": "580"}, nvidia=at(other))


def test_a_repository_that_lacks_a_part_is_not_filled_up_from_another(lock, own_nvidia_repository):
    """Ubuntu's archive has this library too, at another patch level."""
    index = own_nvidia_repository.indexes[0]
    for version in index.versions("libnvidia-compute-580"):
        index.drop("libnvidia-compute-580", version)
    own_nvidia_repository.publish()
    with pytest.raises(SystemLockError, match="libnvidia-compute-580"):
        lock({"driver": "580"}, gpus=["L40S"], nvidia=at(own_nvidia_repository))


@pytest.mark.parametrize(("origin", "missing"), [("nvidia", "url"), ("nvidia", "key")])
def test_an_address_that_is_not_known(lock, simulated_nvidia_repository, origin, missing):
    place = at(simulated_nvidia_repository("ubuntu2404"))
    del place[missing]
    with pytest.raises(SystemLockError, match=rf"trainrig_repositories\.{origin}\.{missing}: .* To fix it: set it"):
        lock({"driver": "580"}, nvidia=place)


def test_a_platform_without_apt(lock):
    with pytest.raises(SystemLockError, match=r"system packages of rhel9-x86_64 cannot be locked yet.* missing is dnf"):
        lock({"driver": "580"}, "rhel9-x86_64")


def test_a_set_that_cannot_work_is_refused_before_any_repository(lock, own_nvidia_repository):
    with pytest.raises(SystemLockError, match=r"This set does not work"):
        lock({"pytorch": "2.7", "cuda": "12.1"}, nvidia=at(own_nvidia_repository))
    assert own_nvidia_repository.asked == []


def test_a_companion_of_the_subnet_manager_comes_from_the_distribution(lock):
    system = lock({}, gpus=["B200"])
    rows = {row["name"]: row for row in system["packages"]}
    assert system["install"]["nvlink"] == ["nvidia-fabricmanager", "nvlsm", "infiniband-diags"]
    assert (rows["nvlsm"]["origin"], rows["infiniband-diags"]["origin"]) == ("nvidia", "ubuntu")
    assert rows["infiniband-diags"]["pin"]
    assert not rows["libibumad3"]["pin"], "what it needs may be updated"


KERNEL = "6.8.0-88-generic"


@pytest.mark.parametrize("origin", ["nvidia", "distro"])
def test_an_exact_kernel_is_asked_for_and_pinned(lock, origin):
    system = lock({"origin": origin, "driver": "580", "kernel": KERNEL}, gpus=["L40S"])
    names = [f"linux-image-{KERNEL}", f"linux-headers-{KERNEL}"]
    assert [name for name in system["install"]["driver"] if name.startswith("linux-")] == names
    rows = {row["name"]: row for row in system["packages"]}
    assert [(rows[name]["origin"], rows[name]["pin"]) for name in names] == [("ubuntu", True)] * 2


def test_a_kernel_that_is_not_on_offer(lock):
    with pytest.raises(SystemLockError) as error:
        lock({"driver": "580", "kernel": "6.8.0-99-generic"}, gpus=["L40S"])
    text = str(error.value)
    assert "trainrig_stack.kernel: 6.8.0-99-generic: this kernel is not on offer" in text
    assert f"nearest to it: {KERNEL}. To fix it: declare one of these" in text
    assert "\n" not in text


def test_a_precompiled_module_takes_the_place_of_dkms(lock):
    stack = {"origin": "distro", "driver": "580", "module_build": "precompiled", "kernel": KERNEL}
    system = lock(stack, gpus=["L40S"])
    module = f"linux-modules-nvidia-580-server-open-{KERNEL}"
    names = {row["name"] for row in system["packages"] if row["pin"]}
    assert module in system["install"]["driver"]
    assert module in names
    assert not [name for name in names if "dkms" in name]
    built = lock({**stack, "module_build": "dkms"}, gpus=["L40S"])
    assert "nvidia-dkms-580-server-open" in {row["name"] for row in built["packages"]}
