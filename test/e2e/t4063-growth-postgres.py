#!/usr/bin/env python3
# time limit: 600
# store: sqlite (it starts its own PostgreSQL)
"""As t4062 on PostgreSQL: every command, and every page, costs the server's process as many instructions, and the database as many statements and blocks, with 10 and
with 600 archives, queues, executors, tokens and semaphores."""
import pathlib
import shutil
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / 'test' / 'lib'), str(ROOT / 'bench')]
import growth  # noqa: E402
import postgres  # noqa: E402
from house import end, ok, skip  # noqa: E402

program = ROOT / 'build' / 'weir'  # a plain build: callgrind and the sanitizers don't go together
if not program.exists() or not shutil.which('vgdb') or not postgres.available():
    skip('growth', f'there is no {program} (`make` builds it), or no valgrind, or no PostgreSQL')
else:
    for name, few, many, good in growth.table(program, 10, 600, postgres=True):
        ok(good, f'{name}: among 10 and among 600 {growth.told(few, many)}')
end()
