"""Rules over a pool: what trains together must be reachable, equal and distinct; the odd host is named."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Iterator

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.host import Pool
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.registry import Hit, pool_rule


@pool_rule("fleet.host_unreachable")
def host_unreachable(pool: Pool) -> Iterator[Hit]:
    for name, why in pool.missing.items():
        severity = "warn" if pool.allow_missing else None
        yield Hit(f"{name} of pool {pool.name} was not observed: {why}", severity=severity, host=name, pool=pool.name)
