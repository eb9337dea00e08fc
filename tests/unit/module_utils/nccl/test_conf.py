"""Runs tests/cases/nccl/*.yml: a node's interfaces and a declaration, and the nccl.conf or the refusal that follows."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import ipaddress
import json
from pathlib import Path

import jsonschema
import pytest
import yaml
from ansible_collections.trainrig.gpu.plugins.module_utils.nccl.conf import Facts, decide, render
from ansible_collections.trainrig.gpu.plugins.module_utils.observe import build, probes, source
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.parsers import configuration, network
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.reading import Reading
from ansible_collections.trainrig.gpu.plugins.module_utils.plan.observed import observed
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.problem import message
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import ROOT, load

CASES = ROOT / "tests" / "cases"
VARIABLES, RULES = load("nccl_variables"), load("rules")
FACTS = Facts(VARIABLES, RULES["nccl_switches"], RULES["local_interfaces"])
HEADER = render(decide({}, "", [], {"NCCL_SOCKET_IFNAME": "^x"}, FACTS)).split("\n\n")[0]


def cases():
    for path in sorted((CASES / "nccl").glob("*.yml")):
        for name, case in yaml.safe_load(path.read_text(encoding="utf-8")).items():
            yield pytest.param(case, id=f"{path.stem}/{name}")


def link(name, words):
    """One interface as `ip -j addr` prints it."""
    found = []
    for word in words:
        if word == "down":
            continue
        one = ipaddress.ip_interface(word)
        scope = "host" if one.ip.is_loopback else "link" if one.ip.is_link_local else "global"
        label = {"label": name} if one.version == 4 else {}
        family = "inet" if one.version == 4 else "inet6"
        found.append(
            {"family": family, "local": str(one.ip), "prefixlen": one.network.prefixlen, "scope": scope, **label}
        )
    flags = ["LOOPBACK"] if name == "lo" else ["BROADCAST"]
    return {"ifname": name, "flags": flags, "operstate": "DOWN" if "down" in words else "UP", "addr_info": found}


def observation(case):
    if "bundle" in case:
        outputs = source.BundleSource(CASES / "observe" / case["bundle"] / "bundle").read(probes.table().values())
        return build.build(outputs)
    if "interfaces" not in case:
        return {"network": {"addresses": None}}
    text = json.dumps([link(name, words) for name, words in case["interfaces"].items()])
    return {"network": {"addresses": network.ip_addr(Reading("ip_addr", text))["network.addresses"]}}


def decided(case):
    return decide(observation(case), case.get("address", ""), case["peers"], case.get("settings", {}), FACTS)


@pytest.mark.parametrize("case", list(cases()))
def test_case(case):
    conf = decided(case)
    said = [message(problem) for problem in conf.problems]
    if "problems" in case:
        text = "\n".join(said)
        assert [part for part in case["problems"] if part not in text] == []
        assert all(": " in line and "To fix it: " in line for line in said)
        return
    assert said == []
    assert render(conf) == f"{HEADER}\n\n{case['file']}"


@pytest.mark.parametrize("case", [param for param in cases() if "file" in param.values[0]])
def test_nccl_reads_what_was_decided(case):
    """Each line as NCCL takes it apart; and the diagnosis has nothing to say against it."""
    conf = decided(case)
    reading = Reading("nccl_conf", f"==> /etc/nccl.conf <==\n{render(conf)}")
    read = configuration.nccl_conf(reading)["configuration.nccl_conf"]["/etc/nccl.conf"]
    assert reading.notes == []
    assert read == {line.name: line.value for line in conf.lines}
    assert not set(read) & set(VARIABLES["debugging"])


def test_the_header_says_whose_it_is():
    assert HEADER.startswith("# Managed by trainrig (role nccl)")
    assert all(line.startswith("#") and len(line) < 120 for line in HEADER.splitlines())


def test_every_workaround_the_diagnosis_knows_is_a_variable_of_nccl():
    schema = json.loads((ROOT / "data" / "schemas" / "nccl_variables.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(VARIABLES, schema)
    assert not set(VARIABLES["system"]) & set(VARIABLES["debugging"])
    assert set(RULES["nccl_switches"]) <= {*VARIABLES["system"], *VARIABLES["debugging"]}


class TestObserved:
    """The facts that make the layer dirty."""

    @staticmethod
    def of(interfaces):
        return observed(observation({"interfaces": interfaces}), ["interfaces"], RULES["local_interfaces"])[
            "interfaces"
        ]

    def test_names_addresses_and_state(self):
        assert self.of(
            {"lo": ["127.0.0.1/8"], "eth0": ["10.0.0.2/24", "fe80::1/64"], "eth1": ["10.1.0.2/24", "down"]}
        ) == {
            "eth0": "up 10.0.0.2/24",
            "eth1": "down 10.1.0.2/24",
        }

    def test_what_containers_do_does_not_count(self):
        before = {"eth0": ["10.0.0.2/24"]}
        assert self.of({**before, "docker0": ["172.17.0.1/16"], "veth1": ["fe80::2/64"]}) == self.of(before)

    def test_privacy_addresses_do_not_count(self):
        one = observation({"interfaces": {"eth0": ["2001:db8::2/64", "2001:db8::abcd/64"]}})
        one["network"]["addresses"][0]["addr_info"][1]["temporary"] = True
        assert observed(one, ["interfaces"], "$^") == {"interfaces": {"eth0": "up 2001:db8::2/64"}}

    def test_unknown_is_unknown(self):
        assert observed({"network": {"addresses": None}}, ["interfaces"], "$^") == {"interfaces": None}
        assert observed({}, ["topology"], "$^") == {"topology": None}

    def test_topology(self):
        found = observed(observation({"bundle": "healthy_8x_h100"}), ["topology"], "$^")["topology"]
        assert found["gpus"]["GPU0"]["GPU1"] == "NV18"
        assert Path(CASES / "observe" / "healthy_8x_h100" / "bundle" / "nvidia_smi_topo").is_file()
