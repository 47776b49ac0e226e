#!/bin/sh
# Systemd unit: a server that systemd looks after, by the unit's name.
#
#   systemd_unit.sh start UNIT     does not wait for the start; one that runs is left alone, one that is stopping waited out
#   systemd_unit.sh stop UNIT      asks for a clean end, and returns at once
#   systemd_unit.sh kill UNIT      SIGKILL to all of it, and no restart by systemd
#   systemd_unit.sh status UNIT    prints the server's pid; nothing if it does not run
#   systemd_unit.sh ending UNIT    prints its pid if it was told to end and still runs
#   systemd_unit.sh up UNIT        exits with 0 if it runs, was not told to end, and stays
#   systemd_unit.sh awake UNIT     exits with 0 unless it is frozen
#   systemd_unit.sh ended UNIT     prints the exit code of the latest main process, if systemd knows it
#
# What was told to end is noted beside this script: a stop that was just asked for does not show in the unit yet.
set -u

# include servers.sh

property() { systemctl show --property "$1" "$unit" | cut -d= -f2-; }

# A unit made from an init script has no main process that systemd knows, but all its processes are in its group.
running() {
  pid=$(property MainPID)
  if [ "${pid:-0}" -gt 0 ]; then
    echo "$pid"
    return
  fi
  group=$(property ControlGroup)
  [ -n "$group" ] || return 0
  for procs in "/sys/fs/cgroup$group/cgroup.procs" "/sys/fs/cgroup/systemd$group/cgroup.procs"; do
    if [ -r "$procs" ]; then
      head -n 1 "$procs"
      return
    fi
  done
}

# Whoever told it.
ending() {
  case $(property ActiveState) in
    deactivating) running ;;
    *) alive "$mark" ;;
  esac
}

start() {
  await_end || exit 1
  [ -z "$(running)" ] || exit 0
  # A unit whose server died may still count as active, or as one that failed too often; neither would be started.
  systemctl stop "$unit"
  systemctl reset-failed "$unit" 2> /dev/null
  systemctl start --no-block "$unit"
}

# shellcheck disable=SC2034 # servers.sh uses it
verb=$1 unit=$2 mark=${0%/*}/ending
case $verb in
  start) start ;;
  stop)
    mark_ending || exit 1
    systemctl stop --no-block "$unit"
    ;;
  kill)
    mark_ending 2> /dev/null # what is killed is gone soon
    systemctl kill --signal=KILL "$unit"
    systemctl stop "$unit"
    ;;
  status) running ;;
  ending) ending ;;
  up) is_up ;;
  awake) is_awake ;;
  ended)
    code=$(property ExecMainStatus)
    [ "$(property ExecMainStartTimestampMonotonic)" = 0 ] || echo "$code"
    ;;
  *) echo "systemd unit: unknown verb $verb" >&2; exit 64 ;;
esac
