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
