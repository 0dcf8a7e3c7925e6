#!/bin/sh
# Boots the unit as it is shipped, under a systemd of its own in a Debian tree: who it runs as, its credential and state, reload,
# watchdog, restart, end. `npm run boot-test`, as root on Debian; needs systemd-container and debootstrap, and takes minutes.
#   sh test/systemd/boot.sh [TREE]      a tree of an earlier run is used again
set -eu
here=$(cd "$(dirname "$0")" && pwd)
tree=${1:-${TMPDIR:-/tmp}/fieldbridge-tree}
for program in debootstrap systemd-nspawn unshare; do
  command -v "$program" >/dev/null || { echo "boot.sh: $program is missing" >&2; exit 1; }
done
[ "$(id -u)" = 0 ] || { echo "boot.sh: run it as root" >&2; exit 1; }

if [ ! -e "$tree/usr/lib/systemd/systemd" ]; then
  rm -rf "$tree"
  echo "making a Debian tree in $tree …"
  debootstrap --variant=minbase --include=systemd,systemd-sysv,procps,curl bookworm "$tree" >"$tree.log" 2>&1 ||
    { tail -5 "$tree.log" >&2; exit 1; }
fi
install -m 0755 "$(readlink -f "$(command -v node)")" "$tree/usr/bin/node"
rm -rf "$tree/etc/fieldbridge" "$tree/var/lib/private/fieldbridge" "$tree/etc/systemd/system/fieldbridge.service.d"
sh "$here/../../packaging/install.sh" --root "$tree" >/dev/null
install -m 0755 "$here/probe.sh" "$tree/probe.sh"
cat >"$tree/etc/systemd/system/probe.service" <<'UNIT'
[Unit]
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/bin/sh /probe.sh
ExecStopPost=/bin/systemctl --no-block poweroff
UNIT
mkdir -p "$tree/etc/systemd/system/default.target.wants"
ln -sf ../probe.service "$tree/etc/systemd/system/default.target.wants/probe.service"
rm -f "$tree/probe.log"

# A runtime folder of its own: systemd-nspawn wants a memory file system there.
export SYSTEMD_NSPAWN_TMPFS_TMP=0
timeout 180 unshare -m sh -c 'mount -t tmpfs tmpfs /run && mkdir /run/systemd && exec systemd-nspawn --quiet --register=no --keep-unit --boot --directory "$1"' sh "$tree" >"$tree.console" 2>&1 ||
  { tail -20 "$tree.console" >&2; echo "boot.sh: the tree did not boot" >&2; exit 1; }
cat "$tree/probe.log"
tail -1 "$tree/probe.log" | grep -q '^all .* hold$'
