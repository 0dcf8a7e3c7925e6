#!/bin/sh
# Installs the programs of the system that tests compare with: independent Modbus masters and a C library.
# Without them those tests are skipped on a desktop, and fail in CI.
set -eu
if command -v mbpoll >/dev/null && command -v cc >/dev/null && [ -f /usr/include/modbus/modbus.h ]; then exit 0; fi
as_root=""
[ "$(id -u)" = 0 ] || as_root=sudo
$as_root apt-get update -qq
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends mbpoll libmodbus-dev gcc libc6-dev >/dev/null
