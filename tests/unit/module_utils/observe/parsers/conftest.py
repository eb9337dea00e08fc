"""Gives parser tests one way in: the Observation that these probe outputs show."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Callable

import pytest
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.build import build
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.source import Output


@pytest.fixture
def look() -> Callable[..., dict[str, Any]]:
    """look(dkms="...", units=("", 1, "error")) -> Observation; a tuple is (text, exit status, standard error)."""

    def observed(**outputs: Any) -> dict[str, Any]:
        made = {name: Output(*one) if isinstance(one, tuple) else Output(one) for name, one in outputs.items()}
        return build(made)  # type: ignore[return-value]

    return observed
