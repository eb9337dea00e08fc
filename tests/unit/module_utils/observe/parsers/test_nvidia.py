"""The NVIDIA side: odd shapes of nvidia-smi, lost and hidden GPUs, versions that differ."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest

LSPCI = "".join(
    f"0000:{bus}:00.0 3D controller [0302]: NVIDIA Corporation AD104GL [L4] [10de:27b8] (rev a1)\n"
    for bus in ("03", "04")
)
VERSION = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  575.57.08  Release Build  (x)\n"


def gpu(bus: str, body: str = "") -> str:
    return (
        f'<gpu id="00000000:{bus}:00.0"><product_name>NVIDIA L4</product_name><uuid>GPU-{bus}</uuid>'
        f"<pci><pci_device_id>27B810DE</pci_device_id></pci>{body}</gpu>"
    )


def smi(*gpus: str, driver: str = "575.57.08") -> str:
    return (
        f'<?xml version="1.0" ?>\n<nvidia_smi_log><driver_version>{driver}</driver_version>'
        f"<attached_gpus>{len(gpus)}</attached_gpus>{''.join(gpus)}</nvidia_smi_log>\n"
    )


def states(observation) -> dict[str, tuple[bool, bool | None]]:
    return {one["pci_address"][5:7]: (one["lost"], one["hidden"]) for one in observation["nvidia"]["gpus"]}


@pytest.mark.parametrize(
    "word", ["N/A", "[N/A]", "[Not Supported]", "Not Applicable", "", "[Unknown Error]", "Unknown", "-"]
)
def test_no_value_in_every_spelling(look, word):
    body = (
        f"<fb_memory_usage><total>24570 MiB</total><used>{word}</used></fb_memory_usage>"
        f"<temperature><gpu_temp>{word}</gpu_temp></temperature><serial>{word}</serial>"
        f"<mig_mode><current_mig>{word}</current_mig></mig_mode><persistence_mode>{word}</persistence_mode>"
        f"<gpu_power_readings><power_draw>{word}</power_draw></gpu_power_readings>"
        f"<ecc_errors><volatile><dram_uncorrectable>{word}</dram_uncorrectable></volatile></ecc_errors>"
    )
    (one,) = look(nvidia_smi_xml=smi(gpu("03", body)))["nvidia"]["gpus"]
    assert one["memory_mib"] == 24570
    names = ("memory_used_mib", "temperature_c", "serial", "mig_enabled", "persistence_mode", "power_w")
    assert [one[name] for name in names] == [None] * len(names)
    assert one["ecc"]["uncorrected_volatile"] is None
    assert one["lost"] is False


@pytest.mark.parametrize("group", ["clocks_event_reasons", "clocks_throttle_reasons"])
def test_reasons_under_both_names(look, group):
    tag = group[:-1]
    body = (
        f"<{group}><{tag}_gpu_idle>Not Active</{tag}_gpu_idle><{tag}_sw_power_cap>Active</{tag}_sw_power_cap>"
        f"<{tag}_hw_slowdown>Active</{tag}_hw_slowdown></{group}>"
    )
    (one,) = look(nvidia_smi_xml=smi(gpu("03", body)))["nvidia"]["gpus"]
    assert one["throttle_reasons"] == ["sw_power_cap", "hw_slowdown"]


def test_ecc_counts_of_all_generations(look):
    newest = (
        "<sram_uncorrectable_parity>1</sram_uncorrectable_parity>"
        "<sram_uncorrectable_secded>2</sram_uncorrectable_secded><dram_uncorrectable>4</dram_uncorrectable>"
    )
    middle = "<sram_uncorrectable>3</sram_uncorrectable><dram_uncorrectable>4</dram_uncorrectable>"
    oldest = "<double_bit><device_memory>7</device_memory><total>7</total></double_bit>"
    no_total = "<double_bit><device_memory>5</device_memory><l2_cache>2</l2_cache><total>N/A</total></double_bit>"
    for counts in (newest, middle, oldest, no_total):
        body = f"<ecc_errors><volatile>{counts}</volatile></ecc_errors>"
        (one,) = look(nvidia_smi_xml=smi(gpu("03", body)))["nvidia"]["gpus"]
        assert one["ecc"]["uncorrected_volatile"] == 7, counts


def test_warnings_around_the_document_are_notes(look):
    text = "\x1b[33mWARNING: infoROM is corrupted at gpu 0000:03:00.0\x1b[0m\n" + smi(gpu("03")) + "WARNING: the end\n"
    observation = look(nvidia_smi_xml=text)
    assert [one["pci_address"] for one in observation["nvidia"]["gpus"]] == ["0000:03:00.0"]
    assert observation["probes"]["nvidia_smi_xml"] == {
        "status": "ok",
        "notes": ["WARNING: infoROM is corrupted at gpu 0000:03:00.0", "WARNING: the end"],
    }


def test_declarations_are_refused(look):
    bomb = (
        '<!DOCTYPE x [<!ENTITY a "aaaa">]><nvidia_smi_log><!ENTITY b "&a;">'
        "<driver_version>&a;</driver_version></nvidia_smi_log>"
    )
    observation = look(nvidia_smi_xml=bomb)
    assert observation["probes"]["nvidia_smi_xml"]["status"] == "unreadable"
    assert observation["nvidia"]["gpus"] is None


@pytest.mark.parametrize(
    ("sentence", "gpus"),
    [
        ("No devices were found\n", []),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure\n", None),
        ("Failed to initialize NVML: Unknown Error\n", None),
    ],
)
def test_a_sentence_is_evidence(look, sentence, gpus):
    observation = look(nvidia_smi_xml=(sentence, 9))
    assert observation["nvidia"]["smi_error"] == sentence.strip()
    assert observation["probes"]["nvidia_smi_xml"]["status"] == "error"
    assert observation["nvidia"]["gpus"] == gpus


def test_lost_by_name_in_the_sentence(look):
    text = "Unable to determine the device handle for GPU0000:04:00.0: GPU is lost.  Reboot the system to recover it\n"
    observation = look(nvidia_smi_xml=(text, 15), lspci=LSPCI, nvidia_version=VERSION)
    assert states(observation) == {"03": (False, None), "04": (True, False)}


def test_missing_where_others_are_shown(look):
    assert states(look(nvidia_smi_xml=smi(gpu("03")), lspci=LSPCI)) == {"03": (False, False), "04": (True, False)}


def test_never_taken_by_the_driver_that_took_the_other(look):
    observation = look(nvidia_gpus="0000:03:00.0\n", lspci=LSPCI, nvidia_version=VERSION)
    assert states(observation) == {"03": (False, None), "04": (True, False)}


def test_excluded_by_a_parameter_is_hidden(look):
    params = 'ExcludedGpus: "GPU-0a0b0c0d-0000-0000-0000-000000000000"\n'
    observation = look(nvidia_smi_xml=smi(gpu("03")), lspci=LSPCI, nvidia_params=params)
    assert states(observation) == {"03": (False, False), "04": (False, True)}


def test_in_a_container_what_is_not_shown_is_not_lost(look):
    shown = {"nvidia_smi_xml": smi(gpu("03")), "lspci": LSPCI, "virt": "docker\n"}
    assert states(look(**shown))["04"] == (False, None)
    assert states(look(**shown, nvidia_gpus="0000:03:00.0\n"))["04"] == (False, True)
    fallen = "NVRM: Xid (PCI:0000:04:00): 79, pid=1, GPU has fallen off the bus.\n"
    assert states(look(**shown, dmesg=fallen))["04"] == (True, False)


def test_an_error_in_place_of_a_value_is_told_from_no_value(look):
    body = (
        "<fan_speed>N/A</fan_speed><temperature><gpu_temp>[Unknown Error]</gpu_temp></temperature>"
        "<clocks><sm_clock>210 MHz</sm_clock></clocks>"
    )
    (one,) = look(nvidia_smi_xml=smi(gpu("03", body)))["nvidia"]["gpus"]
    assert (one["query_errors"], one["temperature_c"], one["lost"]) == (["temperature/gpu_temp"], None, False)


def test_the_driver_lists_it_and_nvidia_smi_shows_none(look):
    observation = look(
        nvidia_smi_xml=("No devices were found\n", 6),
        lspci=LSPCI,
        nvidia_version=VERSION,
        nvidia_gpus="0000:03:00.0\n0000:04:00.0\n",
    )
    # The driver took them and cannot start them.
    assert states(observation) == {"03": (True, False), "04": (True, False)}


def test_nvidia_smi_without_an_answer_calls_nothing_lost(look):
    observation = look(
        nvidia_smi_xml=("Failed to initialize NVML: Driver/library version mismatch\n", 18),
        lspci=LSPCI,
        nvidia_version=VERSION,
        nvidia_gpus="0000:03:00.0\n0000:04:00.0\n",
    )
    assert states(observation) == {"03": (False, None), "04": (False, None)}


def test_given_to_another_driver_is_hidden(look):
    details = LSPCI.replace("(rev a1)\n", "(rev a1)\n\tKernel driver in use: vfio-pci\n")
    details = details.replace("vfio-pci", "nvidia", 1)
    observation = look(nvidia_smi_xml=smi(gpu("03")), lspci=LSPCI, lspci_vv=details)
    assert states(observation) == {"03": (False, False), "04": (False, True)}


def test_without_a_loaded_driver_nothing_is_lost(look):
    assert states(look(lspci=LSPCI)) == {"03": (False, None), "04": (False, None)}


def test_a_gpu_that_answers_with_errors_only_is_lost(look):
    vital = (
        "<fb_memory_usage><total>{0}</total><used>{0}</used></fb_memory_usage>"
        "<temperature><gpu_temp>{0}</gpu_temp></temperature><clocks><sm_clock>{0}</sm_clock></clocks>"
    )
    text = smi(
        gpu("03", vital.format("ERR!")), gpu("04", vital.format("Unknown Error").replace("Unknown Error", "40 C", 1))
    )
    assert states(look(nvidia_smi_xml=text)) == {"03": (True, False), "04": (False, False)}


LINK = "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1 -> libnvidia-ml.so."


def test_library_by_its_link_and_not_by_leftovers(look):
    text = (
        f"lrwxrwxrwx 1 root root 26 Jan  1 00:00 {LINK}575.57.08\n"
        "-rw-r--r-- 1 root root 99 Jan  1 00:00 /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.550.90.07\n"
        "-rw-r--r-- 1 root root 99 Jan  1 00:00 /usr/local/cuda-12.4/compat/libcuda.so.550.54.15\n"
        "-rwxr-xr-x 1 root root 99 Jan  1 00:00 /usr/bin/nvidia-uninstall\n"
    )
    driver = look(nvidia_libs=text)["nvidia"]["driver"]
    assert (driver["library"], driver["uninstaller"], len(driver["library_files"])) == ("575.57.08", True, 4)


def test_two_libraries_leave_the_version_open(look):
    text = (
        f"lrwxrwxrwx 1 root root 26 Jan  1 00:00 {LINK}575.57.08\n"
        "lrwxrwxrwx 1 root root 26 Jan  1 00:00 /usr/lib64/libnvidia-ml.so.1 -> libnvidia-ml.so.550.90.07\n"
    )
    observation = look(nvidia_libs=text)
    assert observation["nvidia"]["driver"]["library"] is None
    assert observation["probes"]["nvidia_libs"]["notes"] == [
        "libraries of several drivers side by side: 550.90.07, 575.57.08"
    ]


def test_a_compatibility_library_is_not_the_drivers(look):
    text = "lrwxrwxrwx 1 root root 9 Jan  1 00:00 /usr/local/cuda-12.4/compat/libcuda.so.1 -> libcuda.so.550.54.15\n"
    driver = look(nvidia_libs=text)["nvidia"]["driver"]
    assert (driver["library"], driver["library_files"]) == (None, [text.strip()])


def test_a_report_of_another_version_than_the_module_proves_no_library(look):
    driver = look(nvidia_version=VERSION, nvidia_smi_xml=smi(gpu("03"), driver="570.86.15"))["nvidia"]["driver"]
    assert (driver["module"], driver["library"]) == ("575.57.08", None)


def test_module_flavours(look):
    proprietary = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.256.02  Thu May  2 14:37:44 UTC 2024\n"
    assert look(nvidia_version=proprietary)["nvidia"]["driver"]["module_flavour"] == "proprietary"
    driver = look(nvidia_version=VERSION)["nvidia"]["driver"]
    assert (driver["module"], driver["module_flavour"]) == ("575.57.08", "open")
    # A report without the module's own file proves the version and not the flavour.
    driver = look(nvidia_smi_xml=smi(gpu("03")))["nvidia"]["driver"]
    assert (driver["module"], driver["module_flavour"], driver["library"]) == ("575.57.08", None, "575.57.08")


def test_topology_in_copies_with_blanks_and_nics_as_columns(look):
    text = (
        "        GPU0    GPU1    mlx5_0  mlx5_1  CPU Affinity    NUMA Affinity\n"
        "GPU0     X      NV4     PIX     SYS     0-31            0\n"
        "GPU1    NV4      X      SYS     PIX     32-63           N/A\n"
        "mlx5_0  PIX     SYS      X      SYS\n"
        "\nLegend:\n\n  X    = Self\n"
    )
    topology = look(nvidia_smi_topo=text)["nvidia"]["topology"]
    assert topology == {
        "gpus": {
            "GPU0": {"GPU1": "NV4", "mlx5_0": "PIX", "mlx5_1": "SYS"},
            "GPU1": {"GPU0": "NV4", "mlx5_0": "SYS", "mlx5_1": "PIX"},
        },
        "nics": {"mlx5_0": "mlx5_0", "mlx5_1": "mlx5_1"},
        "cpu_affinity": {"GPU0": "0-31", "GPU1": "32-63"},
        "numa": {"GPU0": 0, "GPU1": None},
        "p2p": None,
    }


def test_a_cut_topology_gives_whole_rows_only(look):
    text = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV6\t0-7\nGPU1\tNV"
    observation = look(nvidia_smi_topo=text)
    assert observation["nvidia"]["topology"]["gpus"] == {"GPU0": {"GPU1": "NV6"}}
    assert observation["probes"]["nvidia_smi_topo"]["notes"] == ["row GPU1 is not whole"]


def test_inactive_links(look):
    text = "GPU 0: NVIDIA L4 (UUID: GPU-03)\n\t Link 0: 25.781 GB/s\n\t Link 1: <inactive>\n"
    text = text.replace("GPU-03", "GPU-0003")
    xml = smi(gpu("03").replace("GPU-03", "GPU-0003"))
    (one,) = look(nvidia_smi_xml=xml, nvidia_smi_nvlink=text)["nvidia"]["gpus"]
    assert one["nvlink"] == {"links": 2, "links_active": 1, "link_gb_s": [25.781, None], "errors": None}


def test_errors_of_links(look):
    text = "GPU 0: NVIDIA L4 (UUID: GPU-0003)\n"
    text += "\t Link 0: Replay Errors: 0\n\t Link 0: CRC Errors: 7\n\n\t Link 1: Replay Errors: 2\n\t [...]\n"
    xml = smi(gpu("03").replace("GPU-03", "GPU-0003"))
    observation = look(nvidia_smi_xml=xml, nvidia_smi_nvlink_errors=text)
    (one,) = observation["nvidia"]["gpus"]
    assert one["nvlink"]["errors"] == {"replay": {"0": 0, "1": 2}, "crc": {"0": 7}}
    assert observation["probes"]["nvidia_smi_nvlink_errors"]["notes"] == ["[...]"]
    silent = look(nvidia_smi_xml=xml, nvidia_smi_nvlink_errors="")
    assert silent["nvidia"]["gpus"][0]["nvlink"]["errors"] is None


def test_nothing_runs(look):
    assert look(nvidia_processes="No running processes found\n")["nvidia"]["processes"] == []
    assert look(nvidia_processes="")["nvidia"]["processes"] is None


def test_lspci_without_a_domain_and_without_numbers(look):
    text = (
        "65:00.0 VGA compatible controller: NVIDIA Corporation Device 2b85 (rev a1)\n"
        "66:00.0 Ethernet controller: Intel Corporation Ethernet Controller X710 (rev 02)\n"
    )
    observation = look(lspci=text)
    assert [one["pci_id"] for one in observation["nvidia"]["gpus"]] == ["10de:2b85"]
    assert observation["probes"]["lspci"]["notes"] == ["devices without numbers: this is lspci without -nn"]
