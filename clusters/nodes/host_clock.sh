#!/bin/sh
# Host clock: skews this host's wall clock while a guard stands, and sets it right again with all that keeps it right.
#
#   host_clock.sh skew    FOLDER SECONDS FAULT   from true time, ahead or behind; exits with 75 unless the guard of that
#                                                fault (`fault-3`) stands
#   host_clock.sh restore FOLDER           true time, and the daemons that were stopped run again; else nothing happens
#   host_clock.sh right   FOLDER           exits with 0 unless the clock is skewed, or what keeps it right does not run again
#   host_clock.sh offset  FOLDER           prints by how many seconds the clock is skewed now
#   host_clock.sh refusal                  prints why it cannot be skewed here; nothing if it can
#
# True time is what the clock showed when the first skew began, carried on by the kernel's time since it was booted, which
# no setting of the clock moves. FOLDER is the run's on this host, with `settime.py` and `settime.pl` beside this script.
# It holds the guards, and in `clock`: the anchor, the daemons that were stopped (written down before they are), and while
# anything is skewed the mark `skewed`, which goes when the clock was read back and the daemons were seen to run.
set -u
PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH

# The daemons that set the clock. One that does not run as a service cannot be stopped, so the skew is refused.
UNITS="chrony chronyd systemd-timesyncd ntp ntpd ntpsec openntpd phc2sys"
PROCESSES="chronyd systemd-timesyn ntpd openntpd phc2sys"
NOT_GUARDED=75
CAP_SYS_TIME=25

complain() {
  echo "clock: $*" >&2
  exit 1
}

stands() { [ -e "$folder/$fault/armed" ]; }

settime() {
  if command -v python3 > /dev/null; then
    python3 "$folder/settime.py" "$@"
  else
    perl "$folder/settime.pl" "$@"
  fi
}

boot() { cat /proc/sys/kernel/random/boot_id; }

# Sets `anchor`: true time minus time since boot; fails if none was taken since this boot.
anchored() {
  [ -r "$folder/clock/anchor" ] || return 1
  read -r booted anchor < "$folder/clock/anchor" || return 1
  [ "$booted" = "$(boot)" ]
}

# ── those who keep it right ─────────────────────────────────────────────────────────────────────────────────────────

is_systemd() { [ -d /run/systemd/system ]; }

runs() {
  if is_systemd; then
    systemctl is-active --quiet "$1.service"
  else
    [ -x "/etc/init.d/$1" ] && "/etc/init.d/$1" status > /dev/null 2>&1
  fi
}

keepers() {
  for unit in $UNITS; do
    if runs "$unit"; then echo "$unit"; fi
  done
}

ask_keeper() {
  if is_systemd; then systemctl "$1" "$2.service"; else "/etc/init.d/$2" "$1" > /dev/null; fi
}

# Names of processes that keep the clock, whether or not as services.
keeping() {
  for name in /proc/[0-9]*/comm; do
    read -r name < "$name" || continue
    case " $PROCESSES " in *" $name "*) echo "$name" ;; esac
  done 2> /dev/null
}

# ── skewing it ──────────────────────────────────────────────────────────────────────────────────────────────────────

begin() {
  [ -d "$folder/clock" ] || mkdir -m 700 "$folder/clock" || exit 1
  anchor=$(settime anchor) || complain "true time cannot be measured"
  echo "$(boot) $anchor" > "$folder/clock/anchor" || exit 1
  keepers > "$folder/clock/keepers" || exit 1
  touch "$folder/clock/skewed" || exit 1
  # shellcheck disable=SC2013 # names of units are words
  for unit in $(cat "$folder/clock/keepers"); do
    ask_keeper stop "$unit" < /dev/null
  done
  left=$(keepers)$(keeping)
  if [ -n "$left" ]; then
    mend
    complain "it would be set right again at any moment by" "$left"
  fi
}

skew() {
  stands || not_guarded
  if [ ! -e "$folder/clock/skewed" ] || ! anchored; then begin; fi
  settime set "$anchor" "$1" || { mend; exit 1; }
  # A guard that fired just now may have restored what was not skewed yet.
  stands || { mend; not_guarded; }
}

not_guarded() {
  echo "clock: no guard stands in $folder/$fault: the fault has expired, or was never armed" >&2
  exit "$NOT_GUARDED"
}

restore() {
  [ -e "$folder/clock/skewed" ] || return 0
  mend
}

# After a reboot the anchor is worthless, but so is the skew: the clock was read from the hardware's, which was not moved.
mend() {
  failed=""
  if anchored; then
    settime set "$anchor" 0 && case $(settime offset "$anchor") in 0.0* | -0.0*) ;; *) false ;; esac ||
      failed="the clock could not be set right"
  fi
  # shellcheck disable=SC2013 # the same
  for unit in $(cat "$folder/clock/keepers" 2> /dev/null); do
    { ask_keeper start "$unit" < /dev/null && runs "$unit"; } || failed="$unit could not be started again"
  done
  [ -z "$failed" ] || complain "$failed"
  rm -f "$folder/clock/skewed"
}

offset() {
  if anchored; then settime offset "$anchor"; else echo 0; fi
}

refusal() {
  command -v python3 > /dev/null || command -v perl > /dev/null || {
    echo "there is neither python3 nor perl to set the clock with"
    return
  }
  capabilities=$(sed -n 's/^CapEff:[[:space:]]*//p' /proc/self/status)
  if [ $(((0x$capabilities >> CAP_SYS_TIME) & 1)) = 0 ] || ! grep -q '^ *0 *0 *4294967295$' /proc/self/uid_map; then
    echo "the clock may not be set here (CAP_SYS_TIME is missing)"
    return
  fi
  if [ -z "$(keepers)" ] && [ -n "$(keeping)" ]; then
    echo "$(keeping) sets the clock, and is no service that could be stopped"
  fi
}

verb=$1 folder=${2:-}
case $verb in
  skew)
    fault=${4:-no-fault}
    skew "$3"
    ;;
  restore) restore ;;
  right) [ ! -e "$folder/clock/skewed" ] ;;
  offset) offset ;;
  refusal) refusal ;;
  *) complain "unknown verb $verb" ;;
esac
