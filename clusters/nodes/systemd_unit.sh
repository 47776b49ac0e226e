#!/bin/sh
# Systemd unit: a server that systemd looks after, by the unit's name.
#
#   systemd_unit.sh start UNIT     waits for nothing; one that runs is left alone
#   systemd_unit.sh stop UNIT      asks for a clean end, and returns at once
#   systemd_unit.sh kill UNIT      SIGKILL to all of it, and no restart by systemd
#   systemd_unit.sh status UNIT    prints the server's pid; nothing if it does not run
#   systemd_unit.sh ended UNIT     prints the exit code of the latest main process, if systemd knows it
set -u

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

verb=$1 unit=$2
case $verb in
  start)
    [ -z "$(running)" ] || exit 0
    # A unit whose server died may still count as active, or as one that failed too often; neither would be started.
    systemctl stop "$unit"
    systemctl reset-failed "$unit" 2> /dev/null
    systemctl start --no-block "$unit"
    ;;
  stop) systemctl stop --no-block "$unit" ;;
  kill)
    systemctl kill --signal=KILL "$unit"
    systemctl stop "$unit"
    ;;
  status) running ;;
  ended)
    code=$(property ExecMainStatus)
    [ "$(property ExecMainStartTimestampMonotonic)" = 0 ] || echo "$code"
    ;;
  *) echo "systemd unit: unknown verb $verb" >&2; exit 64 ;;
esac
