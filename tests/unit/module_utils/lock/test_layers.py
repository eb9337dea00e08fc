"""What each layer takes of a locked system on one node."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ansible_collections.trainrig.gpu.plugins.module_utils.lock.layers import cost, of_system
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import load

FAMILIES = load("families")


def row(name, version, layer, pin=True, size=10, installed_size=30):
    return {
        "name": name,
        "version": version,
        "layer": layer,
        "pin": pin,
        "size": size,
        "installed_size": installed_size,
    }


SYSTEM = {
    "resolution": {"driver": {"version": "580.95.05"}},
    "install": {"driver": ["nvidia-open"], "nccl": ["libnccl2"]},
    "packages": [
        row("nvidia-open", "580.95.05-1", "driver"),
        row("libc6", "2.41", "driver", pin=False),
        row("libnccl2", "2.30.4-1", "nccl"),
    ],
    "remove": ["nvidia-open-570"],
    "conflicts": ["mail-server"],
}


def layers(installed=None, manifest=None, system=None):
    return of_system(system or SYSTEM, installed or {}, manifest, FAMILIES, ["nouveau", "NovaCore"])


def test_the_lock_alone():
    found = layers()
    assert found["driver"]["packages"] == {"nvidia-open": "580.95.05-1"}
    assert found["nccl"] == {"packages": {"libnccl2": "2.30.4-1"}, "beside": {}, "remove": []}
    assert found["driver"]["competing"] == ["nouveau"], "names of kernel modules are lower case"
    assert found["driver"]["family"]["family"] == "driver"


def test_other_drivers_go_and_members_of_the_same_version_stay():
    installed = {
        "nvidia-open-570": "570.86.15-1",
        "nvidia-smi": "535.261.03-1",
        "libnvidia-encode1": "580.95.05-1",
        "nvidia-container-toolkit": "1.17.8-1",
        "nvidia-driver-pinning-570": "570-5",
        "mail-server": "3",
    }
    driver = layers(installed)["driver"]
    assert driver["remove"] == ["nvidia-driver-pinning-570", "nvidia-open-570", "nvidia-smi"]
    assert driver["beside"] == {"libnvidia-encode1": "580.95.05-1"}


def test_what_was_ours_and_is_not_locked_goes_and_what_is_others_stays():
    manifest = {"layers": {"cuda": {"resources": {"packages": ["cuda-nvcc-12-6", "libc6"]}}}}
    installed = {"cuda-nvcc-12-6": "12.6.3-1", "cuda-nvcc-12-8": "12.8.1-1", "libc6": "2.41"}
    assert layers(installed, manifest)["cuda"] == {"packages": {}, "beside": {}, "remove": ["cuda-nvcc-12-6"]}
    begun = {"layers": {"nccl": {"state": "applying", "ours": {"packages": ["libnccl-static"]}}}}
    assert layers({"libnccl-static": "1"}, begun)["nccl"]["remove"] == ["libnccl-static"]
    assert layers({"libnccl-static": "1"}, {"layers": {"nccl": "altered"}})["nccl"]["remove"] == []


def test_without_a_driver_in_the_lock_nothing_of_it_is_touched():
    system = {**SYSTEM, "install": {"nccl": ["libnccl2"]}, "resolution": {"driver": None}}
    assert "driver" not in layers({"nvidia-open-570": "570.86.15-1"}, system=system)


def test_what_it_costs():
    assert cost(SYSTEM, "driver", {}) == {"download_bytes": 20, "installed_bytes": 60}
    assert cost(SYSTEM, "driver", {"libc6": "2.41"}) == {"download_bytes": 10, "installed_bytes": 30}
    assert cost(SYSTEM, "cuda", {}) == {"download_bytes": 0, "installed_bytes": 0}
