# shellcheck shell=sh disable=SC2154 # set by processes.sh, and by the script
# Servers that are on their way out: who starts one waits until the old one is gone. A script that includes this has a
# function `running`, which prints the server's pid, and sets `mark`, a file for what was told to end.

ENDS_WITHIN=6000    # centiseconds after which a server that was told to end is killed
WAITS_FOR_END=2000  # centiseconds that one call waits for it; who calls tries again
STEADY=200          # centiseconds after which a server counts as started

# include processes.sh

# Before the server is told, so that whoever comes later knows it even if we die. Fails where it cannot be written.
mark_ending() {
  pid=$(running)
  [ -n "$pid" ] || return 0
  look_up "$pid"
  look_at_clock
  echo "$pid $began $up" > "$mark"
}

# Prints the pid of a server that was told to end and is still there.
ending() { alive "$mark"; }

# Waits until a server that was told to end is gone, and kills one that does not go. Fails if it is still there.
await_end() {
  look_at_clock
  gives_up=$((up + WAITS_FOR_END))
  while [ -n "$(ending)" ]; do
    look_at_clock
    told=$up
    { read -r pid _ told < "$mark"; } 2> /dev/null
    if [ $((up - ${told:-$up})) -ge "$ENDS_WITHIN" ]; then kill -KILL "$(ending)" 2> /dev/null; fi
    if [ "$up" -ge "$gives_up" ]; then
      echo "the old server (process $(ending)) is still stopping" >&2
      return 1
    fi
    sleep 0.1
  done
  rm -f "$mark"
}

# Whether a server runs that was not told to end, and has for a while: one that cannot start ends before that.
is_up() {
  [ -z "$(ending)" ] || return 1
  pid=$(running)
  [ -n "$pid" ] || return 1
  look_up "$pid"
  first="$pid $began"
  look_at_clock
  if [ $((up - ${began:-$up})) -lt "$STEADY" ]; then sleep 2; fi
  [ -z "$(ending)" ] || return 1
  pid=$(running)
  look_up "${pid:-0}"
  [ "$pid $began" = "$first" ]
}

# Whether the server is not frozen. One that does not run is not.
is_awake() {
  pid=$(running)
  [ -n "$pid" ] || return 0
  { read -r stat < "/proc/$pid/stat"; } 2> /dev/null || return 0
  case ${stat##*) } in T* | t*) return 1 ;; esac
}
