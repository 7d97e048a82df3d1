#!/usr/bin/env bash
# Process 1 of the namespaces of Neutron's agents, which up.sh -agents starts. When it ends, the
# kernel ends every other process in them, and removes them with all that is in them.
#   agents.sh STATE/
set -o errexit -o nounset -o pipefail

STATE=${1%/}
mount -t tmpfs tmpfs /run  # for /run/netns and /run/xtables.lock
mount -t sysfs sysfs /sys  # the bridge agent looks for its devices there
ip link set lo up
ip link add host1 type bridge  # the bridge agent makes its ID of a MAC address
redis-server --port 0 --unixsocket "$STATE/run/redis.sock" --save '' --dir "$STATE/run" >"$STATE/log/redis.log" 2>&1 &
# What an agent asks before the server listens is lost, and the agent then waits a minute.
until [ -e "$STATE/run/ready" ]; do sleep 0.1; done
for agent in linuxbridge l3 dhcp; do
  "$AGENTS_PYTHON" "$AGENTS_BIN/neutron-$agent-agent" --config-file "$STATE/etc/agents.conf" >"$STATE/log/$agent-agent.log" 2>&1 &
done
wait -n || true
echo "Redis or an agent has ended; see its log"
