"""What forbids to apply a plan now: each obstacle fires on its own scene and is silent on the healthy one."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import copy

import pytest
from ansible_collections.trainrig.gpu.plugins.module_utils.plan.obstacles import Case, obstacles
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import load

FAMILIES, DAEMONS = load("families"), load("rules")["daemons"]
#: A node with the driver of an earlier lock, applied by trainrig, about to be changed.
OBSERVATION = {
    "packages": {
        "dpkg": {"nvidia-open": "570.86.15-1", "libcuda1": "570.86.15-1", "vim": "9"},
        "held": ["nvidia-open"],
    },
    "nvidia": {"processes": [], "driver": {"uninstaller": False}},
    "boot": {"secure_boot": False},
    "machine": {
        "filesystems": [{"mount": "/", "available_mib": 90000}, {"mount": "/var", "available_mib": 5000}],
    },
    "manifest": {
        "layers": {"driver": {"state": "clean", "resources": {"packages": ["nvidia-open"], "holds": ["nvidia-open"]}}}
    },
}
WISH = {"packages": {"nvidia-open": "580.95.05-1", "nvidia-kernel-open-dkms": "580.95.05-1"}, "remove": ["libcuda1"]}
LAYERS = [{"layer": "driver", "state": "dirty", "download_bytes": 1 << 30, "installed_bytes": 3 << 30}]


def found(change=lambda scene: None, options=None, layers=None):
    scene = copy.deepcopy(OBSERVATION)
    change(scene)
    system = {"layers": {"driver": WISH, "nccl": {"packages": {"libnccl2": "2.30.4-1"}, "remove": []}}}
    case = Case("node-a", "default", scene, layers or LAYERS, system, options or {}, FAMILIES, DAEMONS)
    return obstacles(case)


def rules(*arguments, **more):
    return [one["rule"] for one in found(*arguments, **more)]


def test_a_healthy_change_meets_none():
    assert found() == []


def busy(name):
    return lambda scene: scene["nvidia"].update(processes=[{"pid": 4711, "name": name, "gpu_uuid": "GPU-1"}])


def test_processes_on_the_gpus_are_named_with_their_pids():
    (one,) = found(busy("/usr/bin/python3"))
    assert one["rule"] == "driver.in_use"
    assert one["severity"] == "refuse"
    assert "pid 4711" in one["summary"]
    assert "4711" in one["action"]["text"]


def test_a_daemon_is_no_job_and_a_clean_driver_disturbs_nobody():
    assert rules(busy("/usr/bin/nvidia-persistenced")) == []
    assert rules(busy("python3"), layers=[{**LAYERS[0], "state": "clean"}]) == []


def same(scene):
    busy("python3")(scene)
    scene["packages"]["dpkg"] = dict(WISH["packages"])


def test_a_driver_whose_packages_stay_disturbs_nobody():
    scene_wish = {"packages": WISH["packages"], "remove": []}
    scene = copy.deepcopy(OBSERVATION)
    same(scene)
    case = Case("a", "default", scene, LAYERS, {"layers": {"driver": scene_wish}}, {}, FAMILIES, DAEMONS)
    assert obstacles(case) == []


def unknown_driver(scene):
    scene["manifest"] = {"layers": {}}
    scene["packages"]["held"] = []


def test_somebody_else_s_driver_is_refused_with_what_to_remove():
    (one,) = found(unknown_driver)
    assert one["rule"] == "driver.foreign"
    assert "sudo apt-get purge libcuda1 nvidia-open" in one["action"]["text"]
    assert rules(unknown_driver, options={"driver_takeover": True}) == []


def runfile(scene):
    scene["nvidia"]["driver"]["uninstaller"] = True


def test_nvidia_s_installer_is_refused_even_beside_our_own():
    (one,) = found(runfile)
    assert one["rule"] == "driver.foreign"
    assert "nvidia-uninstall" in one["action"]["text"]
    assert rules(runfile, options={"driver_takeover": True}) == []


def test_a_node_without_any_driver_is_nobody_s():
    def fresh(scene):
        scene.update(manifest=None, packages={"dpkg": {"vim": "9"}, "held": []})

    assert rules(fresh) == []


def secure(scene):
    scene["boot"]["secure_boot"] = True


def test_secure_boot_and_a_compiled_module():
    (one,) = found(secure)
    assert one["rule"] == "driver.secure_boot"
    assert "precompiled" in one["action"]["text"]
    assert rules(secure, options={"driver_own_key": True}) == []
    signed = {"driver": {"packages": {"linux-modules-nvidia-580-server-6.8.0-99-generic": "1"}, "remove": []}}
    scene = copy.deepcopy(OBSERVATION)
    secure(scene)
    assert obstacles(Case("a", "p", scene, LAYERS, {"layers": signed}, {}, FAMILIES, DAEMONS)) == []


def test_secure_boot_that_nobody_told_of_refuses_nothing():
    assert rules(lambda scene: scene.update(boot={})) == []


@pytest.mark.parametrize(("name", "refused"), [("libcuda1", True), ("vim", False), ("nvidia-open", False)])
def test_a_hold_that_is_not_ours(name, refused):
    wanted = ["packages.held_by_others"] if refused else []
    assert rules(lambda scene: scene["packages"].update(held=[name])) == wanted


def test_a_hold_stands_for_other_layers_too():
    def held(scene):
        scene["packages"] = {"dpkg": {"libnccl2": "2.22.3-1"}, "held": ["libnccl2"]}

    layers = [{"layer": "nccl", "state": "dirty"}]
    (one,) = found(held, layers=layers)
    assert (one["layer"], "apt-mark unhold libnccl2" in one["action"]["text"]) == ("nccl", True)
    assert rules(held, layers=layers, options={"driver_takeover": True}) == ["packages.held_by_others"]


def test_space_is_looked_at_where_it_is_needed():
    def small(mount, mebibytes):
        def change(scene):
            for row in scene["machine"]["filesystems"]:
                if row["mount"] == mount:
                    row["available_mib"] = mebibytes

        return change

    assert rules(small("/var", 1000)) == ["packages.no_space"], "1 GiB of downloads"
    assert rules(small("/var", 1100)) == []
    assert rules(small("/", 3000)) == ["packages.no_space"], "3 GiB on the disk"
    assert rules(small("/", 3100)) == []
    assert rules(lambda scene: scene.update(machine={})) == [], "nothing told"
