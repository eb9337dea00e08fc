"""Imports the role's scripts that need the standard library only."""

import importlib.util
import sys
from pathlib import Path

FILES = Path(__file__).resolve().parents[4] / "roles" / "verify" / "files"


def script(name):
    sys.path.insert(0, str(FILES))
    try:
        spec = importlib.util.spec_from_file_location(name, FILES / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(FILES))
