"""Which hosts belong together: what is compared over hosts is compared inside a pool."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Dict, List, Mapping

from ansible_collections.trainrig.gpu.plugins.module_utils.judge.catalogue import POOL


def by_pool(hosts: Mapping[str, Mapping[str, Any]]) -> Dict[str, List[str]]:
    """Pool -> its hosts, in their order."""
    pools: Dict[str, List[str]] = {}
    for name, host in hosts.items():
        pools.setdefault(str(host.get("pool") or POOL), []).append(name)
    return pools
