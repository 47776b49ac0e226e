"""A `systemctl` that plays systemd for one unit, whose server is a process of its own; for hosts without systemd.

    systemctl start|stop|kill|show …    as `systemd_unit.sh` asks it

Its folder holds `command` (a line for a shell that becomes the server), `pid` while one runs, `failures` (how many starts
will still fail), and `asked`, a line a change. A `start --no-block` returns at once and fails later, as systemd's does.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["play_systemctl"]

_SCRIPT = """#!/bin/sh
cd {folder} || exit 1
lives() {{ [ -r pid ] && [ -r "/proc/$(cat pid)/stat" ] && [ "$(cut -d' ' -f3 "/proc/$(cat pid)/stat")" != Z ]; }}
case $1 in
  show)
    case $3 in
      MainPID) if lives; then echo "MainPID=$(cat pid)"; else echo MainPID=0; fi ;;
      ActiveState) if lives && [ -e stopping ]; then echo ActiveState=deactivating; else echo ActiveState=active; fi ;;
      *) echo "$3=" ;;
    esac ;;
  start)
    echo "$@" >> asked
    left=$(cat failures 2> /dev/null || echo 0)
    if [ "$left" -gt 0 ]; then echo $((left - 1)) > failures; exit {failure}; fi
    lives || {{ rm -f stopping; setsid sh -c 'echo $$ > pid; exec sh command' < /dev/null > /dev/null 2>&1 & }} ;;
  stop)
    echo "$@" >> asked
    if lives; then
      touch stopping
      kill "$(cat pid)"
      [ "$2" = --no-block ] || while lives; do sleep 0.1; done
    fi ;;
  kill) echo "$@" >> asked; ! lives || kill -KILL "$(cat pid)" ;;
  reset-failed) ;;
esac
"""


def play_systemctl(folder: Path, command: str, *, failure: int = 1) -> Path:
    """Make the folder and return its `systemctl`. `failure` is the exit code of a start that fails; 0: it fails unseen."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "command").write_text(f"exec {command}\n", encoding="utf-8")
    script = folder / "systemctl"
    script.write_text(_SCRIPT.format(folder=folder, failure=failure), encoding="utf-8")
    script.chmod(0o755)
    return script
