# shellcheck shell=sh
# Owner's service: a server that commands of its owner's start and end. The functions above are those commands.
#
#   owner_service.sh start     one that runs is left alone, one that is stopping is waited out
#   owner_service.sh stop      asks for a clean end
#   owner_service.sh kill
#   owner_service.sh status    prints the server's pid; nothing if it does not run
#   owner_service.sh ending    prints its pid if it was told to end and still runs
#   owner_service.sh up        exits with 0 if it runs, was not told to end, and stays
#   owner_service.sh awake     exits with 0 unless it is frozen
#
# What was told to end is noted beside this script.
set -u

# include servers.sh

# Only a pid is one: `status` may print or fail as it likes where nothing runs.
running() {
  pid=$(owner_status 2> /dev/null) || return 0
  # shellcheck disable=SC2086 # the first word
  set -- $pid
  case ${1:-0} in *[!0-9]* | 0) return 0 ;; esac
  look_up "$1"
  [ -z "$began" ] || echo "$1"
}

# shellcheck disable=SC2034 # servers.sh uses it
verb=$1 mark=${0%/*}/ending
case $verb in
  start)
    await_end || exit 1
    owner_start
    ;;
  stop)
    mark_ending || exit 1
    owner_stop
    ;;
  kill)
    mark_ending 2> /dev/null # what is killed is gone soon
    owner_kill
    ;;
  status) running ;;
  ending) ending ;;
  up) is_up ;;
  awake) is_awake ;;
  *) echo "owner's service: unknown verb $verb" >&2; exit 64 ;;
esac
