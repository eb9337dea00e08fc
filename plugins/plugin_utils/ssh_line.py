"""The ssh line that a person can type to reach a host the way Ansible does."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from typing import Any

from ansible import constants, context
from ansible.plugins.loader import connection_loader
from ansible_collections.trainrig.gpu.plugins.plugin_utils.plain import plain


def ssh_line(variables: Mapping[str, Any]) -> str | None:
    """Address, port, user, key file and further arguments are what Ansible's own ssh connection reads them to be.

    ``None`` for a host that is reached in another way. Left out is what only shares or hastens connections.
    """
    connection = variables.get("ansible_connection") or context.CLIARGS.get("connection") or constants.DEFAULT_TRANSPORT
    if str(connection).rpartition(".")[2] not in ("ssh", "smart"):
        return None
    connection_loader.get("ssh", class_only=True)  # makes its options known

    def option(name: str) -> Any:
        return plain(constants.config.get_config_value(name, None, "connection", "ssh", variables=variables))

    port, key, user = option("port"), option("private_key_file"), option("remote_user")
    words = ["ssh", *(["-p", str(port)] if port else []), *(["-i", os.path.expanduser(key)] if key else [])]
    for name in ("ssh_common_args", "ssh_extra_args"):
        words += shlex.split(option(name) or "")
    address = option("host")
    return shlex.join([*words, f"{user}@{address}" if user else address, "true"])
