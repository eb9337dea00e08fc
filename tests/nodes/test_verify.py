"""What nodes of a pool prove together, on four nodes of a lab: healthy, slowed, shut off, and by MPI.

One lab of its own for the whole file. Nodes are slowed by their control group and by tc, and shut by nft: real ways.
nccl-tests are a stand-in (simulated_nccl_tests): it moves real bytes by real OpenMPI over SSH.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
import testinfra

from tests.nodes.conftest import BIN, ROOT
from tests.support.checkout import Run
from tools.lab import network
from tools.lab.lab import Lab
from tools.lab.names import NodeSpec

pytestmark = pytest.mark.slow

NAMES = [f"node-{number}" for number in range(1, 5)]
PORT = 29400
STAND_IN = ROOT / "tests" / "support" / "simulated_nccl_tests"
PLACE = "/home/debian/simulated"


@pytest.fixture(scope="module")
def pool(before, tmp_path_factory):
    """Four nodes with the environment that the committed lock says; nothing is verified yet."""
    made = Lab(f"t{os.getpid()}v")
    made.up([NodeSpec(number, "debian12") for number in range(1, 5)], tmp_path_factory.mktemp("pool") / "test")
    play(made, "site.yml", tmp_path_factory.mktemp("site"), "-e", "trainrig_verify=never")
    yield made
    made.clean()


def play(lab, playbook, directory, *words, timeout=3000):
    command = [str(BIN / "ansible-playbook"), playbook, "-i", str(lab.inventory), "-e", f"report_directory={directory}"]
    done = subprocess.run(
        [*command, *words],
        cwd=ROOT,
        env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
        check=False,
    )
    return Run(done.returncode, done.stdout)


def verify(lab, directory, *stages, **variables):
    """Returns the run and the report; stages as in verify_stages."""
    given = json.dumps({"verify_stages": list(stages), **variables})
    run = play(lab, "playbooks/verify.yml", directory, "-e", given)
    return run, json.loads((directory / "latest" / "report.json").read_text(encoding="utf-8"))


def root(lab, name, script):
    host = testinfra.get_host(f"ssh://{name}", ssh_config=f"{lab.ssh}/config", controlpersist=0, sudo=True)
    done = host.run("sh -euc %s", script)
    assert done.rc == 0, done.stderr
    return done.stdout


def rules(report):
    """What is wrong, but for a clock that was looked at long after another's on a busy machine."""
    return {
        (one["rule"], one["host"])
        for one in report["findings"]
        if one["severity"] in ("fail", "warn") and one["rule"] != "fleet.clock"
    }


def nothing_stays(lab):
    """No process of a measurement on any node, no key, no directory."""
    for name in NAMES:
        left = root(
            lab, name, "pgrep -fa 'group_run|collectives.py|ddp_smoke|_perf|orted' | grep -v 'pgrep -fa' || true"
        )
        assert left == "", f"{name}: {left}"
        assert "trainrig-verify" not in root(lab, name, "cat /home/debian/.ssh/authorized_keys")
        assert root(lab, name, "ls -d /tmp/trainrig-* 2>/dev/null || true") == ""


def test_four_nodes_measure_and_train_together(pool, tmp_path):
    _run, report = verify(pool, tmp_path, "pairs", "fleet", "nodes")
    assert rules(report) == set()
    by_stage = {}
    for row in report["measurements"]:
        by_stage.setdefault(row["stage"], []).append(row)
    assert {host for row in by_stage["pairs"] for host in row["hosts"]} == set(NAMES)
    assert all(row["status"] == "pass" and row["backend"] == "gloo" for row in by_stage["pairs"] + by_stage["fleet"])
    assert {tuple(row["hosts"]) for row in by_stage["fleet"]} == {tuple(NAMES)}
    assert {row["nodes"] for row in by_stage["fleet"]} == {4} and {row["ranks"] for row in by_stage["fleet"]} == {8}
    assert len(by_stage["ddp"]) == 4, "as each of them saw it"
    for row in by_stage["ddp"]:
        assert row["nodes"] == 4 and row["ranks"] == 8 and row["gradients_equal"] and row["loss_falls"]
        assert row["resumed"] and row["killed_after_step"] > 0
    nothing_stays(pool)


def cpu_quota(lab, name, share):
    """As much of one core as the share says; None: all again."""
    group = Path(f"/sys/fs/cgroup/cpu/trainrig-lab-{lab.node(name).machine}")
    if group.is_dir():
        period = int((group / "cpu.cfs_period_us").read_text(encoding="ascii"))
        (group / "cpu.cfs_quota_us").write_text(str(int(period * share)) if share else "-1", encoding="ascii")
    else:
        group = Path(f"/sys/fs/cgroup/trainrig-lab-{lab.node(name).machine}")
        (group / "cpu.max").write_text(f"{int(100000 * share)} 100000" if share else "max 100000", encoding="ascii")


@pytest.fixture
def slow_processor(pool):
    cpu_quota(pool, "node-3", 0.1)
    yield "node-3"
    cpu_quota(pool, "node-3", None)


@pytest.fixture
def slow_network(pool):
    """What node-2 is sent goes through a bucket of 40 Mbit/s."""
    cable = f"vb-{pool.node('node-2').machine}"[:15]
    shaped = ["root", "tbf", "rate", "40mbit", "burst", "64kb", "latency", "400ms"]
    subprocess.run(network.inside("tc", "qdisc", "add", "dev", cable, *shaped), check=True)
    yield "node-2"
    subprocess.run(network.inside("tc", "qdisc", "del", "dev", cable, "root"), check=True)


@pytest.mark.parametrize("how", ["slow_processor", "slow_network"])
def test_a_slow_node_is_named(pool, tmp_path, request, how):
    name = request.getfixturevalue(how)
    # So slow a node takes its time to start torch, too.
    _run, report = verify(pool, tmp_path, "pairs", verify_pairs_round_seconds=300, verify_pairs_seconds=3000)
    assert report["verdict"] == "fail"
    assert rules(report) == {("verify.node_slow", name)}
    nothing_stays(pool)


def test_a_shut_port_is_found_within_its_time_and_the_others_go_on(pool, tmp_path):
    root(pool, "node-1", "apt-get -qq update; apt-get -qq install -y nftables >/dev/null")
    rule = "add table inet t; add chain inet t i { type filter hook input priority 0; }; "
    root(pool, "node-1", f"nft '{rule} add rule inet t i tcp dport {PORT} drop'")
    try:
        _run, report = verify(pool, tmp_path, "pairs", "fleet", verify_pairs_round_seconds=60)
    finally:
        root(pool, "node-1", "nft delete table inet t")
    found = rules(report)
    assert {("verify.port_blocked", "node-1"), ("verify.node_cut_off", "node-1")} <= found
    assert {host for _rule, host in found} <= {"node-1"}, "nobody else is blamed"
    (shut,) = [one for one in report["findings"] if one["rule"] == "verify.port_blocked"]
    assert f"{pool.node('node-1').address} port {PORT}" in shut["summary"]
    fleet = {tuple(row["hosts"]) for row in report["measurements"] if row["stage"] == "fleet"}
    assert fleet == {("node-2", "node-3", "node-4")}
    nothing_stays(pool)


@pytest.fixture(scope="module")
def stand_in(pool):
    """OpenMPI of Debian on all nodes, and the stand-in for nccl-tests, compiled there."""
    for name in NAMES:
        root(
            pool,
            name,
            "apt-get -qq update; apt-get -qq install -y --no-install-recommends libopenmpi-dev openmpi-bin gcc make",
        )
        host = testinfra.get_host(f"ssh://{name}", ssh_config=f"{pool.ssh}/config", controlpersist=0)
        for path in sorted(STAND_IN.iterdir()):
            text = path.read_text(encoding="utf-8")
            assert host.run("mkdir -p %s && printf %%s %s > %s", PLACE, text, f"{PLACE}/{path.name}").rc == 0
        assert host.run("make -C %s OUT=%s/build", PLACE, PLACE).rc == 0
    return {"verify_launcher": "mpi", "verify_nccl_tests_path": f"{PLACE}/build"}


def test_nccl_tests_by_mpi_over_ssh(pool, stand_in, tmp_path):
    _run, report = verify(pool, tmp_path, "pairs", "fleet", **stand_in)
    assert rules(report) == set()
    rows = [row for row in report["measurements"] if row["stage"] in ("pairs", "fleet")]
    assert rows and {row["backend"] for row in rows} == {"mpi"} and {row["status"] for row in rows} == {"pass"}
    fleet = [row for row in rows if row["stage"] == "fleet"]
    collectives = {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all"}
    assert {row["collective"] for row in fleet} == collectives and {row["ranks"] for row in fleet} == {8}
    nothing_stays(pool)


def test_without_the_programs_torch_measures_the_same_and_says_so(pool, stand_in, tmp_path):
    _run, report = verify(pool, tmp_path, "pairs", **{**stand_in, "verify_nccl_tests_path": ""})
    assert rules(report) == set()
    (told, *_others) = [one for one in report["findings"] if one["rule"] == "verify.nccl_tests_not_built"]
    assert "the lock has no source archive nccl-tests" in told["summary"] and told["severity"] == "info"
    assert {row["backend"] for row in report["measurements"] if row["stage"] == "pairs"} == {"gloo"}
