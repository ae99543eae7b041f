#!/usr/bin/env python3
# time limit: 300
# store: sqlite
"""Instructions of the engine and its store for N and 4 N (bench/cost.py, a small size of it): nothing costs more than what it works on."""
import pathlib
import shutil
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / 'test' / 'lib'), str(ROOT / 'bench')]
import cost  # noqa: E402
from house import end, ok, skip  # noqa: E402

KINDS = ['semaphores', 'concurrency', 'raise', 'give-way', 'executor-comes', 'executor-goes', 'executor-goes-among', 'finish-each', 'supersede', 'cancel', 'among-archives', 'among-waiters',
    'stop-prev', 'stop-lock', 'retry-revision', 'retry-prev', 'retry-locked', 'among-classes']
program = ROOT / 'build' / 'bench' / 'cost'  # a plain build: callgrind and the sanitizers don't go together
if not program.exists() or not shutil.which('valgrind'):
    skip('instructions', f'there is no {program} (`make` builds it), or no valgrind')
else:
    late = cost.table(program, 400, ['fan-in']) + cost.table(program, 100, ['claim-classes'])  # what is searched shows late
    for kind, may, few, many, good in cost.table(program, 40, KINDS) + late:
        ok(good, f'{kind} is {may}: {few:,} instructions, with four times as many {many:,}', many / few)
end()
