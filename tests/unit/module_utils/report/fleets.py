"""Made-up fleets for the report's page: the shapes are real (parsers, judges), the figures are invented."""

import copy

from ansible_collections.trainrig.gpu.plugins.module_utils.judge import health, peers
from ansible_collections.trainrig.gpu.plugins.module_utils.judge.verdict import verdict
from ansible_collections.trainrig.gpu.plugins.module_utils.report import standing
from ansible_collections.trainrig.gpu.plugins.module_utils.report.build import build
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import load

from tests.unit.module_utils.judge.test_cases import put
from tests.unit.module_utils.judge.test_health import DATA, QUIET, looks, observed
from tests.unit.module_utils.report.reports import BASE, FINISHED, MEASUREMENT, merged

LIMITS = {"gpus": load("gpus")["gpus"], "tolerances": load("acceptance")["tolerances"]}
ORDERED = {
    "gpus": {"model": "H100_SXM5_80", "count": 8, "memory_gib": 80},
    "nics": {"count": 4, "rate_gbit_s": 400},
    "cpus": 192,
    "memory_gib": 2048,
    "disk_gib": 1700,
}
COLLECTIVE = {
    **MEASUREMENT["collectives"],
    "backend": "nccl",
    "ranks": 8,
    "ceiling_gb_s": 787.5,
    "threshold_gb_s": None,
    "source": None,
    "status": "info",
}


def collectives(speed, slow=None):
    """An all_reduce sweep that ends near `speed`; `slow` is its floor where it stays below."""
    rows = []
    for power in range(20, 35, 2):
        rows.append({**COLLECTIVE, "size_bytes": 2**power, "busbw_gb_s": speed * (1 - 0.5 ** ((power - 18) / 3))})
    rows[-1].update(threshold_gb_s=440.0, source="oracle-quickstart/oci-hpc, active_healthcheck.py")
    rows[-1].update(status="fail" if slow else "pass")
    return rows


def pair(one, other, speed, status="info"):
    told = {**COLLECTIVE, "stage": "pairs", "nodes": 2, "ranks": 16, "hosts": [one, other], "size_bytes": 2**30}
    return {**told, "ceiling_gb_s": 400.0, "busbw_gb_s": speed, "status": status}


def host(observation, **changes):
    return merged({**BASE, "observation": None}, {"observation": observation, "profile": {"name": "h100"}, **changes})


def h100s():
    """Eight nodes of eight H100: one pair is slow, one node lacks a GPU, one has a faulty NVLink."""
    names = [f"gpu-{number:02d}" for number in range(1, 9)]
    hosts = {}
    for number, name in enumerate(names):
        before, during, after = looks({"after": {"nvidia.gpus.1.nvlink.errors.replay.3": 41}} if number == 5 else {})
        findings, checks = health.judge(before, during if number != 7 else None, after, name, DATA)
        seen = copy.deepcopy(QUIET)
        seen["machine"]["virt"] = "none"
        if number == 2:
            put(seen, "nvidia.gpus.6.lost", True)
            put(seen, "rdma.devices.3.ports.0.state", "Down")
            del seen["nvidia"]["topology"]["gpus"]["GPU6"]
            for row in seen["nvidia"]["topology"]["gpus"].values():
                row.pop("GPU6")
        for index, gpu in enumerate(seen["nvidia"]["gpus"]):
            gpu.update(serial=f"16529230{number}{index}", uuid=f"GPU-{number}{index}5eed00-1111-2222-3333-444400000000")
        slow = number == 4
        if slow:
            findings = [*findings, SLOW]
        measured = [*checks, *collectives(421.0 if slow else 476.0 + number, slow)]
        measured += [pair(name, other, 362.0 + index) for index, other in enumerate(names) if other > name]
        hosts[name] = host(seen, measurements=measured, findings=findings, expected=ORDERED)
    slow_link = pair("gpu-02", "gpu-07", 171.0, "fail")
    of_second = hosts["gpu-02"]["measurements"]
    of_second[:] = [slow_link if one.get("hosts") == ["gpu-02", "gpu-07"] else one for one in of_second]
    hosts["gpu-01"]["left_out"] = [{"what": "growing sets of hosts", "why": "budget of 5 minutes"}]
    return hosts


SLOW = {
    "rule": "verify.bandwidth_below_threshold",
    "severity": "fail",
    "layer": "verify",
    "host": "gpu-05",
    "pool": "default",
    "scope": "host",
    "summary": "all_reduce at 17179869184 bytes: busbw 421 GB/s, floor 440 GB/s",
    "cause": "The bus bandwidth is below what an operator of this hardware accepts.",
    "action": {
        "kind": "ask_provider",
        "text": "Run again on an idle node; then show the provider the row and its source.",
    },
    "evidence": [{"probe": "collectives", "text": "all_reduce 17179869184 bytes, 71388 us, busbw 421"}],
    "phase": "verify",
}


def cpu_only():
    return {"build-box": host(observed("cpu_only_vm"), profile={"name": "cpu"}, expected={"cpus": 8, "memory_gib": 64})}


def unknown():
    """AMD's GPUs, which nothing here measures, beside a GPU that is in no table."""
    amd = observed("cpu_only_vm")
    amd["accelerators"] = [
        {"vendor": "amd", "index": 0, "name": "MI300X", "health": "OK", "pci_address": None, "raw": "x"}
    ]
    new = copy.deepcopy(QUIET)
    new["nvidia"]["topology"] = None
    new["rdma"]["devices"] = None
    for gpu in new["nvidia"]["gpus"]:
        gpu.update(model=None, name="NVIDIA Graphics Device", pci_id="10de:ffff", memory_mib=200000)
        gpu["nvlink"].update(links=None, links_active=None)
    wanted = {"gpus": {"model": "B300", "count": 8, "memory_gib": 270}, "nics": {"count": 8, "rate_gbit_s": 800}}
    return {"amd-1": host(amd, expected={"cpus": 2}), "new-1": host(new, expected=wanted)}


FLEETS = {"h100s": h100s, "cpu_only": cpu_only, "unknown": unknown}


def report_of(name):
    hosts = standing.placed(
        FLEETS[name](), lambda rows, kinds, pool: peers.judge(rows, kinds, load("thresholds"), pool)
    )
    return build(hosts, verdict, name, "verify", FINISHED, sources=["inventories/case"], data=LIMITS)
