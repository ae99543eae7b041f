#!/usr/bin/env python3
"""Random faults in posted workflows: always a clear refusal or a revision, never a crash; every path names something that is in the body, at the line and column given."""
import json
import os
import pathlib
import random
import sys

sys.path.insert(0, os.environ.get('WEIR_TEST_LIB') or str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import House, end, ok, same

seed = int(os.environ.get('WEIR_TEST_SEED', '4'))
rng = random.Random(seed)
print(f'# seed {seed}', flush=True)
s = House('data', slots=0)
s.post('/v1/archives', dict(name='docs', kind='external'))
KEYS = ['name', 'depends', 'after', 'cancels', 'image', 'command', 'script', 'shell', 'checkout', 'env', 'timeout', 'retry', 'lock', 'paths', 'priority', 'labels', 'zone', 'semaphores',
        'schedule', 'on', 'detached', 'allow_failure', 'artifacts', 'sandbox', 'matrix', 'freeze', 'window', 'unique', 'concurrency', 'blocked_by', 'collapse', 'nmae', 'a/b', 'c~d', 'ä', '', '"', 'x\\y']


def value(depth=0):
    """anything that may stand in JSON"""
    kind = rng.randrange(9 if depth < 3 else 6)
    if kind < 3:
        return rng.choice(['a', 'b', 'PREV', 'PREV:a', '1h', '', 'ü', '*/5 * * * *', 'exclusive', 'docs/**', 'x' * 120, 'a b', '\u0001', '{archive}'])
    if kind == 3:
        return rng.choice([0, 1, -1, 10 ** 12, 1.5, True, False, None])
    if kind < 6:
        return rng.choice([[], {}, ['a'], ['a', 'a'], [7], {'task': 'a', 'on': 'success'}, {'attempts': 2}, {'cron': '* * * * *', 'tz': 'Nowhere/Land'}])
    if kind < 8:
        return [value(depth + 1) for _ in range(rng.randrange(4))]
    return {rng.choice(KEYS): value(depth + 1) for _ in range(rng.randrange(4))}


def task(n):
    out = {'name': rng.choice(['a', 'b', 'c', f't{n}', f't{n}', f't{n}'])}
    for key in rng.sample(KEYS, rng.randrange(5)):
        out[key] = value()
    return out


def document():
    tasks = [task(n) if rng.randrange(8) else value() for n in range(rng.randrange(5))]
    shape = rng.randrange(6)
    if shape < 3:
        return tasks
    if shape == 3:
        return {'tasks': tasks, **({rng.choice(['on', 'defaults', 'semaphores', 'workflow', 'taks']): value()} if rng.randrange(2) else {})}
    return {'jobs': {rng.choice(KEYS + ['a', 'b', 'c', 'd']): value() if rng.randrange(3) else {} for _ in range(3)}} if shape == 4 else value()


def resolve(body, pointer):
    at = body
    for part in pointer.split('/')[1:]:
        part = part.replace('~1', '/').replace('~0', '~')
        at = at[int(part)] if isinstance(at, list) else at[part]
    return at


def spell(body):
    """the same document, written in different ways"""
    return json.dumps(body, ensure_ascii=bool(rng.randrange(2)), indent=rng.choice([None, None, 1, 4]), separators=rng.choice([None, (',', ':'), (' , ', ' :\n ')]))


refused = taken = 0
wrong = []
rev = 1
for number in range(400):
    body = dict(rev=rev, workflow=document())
    text = spell(body)
    answer = s.post('/v1/archives/docs/revisions', text)
    if answer.status == 202:
        rev += 1
        taken += 1
        continue
    refused += 1
    if answer.status != 422 or not answer.json.get('errors'):
        wrong.append((answer, text))
        continue
    lines = text.split('\n')
    for error in answer.json['errors']:
        try:
            resolve(body, error['path'])
            assert error['path'].startswith('/workflow') and error['message'], 'path'
            assert 1 <= error['line'] <= len(lines) and 1 <= error['column'] <= len(lines[error['line'] - 1]) + 1, 'place'
        except (KeyError, IndexError, ValueError, TypeError, AssertionError) as fault:
            wrong.append((repr(fault), error, text))
ok(refused > 50 and taken > 20, 'both happen', refused, taken)
same(wrong[:3], [], 'every refusal is 422 and every error names a part of the body, with its line and column')
same(s.get('/v1/archives/docs').json['next'], rev, 'nothing that was refused is there')
same(len(s.get('/v1/archives/docs/revisions?limit=1000').json['revisions']), taken, 'and what was taken is')
same(s.get('/healthz').status, 200, 'the server is well')
end()
