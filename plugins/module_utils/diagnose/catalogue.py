"""All modules that hold rules: importing this registers every rule."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.rules import (
    driver,
    environment,
    events,
    fabric,
    fleet,
    health,
    kernel,
    load,
    observation,
    packages,
    paths,
    stack,
)

MODULES = (
    driver,
    environment,
    events,
    fabric,
    fleet,
    health,
    kernel,
    load,
    observation,
    packages,
    paths,
    stack,
)
