"""Units, module options, NCCL's files, paths, compilers, limits, containers."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest

UNITS = """\
Id=nvidia-fabricmanager.service
LoadState=loaded
ActiveState=failed
SubState=failed
UnitFileState=enabled
Result=exit-code
ConditionResult=yes
LimitMEMLOCK=8388608
DevicePolicy=closed
DeviceAllow=char-nvidia rw
DeviceAllow=/dev/infiniband/uverbs0 rw

Id=docker.service
LoadState=not-found
ActiveState=inactive
SubState=dead
UnitFileState=
Result=success
ConditionResult=no
LimitMEMLOCK=infinity
"""


def test_units(look):
    observed = look(units=UNITS)
    manager, docker = observed["units"]["nvidia-fabricmanager.service"], observed["units"]["docker.service"]
    assert (manager["load"], manager["active"], manager["enabled"], manager["result"]) == (
        *("loaded", "failed", "enabled", "exit-code"),
    )
    assert manager["properties"]["LimitMEMLOCK"] == "8388608"
    assert manager["properties"]["DeviceAllow"] == "char-nvidia rw, /dev/infiniband/uverbs0 rw"
    assert (docker["load"], docker["enabled"], docker["condition_result"]) == ("not-found", None, "no")


def test_units_whose_empty_lines_got_lost(look):
    assert look(units=UNITS.replace("\n\n", "\n"))["units"] == look(units=UNITS)["units"]


def test_units_without_systemd(look):
    observed = look(units=("", 1, "System has not been booted with systemd as init system (PID 1). Can't operate.\n"))
    assert observed["units"] is None


MODPROBE = """\
==> /etc/modprobe.d/blacklist-nouveau.conf <==
# from the vendor
blacklist nouveau
options nvidia NVreg_OpenRmEnableUnsupportedGpus=1 \\
  NVreg_EnableGpuFirmware=0
install nova-core /bin/false

==> /etc/modules-load.d/peermem.conf <==
; comment
nvidia-peermem
"""


def test_modprobe(look):
    configuration = look(modprobe=MODPROBE)["configuration"]
    assert [(one["directive"], one["module"], one["arguments"]) for one in configuration["modprobe_directives"]] == [
        ("blacklist", "nouveau", ""),
        ("options", "nvidia", "NVreg_OpenRmEnableUnsupportedGpus=1 NVreg_EnableGpuFirmware=0"),
        ("install", "nova_core", "/bin/false"),
        ("load", "nvidia_peermem", ""),
    ]
    assert configuration["modprobe"]["/etc/modules-load.d/peermem.conf"] == "; comment\nnvidia-peermem\n"


def test_nccl_conf_as_nccl_reads_it(look):
    text = (
        '==> /etc/nccl.conf <==\n# ours\nNCCL_DEBUG=WARN\nNCCL_SOCKET_IFNAME==ens1f0\nNCCL_IB_HCA="mlx5"\n'
        "export NCCL_P2P_DISABLE=1\nNCCL_TOPO\n\n==> ~/.nccl.conf <==\n"
    )
    observed = look(nccl_conf=text)
    assert observed["configuration"]["nccl_conf"] == {
        "/etc/nccl.conf": {"NCCL_DEBUG": "WARN", "NCCL_SOCKET_IFNAME": "=ens1f0", "NCCL_IB_HCA": '"mlx5"'},
        "~/.nccl.conf": {},
    }
    assert len(observed["probes"]["nccl_conf"]["notes"]) == 2


ENV_PATHS = """\
==> /etc/environment <==
NCCL_P2P_DISABLE="1"
PATH=/usr/bin

==> /etc/profile.d/cuda.sh <==
#!/bin/sh
export LD_LIBRARY_PATH=/usr/local/cuda/lib64:$LD_LIBRARY_PATH # all of it
export CUDA_HOME='/usr/local/cuda' ; export X
if [ -d /x ]; then

==> /etc/ld.so.conf.d/cuda.conf <==
# CUDA
/usr/local/cuda/lib64
/usr/local/cuda/lib64/stubs

==> login: env <==
LD_LIBRARY_PATH=/opt/a;b # c

==> ldconfig -p <==
2 libs found in cache `/etc/ld.so.cache'
\tlibcuda.so.1 (libc6,x86-64) => /usr/local/cuda-12.8/compat/libcuda.so.1
\tlibcuda.so.1 (libc6,x86-64, OS ABI: Linux 3.2.0) => /lib/x86_64-linux-gnu/libcuda.so.1
"""


def test_env_paths(look):
    configuration = look(env_paths=ENV_PATHS)["configuration"]
    assert [(one["file"].rpartition("/")[2], one["name"], one["value"]) for one in configuration["variables"]] == [
        ("environment", "NCCL_P2P_DISABLE", "1"),
        ("environment", "PATH", "/usr/bin"),
        ("cuda.sh", "LD_LIBRARY_PATH", "/usr/local/cuda/lib64:$LD_LIBRARY_PATH"),
        ("cuda.sh", "CUDA_HOME", "/usr/local/cuda"),
        ("login: env", "LD_LIBRARY_PATH", "/opt/a;b # c"),
    ]
    assert [one["path"] for one in configuration["library_paths"]] == [
        *("/usr/local/cuda/lib64", "/usr/local/cuda/lib64/stubs"),
    ]
    assert [one["path"] for one in configuration["libraries"]] == [
        *("/usr/local/cuda-12.8/compat/libcuda.so.1", "/lib/x86_64-linux-gnu/libcuda.so.1"),
    ]
    assert configuration["environment"]["login: env"].startswith("LD_LIBRARY_PATH=")


def test_env_paths_tells_nothing_found_from_not_asked(look):
    configuration = look(env_paths="==> /etc/environment <==\n")["configuration"]
    assert configuration["variables"] == [] and configuration["libraries"] is None


@pytest.mark.parametrize(
    ("gcc", "release"),
    [
        ("gcc (Debian 12.2.0-14+deb12u1) 12.2.0", "12.2.0"),
        ("gcc (GCC) 11.5.0 20240719 (Red Hat 11.5.0-5)", "11.5.0"),
        ("x86_64-linux-gnu-gcc-13 (Ubuntu 13.3.0-6ubuntu2~24.04) 13.3.0", "13.3.0"),
        ("gcc 9.4.0", "9.4.0"),
    ],
)
def test_gcc(look, gcc, release):
    assert look(compilers=f"==> gcc --version <==\n{gcc}\nCopyright\n")["configuration"]["compilers"]["gcc"] == release


@pytest.mark.parametrize(
    ("version", "release"),
    [
        (
            "Linux version 6.8.0-52-generic (b@b) (x86_64-linux-gnu-gcc-13 (Ubuntu 13.3.0-6) 13.3.0, GNU ld)",
            "13.3.0",
        ),
        ("Linux version 5.4.0-42-generic (b@b) (gcc version 9.3.0 (Ubuntu 9.3.0-10ubuntu2)) #46-Ubuntu", "9.3.0"),
        (
            "Linux version 5.14.0-503.el9.x86_64 (m@b) (gcc (GCC) 11.5.0 20240719 (Red Hat 11.5.0-2), GNU)",
            "11.5.0",
        ),
        ("Linux version 6.12 (b@b) (clang version 19.1.0, LLD 19)", "19.1.0"),
    ],
)
def test_compiler_of_the_kernel(look, version, release):
    compilers = look(compilers=f"==> /proc/version <==\n{version}\n")["configuration"]["compilers"]
    assert compilers == {"gcc": None, "nvcc": None, "kernel": release}


def test_nvcc(look):
    text = "==> nvcc --version <==\nnvcc: NVIDIA (R) driver\nCuda compilation tools, release 12.8, V12.8.93\n"
    assert look(compilers=text)["configuration"]["compilers"]["nvcc"] == "12.8.93"


LIMITS = """\
==> login: /proc/self/limits <==
Limit                     Soft Limit           Hard Limit           Units
Max cpu time              unlimited            unlimited            seconds
Max locked memory         8388608              unlimited            bytes
Max nice priority         0                    0

==> sshd child: /proc/self/limits <== exit 1

==> /etc/security/limits.d/10-rdma.conf <==
# RDMA
*       soft    memlock   unlimited
@gpu  - nofile 1048576 # many
nonsense
"""


def test_limits(look):
    observed = look(limits=LIMITS)
    limits = observed["limits"]
    assert limits["login"]["Max locked memory"]["soft"] == "8388608"
    assert limits["login"]["Max locked memory"]["hard"] == "unlimited"
    assert limits["login"]["Max nice priority"]["unit"] == ""
    assert limits["sshd_child"] is None
    assert [(one["domain"], one["type"], one["item"], one["value"]) for one in limits["entries"]] == [
        ("*", "soft", "memlock", "unlimited"),
        ("@gpu", "-", "nofile", "1048576"),
    ]
    assert observed["probes"]["limits"]["notes"] == [
        "cannot be read: /etc/security/limits.d/10-rdma.conf: nonsense",
    ]


DOCKER = """\
==> docker version <==
Client: Docker Engine - Community
 Version:           27.5.1
 API version:       1.47

Server: Docker Engine - Community
 Engine:
  Version:          28.0.4
  API version:      1.48 (minimum version 1.24)
 containerd:
  Version:          1.7.25

==> /etc/docker/daemon.json <==
{"data-root": "/nvme/docker", "runtimes": {"nvidia": {"path": "nvidia-container-runtime", "args": []}}}

==> nvidia-ctk --version <==
NVIDIA Container Toolkit CLI version 1.17.8
commit: f202b80a9b9d0db00d9b1d73c0128c8962c55f4d

==> snap list docker <==
Name    Version  Rev   Tracking       Publisher   Notes
docker  28.1.1   3265  latest/stable  canonical** -
"""


def test_containers(look):
    containers = look(containers=DOCKER)["containers"]
    assert containers["docker_version"] == "28.0.4" and containers["docker_error"] is None
    assert containers["daemon_json"]["data-root"] == "/nvme/docker"
    assert containers["nvidia_ctk"] == "1.17.8"
    assert containers["snap_docker"] is True


@pytest.mark.parametrize(
    ("text", "config", "error"),
    [
        ("{}\n", {}, None),
        ("", {}, None),
        ('{"a": 1,}\n', None, "/etc/docker/daemon.json: "),
        ("[1]\n", None, "/etc/docker/daemon.json: not a JSON object"),
    ],
)
def test_daemon_json(look, text, config, error):
    containers = look(containers=f"==> /etc/docker/daemon.json <==\n{text}")["containers"]
    assert containers["daemon_json"] == config
    assert (containers["daemon_json_error"] or "").startswith(error or "")
    assert (containers["daemon_json_error"] is None) == (error is None)


def test_containers_without_a_daemon(look):
    text = "==> docker version <== exit 1\nClient:\n Version:           28.2.2\n\n==> snap list docker <== exit 1\n"
    containers = look(containers=(text, 1, "docker version: Cannot connect to the Docker daemon at unix:///x.\n"))[
        "containers"
    ]
    assert containers["docker_version"] == "28.2.2"
    assert containers["docker_error"] == "Cannot connect to the Docker daemon at unix:///x."
    assert containers["daemon_json"] is None and containers["snap_docker"] is False


def test_docker_in_one_line(look):
    text = "==> docker version <==\nDocker version 27.0.3, build 7d4bcd8\n"
    assert look(containers=text)["containers"]["docker_version"] == "27.0.3"


def test_cdi(look):
    text = (
        '==> nvidia-ctk cdi list <==\ntime="2026-01-01T00:00:00Z" level=info msg="Found 2 CDI devices"\n'
        "nvidia.com/gpu=0\nnvidia.com/gpu=all\n\n"
        "==> libcuda in /etc/cdi/nvidia.yaml <==\n      hostPath: /usr/lib/x86_64-linux-gnu/libcuda.so.580.82.07\n"
    )
    containers = look(cdi=text)["containers"]
    assert containers["cdi_devices"] == ["nvidia.com/gpu=0", "nvidia.com/gpu=all"]
    assert containers["cdi_libcuda"] == ["hostPath: /usr/lib/x86_64-linux-gnu/libcuda.so.580.82.07"]


@pytest.mark.parametrize("probe", ["modprobe", "nccl_conf", "env_paths", "hosts"])
def test_text_without_a_section_is_unreadable(look, probe):
    assert look(**{probe: "blacklist nouveau\n"})["probes"][probe]["status"] == "unreadable"
