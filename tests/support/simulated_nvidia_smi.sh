#!/bin/sh
# simulated nvidia-smi @VERSION@: test equipment. It prints what a bundle in /run/simulated-hardware says, probe by probe
# (see simulated_hardware.py), and without a driver there it says what the real one says then.
bundle=/run/simulated-hardware
own=@VERSION@

if ! [ -r "$bundle/nvidia_version" ]; then
	echo "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running."
	echo
	exit 9
fi
# As a package of another version than the loaded module; a stand-in without a version (see `equip`) fits any.
loaded=$(sed -n 's/^NVRM version:.* \([0-9][0-9]*\.[0-9.]*\)  .*/\1/p' "$bundle/nvidia_version")
case "$own" in
"$loaded" | @*) ;;
*)
	echo "Failed to initialize NVML: Driver/library version mismatch"
	echo "NVML library version: ${own%.*}"
	exit 18
	;;
esac
case "$*" in
"-q -x") probe=nvidia_smi_xml ;;
"topo -m") probe=nvidia_smi_topo ;;
"nvlink -s") probe=nvidia_smi_nvlink ;;
"nvlink -e") probe=nvidia_smi_nvlink_errors ;;
"topo -p2p r") probe=nvidia_smi_p2p ;;
--query-compute-apps=*" --format=csv") probe=nvidia_processes ;;
-L)
	sed -n -e 's|.*<product_name>\(.*\)</product_name>.*|\1|p' -e 's|.*<uuid>\(.*\)</uuid>.*|\1|p' "$bundle/nvidia_smi_xml" |
		sed 'N; s|\(.*\)\n\(.*\)|\1 (UUID: \2)|' | awk '{print "GPU " NR - 1 ": " $0}'
	exit 0
	;;
*)
	echo "simulated nvidia-smi: no answer to '$*'" >&2
	exit 2
	;;
esac
[ -r "$bundle/$probe" ] || exit 3
cat "$bundle/$probe"
[ -r "$bundle/$probe.err" ] && cat "$bundle/$probe.err" >&2
if [ -r "$bundle/$probe.rc" ]; then exit "$(cat "$bundle/$probe.rc")"; fi
exit 0
