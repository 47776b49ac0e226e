"""A fuzzer of every reader: `make fuzz`, or `python tests/fuzz/fuzz.py [READER]... [--seconds S] [--seed N]`.

What crashes a reader (anything that is no error of ours, and more than ten seconds) is kept in `corpus/READER`, which
`make test` reads again. Exit code 1 if there was any.
"""

from __future__ import annotations

import argparse
import hashlib
import signal
import sys
import time
import traceback
from pathlib import Path
from random import Random
from typing import Final

sys.path.insert(0, str(Path(__file__).parent))
from mutations import mutated
from readers import READERS, Reader, crash_of

CORPUS: Final = Path(__file__).parent / "corpus"
_LIMIT_S: Final = 10.0


def _too_long(_signal: int, _frame: object) -> None:
    raise TimeoutError(f"it took more than {_LIMIT_S:g} s")


def fuzz(reader: Reader, *, seconds: float, seed: int) -> int:
    """Feed one reader for that long. Returns the number of its different crashes."""
    random = Random(f"{seed} {reader.name}")
    seeds = [*reader.seeds(), *(path.read_bytes() for path in sorted((CORPUS / reader.name).glob("*")))]
    ends = time.monotonic() + seconds
    count = 0
    places: set[str] = set()
    while time.monotonic() < ends:
        content = mutated(seeds, random)
        signal.setitimer(signal.ITIMER_REAL, _LIMIT_S)
        crash = crash_of(reader, content)
        signal.setitimer(signal.ITIMER_REAL, 0)
        count += 1
        if crash is None:
            continue
        frame = traceback.extract_tb(crash.__traceback__)[-1]
        place = f"{type(crash).__name__} at {Path(frame.filename).name}:{frame.lineno}"
        if place not in places:
            places.add(place)
            path = CORPUS / reader.name / hashlib.blake2b(content, digest_size=6).hexdigest()
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            print(f"{reader.name}: {place}: {str(crash)[:200]}\n  {path}", flush=True)
    print(f"{reader.name}: {count} files, {len(places)} crashes", flush=True)
    return len(places)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("readers", nargs="*", metavar="READER", help=", ".join(READERS))
    parser.add_argument("--seconds", type=float, default=20, help="for each reader")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    options = parser.parse_args()
    if unknown := sorted(set(options.readers) - READERS.keys()):
        parser.error(f"no such reader: {', '.join(unknown)}")
    signal.signal(signal.SIGALRM, _too_long)
    print(f"seed {options.seed}")
    crashes = sum(
        fuzz(READERS[name], seconds=options.seconds, seed=options.seed) for name in options.readers or READERS
    )
    sys.exit(1 if crashes else 0)


if __name__ == "__main__":
    main()
