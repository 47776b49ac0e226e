#!/bin/sh
# Starts Cassandra in the foreground, configured by the variables that the official image understands:
#
#   CASSANDRA_SEEDS, CASSANDRA_LISTEN_ADDRESS (auto), CASSANDRA_BROADCAST_ADDRESS, CASSANDRA_RPC_ADDRESS,
#   CASSANDRA_BROADCAST_RPC_ADDRESS, CASSANDRA_CLUSTER_NAME, CASSANDRA_NUM_TOKENS, CASSANDRA_ENDPOINT_SNITCH,
#   CASSANDRA_DC and CASSANDRA_RACK (for GossipingPropertyFileSnitch),
#   MAX_HEAP_SIZE, HEAP_NEWSIZE, JVM_OPTS, JVM_EXTRA_OPTS
#
# $CASSANDRA_CONF/cassandra.yaml has one setting a line; what is started from is made of it anew at each start.
# Any other command than `cassandra` is carried out as it stands.
set -eu

case ${1:--} in -*) set -- cassandra "$@" ;; esac
[ "$1" = cassandra ] || exec "$@"

home=/var/lib/cassandra
if [ "$(id -u)" = 0 ]; then
  find "$home" ! -user cassandra -exec chown cassandra: {} +
  exec setpriv --reuid cassandra --regid cassandra --init-groups -- "$0" "$@"
fi

own_address() {
  ip -o -4 address show scope global | sed -n '1s:.* inet \([0-9.]*\)/.*:\1:p'
}

listen=${CASSANDRA_LISTEN_ADDRESS:-auto}
[ "$listen" != auto ] || listen=$(own_address)
seeds=${CASSANDRA_SEEDS:-$listen}
configuration=$home/cassandra.yaml

# A setting given by the environment replaces the line of that name.
setting() {
  [ -n "$2" ] || return 0
  sed -i "/^$1:/d" "$configuration.new"
  printf '%s: "%s"\n' "$1" "$2" >> "$configuration.new"
}

mkdir -p "$home/data" "$home/tmp"
cp "$CASSANDRA_CONF"/log* "$home/"
sed -e "s|@SEEDS@|$seeds|" -e "s|@EACH_SEED@|$(echo "$seeds" | sed 's|,|", "|g')|" \
  "$CASSANDRA_CONF/cassandra.yaml" > "$configuration.new"
setting listen_address "$listen"
setting rpc_address "${CASSANDRA_RPC_ADDRESS:-$listen}"
setting broadcast_address "${CASSANDRA_BROADCAST_ADDRESS:-}"
setting broadcast_rpc_address "${CASSANDRA_BROADCAST_RPC_ADDRESS:-}"
setting cluster_name "${CASSANDRA_CLUSTER_NAME:-}"
setting num_tokens "${CASSANDRA_NUM_TOKENS:-}"
setting endpoint_snitch "${CASSANDRA_ENDPOINT_SNITCH:-}"
mv -f "$configuration.new" "$configuration"

heap="${MAX_HEAP_SIZE:+-Xms$MAX_HEAP_SIZE -Xmx$MAX_HEAP_SIZE} ${HEAP_NEWSIZE:+-Xmn$HEAP_NEWSIZE}"
place=
if [ -n "${CASSANDRA_DC:-}${CASSANDRA_RACK:-}" ]; then
  printf 'dc=%s\nrack=%s\n' "${CASSANDRA_DC:-datacenter1}" "${CASSANDRA_RACK:-rack1}" > "$home/cassandra-rackdc.properties"
  place=-Dcassandra-rackdc.properties=file://$home/cassandra-rackdc.properties
fi

cd "$home"
# shellcheck disable=SC2086  # options of a virtual machine are words
exec java "@$CASSANDRA_HOME/server.options" $heap $place ${JVM_OPTS:-} ${JVM_EXTRA_OPTS:-} "@$CASSANDRA_HOME/server.main"
