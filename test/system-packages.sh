#!/bin/sh
# Installs the programs of the system that tests compare with: independent Modbus masters and servers, a pair
# of serial devices, an MQTT broker and its clients, and the tools by which systemd and Prometheus judge what is shipped for them.
# Without them those tests are skipped on a desktop, and fail in CI.
set -eu
if command -v mbpoll >/dev/null && command -v mosquitto >/dev/null && command -v mosquitto_pub >/dev/null && command -v socat >/dev/null && command -v openssl >/dev/null && command -v promtool >/dev/null && command -v systemd-analyze >/dev/null && command -v cc >/dev/null && [ -f /usr/include/modbus/modbus.h ] &&
  /usr/bin/python3 -c 'import pymodbus, serial_asyncio' 2>/dev/null; then exit 0; fi
as_root=""
[ "$(id -u)" = 0 ] || as_root=sudo
$as_root apt-get update -qq
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends mbpoll libmodbus-dev gcc libc6-dev openssl socat mosquitto mosquitto-clients python3-pymodbus python3-serial-asyncio systemd prometheus >/dev/null
