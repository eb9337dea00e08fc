"""Adds to an Observation what only data/ knows: which model a GPU is, by its PCI id and never by its name."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Mapping, TypeVar

from ansible_collections.trainrig.gpu.plugins.module_utils.observe.schema import Observation

Observed = TypeVar("Observed", Observation, "dict[str, Any]")


def models_by_pci_id(gpus: Mapping[str, Any]) -> dict[str, str]:
    """PCI id (``10de:2330``) -> key of data/gpus.yml."""
    return {entry["id"]: model for model, row in gpus["gpus"].items() for entry in row["pci"]}


def enrich(observation: Observed, gpus: Mapping[str, Any]) -> Observed:
    """The observation with ``model`` at each GPU: its key in ``gpus`` (content of data/gpus.yml), or None."""
    models = models_by_pci_id(gpus)
    for gpu in observation["nvidia"]["gpus"] or []:
        gpu["model"] = models.get(gpu["pci_id"] or "")
    return observation
