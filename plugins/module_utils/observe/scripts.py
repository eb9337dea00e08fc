"""Small read-only shell scripts for what no single command prints; POSIX sh, so that plain SSH can run them too.

Exit status 127 means: this cannot be asked here. A script that answers several questions prints its own sections.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

#: `lspci -Dnn` without lspci: addresses, classes and ids from sysfs, no names.
LSPCI = r"""
cd /sys/bus/pci/devices 2>/dev/null || exit 127
for d in *; do
  [ -r "$d/class" ] || continue
  read -r class <"$d/class"; read -r vendor <"$d/vendor"; read -r device <"$d/device"
  class=${class#0x}; revision=00
  [ -r "$d/revision" ] && read -r revision <"$d/revision"
  printf '%s Class [%s]: Device [%s:%s] (rev %s)\n' \
    "$d" "${class%??}" "${vendor#0x}" "${device#0x}" "${revision#0x}"
done
"""

#: What systemd-detect-virt answers, where it is missing: images of containers come without it.
VIRT = r"""
if [ -e /.dockerenv ]; then echo docker; exit 0; fi
if [ -e /run/.containerenv ]; then echo podman; exit 0; fi
if [ -r /run/systemd/container ]; then read -r kind </run/systemd/container; echo "$kind"; exit 0; fi
engines='docker|containerd|kubepods|libpod|/lxc/'
if [ -n "$KUBERNETES_SERVICE_HOST" ] || grep -qE "$engines" /proc/1/cgroup 2>/dev/null; then
  echo container-other; exit 0
fi
# A node that boots from the network may have such a root too; there systemd runs.
if [ ! -d /run/systemd/system ] && grep -q '^overlay / ' /proc/mounts 2>/dev/null; then echo container-other; exit 0; fi
[ -r /proc/cpuinfo ] || exit 127
case "$(uname -m)" in
  x86_64) if grep -qE '^flags.* hypervisor( |$)' /proc/cpuinfo; then echo vm-other; else echo none; fi ;;
  *) exit 127 ;;
esac
"""

#: Installed kernels, `* ` before the one that boots next.
KERNELS = r"""
default=''; choice=''
if command -v grubby >/dev/null 2>&1; then
  default=$(grubby --default-kernel 2>/dev/null); default=${default##*/vmlinuz-}
fi
cfg=/boot/grub/grub.cfg; [ -r "$cfg" ] || cfg=/boot/grub2/grub.cfg
if [ -z "$default" ]; then
  choice=$(cat /etc/default/grub /etc/default/grub.d/*.cfg 2>/dev/null \
    | sed -n 's/^[[:space:]]*GRUB_DEFAULT=//p' | tail -n 1 | tr -d "\"'")
  next=$(sed -n 's/^next_entry=//p' /boot/grub/grubenv 2>/dev/null)
  [ "$choice" = saved ] && choice=$(sed -n 's/^saved_entry=//p' /boot/grub/grubenv 2>/dev/null)
  choice=${next:-$choice}
  case "${choice:-0}" in
    0) if [ -r "$cfg" ]; then
         default=$(grep -E '^[[:space:]]*linux(efi|16)?[[:space:]]' "$cfg" | head -n 1 \
           | sed -n 's/.*vmlinuz-\([^[:space:]]*\).*/\1/p')
       else
         # Only root reads grub.cfg here; the link names the newest, which the first entry boots.
         default=$(readlink /boot/vmlinuz || readlink /vmlinuz); default=${default##*vmlinuz-}
       fi ;;
  esac
fi
found=''
for image in /boot/vmlinuz-* /boot/vmlinux-*; do
  [ -e "$image" ] || continue
  name=${image##*/vmlinu?-}
  case "$name" in *rescue*) continue ;; esac
  # An entry is chosen by its title or by its id, and either names the kernel.
  [ -n "$default" ] || case "$choice" in *" $name"|*"-$name-advanced-"*) default=$name ;; esac
  found=yes
  if [ "$name" = "$default" ]; then printf '* %s\n' "$name"; else printf '%s\n' "$name"; fi
done
[ -n "$found" ] || exit 127
"""

#: `ls -l` of every library a driver could have left behind, wherever it lies.
NVIDIA_LIBS = r"""
found=''
for f in /usr/lib/*-linux-gnu/libnvidia-ml.so* /usr/lib/*-linux-gnu/libcuda.so* \
         /usr/lib64/libnvidia-ml.so* /usr/lib64/libcuda.so* /usr/lib/libnvidia-ml.so* /usr/lib/libcuda.so* \
         /usr/local/lib/libnvidia-ml.so* /usr/local/lib/libcuda.so* /opt/nvidia/lib*/libcuda.so* \
         /usr/lib/*-linux-gnu/nvidia/current/libcuda.so* /usr/lib/wsl/lib/libcuda.so* \
         /usr/bin/nvidia-uninstall /usr/local/cuda*/compat/*; do
  [ -e "$f" ] || [ -L "$f" ] || continue
  found=yes
  ls -ld "$f"
done
[ -n "$found" ] || exit 127
"""

#: `keyring FINGERPRINT uid` of every key apt may trust. gpg is told to write nothing.
APT_KEYS = r"""
command -v gpg >/dev/null 2>&1 || exit 127
for f in /etc/apt/trusted.gpg /etc/apt/trusted.gpg.d/* /etc/apt/keyrings/* /usr/share/keyrings/*; do
  [ -r "$f" ] && [ -f "$f" ] || continue
  gpg --batch --no-options --no-autostart --no-keyring --no-permission-warning --trust-model always --lock-never \
      --homedir /proc --show-keys --with-colons "$f" 2>/dev/null \
    | awk -F: -v keyring="$f" '$1 == "pub" { want = 1; fingerprint = "" }
        $1 == "fpr" && want == 1 { fingerprint = $10; want = 2 }
        $1 == "uid" && want == 2 { print keyring, fingerprint, $10; want = 0 }'
done
"""

#: Policy of everything installed that belongs to the GPU family. ($1 is the family, an extended pattern.)
APT_POLICY = r"""
command -v apt-cache >/dev/null 2>&1 || exit 127
names=$(dpkg-query -W -f '${Package}\n' 2>/dev/null | grep -E "$1" | sort -u)
[ -n "$names" ] || exit 0
apt-cache policy $names
"""

#: The end of the newest make.log of a DKMS build that did not finish (a finished build moves its log away).
DKMS_LOG = r"""
newest=''
for f in /var/lib/dkms/*/*/build/make.log; do
  [ -f "$f" ] || continue
  if [ -z "$newest" ] || [ "$f" -nt "$newest" ]; then newest=$f; fi
done
[ -n "$newest" ] || exit 127
tail -n 200 "$newest"
"""

#: The table of show_gids, from sysfs, for nodes without that script.
GIDS = r"""
[ -d /sys/class/infiniband ] || exit 127
printf 'DEV\tPORT\tINDEX\tGID\tIPv4\tVER\tDEV\n'
for d in /sys/class/infiniband/*; do
  for p in "$d"/ports/*; do
    for g in "$p"/gids/*; do
      gid=''; read -r gid <"$g" 2>/dev/null
      case "$gid" in ''|0000:0000:0000:0000:0000:0000:0000:0000) continue ;; esac
      case "$gid" in fe80:0000:0000:0000:0000:0000:0000:0000) continue ;; esac
      n=${g##*/}; type=''; netdev=''; version=''; four=''
      read -r type <"$p/gid_attrs/types/$n" 2>/dev/null
      read -r netdev <"$p/gid_attrs/ndevs/$n" 2>/dev/null
      case "$type" in *v2*) version=v2 ;; *v1*|*'IB/RoCE'*) version=v1 ;; esac
      case "$gid" in
        0000:0000:0000:0000:0000:ffff:*)
          tail=${gid#0000:0000:0000:0000:0000:ffff:}; high=${tail%%:*}; low=${tail##*:}
          four=$(printf '%d.%d.%d.%d' "0x${high%??}" "0x${high#??}" "0x${low%??}" "0x${low#??}") ;;
      esac
      printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "${d##*/}" "${p##*/}" "$n" "$gid" "$four" "$version" "$netdev"
    done
  done
done
"""

#: `DEVICE/PORT COUNTER VALUE` of each named counter that a port has ($@ are the names), and of its interface.
RDMA_COUNTERS = r"""
cd /sys/class/infiniband 2>/dev/null || exit 127
for p in */ports/*; do
  d=${p%%/*}
  for n in "$@"; do
    for f in "$p/counters/$n" "$p/hw_counters/$n" "$d"/device/net/*/"$n"; do
      value=''; [ -r "$f" ] && read -r value <"$f" 2>/dev/null
      [ -n "$value" ] && printf '%s/%s %s %s\n' "$d" "${p##*/}" "$n" "$value"
    done
  done
done
exit 0
"""

#: Where each RDMA device hangs: its link names the PCI functions above it.
RDMA_LINKS = r"""
[ -d /sys/class/infiniband ] || exit 127
ls -l /sys/class/infiniband
"""

#: The RDMA devices that are virtual functions, one a line.
RDMA_VIRTUAL = r"""
cd /sys/class/infiniband 2>/dev/null || exit 127
for d in *; do [ -e "$d/device/physfn" ] && printf '%s\n' "$d"; done
exit 0
"""

#: One section a Mellanox function: its firmware settings.
MLXCONFIG = r"""
command -v mlxconfig >/dev/null 2>&1 || exit 127
for d in /sys/class/infiniband/mlx5_*; do
  [ -e "$d/device" ] || continue
  address=$(readlink -f "$d/device"); address=${address##*/}
  text=$(mlxconfig -d "$address" q 2>&1); rc=$?
  if [ "$rc" -eq 0 ]; then end=''; else end=" exit $rc"; fi
  printf '==> mlxconfig -d %s q <==%s\n%s\n\n' "$address" "$end" "$text"
done
"""

#: RoCE settings, one section a question.
ROCE_QOS = r"""
[ -d /sys/class/infiniband ] || exit 127
for d in /sys/class/infiniband/*; do
  layer=''; read -r layer <"$d/ports/1/link_layer" 2>/dev/null
  [ "$layer" = Ethernet ] || continue
  for n in "$d"/device/net/*; do
    [ -e "$n" ] && command -v mlnx_qos >/dev/null 2>&1 || continue
    printf '==> mlnx_qos -i %s <==\n' "${n##*/}"; mlnx_qos -i "${n##*/}" 2>&1; echo
  done
  command -v cma_roce_tos >/dev/null 2>&1 || continue
  printf '==> cma_roce_tos -d %s <==\n' "${d##*/}"; cma_roce_tos -d "${d##*/}" 2>&1; echo
done
"""

#: `numactl --hardware` without numactl.
NUMA = r"""
cd /sys/devices/system/node 2>/dev/null || exit 127
for d in node[0-9]*; do
  [ -r "$d/cpulist" ] || continue
  read -r cpus <"$d/cpulist"
  printf 'node %s cpus: %s\n' "${d#node}" "$cpus"
  sed -n 's/^Node \([0-9]*\) MemTotal: *\([0-9]*\) kB$/\1 \2/p' "$d/meminfo" \
    | while read -r node size; do printf 'node %s size: %s MB\n' "$node" "$((size / 1024))"; done
done
"""

#: The environment of a login: only names that matter here, never a secret.
LOGIN_ENV = r"""
shell=$(getent passwd "$(id -un)" 2>/dev/null); shell=${shell##*:}
case "$shell" in */bash|*/sh|*/dash|*/zsh|*/ksh) ;; *) shell=/bin/sh ;; esac
if [ "$(id -u)" = 0 ] && command -v su >/dev/null 2>&1; then set -- su -l root -c env; else set -- "$shell" -lc env; fi
"$@" </dev/null 2>/dev/null \
  | grep -E '^(PATH|LD_LIBRARY_PATH|LD_PRELOAD|PYTHONPATH|(CUDA|NCCL|TORCH|NVIDIA|UCX|OMPI|GLOO|OMP|MLX5)[A-Z0-9_]*)='
"""

#: Limits of a fresh login session, by the way the session is opened.
LOGIN_LIMITS = r"""
if [ "$(id -u)" = 0 ] && command -v su >/dev/null 2>&1; then su -l root -c 'cat /proc/self/limits' </dev/null
else sh -lc 'cat /proc/self/limits' </dev/null; fi
"""

#: Limits that the SSH daemon hands to what it starts, before any session changes them.
SSHD_LIMITS = r"""
for unit in ssh.service sshd.service; do
  pid=$(systemctl show -p MainPID "$unit" 2>/dev/null); pid=${pid#MainPID=}
  if [ -n "$pid" ] && [ "$pid" != 0 ] && [ -r "/proc/$pid/limits" ]; then cat "/proc/$pid/limits"; exit 0; fi
done
exit 127
"""

#: Pythons that an environment could be made with: real path and version, first the one of the login's PATH.
INTERPRETERS = r"""
ask='import os, sys; b = getattr(sys, "_base_executable", None) or sys.executable
print(os.path.realpath(b), "%d.%d.%d" % sys.version_info[:3])'
for p in "$(command -v python3)" "$@" /usr/bin/python3 /usr/bin/python3.[0-9] /usr/bin/python3.[0-9][0-9] \
         /usr/local/bin/python3.[0-9] /usr/local/bin/python3.[0-9][0-9] \
         "$HOME"/.pyenv/versions/3.*/bin/python3 "$HOME"/.local/share/uv/python/cpython-3.*/bin/python3; do
  if [ -x "$p" ]; then "$p" -I -S -c "$ask" 2>/dev/null </dev/null; fi
done | awk '!seen[$1]++'
"""

#: The lines of the container device interface's file that name libcuda; none is an answer.
CDI_LIBCUDA = r"""
[ -e /etc/cdi/nvidia.yaml ] || exit 127
grep -h libcuda /etc/cdi/nvidia.yaml || [ $? -eq 1 ]
"""
