#!/bin/sh
# Guard: undoes one fault on this node by itself, unless it is disarmed in time because the fault was healed.
#
#   guard.sh arm    FOLDER CENTISECONDS   the undo on standard input; returns when the guard stands
#   guard.sh disarm FOLDER                ends the guard, prints what it had done by itself, removes the folder
#   guard.sh fire   FOLDER                undoes at once, in the guard's place; prints what was done
#   guard.sh record FOLDER                prints what was done so far; nothing before anything was
#   guard.sh watch  FOLDER                the guard itself
#   guard.sh await  FOLDER                the guard, begun again while it waits
#   guard.sh undo   FOLDER                the guard, begun again while it undoes
#
# The undo has one command a line, its words quoted for a shell, and a last line `end`: what was cut off on its way is
# refused. Of the files in FOLDER, `armed` is renamed to `fired` by who undoes, or to `disarmed` by who says that this
# is not needed: a renaming takes no room on the disk, and only one of them finds `armed` there.
# Time is the kernel's since it was booted. A wall clock may be the very thing that the fault has moved.
set -u
usual=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
# Once: a guard that begins again and again would end with a PATH too long for any command.
case $PATH in *:"$usual") ;; *) PATH=$PATH:$usual ;; esac
export PATH

STANDS_WITHIN=100      # tenths of a second
COMMAND_ENDS_WITHIN=30 # seconds that one command of the undo is waited for; then it goes on beside the next
commands=end armed=0 deadline=0

complain() {
  echo "guard: $*" >&2
  exit 1
}

# Centiseconds since the kernel was booted.
now() {
  read -r up _ < /proc/uptime
  echo "${up%.*}${up#*.}"
}

nap() {
  sleep "$1" 2> /dev/null || sleep 1
}

# shellcheck shell=sh
# When the kernel says that a process started; nothing if there is none, or only its remains. Its name may hold anything
# but ends at the last parenthesis.
started() {
  [ -r "/proc/$1/stat" ] || return 0
  stat=$(cat "/proc/$1/stat" 2> /dev/null) || return 0
  # shellcheck disable=SC2086 # the fields are what is wanted
  set -- ${stat##*) }
  case ${1:-Z} in Z | X) return 0 ;; esac
  shift 19
  echo "$1"
}

# The pid in a file of "PID START", if that process is still there.
alive() {
  [ -r "$1" ] || return 0
  read -r pid began < "$1" || return 0
  [ -n "$began" ] && [ "$(started "$pid")" = "$began" ] && echo "$pid"
  return 0
}

sign() {
  echo "$$ $(started $$)" > "$1.new" && mv -f "$1.new" "$1"
}

# ── setting it ──────────────────────────────────────────────────────────────────────────────────────────────────────

arm() {
  deadline=$(($(now) + $1))
  mkdir -m 700 "$folder" || exit 1
  trap 'abandon "it was interrupted"' HUP INT TERM
  cat > "$folder/undo" || abandon "the undo could not be written"
  [ "$(tail -n 1 "$folder/undo")" = end ] || abandon "the undo is not whole"
  echo "$((deadline - $1)) $deadline" > "$folder/times" || abandon "its times could not be written (is the disk full?)"
  touch "$folder/armed" || abandon "its mark could not be made"
  launch
  waits=0
  while [ -z "$(alive "$folder/guard")" ]; do
    waits=$((waits + 1))
    [ "$waits" -le "$STANDS_WITHIN" ] || abandon "it did not come up (is the disk full?)"
    nap 0.1
  done
}

# Nothing was injected yet, so there is nothing to undo either.
abandon() {
  mv "$folder/armed" "$folder/disarmed" 2> /dev/null
  pid=$(alive "$folder/guard")
  [ -z "$pid" ] || kill -KILL "$pid"
  rm -rf "$folder"
  complain "$*"
}

# In a session of its own, out of reach of who set it. systemd may end whatever a login has left behind, so there the
# guard is a service; what it starts must outlive it.
launch() {
  if [ -d /run/systemd/system ] && systemd-run --quiet --collect --property=KillMode=process \
    --description="schemaquake guard of $folder" -- sh "$0" watch "$folder" > /dev/null 2>&1 < /dev/null; then
    return
  fi
  command -v setsid > /dev/null || abandon "there is no setsid here (install util-linux)"
  setsid sh "$0" watch "$folder" < /dev/null > /dev/null 2>&1 &
}

# ── the guard ───────────────────────────────────────────────────────────────────────────────────────────────────────

watch() {
  learn && sign "$folder/guard" || exit 1
  cd /
  await
}

await() {
  persist await
  # A signal to end (a shutdown, the end of a login) undoes the fault at once.
  trap 'deadline=0' HUP INT TERM
  unset LD_PRELOAD
  learn_again
  while [ ! -e "$folder/disarmed" ] && [ ! -e "$folder/fired" ]; do
    left=$((deadline - $(now)))
    if [ "$left" -le 0 ]; then
      if take; then undo; fi
      break
    elif [ "$left" -gt 120 ]; then
      sleep 1
    else
      nap 0.1
    fi
  done
  trap - EXIT
}

undo() {
  persist undo
  learn_again
  carry_out
  trap - EXIT
}

# A shell gives up where no process can be made any more. This one begins again, which takes none, until one can. What
# it gave up over leaves a pipe open each time, and soon there would be no descriptor either.
persist() {
  exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-
  # shellcheck disable=SC2064 # as it is now
  trap "exec sh '$0' $1 '$folder'" EXIT
}

learn_again() {
  [ -r "$folder/undo" ] || return 0
  learn || { nap 1; exit 1; }
}

# Everything that undoing needs, so that nothing must be read then.
learn() {
  commands=$(cat "$folder/undo") || return
  read -r armed deadline < "$folder/times"
}

# Whether the undoing is ours. What can neither be renamed nor is claimed by anybody (a folder that was swept away, a
# disk that went read-only) is undone to be safe.
take() {
  mv "$folder/armed" "$folder/fired" 2> /dev/null && return
  [ ! -e "$folder/disarmed" ] && [ ! -e "$folder/fired" ]
}

# Every command of the undo, whether or not the one before failed, with its exit code in the record. A record that
# cannot be written stops nothing.
carry_out() {
  echo "after $(($(now) - armed))" 2> /dev/null >> "$folder/record"
  printf '%s\n' "$commands" | while IFS= read -r line; do
    [ "$line" != end ] || break
    carry_out_line "$line"
    echo "$code $line" 2> /dev/null >> "$folder/record"
  done || exit 1
  echo end 2> /dev/null >> "$folder/record"
}

# Sets `code`: the command's own, or `running`.
carry_out_line() {
  eval "set -- $1"
  "$@" < /dev/null > /dev/null 2>&1 &
  command=$!
  code=running
  gives_up=$(($(now) + COMMAND_ENDS_WITHIN * 100))
  while [ -n "$(started "$command")" ]; do
    [ "$(now)" -lt "$gives_up" ] || return 0
    nap 0.02
  done
  wait "$command"
  code=$?
}

# ── ending it ───────────────────────────────────────────────────────────────────────────────────────────────────────

disarm() {
  [ -d "$folder" ] || return 0
  stood=$(alive "$folder/guard")
  if mv "$folder/armed" "$folder/disarmed" 2> /dev/null; then
    [ -n "$stood" ] || echo gone
    # It may have seen by itself that it is not needed any more.
    if [ -n "$(alive "$folder/guard")" ]; then kill -KILL "$stood" 2> /dev/null; fi
  else
    await_undone
    record
  fi
  rm -rf "$folder"
}

fire() {
  [ -d "$folder" ] || return 0
  learn || complain "$folder holds no whole undo"
  sign "$folder/firing" 2> /dev/null
  if take; then carry_out; else await_undone; fi
  record
}

# Until what is being undone is undone, or who does it has died in the middle.
await_undone() {
  until [ "$(tail -n 1 "$folder/record" 2> /dev/null)" = end ]; do
    undoes="$(alive "$folder/guard")$(alive "$folder/firing")"
    [ -n "$undoes" ] && [ "$undoes" != $$ ] || return 0
    nap 0.1
  done
}

record() {
  if [ -s "$folder/record" ]; then
    cat "$folder/record"
  elif [ -e "$folder/fired" ]; then
    # The disk was full, so only the renaming tells of it.
    read -r armed deadline < "$folder/times"
    echo "after $((deadline - armed))"
  fi
}

verb=$1 folder=$2
shift 2
case $verb in
  arm) arm "$@" ;;
  disarm) disarm ;;
  fire) fire ;;
  record) record ;;
  watch) watch ;;
  await) await ;;
  undo) undo ;;
  *) complain "unknown verb $verb" ;;
esac
