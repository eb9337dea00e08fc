"""The keys of `trainrig_stack`: the one list, and which of them choose a profile of the lock."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import NamedTuple, Tuple


class Key(NamedTuple):
    name: str
    words: Tuple[str, ...] = ("auto",)  # fixed values; the first is what a key means that is left out
    free: str = ""  # what else may stand there, for people; empty: nothing else
    profile: bool = False  # a node's profile is chosen by it


KEYS = (
    Key("accelerator", ("auto", "nvidia", "cpu"), profile=True),
    Key("driver", ("auto", "keep", "none"), "a branch or an exact version"),
    Key("kernel_module", ("auto", "open", "proprietary")),
    Key("module_build", ("auto", "dkms", "precompiled")),
    Key("kernel", ("auto", "keep"), "an exact kernel version"),
    Key("cuda", ("auto",), "a CUDA version"),
    Key("cudnn", ("auto",), "an exact version"),
    Key("nccl", ("auto", "wheel"), "an exact version"),
    Key("pytorch", ("auto",), "a release line, a release or bounds", profile=True),
    Key("variant", ("auto", "cpu"), "a CUDA build", profile=True),
    Key("tensorflow", ("auto", "none"), "a release line, a release or bounds"),
    Key("python", ("auto",), "two numbers", profile=True),
    Key("fabric_manager", ("auto", "off")),
    Key("container_toolkit", ("auto", "off"), "an exact version"),
    Key("origin", ("auto", "nvidia", "distro")),
)
NAMES = tuple(key.name for key in KEYS)
#: Lists that stand for nodes which cannot be reached yet.
LISTS = ("gpus", "platforms")
PROFILE = tuple(key.name for key in KEYS if key.profile)
BY_NAME = {key.name: key for key in KEYS}
#: Mean nothing without a GPU.
GPU_KEYS = ("driver", "cuda", "cudnn", "nccl")
