#!/bin/sh
# Runs inside the tree that boot.sh boots. Each line of its log is something that holds, or does not.
exec >/probe.log 2>&1
good=0
bad=0
holds() {
  name=$1
  shift
  for _ in $(seq 50); do
    if "$@" >/dev/null 2>&1; then
      echo "ok   $name"
      good=$((good + 1))
      return
    fi
    sleep 0.2
  done
  echo "FAIL $name"
  bad=$((bad + 1))
}
property() { systemctl show -P "$1" fieldbridge; }
says() { property StatusText | grep -q "$1"; }
serves() { curl -fsS http://127.0.0.1:8502/healthz | grep -q alive; }
journal() { journalctl -u fieldbridge -o cat "$@"; }

cat >/etc/fieldbridge/plant.yaml <<'YAML'
bridge: { name: plant }
connections: { plc: { type: modbus-tcp, host: localhost, port: 5020 } }
devices: { d: { connection: plc, points: { p: { holding: 0, write: {} } } } }
safety: { writes: enabled, audit: /var/lib/fieldbridge/audit.jsonl, kill_switch: /run/fieldbridge/stop }
YAML
mkdir -p /etc/systemd/system/fieldbridge.service.d
printf '[Service]\nWatchdogSec=3s\n' >/etc/systemd/system/fieldbridge.service.d/probe.conf
systemctl daemon-reload

holds 'systemctl start returns once it is ready' systemctl start fieldbridge
holds 'it is active' systemctl is-active fieldbridge
holds 'it serves' serves
holds 'its status is told' says '0 of 1 points good; plc disconnected'
pid=$(property MainPID)
holds 'it runs as a user of its own (systemd.exec(5), DynamicUser)' sh -c "[ \"\$(stat -c %u /proc/$pid)\" -ge 61184 ] && [ \"\$(stat -c %u /proc/$pid)\" -le 65519 ]"
holds 'its state is its own' sh -c '[ "$(stat -c %a /var/lib/private/fieldbridge)" = 700 ]'
holds 'the audit log is in its state' test -e /var/lib/private/fieldbridge/audit.jsonl
holds 'the key of the audit log came as a credential' sh -c '! test -e /var/lib/private/fieldbridge/audit.jsonl.key'
holds 'it sees the machine as read-only' awk '$5 == "/" && $6 ~ /^ro/ { found = 1 } END { exit !found }' "/proc/$pid/mountinfo"
holds 'a control door for root' fieldbridge pending /etc/fieldbridge/plant.yaml
holds 'its log has priorities' sh -c 'journalctl -u fieldbridge -p warning -o cat | grep -q "connection lost" && ! journalctl -u fieldbridge -p warning -o cat | grep -q "serving MCP"'

sed -i 's/name: plant/name: plant, description: reloaded/; s/holding: 0/holding: 1/' /etc/fieldbridge/plant.yaml
holds 'systemctl reload takes up the map' systemctl reload fieldbridge
holds 'the journal says so' sh -c 'journalctl -u fieldbridge -o cat | grep -q "the map was taken up"'
echo 'nonsense: {}' >>/etc/fieldbridge/plant.yaml
systemctl reload fieldbridge
holds 'a map with a mistake is not taken up' sh -c 'journalctl -u fieldbridge -o cat | grep -q "unknown key nonsense"'
holds 'and it goes on' sh -c "[ \"\$(systemctl show -P MainPID fieldbridge)\" = $pid ] && curl -fsS http://127.0.0.1:8502/healthz"
sed -i '/nonsense/d' /etc/fieldbridge/plant.yaml

kill -STOP "$pid"
holds 'the watchdog ends a bridge that hangs' sh -c 'journalctl -u fieldbridge -o cat | grep -q -i "watchdog timeout"'
sleep 4
holds 'and it is started again' sh -c "systemctl is-active fieldbridge && [ \"\$(systemctl show -P NRestarts fieldbridge)\" = 1 ] && [ \"\$(systemctl show -P MainPID fieldbridge)\" != $pid ]"
holds 'and serves again' serves
kill -KILL "$(property MainPID)"
sleep 3
holds 'a bridge that was killed is started again' sh -c '[ "$(systemctl show -P NRestarts fieldbridge)" = 2 ] && systemctl is-active fieldbridge'

start=$(date +%s)
systemctl stop fieldbridge
holds 'it stops within 5 s' test $(($(date +%s) - start)) -le 5
holds 'and in order' sh -c '[ "$(systemctl show -P Result fieldbridge)" = success ] && [ "$(systemctl show -P ExecMainStatus fieldbridge)" = 0 ]'
echo 'nonsense: {}' >>/etc/fieldbridge/plant.yaml
systemctl start fieldbridge
sleep 4
holds 'a mistake in the map is no reason to try again' sh -c '[ "$(systemctl show -P ExecMainStatus fieldbridge)" = 2 ] && [ "$(systemctl show -P ActiveState fieldbridge)" = failed ]'

if [ "$bad" = 0 ]; then echo "all $good hold"; else
  journal | tail -40
  systemctl --no-pager status fieldbridge
  echo "$bad of $((good + bad)) do not hold"
fi
