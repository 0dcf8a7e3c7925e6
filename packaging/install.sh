#!/bin/sh
# Installs fieldbridge as a service of systemd. As root, from a clone or with a package:
#   sh packaging/install.sh [--serial] [--root FOLDER] [fieldbridge-VERSION.tgz]
# --serial: the service may use serial lines. --root: into another tree, in which nothing is started.
# What stands in /etc/fieldbridge already stays as it is. Run again, it installs the newer version.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=""
serial=no
package=""
while [ $# -gt 0 ]; do
  case "$1" in
    --serial) serial=yes ;;
    --root) root=${2:?--root needs a folder}; shift ;;
    -*) echo "install.sh: unknown option $1" >&2; exit 2 ;;
    *) package=$1 ;;
  esac
  shift
done

fail() { echo "install.sh: $1" >&2; exit 1; }
[ -n "$root" ] || [ "$(id -u)" = 0 ] || fail "run it as root"
node=$(command -v node) || fail "Node.js 20.19 to 24 is needed; install it for the whole system first"
"$node" -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)' ||
  fail "Node.js 20.19 to 24 is needed; this is $("$node" --version)"
# The service sees no home folders.
case $(readlink -f "$node") in /home/* | /root/*) fail "the service can not use the Node.js in $node; install it for the whole system" ;; esac

if [ -z "$package" ]; then
  made=$(mktemp -d)
  trap 'rm -rf "$made"' EXIT
  # A clone is built first; an unpacked package has what it needs.
  if [ -e "$here/prepare.mjs" ]; then node "$here/prepare.mjs" >/dev/null; fi
  (cd "$here/.." && npm pack --silent --ignore-scripts --pack-destination "$made" >/dev/null) || fail "the package could not be made"
  package=$(echo "$made"/fieldbridge-*.tgz)
fi
npm install --global --prefix "$root/usr/local" --omit=dev --no-audit --no-fund --loglevel=error "$package" >/dev/null

etc=$root/etc/fieldbridge
mkdir -p "$etc/secrets" "$root/etc/systemd/system"
chmod 0755 "$etc"
chmod 0700 "$etc/secrets"
[ -e "$etc/plant.yaml" ] || install -m 0644 "$here/plant.yaml" "$etc/plant.yaml"
if [ ! -e "$etc/secrets/audit-key" ]; then
  (umask 077 && "$node" -e 'console.log(require("node:crypto").randomBytes(32).toString("hex"))' >"$etc/secrets/audit-key")
fi
install -m 0644 "$here/fieldbridge.service" "$root/etc/systemd/system/fieldbridge.service"
if [ "$serial" = yes ]; then
  mkdir -p "$root/etc/systemd/system/fieldbridge.service.d"
  install -m 0644 "$here/fieldbridge-serial.conf" "$root/etc/systemd/system/fieldbridge.service.d/serial.conf"
fi

if [ -z "$root" ]; then
  systemctl daemon-reload
  systemctl enable --quiet fieldbridge
  systemctl restart fieldbridge
  systemctl --no-pager --lines=0 status fieldbridge
fi
echo "fieldbridge is installed. The map is $etc/plant.yaml: edit it, then \`fieldbridge check\` it and \`systemctl reload fieldbridge\`."
