#!/bin/sh
# Lease: one run a host. It says which run may disturb this host, whose that is, and until when.
#
#   lease.sh take    PLACE CENTISECONDS RUN OWNER STATE   takes it, renews our own, or takes over one that has expired
#   lease.sh heal    PLACE CENTISECONDS RUN OWNER STATE   the same for who only heals: what other runs left does not matter
#   lease.sh renew   PLACE CENTISECONDS RUN               fails if it is not ours any more
#   lease.sh release PLACE RUN                            gives ours back; nothing if it is another's
#   lease.sh show    PLACE                                prints holder lines as below; nothing if nobody holds it
#
# Exits with 77 if another run holds it, and prints three lines: the run, its owner, the seconds that are left. Exits with
# 78 if a fault of another run may stand here, and prints its folder. PLACE is a file beside which nobody but root writes;
# STATE is the folder in which guards of the owner's runs have theirs. Time is the kernel's since it was booted.
set -u
PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH

HELD=77
STANDS=78
LOCKED_WITHIN=600 # tenths of a second; who takes a lease over may have to undo something first

complain() {
  echo "lease: $*" >&2
  exit 1
}

# include processes.sh
up=0

boot() { read -r id < /proc/sys/kernel/random/boot_id && echo "$id"; }

# Held until this process ends.
lock() {
  command -v flock > /dev/null || complain "there is no flock here (install util-linux)"
  exec 9< "${place%/*}" || exit 1
  tries=0
  until flock -n 9; do
    tries=$((tries + 1))
    [ "$tries" -le "$LOCKED_WITHIN" ] || complain "another run does not let go of the lock of $place"
    sleep 0.1
  done
}

# Sets `holder`, `owner`, `its_state`, `booted` and `expires`; `holder` is empty if there is none.
look() {
  holder='' owner='' its_state='' booted='' expires=0
  # shellcheck disable=SC2094 # they are read alone
  {
    IFS= read -r holder
    IFS= read -r owner
    IFS= read -r its_state
    read -r booted expires
  } 2> /dev/null < "$place" || holder=''
}

has_expired() {
  look_at_clock
  [ "$booted" != "$(boot)" ] || [ "$up" -ge "${expires:-0}" ]
}

show() {
  look
  [ -n "$holder" ] && ! has_expired || return 0
  printf '%s\n%s\n%s\n' "$holder" "$owner" "$(((expires - up) / 100))"
}

write() {
  look_at_clock
  printf '%s\n%s\n%s\n%s %s\n' "$run" "$1" "$2" "$(boot)" "$((up + length))" > "$place.new" &&
    mv -f "$place.new" "$place" && return
  rm -f "$place.new"
  echo "lease: $place could not be written (is the disk full?)" >&2
  return 1
}

refuse_held() {
  [ -n "$holder" ] && [ "$holder" != "$run" ] && ! has_expired || return 0
  show
  exit "$HELD"
}

# Whether the guard of this fault has nothing to do any more. An older one has no mark for that, but a record with an end.
is_over() {
  [ ! -e "$1/undo" ] || [ -e "$1/whole" ] || [ -e "$1/disarmed" ] ||
    { [ -e "$1/fired" ] && [ ! -e "$1/undoing" ] && [ "$(tail -n 1 "$1/record" 2> /dev/null)" = end ]; }
}

# What a run left whose lease has expired is undone by its own guard; of what a run without a lease has here, nobody knows
# whether it still goes on.
refuse_others_faults() {
  for fault in "$its_state/$holder"/fault-* "$state"/*/fault-*; do
    case $fault in "$state/$run"/*) continue ;; esac
    is_over "$fault" && continue
    case $fault in
      "$its_state/$holder"/*) [ -z "$holder" ] || [ "$holder" = "$run" ] || sh "${fault%/*}/guard.sh" fire "$fault" > /dev/null 2>&1 9<&- ;;
    esac
    is_over "$fault" && continue
    echo "$fault"
    exit "$STANDS"
  done
}

take() {
  lock
  look
  refuse_held
  [ "$1" = heal ] || refuse_others_faults
  # Healing depends on no writing.
  write "$owner_of_run" "$state" || [ "$1" = heal ]
}

renew() {
  lock
  look
  if [ "$holder" != "$run" ]; then
    show
    exit "$HELD"
  fi
  write "$owner" "$its_state"
}

release() {
  [ -e "$place" ] || return 0
  lock
  look
  [ "$holder" != "$run" ] || rm -f "$place"
}

verb=$1 place=$2
case $verb in
  take | heal)
    length=$3 run=$4 owner_of_run=$5 state=$6
    take "$verb"
    ;;
  renew)
    length=$3 run=$4
    renew
    ;;
  release)
    run=$3
    release
    ;;
  show) show ;;
  *) complain "unknown verb $verb" ;;
esac
