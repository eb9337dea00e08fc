"""What to type now: how to start a job on what was verified, and the first thing to do where it is not ready."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import posixpath
import shlex
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ansible_collections.trainrig.gpu.plugins.module_utils.report.network import Choice, choose
from ansible_collections.trainrig.gpu.plugins.module_utils.report.summary import part, places, usable_gpus
from ansible_collections.trainrig.gpu.plugins.module_utils.report.words import inventory_options, whole_command

#: torchrun's own default port for a static rendezvous.
_PORT = 29500
#: Worst first; information alone asks for nothing.
_ASKING = ("refuse", "fail", "warn")
_PLAYBOOKS = {"site": "site", "verify": "verify", "plan": "plan", "preflight": "site"}


def environment(host: Mapping[str, Any]) -> Optional[str]:
    """The line that puts the host's environment on PATH: ours, or the one that was verified instead."""
    interpreter = host.get("python")
    if interpreter:
        folder = posixpath.dirname(str(interpreter))
        # A distribution's own interpreter has no activate file beside it, and needs none.
        return None if folder in ("/usr/bin", "/bin") else f"source {shlex.quote(posixpath.join(folder, 'activate'))}"
    prefix = host.get("prefix")
    return f"source {shlex.quote(posixpath.join(str(prefix), 'env/bin/activate'))}" if prefix else None


def processes(host: Mapping[str, Any], measurements: Sequence[Mapping[str, Any]]) -> Optional[int]:
    """Processes per node: one per usable GPU where torch can use them, else as many as the verification ran."""
    observation = host.get("observation") or {}
    gpus = usable_gpus(observation)
    if gpus and (part(observation, "nvidia", "driver", "library") or part(observation, "nvidia", "driver", "module")):
        return len(gpus)
    for one in measurements:
        if one.get("stage") == "ddp" and one.get("ranks"):
            return max(1, int(one["ranks"]) // max(1, int(one.get("nodes") or 1)))
    return None


def _endpoint(address: str) -> str:
    return f"[{address}]:{_PORT}" if ":" in address else f"{address}:{_PORT}"


def torchrun(nodes: int, nproc: Optional[int], address: Optional[str], interfaces: List[str]) -> Optional[str]:
    """The launch line. On several nodes it is typed on each of them; the same line everywhere."""
    if nproc is None:
        return None
    if nodes == 1:
        return f"torchrun --standalone --nproc-per-node={nproc} train.py"
    if address is None:
        return None
    named = f"NCCL_SOCKET_IFNAME={interfaces[0]} GLOO_SOCKET_IFNAME={interfaces[0]} " if len(interfaces) == 1 else ""
    return (
        f"{named}torchrun --nnodes={nodes} --nproc-per-node={nproc} "
        f"--rdzv-id=job1 --rdzv-backend=c10d --rdzv-endpoint={_endpoint(address)} train.py"
    )


def container_mounts(host: Mapping[str, Any]) -> List[str]:
    """What a container needs to see the same things: options as docker and podman take them."""
    observation = host.get("observation") or {}
    options = ["--ipc=host"]
    if usable_gpus(observation):
        cdi = part(observation, "containers", "cdi_devices")
        options.append("--device nvidia.com/gpu=all" if cdi else "--gpus all")
    if part(observation, "rdma", "devices"):
        options += ["--network=host", "--ulimit memlock=-1", "--device /dev/infiniband"]
    if "/etc/nccl.conf" in (part(observation, "configuration", "nccl_conf") or {}):
        options.append("-v /etc/nccl.conf:/etc/nccl.conf:ro")
    if host.get("prefix") and not host.get("python"):
        path = shlex.quote(str(host["prefix"]))
        options.append(f"-v {path}:{path}:ro")
    return options


def _step(text: str, because: Optional[str]) -> Dict[str, Any]:
    """``command`` is what can be typed as it is; ``None`` where the text has to be read."""
    command = whole_command(text)
    return {"text": command or text, "command": command, "hosts": [], "because": because}


def commands(
    findings: Sequence[Mapping[str, Any]],
    verdict: str,
    phase: str,
    sources: Sequence[str],
    python: Optional[str] = None,
) -> List[Dict[str, Any]]:
    """What to do, the most urgent first, each thing once with the hosts it is for; then how to look again."""
    if verdict == "pass":
        return []
    steps: Dict[str, Dict[str, Any]] = {}
    urgent = [one for severity in _ASKING for one in findings if one.get("severity") == severity]
    waiting = [one for one in findings if one.get("rule", "").startswith("run.") and one.get("severity") == "info"]
    for finding in urgent + waiting:
        action = finding.get("action") or {}
        text = str(action.get("text") or "").strip()
        if not text:
            continue
        step = steps.setdefault(text, _step(text, finding.get("rule")))
        host = finding.get("host")
        if host and host not in step["hosts"]:
            step["hosts"].append(host)
    ordered = list(steps.values())
    if sources:
        again = f"ansible-playbook trainrig.gpu.{_PLAYBOOKS.get(phase, 'site')} {inventory_options(sources)}"
        if python:
            again += f" -e trainrig_python={shlex.quote(python)}"
        ordered.append(_step(f"`{again}`", None))
    return ordered


def ready_hosts(
    hosts: Mapping[str, Mapping[str, Any]],
    states: Mapping[str, str],
    findings: Sequence[Mapping[str, Any]],
    measurements: Sequence[Mapping[str, Any]],
) -> List[str]:
    """The hosts a job can start on now, of one pool: nothing about them is broken and nothing they did alone failed."""
    stopped = {one.get("host") for one in findings if one.get("severity") in ("refuse", "fail")}
    slow = {tuple(places(one)) for one in measurements if one.get("status") == "fail"}
    ready = [
        name
        for name, state in states.items()
        if state == "ok" and hosts[name].get("observation") and name not in stopped and (name,) not in slow
    ]
    if any(one.get("severity") == "refuse" and not one.get("host") for one in findings):
        return []
    pools = [hosts[name].get("pool") for name in ready]
    return [name for name, pool in zip(ready, pools) if pool == pools[0]]


def _note(choice: Optional[Choice], several: bool) -> Optional[str]:
    if several and choice is None:
        return "the nodes share no network that could be seen: set trainrig_private_address for each of them"
    if choice is not None and choice.public:
        return "the only network that the nodes share is public: keep the rendezvous port closed to others"
    return None


def next_steps(
    hosts: Mapping[str, Mapping[str, Any]],
    states: Mapping[str, str],
    findings: Sequence[Mapping[str, Any]],
    measurements: Sequence[Mapping[str, Any]],
    verdict: str,
    phase: str,
    sources: Sequence[str],
) -> Dict[str, Any]:
    """The report's ``next`` block. A job is described over the hosts that are ready; unknown is ``None``."""
    ready = ready_hosts(hosts, states, findings, measurements)
    first: Mapping[str, Any] = hosts[ready[0]] if ready else {}
    choice = None
    if len(ready) > 1:
        declared = {name: hosts[name].get("private_address") for name in ready}
        choice = choose({name: hosts[name]["observation"] for name in ready}, declared)
    counts = [processes(hosts[name], measurements) for name in ready]
    known = [count for count in counts if count is not None]
    # torchrun needs the same count everywhere; the smallest is what every node can serve.
    nproc = min(known) if known and len(known) == len(counts) else None
    interfaces = sorted(set(choice.interfaces.values())) if choice else []
    address = choice.addresses[ready[0]] if choice else None
    foreign = next((str(host["python"]) for host in hosts.values() if host.get("python")), None)
    return {
        "hosts": ready,
        "environment": environment(first) if ready else None,
        "torchrun": torchrun(len(ready), nproc, address, interfaces) if ready else None,
        "rendezvous": _endpoint(address) if address else None,
        "interface": interfaces[0] if len(interfaces) == 1 else None,
        "interfaces": choice.interfaces if choice else None,
        "container_mounts": container_mounts(first) if ready else None,
        "note": _note(choice, len(ready) > 1),
        "commands": commands(findings, verdict, phase, sources, foreign),
    }
