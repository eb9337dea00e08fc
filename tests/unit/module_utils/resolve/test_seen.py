"""What the choice of a profile reads from an Observation."""

from __future__ import annotations

from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.seen import seen
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import load


def observation(*gpus, driver="580.95.05", **more):
    return {"os": {"arch": "x86_64"}, "nvidia": {"driver": {"module": driver}, "gpus": list(gpus)}, **more}


def gpu(model, index=0, lost=False):
    return {"model": model, "index": index, "lost": lost}


def test_models_get_their_compute_capability():
    found = seen(observation(gpu("V100_SXM2"), gpu("B300", 1), gpu(None, 2)), load("gpus"), load("rules"))
    assert [row["sm"] for row in found["gpus"]] == ["7.0", "10.3", None]
    assert (found["platform"], found["driver"], found["gpu_on_pci"]) == ("linux-x86_64", "580.95.05", True)


def test_a_gpu_that_the_driver_does_not_show():
    found = seen(observation(gpu("V100_SXM2", index=None)), load("gpus"), load("rules"))
    assert (found["gpus"], found["driver"], found["gpu_on_pci"]) == ([], None, True)


def test_no_gpu():
    found = seen(observation(driver=None), load("gpus"), load("rules"))
    assert (found["gpus"], found["driver"], found["gpu_on_pci"]) == ([], None, False)


def test_pythons_keep_their_order():
    rows = [{"path": "/b", "version": "3.12.1"}, {"path": "/a", "version": "3.11.2"}]
    assert seen(observation(interpreters=rows), {}, {})["pythons"] == [("/b", "3.12.1"), ("/a", "3.11.2")]


def test_the_command_that_installs_a_driver_is_the_systems_own():
    rules = {"families": {"debian": ["debian"]}, "commands": {"install_driver": {"debian": "apt", "default": "guide"}}}
    assert seen({"os": {"id": "debian"}}, {}, rules)["install_driver"] == "apt"
    assert seen({"os": {"id": "void", "id_like": []}}, {}, rules)["install_driver"] == "guide"
