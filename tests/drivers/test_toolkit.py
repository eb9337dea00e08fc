"""Debian's CUDA toolkit and NCCL at the locked versions: what they compile loads the NCCL that the lock names."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from tests.drivers.test_drivers import assert_nothing_moves

PROGRAM = r"""
#include <nccl.h>
#include <stdio.h>
__global__ void add(int *to) { *to += 1; }
int main() { int version = 0; ncclGetVersion(&version); printf("%d %d\n", CUDART_VERSION, version); return 0; }
"""


def test_toolkit_and_nccl_are_what_the_lock_says(node, say):
    one = node("node-1")
    one.declare(["sources", "cuda", "nccl"], cuda="12.4", nccl="2.22.3")
    one.site("toolkit and NCCL")
    pinned, there = one.pinned("cuda", "nccl"), one.packages()
    assert {"nvidia-cuda-toolkit", "libnccl2", "libnccl-dev"} < pinned.keys() <= one.held()
    assert {name: there[name][0] if name in there else None for name in pinned} == pinned
    assert one.ask("dpkg --audit") == ""
    assert "release 12.4," in one.ask("/usr/bin/nvcc --version")
    one.ask(f"cat >/tmp/program.cu <<'END'\n{PROGRAM}END")
    # nvcc of 12.4 takes GCC 13 at most, and the toolkit depends on that one.
    one.ask("cd /tmp && nvcc -o program program.cu -lnccl")
    assert one.ask("/tmp/program") == "12040 22203"
    again = one.site("again")
    assert again.recap("node-1")["changed"] == 0
    assert "Nothing to do" in one.play("playbooks/plan.yml").ok().output
    assert_nothing_moves(one, "cuda", "nccl")
