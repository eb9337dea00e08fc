"""Which packages a resolution means, from what is on offer. The traps are those of real repositories."""

from __future__ import annotations

import pytest
from ansible_collections.trainrig.gpu.plugins.module_utils.lock import packages
from ansible_collections.trainrig.gpu.plugins.module_utils.lock.apt_output import File, Offer
from ansible_collections.trainrig.gpu.plugins.module_utils.lock.packages import Choice, NotOfferedError
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import load

OWN, OTHER = "http://gpu/ubuntu2404/x86_64", "http://distro/ubuntu"
TABLE = load("packages")
FAMILIES = load("families")


def offers(uri=OWN, **versions):
    return {name.replace("_", "-"): [Offer(version, uri) for version in found] for name, found in versions.items()}


def resolution(names, driver="580.95.05", toolkit="13.0u2", **more):
    return {
        "driver": {"version": driver, "branch": driver.split(".")[0], "module": "open"},
        "packages": names,
        "cuda": "13.0",
        "cuda_toolkit": toolkit,
        "system_nccl": None,
        "container_toolkit": None,
        "origin": "nvidia",
        "kernel": None,
        **more,
    }


def chosen(names, on_offer, **more):
    return [tuple(one)[:3] for one in packages.choices(resolution(names, **more), on_offer, TABLE, [OWN])]


def test_the_newest_driver_of_which_every_package_is_there():
    on_offer = offers(a=["580.126.09-1", "580.95.05-1", "575.57.08-1"], b=["580.95.05-1ubuntu1", "580.82.07-1"])
    assert packages.driver_versions(["a", "b"], on_offer, "580") == ["580.95.05"]
    assert packages.driver_versions(["a"], on_offer, "580") == ["580.126.09", "580.95.05"]
    assert packages.driver_versions(["a", "c"], on_offer, "580") == []
    assert packages.driver_versions([], on_offer, "580") == []


def test_fabric_manager_is_of_the_driver_s_patch_level_or_refused():
    names = {"driver": ["nvidia-open"], "fabric_manager": ["nvidia-fabricmanager"]}
    driver = offers(nvidia_open=["580.126.09-1", "580.95.05-1"])
    both = {**driver, **offers(nvidia_fabricmanager=["580.126.09-1", "580.95.05-1"])}
    assert chosen(names, both) == [
        ("driver", "nvidia-open", "580.95.05-1"),
        ("nvlink", "nvidia-fabricmanager", "580.95.05-1"),
    ]
    with pytest.raises(NotOfferedError, match=r"nvidia-fabricmanager 580\.95\.05 is not on offer: .* 580\.126\.09-1"):
        chosen(names, {**driver, **offers(nvidia_fabricmanager=["580.126.09-1"])})


def test_what_is_welcome_and_not_needed():
    names = {
        "driver": ["nvidia-open"],
        "driver_pin": ["nvidia-driver-pinning-580.95.05"],
        "container_toolkit": ["ct"],
    }
    alone = offers(nvidia_open=["580.95.05-1"])
    assert chosen(names, alone) == [("driver", "nvidia-open", "580.95.05-1")]
    with pytest.raises(NotOfferedError, match=r"ct 1\.17\.8 is not on offer: nvidia has nothing of that name"):
        chosen(names, alone, container_toolkit="1.17.8")
    both = {**alone, **offers(ct=["1.18.0-1", "1.17.8-1"])}
    assert chosen(names, both)[1:] == [("containers", "ct", "1.18.0-1")]
    assert chosen(names, both, container_toolkit="1.17.8")[1:] == [("containers", "ct", "1.17.8-1")]


@pytest.mark.parametrize(
    ("built", "toolkit", "taken"),
    [
        (["2.27.7-1+cuda13.0", "2.27.7-1+cuda12.9"], "13.0u2", "2.27.7-1+cuda13.0"),
        (["2.27.7-1+cuda13.0", "2.27.7-1+cuda12.9"], "12.8", "2.27.7-1+cuda12.9"),
        (["2.27.7-1+cuda12.9", "2.27.7-1+cuda12.4"], "12.8", "2.27.7-1+cuda12.9"),
        (["2.27.7-1+cuda12.4", "2.28.3-1+cuda12.9"], "12.8", "2.27.7-1+cuda12.4"),
        (["2.27.7-1-1"], "12.4u1", "2.27.7-1-1"),
    ],
)
def test_the_build_of_nccl_for_the_toolkit(built, toolkit, taken):
    names = {"nccl": ["libnccl2"]}
    found = chosen(names, offers(libnccl2=built), toolkit=toolkit, system_nccl="2.27.7")
    assert found == [("nccl", "libnccl2", taken)]


def test_nccl_of_another_cuda_major_is_none():
    with pytest.raises(NotOfferedError, match=r"libnccl2 2\.27\.7 is not on offer"):
        chosen({"nccl": ["libnccl2"]}, offers(libnccl2=["2.27.7-1+cuda13.0"]), toolkit="12.8", system_nccl="2.27.7")


def test_a_toolkit_whose_name_says_no_version():
    names = {"cuda_toolkit": ["nvidia-cuda-toolkit"]}
    found = chosen(names, offers(nvidia_cuda_toolkit=["12.4.131~12.4.1-2"]), toolkit="12.4u1")
    assert found == [("cuda", "nvidia-cuda-toolkit", "12.4.131~12.4.1-2")]
    with pytest.raises(NotOfferedError):
        chosen(names, offers(nvidia_cuda_toolkit=["12.2.140~12.2.2-1"]), toolkit="12.4u1")


def test_a_companion_of_the_distribution_beside_a_driver_of_nvidia_s():
    names = {"subnet_manager": ["nvlsm", "infiniband-diags"]}
    both = {**offers(nvlsm=["2025.10.12-1"]), **offers(OTHER, infiniband_diags=["50.0-2"])}
    found = [("nvlink", "nvlsm", "2025.10.12-1"), ("nvlink", "infiniband-diags", "50.0-2")]
    assert chosen(names, both) == found
    with pytest.raises(NotOfferedError, match="nvlsm in any version is not on offer: nvidia has nothing"):
        chosen(names, offers(OTHER, nvlsm=["1-1"], infiniband_diags=["50.0-2"]))
    with pytest.raises(NotOfferedError, match="infiniband-diags in any version is not on offer: distro has nothing"):
        chosen(names, offers(nvlsm=["2025.10.12-1"], infiniband_diags=["50.0-2"]))


KERNEL = "6.8.0-99-generic"
KERNEL_NAMES = {"kernel": [f"linux-image-{KERNEL}", f"linux-headers-{KERNEL}"]}


def kernels(*releases, uri=OTHER, parts=("image", "headers")):
    return {f"linux-{part}-{release}": [Offer("6.8.0-1.1", uri)] for release in releases for part in parts}


@pytest.mark.parametrize(("origin", "uri"), [("nvidia", OTHER), ("distro", OWN)])
def test_a_kernel_is_the_distribution_s(origin, uri):
    on_offer = kernels(KERNEL, "6.8.0-98-generic", uri=uri)
    assert chosen(KERNEL_NAMES, on_offer, kernel=KERNEL, origin=origin) == [
        ("driver", f"linux-image-{KERNEL}", "6.8.0-1.1"),
        ("driver", f"linux-headers-{KERNEL}", "6.8.0-1.1"),
    ]


def test_a_kernel_that_is_not_on_offer():
    near = ["6.8.0-98-generic", "6.8.0-40-generic", "6.5.0-99-generic"]
    on_offer = {
        **kernels(*near, "6.8.0-98-lowlatency"),
        **kernels("6.8.0-99-lowlatency", parts=["image"]),  # no headers: no module can be built for it
        **kernels("6.8.0-99-generic-dbg", parts=["image"]),
        f"linux-image-{KERNEL}": [],
    }
    with pytest.raises(NotOfferedError) as error:
        chosen(KERNEL_NAMES, on_offer, kernel=KERNEL)
    assert str(error.value).startswith(f"trainrig_stack.kernel: {KERNEL}: this kernel is not on offer")
    assert f"(linux-image-{KERNEL} is missing); nearest to it: {', '.join(near)}, 6.8.0-98-lowlatency." in str(
        error.value
    )
    assert "To fix it: declare one of these" in str(error.value)


def test_a_kernel_without_its_headers_and_without_any_other():
    with pytest.raises(
        NotOfferedError, match=rf"linux-headers-{KERNEL} is missing.*: nothing\. To fix it: use a mirror"
    ):
        chosen(KERNEL_NAMES, kernels(KERNEL, parts=["image"]), kernel=KERNEL)


def test_what_is_looked_up():
    names = ["linux-image-6.5.0-1-generic", "linux-image-generic", "linux-headers-6.5.0-1", "zsh"]
    with_kernel = resolution({"nccl": ["libnccl2"], **KERNEL_NAMES}, kernel=KERNEL)
    assert packages.asked(with_kernel, names) == ["libnccl2", *KERNEL_NAMES["kernel"], names[0], names[2]]
    assert packages.asked(resolution({"nccl": ["libnccl2"]}), names) == ["libnccl2"]


def pins(text):
    """name -> (what, priority)"""
    found = {}
    for block in text.strip().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines())
        for name in fields["Package"].split():
            found[name] = (fields["Pin"], fields["Pin-Priority"])
    return found


def test_preferences_leave_one_version():
    family = {
        **offers(nvidia_open=["580.126.09-1", "580.95.05-1"], libnvidia_gl=["580.126.09-1", "580.95.05-1"]),
        **offers(nvidia_open_570=["570.172.08-1"], nvidia_kernel_common=["20240109+1"]),
        **offers(OTHER, nvidia_driver_580_server=["580.126.09-0ubuntu1"]),
        "libnvidia-cfg": [Offer("580.95.05-0ubuntu1", OTHER), Offer("580.126.09-1", OWN)],
    }
    choice = [Choice("driver", "nvidia-open", "580.95.05-1")]
    found = pins(packages.preferences(choice, family, "580.95.05", [OWN], companions=False))
    assert found == {
        "nvidia-open": ("version 580.95.05-1", "1001"),
        "libnvidia-gl": ("version 580.95.05-1", "1001"),
        "nvidia-open-570": ("release *", "-1"),
        "nvidia-driver-580-server": ("release *", "-1"),
        "libnvidia-cfg": ("release *", "-1"),  # the wished origin has another patch level only
    }


def test_a_distribution_s_own_tools_may_be_older():
    family = offers(nvidia_driver=["535.261.03-1"], nvidia_persistenced=["535.171.04-1"], nvidia_tesla=["470.256.02-1"])
    found = pins(packages.preferences([], family, "535.261.03", [OWN], companions=True))
    assert "nvidia-persistenced" not in found
    assert found["nvidia-tesla"] == ("release *", "-1")
    assert (
        pins(packages.preferences([], family, "535.261.03", [OWN], companions=False))["nvidia-persistenced"][1] == "-1"
    )


def file(name, version="1", uri=f"{OTHER}/pool/x.deb"):
    return File(name, version, "amd64", uri, 5, "ab" * 32)


def test_what_is_pinned():
    origins = {f"{OWN}/": ("nvidia", True), f"{OTHER}/": ("ubuntu", False)}
    found = [
        file("cuda-nvcc-13-0", uri=f"{OWN}/cuda.deb"),
        file("libnvidia-ml1", "550-1"),
        file("libcudart12"),
        file("toolkit"),
        file("libc6"),
    ]
    records = [{"Package": one.name} for one in found]
    records[2]["Source"], records[3]["Source"] = "toolkit-source (1.0)", "toolkit-source"
    records[3]["Installed-Size"] = "3"
    brought = {"": "cuda", "libnvidia-ml1": "driver", "libc6": "driver"}
    rows = packages.rows(found, records, [Choice("cuda", "toolkit", "1")], origins, FAMILIES, brought)
    assert [row["layer"] for row in rows] == ["cuda", "driver", "cuda", "cuda", "driver"]
    assert [row["installed_size"] for row in rows] == [0, 0, 0, 3072, 0]
    assert {row["name"]: row["pin"] for row in rows} == {
        "cuda-nvcc-13-0": True,
        "libnvidia-ml1": True,
        "libcudart12": True,
        "toolkit": True,
        "libc6": False,
    }
    assert [row["origin"] for row in rows[:2]] == ["nvidia", "ubuntu"]


def test_what_stands_alone_is_pinned_alone():
    origins = {f"{OTHER}/": ("ubuntu", False)}
    found = [file("linux-image-6.8.0-99-generic"), file("linux-libc-dev")]
    records = [{"Package": one.name, "Source": "linux"} for one in found]
    kernel = Choice("driver", "linux-image-6.8.0-99-generic", "1", alone=True)
    rows = packages.rows(found, records, [kernel], origins, FAMILIES, {"": "driver"})
    assert [row["pin"] for row in rows] == [True, False]


def test_what_has_to_go():
    family = {
        **offers(
            nvidia_open=["580.95.05-1", "575.57.08-1"], nvidia_open_570=["570.172.08-1"], nvidia_tool=["20240109"]
        ),
        "linux-modules-nvidia-570-server-6.8.0-40-generic": [Offer("6.8.0-40.40", OTHER)],
        "linux-objects-nvidia-570-server": [Offer("570.172.08-1", OTHER)],
    }
    locked = [{"name": "nvidia-open", "pin": True}]
    assert packages.siblings(locked, family, "580.95.05") == ["nvidia-open-570"]
    assert packages.siblings(locked, family, None) == []


def test_conflicts_of_what_is_pinned():
    locked = [{"name": "a", "pin": True}, {"name": "b", "pin": True}, {"name": "c", "pin": False}]
    locked.append({"name": "linux-image-6.1.0-47-amd64", "pin": True})
    records = [
        {"Package": "linux-image-6.1.0-47-amd64", "Breaks": "wireless-regdb (<< 2019)"},
        {"Package": "a", "Conflicts": "b, old-a (<< 2)", "Breaks": "older"},
        {"Package": "c", "Conflicts": "whatever"},
    ]
    assert packages.conflicts(locked, records) == ["old-a", "older"]
