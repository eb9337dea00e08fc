#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Brings Debian packages to exact versions and keeps them there, in one transaction or not at all."""

from __future__ import annotations

DOCUMENTATION = r"""
module: locked_packages
short_description: Debian packages at exactly the locked versions, on hold
version_added: 0.1.0
description:
  - Installs, upgrades and downgrades packages to exact versions, removes what must not be beside them and puts them on
    hold, all in B(one) transaction of apt. M(ansible.builtin.apt) cannot remove and install at once, so that a change
    of a driver's branch would have a moment without any.
  - The transaction is simulated first. Where it does not resolve, or would remove something that nobody named, nothing
    is changed and the error names it.
  - A dpkg that an earlier run left interrupted is brought to its end first.
  - Where a transaction fails half-way (a kernel module that does not build, a full disk) the packages are brought back
    to what they were, as far as they can still be had; the error says which state the node is in, and for a module that
    DKMS could not build the compiler's own line.
  - Where apt or dpkg is killed on the way nothing is taken back; the next run goes on from there.
options:
  packages:
    description: Package name to exact version, epoch and revision included.
    type: dict
    default: {}
  remove:
    description: Names of packages that have to go where they are installed.
    type: list
    elements: str
    default: []
  hold:
    description: Also put O(packages) on hold, so that no upgrade moves them.
    type: bool
    default: true
  lock_seconds:
    description: How long to wait for another apt, in seconds. A lock file is never removed.
    type: int
    default: 600
attributes:
  check_mode:
    description:
      - Says what would be done and changes nothing. On a node that does not know the repository yet apt cannot
        simulate; the versions that differ are told then, and RV(unknown) says why.
    support: full
  diff_mode:
    description: One line a package.
    support: full
author: trainrig contributors (@trainrig)
"""

EXAMPLES = r"""
- name: Install the driver that the lock names
  trainrig.gpu.locked_packages:
    packages: {libnccl2: 2.22.3-1-1, libnccl-dev: 2.22.3-1-1}
    remove: [libnccl-static]
"""

RETURN = r"""
steps:
  description: What was done, by package. A version that is new, V(old -> new), or V(removed).
  type: dict
  returned: always
held:
  description: Packages that were put on hold.
  type: list
  elements: str
  returned: always
repaired:
  description: Whether an interrupted dpkg was brought to its end.
  type: bool
  returned: always
unknown:
  description: In check mode, why apt cannot simulate yet; otherwise empty.
  type: str
  returned: always
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.trainrig.gpu.plugins.module_utils.apt.transaction import Wish, told
from ansible_collections.trainrig.gpu.plugins.module_utils.node.apt import Apt, FailedError, RefusedError


def main():
    module = AnsibleModule(
        argument_spec={
            "packages": {"type": "dict", "default": {}},
            "remove": {"type": "list", "elements": "str", "default": []},
            "hold": {"type": "bool", "default": True},
            "lock_seconds": {"type": "int", "default": 600},
        },
        supports_check_mode=True,
    )
    wish = Wish({name: str(version) for name, version in module.params["packages"].items()}, module.params["remove"])
    for program in ("apt-get", "apt-mark", "dpkg", "dpkg-query"):
        module.get_bin_path(program, required=True)
    try:
        done = Apt(module.params["lock_seconds"], module.check_mode).reach(wish, module.params["hold"])
    except (RefusedError, FailedError) as error:
        module.fail_json(msg=str(error))
    steps = told(done.steps)
    lines = [f"{name}: {text}\n" for name, text in sorted(steps.items())] + [f"{name}: held\n" for name in done.held]
    module.exit_json(
        changed=bool(steps or done.held or done.repaired),
        steps=steps,
        held=done.held,
        repaired=done.repaired,
        unknown=done.unknown,
        diff={"before": "", "after": "".join(lines)},
    )


if __name__ == "__main__":
    main()
