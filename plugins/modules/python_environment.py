#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Builds a Python environment from a hash-checked requirement file, beside the present one, and switches to it."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: python_environment
short_description: A Python environment that is exactly its hash-checked requirement file
version_added: 0.1.0
description:
  - Builds a virtual environment with uv from a requirement file with hashes, in a new directory, verifies it and only
    then switches a symbolic link to it. The environment that was in use stays as it is, for the jobs that run in it
    and for a way back.
  - An environment is left alone when the installed set is the locked one, no file is missing or altered, and no foreign
    file was added (bytecode aside). Otherwise a new one is built; an environment is never edited in place.
  - A run that is killed at any moment leaves the link on a finished environment; the next run removes what was begun.
  - pip's settings (index, extra indexes, find-links, proxy, certificate, time-out, constraints) of the user on the node
    are honoured; uv's own settings go before them, and the options below go before both.
author: trainrig contributors (@trainrig)
options:
  path:
    description: The symbolic link that names the environment in use.
    type: path
    required: true
  store:
    description: The directory that holds the environments, on the same file system as O(path).
    type: path
    required: true
  requirements:
    description: Requirement file on the node; every line C(name==version) with hashes.
    type: path
    required: true
  python:
    description: The interpreter that the environment is made for.
    type: path
    required: true
  uv:
    description: The uv program on the node.
    type: path
    required: true
  keep:
    description: How many earlier environments are kept.
    type: int
    default: 1
  index_url:
    description: The package index. Credentials in it are never shown.
    type: str
  extra_index_urls:
    description: More package indexes.
    type: list
    elements: str
    default: []
  find_links:
    description: Directories or pages with wheels.
    type: list
    elements: str
    default: []
  torch_index:
    description: An index that is asked too when the others do not offer a locked package.
    type: str
  timeout:
    description: How long one request to an index may take, in seconds; V(0) leaves it to the settings of uv and pip.
    type: int
    default: 0
  cache:
    description: uv's cache directory; the environment variable E(UV_CACHE_DIR) goes before it.
    type: path
  compile_bytecode:
    description:
      - Compile the packages, so that users who cannot write to the environment start as fast.
      - V(auto) does so when root installs.
    type: str
    choices: [auto, always, never]
    default: auto
  download_bytes:
    description: What the packages need to download, for the check of the disk's space before anything is fetched.
    type: int
    default: 0
  installed_bytes:
    description: What the packages take when they are installed.
    type: int
    default: 0
  lock_timeout:
    description: How long to wait for another run that builds in the same O(store), in seconds.
    type: int
    default: 900
attributes:
  check_mode:
    description: Says what would be done, and why, without doing it.
    support: full
  diff_mode:
    description: Shows the packages before and after.
    support: full
  idempotent:
    description: A second run changes nothing.
    support: full
requirements:
  - Linux, Python 3.8 or newer on the node
"""

EXAMPLES = r"""
- name: Build the environment that the lock describes
  trainrig.gpu.python_environment:
    path: /opt/trainrig/env
    store: /opt/trainrig/envs
    requirements: /opt/trainrig/requirements.txt
    python: /usr/bin/python3
    uv: /opt/trainrig/bin/uv
"""

RETURN = r"""
reasons:
  description: Why the environment was not what it should be; empty where it was.
  type: list
  elements: str
  returned: always
  sample: ["file torch/nn/functional.py edited", "package numpy moved 2.4.6 -> 2.4.5"]
actions:
  description: What was done (in check mode, what would be done).
  type: list
  elements: str
  returned: always
target:
  description: The directory that O(path) points to.
  type: str
  returned: always
previous:
  description: The directory that O(path) pointed to before; null where it did not change.
  type: str
  returned: always
python:
  description: Version of the environment's Python.
  type: str
  returned: always
packages:
  description: Installed packages and their versions.
  type: dict
  returned: always
settings:
  description: Where each index setting that was used comes from.
  type: dict
  returned: when something was built
kind:
  description: What kind of problem stopped the build.
  type: str
  returned: failure
"""

import os
from typing import Any, Dict, List

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.trainrig.gpu.plugins.module_utils.environment.uv_options import mask, secrets
from ansible_collections.trainrig.gpu.plugins.module_utils.node.environment_builder import Builder
from ansible_collections.trainrig.gpu.plugins.module_utils.node.uv import Problem


def main() -> None:
    """Read the options, let the builder decide and act, say what happened."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "store": {"type": "path", "required": True},
            "requirements": {"type": "path", "required": True},
            "python": {"type": "path", "required": True},
            "uv": {"type": "path", "required": True},
            "keep": {"type": "int", "default": 1},
            "index_url": {"type": "str"},
            "extra_index_urls": {"type": "list", "elements": "str", "default": []},
            "find_links": {"type": "list", "elements": "str", "default": []},
            "torch_index": {"type": "str"},
            "timeout": {"type": "int", "default": 0},
            "cache": {"type": "path"},
            "compile_bytecode": {"type": "str", "choices": ["auto", "always", "never"], "default": "auto"},
            "download_bytes": {"type": "int", "default": 0},
            "installed_bytes": {"type": "int", "default": 0},
            "lock_timeout": {"type": "int", "default": 900},
        },
        supports_check_mode=True,
    )
    options: Dict[str, Any] = module.params
    # Addresses are worth showing, passwords in them are not: so the passwords, not the options, are marked.
    addresses: List[str] = [options["index_url"] or "", options["torch_index"] or ""]
    module.no_log_values.update(secrets(addresses + options["extra_index_urls"] + options["find_links"]))
    try:
        result = Builder(options, module.check_mode, lambda text: module.warn(mask(text))).run()
    except Problem as problem:
        failure = problem.failure
        detail = f" ({failure.detail})" if failure.detail else ""
        message = mask(f"{failure.text}. To fix it: {failure.fix}.{detail}")
        module.fail_json(msg=message, kind=failure.kind, fix=mask(failure.fix), detail=mask(failure.detail))
    except OSError as error:
        place = error.filename or options["store"]
        module.fail_json(msg=f"{place}: {os.strerror(error.errno or 0)}", kind="os_error")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
