"""All modules that hold rules: importing this registers every rule."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.rules import (
    containers,
    driver,
    environment,
    events,
    fabric,
    fleet,
    floors,
    health,
    identity,
    kernel,
    load,
    machine,
    nccl,
    network,
    observation,
    packages,
    paths,
    rdma,
    stack,
)

MODULES = (
    containers,
    driver,
    environment,
    events,
    fabric,
    fleet,
    floors,
    health,
    identity,
    kernel,
    load,
    machine,
    nccl,
    network,
    observation,
    packages,
    paths,
    rdma,
    stack,
)
