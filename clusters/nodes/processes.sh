# shellcheck shell=sh
# Processes by pid and start time. Nothing here needs a process of its own, so that it works where none can be made.

# Sets `up` to centiseconds since the kernel was booted.
look_at_clock() {
  read -r up _ < /proc/uptime
  up=${up%.*}${up#*.}
}

# Sets `began` to when the kernel says that a process started, in its ticks; empty if there is none, or only its remains.
# Sets `state` to its letter. A process's name may hold anything but ends at the last parenthesis.
look_up() {
  began='' state=''
  { read -r stat < "/proc/$1/stat"; } 2> /dev/null || return 0
  # shellcheck disable=SC2086 # the fields are what is wanted
  set -- ${stat##*) }
  state=${1:-Z}
  case $state in Z | X) return 0 ;; esac
  shift 19
  began=$1
}

# Sets `living` to the pid in a file of "PID START", if that process is still there, and else to nothing.
find_living() {
  living=
  { read -r pid since _ < "$1"; } 2> /dev/null || return 0
  [ -n "${since:-}" ] || return 0
  look_up "$pid"
  if [ "$began" = "$since" ]; then living=$pid; fi
}

started() {
  look_up "$1"
  [ -z "$began" ] || echo "$began"
}

alive() {
  find_living "$1"
  [ -z "$living" ] || echo "$living"
}
