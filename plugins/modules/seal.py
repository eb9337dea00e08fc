#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Turns secret option values into keyed digests that mean something on this node only."""

from __future__ import annotations

DOCUMENTATION = r"""
module: seal
short_description: Digest secret values with a key that never leaves the node
version_added: 0.1.0
description:
  - A layer's digest covers its secret options too, but the manifest must not help to guess them.
    Each value becomes an HMAC-SHA-256 under a random key that is kept on the node, readable by its owner only.
options:
  key:
    description: The key's path. It is created, with mode 0600, when it is missing.
    type: path
    required: true
  values:
    description: The secret values by name.
    type: dict
    required: true
attributes:
  check_mode:
    description: Without a key on the node none is made; the values are V(hmac:unknown), which is never on record.
    support: full
  diff_mode:
    description: There is nothing to show.
    support: none
author: trainrig contributors (@trainrig)
"""

EXAMPLES = r"""
- name: Digest the index address, which may hold a password
  trainrig.gpu.seal:
    key: /etc/trainrig/hmac.key
    values:
      pytorch_index_url: "{{ pytorch_index_url }}"
"""

RETURN = r"""
sealed:
  description: C(hmac:<hex>) by name.
  type: dict
  returned: always
"""

import hashlib
import hmac
import json
import os
import secrets
import tempfile

from ansible.module_utils.basic import AnsibleModule

KEY_BYTES = 32


def read_or_make_key(path, may_write):
    if os.path.exists(path):
        with open(path, "rb") as stream:
            key = stream.read()
        if len(key) == KEY_BYTES:  # a shorter one could be guessed
            return key
    if not may_write:
        return None
    directory = os.path.dirname(path)
    os.makedirs(directory, mode=0o755, exist_ok=True)
    key = secrets.token_bytes(KEY_BYTES)
    # Written beside and renamed, so that a power cut never leaves an empty key behind; mkstemp makes it 0600.
    descriptor, temporary = tempfile.mkstemp(dir=directory, prefix=".hmac-")
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(key)
        stream.flush()
        os.fsync(stream.fileno())
    os.rename(temporary, path)
    return key


def seal(key, value):
    if key is None:
        return "hmac:unknown"
    text = json.dumps(value, sort_keys=True).encode("utf-8")
    return "hmac:" + hmac.new(key, text, hashlib.sha256).hexdigest()


def main():
    module = AnsibleModule(
        argument_spec={
            "key": {"type": "path", "required": True, "no_log": False},
            "values": {"type": "dict", "required": True, "no_log": True},
        },
        supports_check_mode=True,
    )
    try:
        key = read_or_make_key(module.params["key"], not module.check_mode)
    except OSError as error:
        module.fail_json(
            msg=f"cannot keep the digest key {module.params['key']}: {error.strerror}. "
            "To fix it: remove it; a new one is made and the layer is applied again."
        )
    values = module.params["values"]
    module.exit_json(changed=False, sealed={name: seal(key, values[name]) for name in values})


if __name__ == "__main__":
    main()
