"""Makes, with trainrig itself, the environment that tests/torch runs in: .venv-torch/env. Quick when it is there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PREFIX = ROOT / ".venv-torch"
PYTHON = PREFIX / "env" / "bin" / "python"


def main() -> int:
    playbook = [str(ROOT / ".venv/bin/ansible-playbook"), "site.yml", "-i", "inventories/local"]
    options = [
        "-e",
        f"trainrig_prefix={PREFIX}",
        "-e",
        "trainrig_verify=never",
        "-e",
        f"report_directory={PREFIX}/reports",
    ]
    done = subprocess.run([*playbook, *options], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    # Not verified is not passed, so the run itself says no; what counts here is whether torch can be imported.
    works = (
        subprocess.run([str(PYTHON), "-c", "import torch"], check=False).returncode == 0 if PYTHON.exists() else False
    )
    if not works:
        print(done.stdout)
    return 0 if works else 1


if __name__ == "__main__":
    sys.exit(main())
