"""The script that the python_env probe runs under the interpreter it looks at (any Python 3; prints one JSON)."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

#: Bound for importing torch and asking it for devices, in seconds: a sick driver can hold it for minutes.
TIMEOUT_S = 60

SCRIPT = r'''
import json, os, platform, re, subprocess, sys

TORCH = """
import json
answer = dict.fromkeys(("version", "cuda", "archs", "nccl", "cuda_available", "device_count", "error"))
try:
    import torch
    answer["version"] = torch.__version__
    answer["cuda"] = torch.version.cuda
    answer["hip"] = getattr(torch.version, "hip", None)
    try:
        answer["archs"] = torch.cuda.get_arch_list() if torch.version.cuda else []
    except Exception as error:
        answer["error"] = type(error).__name__ + ": " + str(error)
    try:
        if torch.distributed.is_available() and torch.distributed.is_nccl_available():
            version = torch.cuda.nccl.version()
            answer["nccl"] = ".".join(map(str, version)) if isinstance(version, tuple) else str(version)
    except Exception as error:
        answer["error"] = type(error).__name__ + ": " + str(error)
    answer["cuda_available"] = torch.cuda.is_available()
    answer["device_count"] = torch.cuda.device_count()
    if answer["device_count"] and not answer["archs"]:
        answer["archs"] = torch.cuda.get_arch_list()
    if torch.version.cuda and not answer["cuda_available"] and not answer["error"]:
        try:
            torch.cuda.init()
        except Exception as error:
            answer["error"] = type(error).__name__ + ": " + str(error)
except BaseException as error:
    answer["error"] = type(error).__name__ + ": " + str(error)
print("\\n@@" + json.dumps(answer))
"""


def ask(argv, seconds):
    try:
        pipe = subprocess.PIPE
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, timeout=seconds)
        return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")
    except subprocess.TimeoutExpired:
        return None, "", ""
    except OSError as error:
        return 126, "", str(error)


def packages():
    try:
        from importlib import metadata
    except ImportError:
        return None
    found = {}
    for distribution in metadata.distributions():
        try:
            name, version = distribution.metadata["Name"], distribution.version
        except Exception:
            continue
        # The first on the path is the one that is imported.
        if name and name not in found:
            found[name] = version
    return [{"name": name, "version": found[name]} for name in sorted(found, key=str.lower)]


def torch(seconds):
    import importlib.util
    try:
        if importlib.util.find_spec("torch") is None:
            return None
    except Exception:
        return None
    rc, out, err = ask([sys.executable, "-c", TORCH], seconds)
    if "\n@@" in "\n" + out:
        return json.loads(("\n" + out).rsplit("\n@@", 1)[1].split("\n")[0])
    answer = dict.fromkeys(("version", "cuda", "archs", "nccl", "cuda_available", "device_count", "error"))
    if rc is None:
        answer["error"] = "import of torch did not finish within %d s" % seconds
    else:
        last = [line for line in err.splitlines() if line.strip()]
        answer["error"] = "import of torch ended with status %s%s" % (rc, ": " + last[-1] if last else "")
    return answer


def login_environment():
    argv = ["su", "-l", "root", "-c", "env"] if os.geteuid() == 0 else ["sh", "-lc", "env"]
    rc, out, _err = ask(argv, 10)
    lines = out.splitlines() if rc == 0 else ["%s=%s" % item for item in os.environ.items()]
    pairs = (line.split("=", 1) for line in lines if "=" in line)
    wanted = re.compile("^(PATH|LD_LIBRARY_PATH|LD_PRELOAD|PYTHONPATH|(CUDA|NCCL|TORCH)_.*)$")
    return {name: value for name, value in pairs if wanted.match(name)}


def pip_config():
    pip = [sys.executable, "-m", "pip", "--no-input", "--disable-pip-version-check"]
    rc, out, _err = ask(pip + ["config", "list"], 15)
    if rc != 0:
        return None
    found = {}
    for line in out.splitlines():
        name, equals, value = line.partition("=")
        if equals:
            # An index address may carry a password.
            found[name.strip()] = re.sub(r"//[^/@\s']+@", "//***@", value.strip().strip("'\""))
    return found


print(json.dumps({
    "interpreter": sys.executable,
    "python": platform.python_version(),
    "prefix": sys.prefix,
    "packages": packages(),
    "torch": torch(@TIMEOUT@),
    "env": login_environment(),
    "pip_config": pip_config(),
}))
'''.replace("@TIMEOUT@", str(TIMEOUT_S))
