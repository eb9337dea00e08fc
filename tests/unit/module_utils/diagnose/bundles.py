"""Makes fleets for tests from base bundles and the differences a case names."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ansible_collections.trainrig.gpu.plugins.action.diagnose import facts

TODAY = "2026-11-30"
DATA = facts({})
