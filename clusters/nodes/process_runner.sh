#!/bin/sh
# Process runner: one server on a node without a service manager, known by a folder of its own.
#
#   process_runner.sh start  FOLDER CONSOLE USER COMMAND...   as USER ("-": as the caller); a running one is left alone,
#                                                             one that is stopping is waited out
#   process_runner.sh stop   FOLDER                           SIGTERM, and returns at once
#   process_runner.sh kill   FOLDER                           SIGKILL, and returns at once
#   process_runner.sh status FOLDER                           prints the server's pid; nothing if it does not run
#   process_runner.sh ending FOLDER                           prints its pid if it was told to end and still runs
#   process_runner.sh up     FOLDER                           exits with 0 if it runs, was not told to end, and stays
#   process_runner.sh awake  FOLDER                           exits with 0 unless it is frozen
#   process_runner.sh ended  FOLDER                           prints the exit code of the latest start, once it has ended
#
# The server outlives its caller: a process in a session of its own waits for it and writes down how it ended.
# A pid alone may be another process by now, so the kernel's start time is kept beside it. CONSOLE takes what the server
# prints, from the beginning at each start.
set -u

# include servers.sh

# The pid of the server that runs.
running() { alive "$folder/pid"; }

signal() {
  mark_ending || [ "$1" = KILL ] || exit 1
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
  # A server whose disk is full may not take what it prints being refused for a reason to end.
  echo 2> /dev/null > "$console" || console=/dev/null
  "$@" < /dev/null > "$console" 2>&1 &
  server=$!
  look_up "$server"
  printf '%-10s %-20s\n' "$server" "$began" 1<> "$folder/pid"
  wait "$server"
  code=$?
  echo "$code" > "$folder/ended.new"
  mv -f "$folder/ended.new" "$folder/ended"
}

complain() {
  echo "process runner: $*" >&2
  exit 1
}

start() {
  mkdir -p "$folder" || exit 1
  command -v setsid > /dev/null && command -v flock > /dev/null ||
    complain "there is no setsid or no flock here (install util-linux)"
  await_end || exit 1
  # A guard and a healing harness may start the server at the same time, and only one of them must. The lock goes with
  # its holder.
  exec 9< "$folder"
  tries=0
  until flock -n 9; do
    tries=$((tries + 1))
    [ "$tries" -le 400 ] || complain "another start does not end"
    sleep 0.05
  done
  [ -z "$(running)" ] || return 0
  # The pid is written over in place: on a disk that is full there is no room for another file.
  rm -f "$folder/ended"
  before=$(cat "$folder/pid" 2> /dev/null)
  setsid sh "$0" supervise "$folder" "$@" < /dev/null > "$folder/supervisor" 2>&1 9<&- &
  supervisor=$!
  look_up "$supervisor"
  until [ "$(cat "$folder/pid" 2> /dev/null)" != "$before" ]; do
    if [ -z "$began" ] || [ "$(started "$supervisor")" != "$began" ]; then
      [ "$(cat "$folder/pid" 2> /dev/null)" = "$before" ] || break
      complain "the server was not started: $(cat "$folder/supervisor")"
    fi
    sleep 0.05
  done
}

# shellcheck disable=SC2034 # servers.sh uses it
verb=$1 folder=$2 mark=$2/ending
shift 2
case $verb in
  start) start "$@" ;;
  supervise) supervise "$@" ;;
  stop) signal TERM ;;
  kill) signal KILL ;;
  status) running ;;
  ending) ending ;;
  up) is_up ;;
  awake) is_awake ;;
  ended) [ ! -r "$folder/ended" ] || cat "$folder/ended" ;;
  *) echo "process runner: unknown verb $verb" >&2; exit 64 ;;
esac
