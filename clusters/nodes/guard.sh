#!/bin/sh
# Guard: undoes one fault on this node by itself, unless it is disarmed in time because the fault was healed. It undoes,
# reads back whether the node is whole, backs off, and begins again, until it has seen that it is.
#
#   guard.sh arm    FOLDER CENTISECONDS [ABOUT]   the undo on standard input; returns when the guard stands
#   guard.sh disarm FOLDER [unneeded]             ends the guard, prints what it had done by itself, removes the folder;
#                                                 exits with 76 and leaves it all if the node is not whole
#   guard.sh fire   FOLDER                        undoes at once, in the guard's place; prints what was done
#   guard.sh keep   FOLDER                        begins the guard again if it and whoever restarts it are gone, and says so
#   guard.sh record FOLDER                        prints what was done so far; nothing before anything was
#   guard.sh fenced FOLDER COMMAND...             a part of the injection: exits with 75, having done nothing, unless
#                                                 the guard stands and its time has not come
#   guard.sh watch  FOLDER [guard|twin|unit]      the guard itself
#   guard.sh await  FOLDER guard|twin|unit        the guard, begun again
#
# The twin's processes are called `twin.sh`, so that nobody ends both by one name.
#
# The undo has lines of four kinds, their words quoted for a shell: `undo COMMAND`; `whole COMMAND`, which exits with 0 if
# nothing of the fault is left; `alone COMMAND`, an undo that nothing can be read back of, whose own exit code counts; and
# a last line `end`: what was cut off on its way is refused.
#
# Of the files in FOLDER, `armed` is renamed to `fired` by who undoes, then to `whole` when the node was seen so, or to
# `disarmed` by who says that it is not needed: a renaming takes no room on the disk, and only one of them finds `armed`.
#
# Who restarts a guard that is killed: systemd where it runs; elsewhere its twin, which does all that a guard does, and is
# restarted by it. Of both at one moment nobody on the node knows; the harness looks every few seconds (`keep`). An injection that is under way when the guard fires is ended, before anything is undone.
# Time is the kernel's since it was booted. A wall clock may be the very thing that the fault has moved.
set -u
usual=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
# Once: a guard that begins again and again would end with a PATH too long for any command.
case $PATH in *:"$usual") ;; *) PATH=$PATH:$usual ;; esac
export PATH

STANDS_WITHIN=3000        # centiseconds
COMMAND_ENDS_WITHIN=3000  # centiseconds that one command of the undo is waited for; then it goes on beside the next
ALONE_TRIES=3             # rounds that a command is given of which nothing can be read back
INJECTION_ENDS_WITHIN=200 # centiseconds that a part of the injection has left when the guard fires
FIRST_BACK_OFF=50         # centiseconds; doubled after each round
LAST_BACK_OFF=500
SILENT_FOR=200            # centiseconds for which who undoes may not show before another does
DISARMS_WITHIN=9000       # centiseconds that an undo in the middle is waited for
NOT_ARMED=75
NOT_WHOLE=76
nl='
'
commands='' armed=0 deadline=0 about='' unfinished='' up=0 state=''

complain() {
  echo "guard: $*" >&2
  exit 1
}

# For the host's owner, in the system's log. Nothing waits for it.
audit() {
  command -v logger > /dev/null || return 0
  logger -t schemaquake -- "$*: ${about:-$folder}" < /dev/null > /dev/null 2>&1 &
}

nap() {
  sleep "$1" 2> /dev/null || sleep 1
}

# include processes.sh

# In place: where the disk is full, an old signature is written over.
sign() {
  look_up $$
  printf '%-10s %-20s\n' $$ "$began" 1<> "$1"
}

# ── setting it ──────────────────────────────────────────────────────────────────────────────────────────────────────

arm() {
  look_at_clock
  deadline=$((up + $1)) about=${2:-}
  mkdir -m 700 "$folder" || exit 1
  trap 'abandon "it was interrupted"' HUP INT TERM
  cat > "$folder/undo" || abandon "the undo could not be written"
  [ "$(tail -n 1 "$folder/undo")" = end ] || abandon "the undo is not whole"
  { echo "$((deadline - $1)) $deadline" > "$folder/times" && echo "$about" > "$folder/about"; } ||
    abandon "its times could not be written (is the disk full?)"
  printf '%-10s %-20s\n' 0 0 > "$folder/undoing" || abandon "its signature could not be written (is the disk full?)"
  ln -s ../guard.sh "$folder/twin.sh" || abandon "its twin could not be made"
  touch "$folder/armed" || abandon "its mark could not be made"
  launch
  await_stand
  audit "fault armed, undone by itself in $(($1 / 100)) s"
}

# Gives up at once where what was launched has ended without signing.
await_stand() {
  look_at_clock
  gives_up=$((up + STANDS_WITHIN)) ended=
  while :; do
    find_living "$folder/guard"
    [ -z "$living" ] || return 0
    [ -z "$ended" ] || abandon "it did not come up (is the disk full?)"
    look_at_clock
    [ "$up" -le "$gives_up" ] || abandon "it did not come up in time"
    nap 0.05
    if [ -n "$launched" ]; then
      look_up "$launched"
      [ -n "$began" ] || ended=yes
    fi
  done
}

# Nothing was injected yet, so there is nothing to undo either.
abandon() {
  mv "$folder/armed" "$folder/disarmed" 2> /dev/null
  end_guards
  rm -rf "$folder"
  complain "$*"
}

# In a session of its own, out of reach of who set it. systemd may end whatever a login has left behind, so there the
# guard is a service, which systemd starts again if it is killed; what it starts must outlive it.
launch() {
  launched=
  # shellcheck disable=SC2016 # the service's own shell expands it
  if [ -d /run/systemd/system ] && systemd-run --quiet --collect --property=KillMode=process \
    --property=Restart=on-failure --property=RestartSec=3 \
    --description="schemaquake guard of $folder" -- \
    sh -c '[ ! -e "$2" ] || exec sh "$1" watch "$2" unit' sh "${folder%/*}/guard.sh" "$folder" > /dev/null 2>&1 < /dev/null; then
    return
  fi
  command -v setsid > /dev/null || abandon "there is no setsid here (install util-linux)"
  launch_one guard
  launched=$!
  launch_one twin
}

launch_one() {
  if [ "$1" = twin ]; then script=$folder/twin.sh; else script=${folder%/*}/guard.sh; fi
  setsid sh "$script" watch "$folder" "$1" < /dev/null > /dev/null 2>&1 &
}

# ── the guard ───────────────────────────────────────────────────────────────────────────────────────────────────────

# Sets `role`, `own` (the file of our signature) and `other` (the twin's; nothing under systemd).
play() {
  role=$1 own=guard other=
  case $role in
    guard) other=twin ;;
    twin) own=twin other=guard ;;
  esac
}

watch() {
  [ -d "$folder" ] || exit 0
  learn || exit 1
  sign "$folder/$own" || exit 1
  # Not before we have signed: who disarms ends whoever has.
  [ -e "$folder/armed" ] || [ -e "$folder/fired" ] || exit 0
  cd /
  # The server may take all the memory there is; it is not we who must end for it.
  { echo -1000 > /proc/self/oom_score_adj; } 2> /dev/null
  await
}

await() {
  persist
  # A signal to end (a shutdown, the end of a login) undoes the fault at once.
  trap 'deadline=0' HUP INT TERM
  unset LD_PRELOAD
  idle_since=
  while is_needed; do
    if [ -e "$folder/fired" ]; then
      stand_in
    else
      look_at_clock
      if [ "$up" -ge "$deadline" ] && take; then undo; fi
    fi
    doze
    tend_other
  done
  trap - EXIT
  exit 0
}

# Whether anything may be left to do. One whose place another has taken goes.
is_needed() {
  [ ! -e "$folder/disarmed" ] && [ ! -e "$folder/whole" ] || return 1
  if { read -r pid _ < "$folder/$own"; } 2> /dev/null; then [ "$pid" = $$ ]; fi
}

# Who undoes may have been killed in the middle, or frozen: who is frozen is killed, or it would go on some time.
stand_in() {
  find_living "$folder/undoing"
  case $living$state in
    '' | "$$"?) ;;
    *T | *t) kill -KILL "$living" 2> /dev/null ;;
  esac
  look_at_clock
  if [ -n "$living" ] && [ "$living" != $$ ]; then
    idle_since=
  elif [ "$living" = $$ ] || [ $((up - ${idle_since:=$up})) -ge "$SILENT_FOR" ]; then
    undo
  fi
}

tend_other() {
  [ -n "$other" ] && is_needed && [ -d "$folder" ] || return 0
  find_living "$folder/$other"
  [ -n "$living" ] || launch_one "$other"
}

doze() {
  look_at_clock
  left=$((deadline - up))
  if [ "$left" -gt 120 ]; then sleep 1; else nap 0.1; fi
}

# A shell gives up where no process can be made any more. This one begins again, which takes none, until one can. What
# it gave up over leaves a pipe open each time, and soon there would be no descriptor either.
persist() {
  exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-
  # shellcheck disable=SC2064 # as it is now
  trap "exec sh '$0' await '$folder' $role" EXIT
  [ -n "$commands" ] || [ ! -d "$folder" ] || learn || { nap 1; exit 1; }
}

# Everything that undoing needs, so that nothing must be read then. Fails without a whole undo.
learn() {
  commands=
  while IFS= read -r line; do
    [ "$line" != end ] || break
    commands=$commands$line$nl
  done 2> /dev/null < "$folder/undo" || return 1
  [ "${line:-}" = end ] || return 1
  { read -r armed deadline < "$folder/times"; } 2> /dev/null || return 1
  { read -r about < "$folder/about"; } 2> /dev/null || about=
}

# Whether the undoing is ours. What can neither be renamed nor is claimed by anybody (a folder that was swept away, a
# disk that went read-only) is undone to be safe.
take() {
  mv "$folder/armed" "$folder/fired" 2> /dev/null && return
  [ ! -e "$folder/disarmed" ] && [ ! -e "$folder/fired" ] && [ ! -e "$folder/whole" ]
}

# Rounds until the node is whole, or it was disarmed, or the time is over that is given ("": none).
undo() {
  sign "$folder/undoing" 2> /dev/null
  audit "undoing"
  look_at_clock
  [ -s "$folder/record" ] || echo "after $((up - armed))" 2> /dev/null >> "$folder/record"
  round=0 back_off=$FIRST_BACK_OFF until=${1:-} complained=
  if [ -n "$until" ]; then until=$((up + until)); fi
  while :; do
    round=$((round + 1))
    end_injections
    go_through
    write_record
    if [ -z "$left" ]; then
      mv "$folder/fired" "$folder/whole" 2> /dev/null
      audit "node whole after $round rounds"
      # Where nothing can be renamed, only our end says it.
      [ "$role" = fire ] || { trap - EXIT; exit 0; }
      return 0
    fi
    if [ "$left" != "$complained" ]; then audit "node not whole yet ($left)"; fi
    complained=$left
    back_off_for "$back_off" || return 1
    back_off=$((back_off * 2))
    if [ "$back_off" -gt "$LAST_BACK_OFF" ]; then back_off=$LAST_BACK_OFF; fi
  done
}

# Fails if no further round is wanted.
back_off_for() {
  look_at_clock
  ends=$((up + $1))
  while [ "$up" -lt "$ends" ]; do
    [ "$role" = fire ] || tend_other
    nap 0.2
    [ ! -e "$folder/disarmed" ] || return 1
    look_at_clock
    [ -z "$until" ] || [ "$up" -lt "$until" ] || return 1
  done
}

# One round: every command of the undo, whether or not the one before failed, and then every reading back. Sets `left` to
# the first thing that is not whole, or to nothing, and `told` to the round's record.
go_through() {
  left='' told=''
  end_unfinished
  rest=$commands
  while [ -n "$rest" ]; do
    line=${rest%%"$nl"*} rest=${rest#*"$nl"}
    case $line in undo\ * | alone\ *) ;; *) continue ;; esac
    carry_out "${line#* }"
    told=$told"$code ${line#* }$nl"
    case $line in alone\ *) [ "$code" = 0 ] || [ "$round" -ge "$ALONE_TRIES" ] || left=${left:-${line#* }} ;; esac
  done
  look
}

# Reads back. Sets `left` if something is not whole.
look() {
  rest=$commands
  while [ -n "$rest" ]; do
    line=${rest%%"$nl"*} rest=${rest#*"$nl"}
    case $line in whole\ *) ;; *) continue ;; esac
    carry_out "${line#whole }"
    [ "$code" = 0 ] || left=${left:-${line#whole }}
  done
}

# Sets `code`: the command's own, or `running`.
carry_out() {
  eval "set -- $1"
  (
    { echo 0 > /proc/self/oom_score_adj; } 2> /dev/null
    exec "$@"
  ) < /dev/null > /dev/null 2>&1 &
  command=$!
  code=running
  look_at_clock
  gives_up=$((up + COMMAND_ENDS_WITHIN))
  look_up "$command"
  while [ -n "$began" ]; do
    look_at_clock
    if [ "$up" -ge "$gives_up" ]; then
      unfinished="$unfinished $command"
      return 0
    fi
    nap 0.02
    look_up "$command"
  done
  wait "$command"
  code=$?
}

# Before they are begun again.
end_unfinished() {
  for pid in $unfinished; do kill -KILL "$pid" 2> /dev/null; done
  unfinished=
}

# What was let through the fence before we fired may not come after what we undo. It has a moment to end by itself.
end_injections() {
  look_at_clock
  gives_up=$((up + INJECTION_ENDS_WITHIN))
  for signed in "$folder"/injecting-*; do
    find_living "$signed"
    while [ -n "$living" ] && [ "$up" -lt "$gives_up" ]; do
      nap 0.1
      look_at_clock
      find_living "$signed"
    done
    [ -z "$living" ] || end_all_of "$living"
  done
}

end_all_of() {
  children=
  { read -r children < "/proc/$1/task/$1/children"; } 2> /dev/null
  kill -KILL "$1" 2> /dev/null
  # shellcheck disable=SC2086 # they are words
  for child in $children; do kill -KILL "$child" 2> /dev/null; done
}

# The latest round, after a line that says when the first began and how many there were. A record that cannot be written stops nothing.
write_record() {
  { read -r _ first _ < "$folder/record"; } 2> /dev/null || return 0
  told="after $first $round$nl$told"
  if [ -n "$left" ]; then told="${told}left $left$nl"; else told="${told}end$nl"; fi
  printf '%s' "$told" 2> /dev/null > "$folder/record.new" && mv -f "$folder/record.new" "$folder/record" 2> /dev/null
}

# ── the fence ───────────────────────────────────────────────────────────────────────────────────────────────────────

# Signed before the guard is looked at: a guard that fires after that ends us, and one that fired before is seen. The
# command takes our place, so the signature is its own.
fenced() {
  [ -d "$folder" ] || refuse "it is not armed here"
  for signed in "$folder"/injecting-*; do
    find_living "$signed"
    [ -n "$living" ] || rm -f "$signed"
  done
  sign "$folder/injecting-$$" || complain "the injection could not be signed (is the disk full?)"
  learn || refuse "its guard has no whole undo"
  [ -e "$folder/armed" ] || refuse "its guard has fired"
  look_at_clock
  [ "$up" -lt "$deadline" ] || refuse "its time is over"
  find_living "$folder/guard"
  [ -n "$living" ] || find_living "$folder/twin"
  [ -n "$living" ] || refuse "its guard is gone"
  if mkdir "$folder/begun" 2> /dev/null; then audit "injecting"; fi
  exec "$@"
}

refuse() {
  rm -f "$folder/injecting-$$"
  echo "guard: nothing was done, because the fault is not guarded: $*" >&2
  exit "$NOT_ARMED"
}

# ── ending it ───────────────────────────────────────────────────────────────────────────────────────────────────────

disarm() {
  [ -d "$folder" ] || return 0
  learn
  role=fire round=1 until=
  if [ "${1:-}" = unneeded ]; then
    mv "$folder/armed" "$folder/disarmed" 2> /dev/null || mv "$folder/fired" "$folder/disarmed" 2> /dev/null
  else
    await_undone
    require_whole
    find_living "$folder/guard"
    [ -n "$living" ] || find_living "$folder/twin"
    if mv "$folder/armed" "$folder/disarmed" 2> /dev/null; then
      [ -n "$living" ] || echo gone
    else
      await_undone
      [ ! -e "$folder/fired" ] || require_whole
      record
    fi
  fi
  audit "fault healed and disarmed"
  end_guards
  rm -rf "$folder"
}

# A guard goes only when the node was seen whole.
require_whole() {
  [ ! -e "$folder/whole" ] || return 0
  left=
  look
  [ -n "$left" ] || return 0
  revive
  echo "guard: the node is not whole ($left); its guard stays" >&2
  exit "$NOT_WHOLE"
}

revive() {
  for signed in "$folder/guard" "$folder/twin"; do
    find_living "$signed"
    [ -z "$living" ] || return 0
  done
  launch
}

# Both, until they are gone: none may wait for a time when its folder is.
end_guards() {
  for signed in "$folder/guard" "$folder/twin" "$folder/guard" "$folder/twin"; do
    find_living "$signed"
    while [ -n "$living" ]; do
      kill -KILL "$living" 2> /dev/null
      nap 0.02
      find_living "$signed"
    done
  done
}

# For the harness, while it lives. One that is being armed or disarmed is left to who does that.
keep() {
  [ -e "$folder/armed" ] || [ -e "$folder/fired" ] || return 0
  for signed in "$folder/guard" "$folder/twin"; do
    find_living "$signed"
    [ -z "$living" ] || return 0
  done
  learn || complain "$folder holds no whole undo"
  launch
  audit "guard begun again"
  echo again
}

fire() {
  [ -d "$folder" ] || return 0
  learn || complain "$folder holds no whole undo"
  role=fire other=
  if take; then undo "$DISARMS_WITHIN"; else await_undone; fi
  if [ -e "$folder/fired" ]; then undo "$DISARMS_WITHIN"; fi
  [ ! -e "$folder/fired" ] || revive
  record
}

# Until what is being undone is undone, or who does it has died in the middle, or for too long.
await_undone() {
  look_at_clock
  gives_up=$((up + DISARMS_WITHIN))
  while [ -e "$folder/fired" ] && [ "$up" -lt "$gives_up" ]; do
    find_living "$folder/guard"
    [ -n "$living" ] || find_living "$folder/twin"
    [ -n "$living" ] || return 0
    nap 0.1
    look_at_clock
  done
}

record() {
  if [ -s "$folder/record" ]; then
    cat "$folder/record"
  elif [ -e "$folder/fired" ] || [ -e "$folder/whole" ]; then
    # The disk was full, so only the renaming tells of it.
    learn
    echo "after $((deadline - armed))"
  fi
  if [ -e "$folder/whole" ]; then echo whole; fi
}

verb=$1 folder=$2
shift 2
case $verb in
  arm) arm "$@" ;;
  disarm) disarm "$@" ;;
  fire) fire ;;
  record) record ;;
  keep) keep ;;
  fenced) fenced "$@" ;;
  watch)
    play "${1:-guard}"
    watch
    ;;
  await)
    play "$1"
    await
    ;;
  *) complain "unknown verb $verb" ;;
esac
