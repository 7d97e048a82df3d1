#!/usr/bin/env bash
# Starts Keystone and Neutron, unmodified from Debian's packages, with MariaDB, on free
# loopback ports, and prints the path of a clouds.yaml for them. Its entries are "local" and
# "local-other" (each with its own project and the role member) and "local-admin". Routers can
# have their gateway in the external network "public".
#   -agents       also starts agents in namespaces of their own, so that the networks carry
#                 traffic; needs root. in.sh runs commands there
#   -state DIR    folder for its files (default hack/_output/neutron/state)
#   -config FILE  additional Neutron configuration, which overrides conf/neutron.conf
#   -parent PID   stops everything when that process ends
# If it already runs, up.sh only prints the path; the parent of the first call stays in
# effect. The exit code is 3 if the packages, or namespaces, are not available. down.sh stops
# it.
# shellcheck source-path=SCRIPTDIR disable=SC1091,SC2153
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

parse() {
  local state=$OUTPUT/state
  AGENTS='' CONFIG='' PARENT=''
  while [ $# -gt 0 ]; do
    case $1 in
      -agents) AGENTS=1; shift; continue ;;
      -state) state=$2 ;;
      -config) CONFIG=$(realpath -- "$2") ;;
      -parent) PARENT=$2 ;;
      *) die "unknown option $1; the options are -agents, -state DIR, -config FILE and -parent PID" ;;
    esac
    shift 2
  done
  use_state "$state"
}

# set_paths finds the unpacked files, or the system's files of packages that are already
# installed.
# shellcheck disable=SC2034 # write_config reads some of them by name
set_paths() {
  use_packages
  unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY
  # Without compiled files, which the packages do not contain, each start takes seconds longer.
  unset PYTHONDONTWRITEBYTECODE
  PYTHON=/usr/bin/python3
  [ -x "$PYTHON" ] || PYTHON=$ROOT/usr/bin/python3
  SHARE=$(dirname "$(place /usr/share/neutron-common)")
  WSGI=$(place /usr/bin/keystone-wsgi-public)
  MARIADB=$(place /usr/sbin/mariadbd)
  MARIADB=${MARIADB%/sbin/mariadbd}
  local plugins=("$(place /usr/lib/uwsgi/plugins)"/python3*_plugin.so)
  UWSGI_PLUGIN=${plugins[0]}
}

# place prints the path of a file of the packages.
place() { if [ -e "$ROOT$1" ]; then echo "$ROOT$1"; else echo "$1"; fi; }

# use_database lets a new state folder begin with a copy of the database that keep_database kept. It comes with its passwords.
use_database() {
  DATABASE=$ROOT/database-$(cksum <"${BASH_SOURCE[0]}" | cut -d ' ' -f 1)
  [ ! -e "$STATE/tables" ] && [ -r "$DATABASE/secrets" ] || return 0
  rm -rf "$STATE"/{new,mysql}
  cp -a "$DATABASE" "$STATE/new"
  mv "$STATE"/new/{mysql,secrets} "$STATE"
  mv "$STATE/new/tables" "$STATE" # the last one: it says that the others are complete
}

# keep_database keeps a copy of the new database for other state folders: to make one takes much longer. Where it cannot, each
# state folder makes its own.
keep_database() {
  local new
  [ ! -e "$DATABASE" ] && new=$(mktemp -d "$DATABASE.XXXXXX" 2>/dev/null) || return 0
  sql -e 'SET GLOBAL innodb_fast_shutdown = 1' # so that nothing must be recovered
  stop mariadb
  if grep -q 'Shutdown complete' "$STATE/log/mariadb.out" && cp -a "$STATE"/{mysql,secrets,tables} "$new" 2>/dev/null &&
    mv -T "$new" "$DATABASE" 2>/dev/null; then
    # Those of interrupted runs, and of another up.sh. A newer one may be the copy that another process is just making.
    find "$ROOT" -maxdepth 1 -name 'database-*' ! -path "$DATABASE" -mmin +60 -exec rm -rf {} + || true
  fi
  rm -rf "$new"
  start_mariadb
}

make_secrets() {
  [ -e "$STATE/secrets" ] || (
    umask 077
    local name
    for name in ADMIN NEUTRON MEMBER OTHER DB; do echo "PW_$name=$(random 12 | tr -d '=_-')"; done >"$STATE/secrets.new"
    mv "$STATE/secrets.new" "$STATE/secrets"
  )
  # Keys of its own, also with a copied database: no Keystone accepts the tokens of another one.
  [ -e "$STATE/keys" ] || (
    umask 077
    mkdir -p "$STATE"/keys.new/{fernet,credential}
    local key
    for key in fernet/0 fernet/1 credential/0 credential/1; do random 32 >"$STATE/keys.new/$key"; done
    mv "$STATE/keys.new" "$STATE/keys"
  )
  # shellcheck disable=SC1091 # just written
  . "$STATE/secrets"
}

random() { head -c "$1" /dev/urandom | base64 -w 0 | tr '+/' '-_'; }

# choose_ports uses the ports of the last run again, unless they are in use. New ones are
# below the range from which the kernel assigns ports to clients.
choose_ports() {
  # shellcheck disable=SC1091 # written below
  [ ! -e "$STATE/ports" ] || . "$STATE/ports"
  if [ -z "${NEUTRON_PORT:-}" ] || taken "$KEYSTONE_PORT" || taken "$NEUTRON_PORT"; then
    KEYSTONE_PORT=$(free_port)
    NEUTRON_PORT=$(free_port)
    while [ "$NEUTRON_PORT" = "$KEYSTONE_PORT" ]; do NEUTRON_PORT=$(free_port); done
    printf 'KEYSTONE_PORT=%s NEUTRON_PORT=%s\n' "$KEYSTONE_PORT" "$NEUTRON_PORT" >"$STATE/ports"
  fi
  KEYSTONE=http://127.0.0.1:$KEYSTONE_PORT/v3
  NEUTRON=http://127.0.0.1:$NEUTRON_PORT
}

taken() { (: <"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

free_port() {
  local port
  while port=$(shuf -n 1 -i 20000-32000); do taken "$port" || break; done
  echo "$port"
}

# write_config replaces the @NAMES@ in the files in conf.
write_config() {
  local name script=
  for name in STATE SHARE WSGI UWSGI_PLUGIN KEYSTONE_PORT NEUTRON_PORT PW_DB PW_NEUTRON; do
    script+="s|@$name@|${!name}|g;"
  done
  for name in "$HERE"/conf/*; do
    sed "$script" "$name" >"$STATE/etc/${name##*/}"
  done
  [ -z "$CONFIG" ] || cp -- "$CONFIG" "$STATE/etc/more.conf"
  NEUTRON_CONFIG=(--config-file "$STATE/etc/neutron.conf" ${AGENTS:+--config-file "$STATE/etc/agents-server.conf"}
    ${CONFIG:+--config-file "$STATE/etc/more.conf"})
}

# start runs a server in its own process group, so that it can be stopped with all its
# workers. It closes the lock's descriptor, because the server would hold the lock forever.
# Beside tests that compute, a request can take a minute: as root, the servers come first. Linux
# shares the CPUs between sessions, so the priority must be that of the session (autogroup), too.
# With agents they do not come first, because the machines that answer pings would come last.
start() {
  local name=$1 first=()
  shift
  # shellcheck disable=SC2016 # expanded by the other shell
  [ -n "$AGENTS" ] || [ "$(id -u)" != 0 ] || first=(bash -c '{ echo -10 >/proc/self/autogroup; } 2>/dev/null; exec nice -n -10 "$@"' bash)
  setsid "${first[@]}" "$@" </dev/null >>"$STATE/log/$name.out" 2>&1 9>&- &
  echo $! >"$STATE/run/$name.pid"
}

# wait_for waits until a command succeeds. It fails when the server has ended, or after two
# minutes.
wait_for() {
  local name=$1
  shift
  for _ in $(seq 1200); do
    ! "$@" >/dev/null 2>&1 || return 0
    kill -0 "$(cat "$STATE/run/$name.pid")" 2>/dev/null || break
    sleep 0.1
  done
  tail -n 5 "$STATE/log/$name.out" >&2
  die "$name did not start; see $STATE/log"
}

sql() { mariadb --no-defaults -S "$STATE/run/mysql.sock" -u root "$@"; }

# start_mariadb starts MariaDB without protection of the data against a power failure.
start_mariadb() {
  # The path of a socket is limited to about 100 bytes.
  [ ${#STATE} -le 90 ] || die "the path of the state folder is too long for a socket: $STATE"
  local user
  user=$(id -un)
  # A MariaDB that starts deletes the temporary tables that it finds, also those of another one that shares the folder.
  mkdir -p "$STATE/tmp"
  export TMPDIR=$STATE/tmp
  if [ ! -e "$STATE/mysql/.complete" ]; then
    rm -rf "$STATE/mysql"
    mariadb-install-db --no-defaults --basedir="$MARIADB" --datadir="$STATE/mysql" --user="$user" \
      --auth-root-authentication-method=normal --skip-test-db --skip-name-resolve >"$STATE/log/mariadb-install.log" 2>&1 ||
      die "cannot create the database; see $STATE/log/mariadb-install.log"
    touch "$STATE/mysql/.complete"
  fi
  start mariadb mariadbd --no-defaults --basedir="$MARIADB" --datadir="$STATE/mysql" --socket="$STATE/run/mysql.sock" \
    --pid-file="$STATE/run/mariadbd.pid" --lc-messages-dir="$MARIADB/share/mysql" --plugin-dir="$MARIADB/lib/mysql/plugin" \
    --character-sets-dir="$MARIADB/share/mysql/charsets" --user="$user" --skip-networking --skip-log-bin \
    --innodb-flush-log-at-trx-commit=0 --innodb-fast-shutdown=2 --max-connections=300 --performance-schema=OFF
  wait_for mariadb sql -e 'SELECT 1'
}

# make_tables runs once. If it is interrupted, the next run creates both databases again.
make_tables() {
  [ ! -e "$STATE/tables" ] || return 0
  local db
  for db in neutron keystone; do sql -e "DROP DATABASE IF EXISTS $db; CREATE DATABASE $db CHARACTER SET utf8"; done
  sql -e "CREATE OR REPLACE USER openstack@localhost IDENTIFIED BY '$PW_DB'; GRANT ALL ON *.* TO openstack@localhost"
  "$PYTHON" "$(place /usr/bin/neutron-db-manage)" "${NEUTRON_CONFIG[@]}" upgrade heads >"$STATE/log/neutron-db.log" 2>&1 &
  local neutron=$!
  keystone_manage db_sync
  keystone_manage bootstrap --bootstrap-password "$PW_ADMIN"
  wait "$neutron" || die "cannot create Neutron's tables; see $STATE/log/neutron-db.log"
  make_zones
  touch "$STATE/tables"
  keep_database
}

# make_zones adds agents that never run: Neutron knows the availability zones of its agents, and no others.
make_zones() {
  local zone agent
  for zone in nova az2; do
    for agent in DHCP L3; do
      sql neutron -e "INSERT INTO agents (id, agent_type, \`binary\`, topic, host, created_at, started_at, heartbeat_timestamp, configurations, availability_zone)
        VALUES (UUID(), '$agent agent', 'none', 'none', 'host-in-$zone', NOW(), NOW(), '2000-01-01', '{}', '$zone')"
    done
  done
}

keystone_manage() {
  "$PYTHON" "$(place /usr/bin/keystone-manage)" --config-file "$STATE/etc/keystone.conf" "$@" >>"$STATE/log/keystone-manage.out" 2>&1 ||
    die "keystone-manage $1 failed; see $STATE/log/keystone-manage.out"
}

start_servers() {
  OS_KEYSTONE_CONFIG_FILES=$STATE/etc/keystone.conf start keystone uwsgi-core --ini "$STATE/etc/uwsgi.ini"
  start neutron "$PYTHON" "$(place /usr/bin/neutron-server)" "${NEUTRON_CONFIG[@]}"
  wait_for keystone answers 200 "$KEYSTONE"
  "$PYTHON" -B "$HERE/accounts.py" "$KEYSTONE" "$PW_ADMIN" "neutron:$PW_NEUTRON:admin" \
    "samplecrd:$PW_MEMBER:member" "other:$PW_OTHER:member" || die "cannot create the accounts"
  wait_for neutron answers 401 "$NEUTRON/v2.0/networks"
  # The addresses are those that RFC 2544 reserves for tests.
  "$PYTHON" -B "$HERE/external.py" "$KEYSTONE" "$PW_ADMIN" "$NEUTRON/v2.0" public 198.18.0.0/16 ||
    die "cannot create the external network"
}

# check_agents exits where the agents cannot run. It notes in a new state folder whether it is one with agents.
check_agents() {
  [ -e "$STATE/tables" ] || rm -f "$STATE/agents"
  [ -n "$AGENTS" ] || return 0
  [ -e "$STATE/tables" ] || touch "$STATE/agents"
  # Neutron has written the networks' types to the database, and the agents serve only one type.
  [ -e "$STATE/agents" ] ||
    die "the Neutron in $STATE was created without agents, which cannot serve its networks: use another folder, or remove it with down.sh -state $STATE -purge"
  # shellcheck disable=SC2016 # expanded by the other shell
  unshare "${NAMESPACES[@]}" sh -c 'mount -t sysfs sysfs /sys && ip link add type bridge && ip link add type veth &&
    "$1" iptables -t nat -L -n' sh "$(place /usr/sbin/xtables-nft-multi)" >>"$STATE/log/agents.out" 2>&1 ||
    unavailable "the agents need network namespaces with bridges and iptables, which cannot be created; see $STATE/log/agents.out"
}

NAMESPACES=(--net --mount --pid --fork --kill-child --mount-proc --propagation private)

unavailable() { say "$*"; exit "$UNAVAILABLE"; }

# start_namespaces starts the agents' namespaces and Redis, over whose socket Neutron and the agents talk.
start_namespaces() {
  [ -n "$AGENTS" ] || return 0
  # The process IDs in its files would be those of other processes now.
  rm -rf "$STATE"/run/{agents,bin,ready,redis.sock}
  mkdir -p "$STATE"/run/{agents,bin}
  # The packages' own scripts would make these links. The two to files of this folder replace what keeps the agents from working,
  # or makes them slow, on Debian 12.
  local name
  for name in {ip,ip6}tables{,-save,-restore} ebtables-{save,restore}; do ln -s "$(place /usr/sbin/xtables-nft-multi)" "$STATE/run/bin/$name"; done
  ln -s "$HERE/ebtables.sh" "$STATE/run/bin/ebtables"
  ln -s "$HERE/privsep-helper.py" "$STATE/run/bin/privsep-helper"
  ln -s "$(place /usr/bin/redis-check-rdb)" "$STATE/run/bin/redis-server"
  AGENTS_PYTHON=$PYTHON AGENTS_BIN=$(dirname "$(place /usr/bin/neutron-l3-agent)") \
    start agents unshare "${NAMESPACES[@]}" bash "$HERE/agents.sh" "$STATE/"
  wait_for agents [ -S "$STATE/run/redis.sock" ]
}

# start_agents lets the agents start, and waits until Neutron knows them. It knows those of the last run too.
start_agents() {
  [ -n "$AGENTS" ] || return 0
  local now
  now=$(sql -N -e 'SELECT UTC_TIMESTAMP()')
  touch "$STATE/run/ready"
  wait_for agents agents_since "$now"
}

agents_since() { [ "$(sql -N neutron -e "SELECT COUNT(*) FROM agents WHERE host = 'host1' AND started_at >= '$1'")" = 3 ]; }

# answers sends the request with Python, because curl may not be installed.
answers() {
  "$PYTHON" - "$@" <<'EOP'
import sys, urllib.error, urllib.request
try:
    status = urllib.request.urlopen(sys.argv[2], timeout=10).status
except urllib.error.HTTPError as e:
    status = e.code
sys.exit(str(status) != sys.argv[1])
EOP
}

write_clouds() {
  (
    umask 077
    echo "clouds:"
    cloud local samplecrd "$PW_MEMBER"
    cloud local-other other "$PW_OTHER"
    cloud local-admin admin "$PW_ADMIN"
  ) >"$STATE/clouds.new"
  mv "$STATE/clouds.new" "$STATE/clouds.yaml"
}

cloud() {
  cat <<EOC
  $1:
    auth_type: password
    auth:
      auth_url: $KEYSTONE
      username: $2
      password: $3
      project_name: $2
      user_domain_name: Default
      project_domain_name: Default
    region_name: RegionOne
    interface: public
    identity_api_version: 3
EOC
}

# watch starts a process that outlives this script and calls down.sh when the parent has
# ended. It starts before the first server. It waits while another up.sh holds the lock,
# because that one already stops servers whose parent has ended.
watch() {
  [ -n "$PARENT" ] || return 0
  echo "$PARENT" >"$STATE/run/parent"
  # shellcheck disable=SC2016 # expanded by the other shell
  start watch bash -c 'while [ -d "/proc/$1" ]; do sleep 1; done; exec flock "$3lock" "$2/down.sh" -state "$3"' watch "$PARENT" "$HERE" "$STATE/"
}

# is_up reports whether everything runs and its parent still exists. clouds.yaml is written
# only after all servers answer.
is_up() {
  [ -e "$STATE/clouds.yaml" ] && running neutron && running keystone && running mariadb &&
    { [ -z "$AGENTS" ] || running agents; } &&
    { [ ! -e "$STATE/run/parent" ] || [ -d "/proc/$(cat "$STATE/run/parent")" ]; }
}

# give_up stops everything after a failure or an interruption.
give_up() {
  local jobs
  jobs=$(jobs -p)
  # shellcheck disable=SC2086 # one word for each
  [ -z "$jobs" ] || kill $jobs 2>/dev/null || true
  "$HERE/down.sh" -state "$STATE"
}

main() {
  parse "$@"
  [ -z "$AGENTS" ] || [ "$(id -u)" = 0 ] || unavailable "the agents need root"
  "$HERE/fetch.sh"
  exec 9>"$STATE/lock"
  flock 9
  if is_up; then
    echo "$STATE/clouds.yaml"
    return
  fi
  "$HERE/down.sh" -state "$STATE"
  trap give_up EXIT
  rm -f "$STATE/clouds.yaml"
  mkdir -p "$STATE"/{etc,log,run/lock}
  watch
  set_paths
  check_agents
  use_database
  make_secrets
  choose_ports
  write_config
  start_mariadb
  start_namespaces
  make_tables
  start_servers
  start_agents
  write_clouds
  trap - EXIT
  echo "$STATE/clouds.yaml"
}

main "$@"
