"""Facts of a machine that layers depend on."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest
from ansible_collections.trainrig.gpu.plugins.module_utils.plan.observed import observed

LOCKED = [{"name": "linux-image-6.99.1-test"}, {"name": "tool"}]


@pytest.mark.parametrize(
    ("there", "counts"),
    [
        (None, []),  # nothing was installed yet
        ([], []),
        (["6.99.1-test"], []),  # what the lock names is no news
        (["6.99.1-test", "6.90.0-test"], ["6.90.0-test"]),
    ],
)
def test_the_lock_s_own_kernel_is_no_change(there, counts):
    assert observed({"boot": {"kernels": there}}, ["kernels"], "", LOCKED) == {"kernels": counts}
