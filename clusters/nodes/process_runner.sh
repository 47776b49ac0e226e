#!/bin/sh
# Process runner: one server on a node without a service manager, known by a folder of its own.
#
#   process_runner.sh start  FOLDER CONSOLE USER COMMAND...   as USER ("-": as the caller); a running one is left alone
#   process_runner.sh stop   FOLDER                           SIGTERM, and returns at once
#   process_runner.sh kill   FOLDER                           SIGKILL, and returns at once
#   process_runner.sh status FOLDER                           prints the server's pid; nothing if it does not run
#   process_runner.sh ended  FOLDER                           prints the exit code of the latest start, once it has ended
#
# The server outlives its caller: a process in a session of its own waits for it and writes down how it ended.
# A pid alone may be another process by now, so the kernel's start time is kept beside it. CONSOLE takes what the server
# prints, from the beginning at each start.
set -u

# include processes.sh

# The pid of the server that runs.
running() { alive "$folder/pid"; }

signal() {
  pid=$(running)
  [ -z "$pid" ] || kill "-$1" "$pid"
}

supervise() {
  console=$1 user=$2
  shift 2
  if [ "$user" != - ]; then
    group=$(id -g "$user") || exit 1
    set -- setpriv --reuid "$user" --regid "$group" --init-groups -- "$@"
  fi
  "$@" < /dev/null > "$console" 2>&1 &
  server=$!
  echo "$server $(started "$server")" > "$folder/pid.new"
  mv -f "$folder/pid.new" "$folder/pid"
  wait "$server"
  code=$?
  echo "$code" > "$folder/ended.new"
  mv -f "$folder/ended.new" "$folder/ended"
}

# A guard and a healing harness may start the server at the same time, and only one of them must. A start takes five
# seconds at most, so a lock that is ten seconds old was left by a caller that died.
alone() {
  waits=0
  until mkdir "$folder/starting" 2>/dev/null; do
    waits=$((waits + 1))
    [ "$waits" -le 200 ] || break
    sleep 0.05
  done
  trap 'rmdir "$folder/starting"' EXIT
}

verb=$1 folder=$2
shift 2
case $verb in
  start)
    mkdir -p "$folder" || exit 1
    alone
    [ -z "$(running)" ] || exit 0
    rm -f "$folder/pid" "$folder/ended"
    command -v setsid > /dev/null || { echo "process runner: there is no setsid here (install util-linux)" >&2; exit 1; }
    setsid sh "$0" supervise "$folder" "$@" < /dev/null > "$folder/supervisor" 2>&1 &
    waits=0
    until [ -r "$folder/pid" ]; do
      waits=$((waits + 1))
      if [ "$waits" -gt 100 ]; then
        echo "process runner: the server was not started: $(cat "$folder/supervisor")" >&2
        exit 1
      fi
      sleep 0.05
    done
    ;;
  supervise) supervise "$@" ;;
  stop) signal TERM ;;
  kill) signal KILL ;;
  status) running ;;
  ended) [ ! -r "$folder/ended" ] || cat "$folder/ended" ;;
  *) echo "process runner: unknown verb $verb" >&2; exit 64 ;;
esac
