#!/usr/bin/env python3
# time limit: 300
# store: sqlite
"""Every command, and every page, costs a server the same with 10 and with 600 archives, queues, executors, tokens and semaphores: instructions of the whole
process, request to answer (bench/growth.py, a small size of it)."""
import pathlib
import shutil
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / 'test' / 'lib'), str(ROOT / 'bench')]
import growth  # noqa: E402
from house import end, ok, skip  # noqa: E402

program = ROOT / 'build' / 'weir'  # a plain build: callgrind and the sanitizers don't go together
if not program.exists() or not shutil.which('vgdb'):
    skip('growth', f'there is no {program} (`make` builds it), or no valgrind')
else:
    for name, few, many, good in growth.table(program, 10, 600):
        ok(good, f'{name}: among 10 and among 600 {growth.told(few, many)}')
end()
