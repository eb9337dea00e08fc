"""The rules of verification: what each one means, why it is so, what to do, where to read it up."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Dict, Iterable, Optional, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.finding import Finding, evidence
from ansible_collections.trainrig.gpu.plugins.module_utils.judge import rules_health, rules_logs, rules_pairs
from ansible_collections.trainrig.gpu.plugins.module_utils.judge.rule import Rule
from ansible_collections.trainrig.gpu.plugins.module_utils.judge.rules_fleet import FLEET

PHASE = "verify"
#: The pool of a host that declares none.
POOL = "default"

_TESTS = "NVIDIA/nccl-tests, doc/PERFORMANCE.md"
_DDP = "PyTorch documentation, torch.nn.parallel.DistributedDataParallel and torch.utils.data.distributed"
_ELASTIC = "PyTorch documentation, torchrun (Elastic Launch)"
_PEP440 = "PEP 440 (local version labels) and PEP 427 (wheels)"


RULES: Dict[str, Rule] = {
    # how a stage ran
    "verify.timeout": Rule(
        "fail",
        "configure",
        "The stage was still running when its time was up. With GPUs this is mostly one rank that waits for another: "
        "a hung GPU, a blocked interface, or a rank that died. On a slow machine the budget may be too small.",
        "Look at the last lines of its output. Run it again with more time (`-e {option}=SECONDS`); if it hangs at "
        "the same place, run it with NCCL_DEBUG=INFO and look for Xid messages in `dmesg`.",
        _ELASTIC,
    ),
    "verify.stage_failed": Rule(
        "fail",
        "configure",
        "The stage ended with an error before it had measured everything it should.",
        "The last lines of its output name the error; the command is in the evidence and can be run by hand.",
        _ELASTIC,
    ),
    "verify.stage_skipped": Rule(
        "fail",
        "none",
        "The stage depends on one that failed, so it was not run and proves nothing.",
        "Repair what the other finding names, then verify again.",
        _ELASTIC,
    ),
    "verify.nothing_measured": Rule(
        "fail",
        "configure",
        "The stage ended as if all was well and handed over no result. A check without a result is no pass.",
        "Run the stage by hand with the command in the evidence.",
        _ELASTIC,
    ),
    "verify.port_open": Rule(
        "warn",
        "configure",
        "torch's TCPStore listens on every address of the node while a job runs; on a node with a public address "
        "anybody can reach it. This torch cannot be handed a socket that is bound to 127.0.0.1.",
        "Use a newer torch, or close the port range to the outside in the provider's or the node's firewall.",
        "PyTorch source, torch/csrc/distributed/c10d (TCPStore, master_listen_fd)",
    ),
    "verify.nodes_left_out": Rule(
        "info",
        "none",
        "The pool is what trains together, and not all of it took part in the job over several nodes: the others were "
        "not reached, their own stages failed, or their last result still stood. Whether they train together is "
        "known from an earlier run or not at all.",
        "When all of them are well, verify the whole pool: playbooks/verify.yml without --limit.",
        _ELASTIC,
    ),
    "verify.nodes_apart": Rule(
        "warn",
        "configure",
        "The hosts of a pool train together, and no training job over them could be started. So nothing is known about "
        "it.",
        "Set trainrig_private_address for each host of the pool; or give hosts that never train together pools of "
        "their own (trainrig_pool), or take nodes out of verify_stages.",
        _ELASTIC,
    ),
    "verify.processes_left": Rule(
        "warn",
        "configure",
        "Processes of the stage were still alive after its launcher had ended. They were stopped.",
        "Nothing is left to do on the node; if it happens again, look at what those processes were waiting for.",
        _ELASTIC,
    ),
    # identity
    "verify.identity_torch_broken": Rule(
        "fail",
        "reinstall",
        "torch is not there or cannot be imported in this environment, so no training can run in it.",
        "For trainrig's own environment: `ansible-playbook site.yml -e trainrig_recheck=all`. For another one: "
        "repair it as the error says.",
        _PEP440,
    ),
    "verify.identity_package_differs": Rule(
        "fail",
        "reinstall",
        "What is installed is not what the lock says; the local part counts ({example}). Somebody ran pip in it, or "
        "it was built from another lock.",
        "`ansible-playbook site.yml` builds the environment anew beside this one and switches over.",
        _PEP440,
    ),
    "verify.identity_package_foreign": Rule(
        "warn",
        "reinstall",
        "Packages are installed that the lock does not name: another run of the same lock would not have them.",
        "Put them into the stack declaration and lock again, or let `ansible-playbook site.yml` rebuild the "
        "environment.",
        _PEP440,
    ),
    "verify.identity_nccl_differs": Rule(
        "fail",
        "configure",
        "The process loads another NCCL than the lock names, mostly because LD_LIBRARY_PATH or LD_PRELOAD puts a "
        "system library before the environment's.",
        "Take the path out of LD_LIBRARY_PATH and LD_PRELOAD (see the evidence for what is set), then verify again.",
        "PyTorch documentation, torch.cuda.nccl; man 8 ld.so",
    ),
    "verify.identity_driver_differs": Rule(
        "fail",
        "reboot",
        "The loaded kernel module, the user-space library and the fabric manager must be of one driver version; a "
        "package update without a reload or reboot leaves them apart.",
        "Reboot the node (or unload and load the modules while no GPU process runs), then verify again.",
        "NVIDIA Driver Installation Guide, Post-installation Actions; Fabric Manager User Guide",
    ),
    "verify.identity_gpus_unseen": Rule(
        "fail",
        "configure",
        "The driver shows more GPUs than this environment's torch can use: CUDA_VISIBLE_DEVICES, a CPU build of "
        "torch, a driver too old for its CUDA, or a GPU that fell off.",
        "Compare `nvidia-smi -L` with `python -c 'import torch; print(torch.cuda.device_count())'` in this "
        "environment.",
        "PyTorch documentation, torch.cuda",
    ),
    "verify.identity_arch_missing": Rule(
        "fail",
        "configure",
        "This torch was not compiled for the GPU's compute capability and holds no PTX that could be translated for "
        "it.",
        "Choose a variant whose architecture list has it (`python -c 'import torch; "
        "print(torch.cuda.get_arch_list())'`).",
        "CUDA C++ Programming Guide, Binary Compatibility and PTX Compatibility",
    ),
    # collectives
    "verify.collective_wrong": Rule(
        "fail",
        "replace",
        "A collective returned elements that are not what the inputs give; the check is exact. That is corrupted "
        "data: a GPU or link with errors, a driver or NCCL fault, or peer-to-peer transfers through an IOMMU or ACS "
        "that mangles them. Training on this would go wrong without any message.",
        "Do not train here. Run again with NCCL_P2P_DISABLE=1: if that is right, look at ACS and IOMMU; else look "
        "for Xid and ECC messages and take the node that the ranks in the evidence share out of service.",
        "NVIDIA NCCL documentation, Troubleshooting (GPU Direct, ACS)",
    ),
    "verify.collective_missing": Rule(
        "fail",
        "configure",
        "The stage was asked for collectives of which there is neither a result nor a reason why not.",
        "Run the stage by hand with the command in the evidence.",
        _TESTS,
    ),
    "verify.ranks_differ": Rule(
        "fail",
        "configure",
        "The job ran with other ranks or another backend than asked for, so its numbers are about something else.",
        "Look at the launcher's output; with GPUs, check CUDA_VISIBLE_DEVICES and that torch was built with NCCL.",
        _ELASTIC,
    ),
    "verify.result_inconsistent": Rule(
        "fail",
        "none",
        "A row contradicts itself: size, time, algbw and busbw do not belong together. Such a document proves nothing.",
        "Run the verification again with the scripts of this version.",
        _TESTS,
    ),
    "verify.bandwidth_below_threshold": Rule(
        "fail",
        "ask_provider",
        "The bus bandwidth is below what an operator of this hardware accepts. Usual reasons: NVLink links down, "
        "NVLS off or the fabric manager missing, a GPU throttled, PCIe at a lower rate, or another job on the node.",
        "Look at `nvidia-smi nvlink -s`, the fabric state and the throttle reasons in the report; run again on an "
        "idle node; then show the provider the row and its source.",
        _TESTS,
    ),
    "verify.bandwidth_above_ceiling": Rule(
        "warn",
        "none",
        "The result is above what the links can carry, so the timing or the reported link is wrong.",
        "Run again with more iterations; compare the PCIe and NVLink state with `nvidia-smi -q`.",
        _TESTS,
    ),
    "verify.bandwidth_not_judged": Rule(
        "info",
        "none",
        "There is no published figure for this hardware in this arrangement, or the run did not reach the message "
        "size it holds for. The results were checked for correctness; their speed was not judged.",
        "Compare nodes of the same kind with each other, or set your own floor in `verify_thresholds`.",
        _TESTS,
    ),
    "verify.left_out": Rule(
        "info",
        "none",
        "Part of the sweep was left out.",
        "Give the stage more time (`verify_collectives_seconds`) or a smaller `verify_max_bytes`.",
        _TESTS,
    ),
    "verify.single_rank": Rule(
        "info",
        "none",
        "One rank has nobody to talk to: links between GPUs, gradients over ranks and lost samples cannot be tested "
        "with it.",
        "Nothing is wrong. With more GPUs on this node, look at why only one is used.",
        _TESTS,
    ),
    # DDP smoke
    "verify.gradients_differ": Rule(
        "fail",
        "replace",
        "Training on {ranks} ranks is not the training that one process does on the same global batches. Either "
        "gradients are not averaged over all ranks (a rank's data or arithmetic is wrong), or the collectives "
        "corrupt them.",
        "Look at the collectives' findings first. If they are clean, run the smoke on fewer GPUs to find the one "
        "that differs, and check its ECC counters and Xid messages.",
        _DDP,
    ),
    "verify.indices_incomplete": Rule(
        "fail",
        "configure",
        "The samples that the ranks visited in an epoch are not the data set (with the repeats that "
        "DistributedSampler's padding makes): some are lost, or some are trained on twice.",
        "With your own script: use one DistributedSampler a rank with the true rank and number of ranks, the same "
        "seed on all, and call set_epoch before each epoch.",
        _DDP,
    ),
    "verify.loss_not_falling": Rule(
        "fail",
        "configure",
        "The model can learn this data set, and did not: the optimizer's steps have no effect, or the loss is not a "
        "number.",
        "Look at the losses in the evidence; run `ddp_smoke.py` with one process on the CPU (--backend gloo) to "
        "compare.",
        _DDP,
    ),
    "verify.not_resumed": Rule(
        "fail",
        "configure",
        "After a worker was killed the job did not go on from its checkpoint: torchrun did not start the group "
        "again, or the ranks began somewhere else. A long training would lose its work.",
        "Check that the checkpoint's directory is writable and on a local or shared file system that all ranks see, "
        "and that torchrun runs with --max-restarts. If the ranks hung after the restart, set "
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 (pytorch issue 135712).",
        _ELASTIC,
    ),
    "verify.resume_differs": Rule(
        "fail",
        "configure",
        "The run that was killed and resumed did not arrive where the unbroken run did: the checkpoint lacks state "
        "(optimizer, step, order of samples) or steps were lost or done twice.",
        "Save and load model, optimizer and step together, and write the checkpoint in one rename.",
        _ELASTIC,
    ),
    **FLEET,
    **rules_health.RULES,
    **rules_logs.RULES,
    **rules_pairs.RULES,
}


def finding(
    rule: str,
    host: Optional[str],
    summary: str,
    proof: Iterable[Tuple[str, object]] = (),
    severity: Optional[str] = None,
    pool: str = POOL,
    scope: str = "host",
    **names: object,
) -> Finding:
    """Make a finding of a rule; ``proof`` is (where it was seen, text) pairs."""
    meaning = RULES[rule]
    return {
        "rule": rule,
        "severity": severity or meaning.severity,
        "layer": meaning.layer,
        "host": host,
        "pool": pool,
        "scope": scope,
        "summary": summary,
        "cause": _filled(meaning.cause, names),
        "action": {"kind": meaning.action, "text": _filled(meaning.next, names)},
        "evidence": [evidence(probe, text) for probe, text in proof],
        "phase": PHASE,
    }


def _filled(text: str, names: Dict[str, object]) -> str:
    for name, value in names.items():
        text = text.replace("{" + name + "}", str(value))
    return text
