#!/usr/bin/env python3
"""Revisions told in random orders, doubled and late, while the server is killed between: no task starts out of order, each runs once, nothing is lost."""
# time limit: 240
import os
import pathlib
import random
import sys

sys.path.insert(0, os.environ.get('WEIR_TEST_LIB') or str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import TMP, House, end, ok, same, until

REVS, ROUNDS = 8, 3
seed = int(os.environ.get('WEIR_TEST_SEED', '12'))
rng = random.Random(seed)
print(f'# seed {seed}', flush=True)
s = House('data', slots=4)


def post(archive, rev):
    """as a hook that doesn't give up: again until somebody answers"""
    def told():
        try:
            answer = s.post(f'/v1/archives/{archive}/revisions', dict(rev=rev, workflow=workflow(archive)))
            return answer.status in (200, 202)
        except OSError:
            return False
    return until(told, seconds=40)


def workflow(archive):
    mark = TMP / f'{archive}.log'
    return [dict(name='index', depends=['PREV'], checkout=False, script=f'echo "index $WEIR_REV begin" >> {mark}; echo "index $WEIR_REV end" >> {mark}'),
            dict(name='build', depends=['index'], checkout=False, script=f'echo "build $WEIR_REV" >> {mark}'),
            dict(name='alone', lock='exclusive', checkout=False, script=f'echo "alone $WEIR_REV begin" >> {mark}; echo "alone $WEIR_REV end" >> {mark}')]


def restart():
    s.kill()
    s.start()


for number in range(ROUNDS):
    archive = f'a{number}'
    s.post('/v1/archives', dict(name=archive, kind='external'))
    order = list(range(1, REVS + 1))
    rng.shuffle(order)
    order += rng.sample(range(1, REVS + 1), 4)  # told twice
    kills = set(rng.sample(range(len(order)), 3))
    good = True
    for at, rev in enumerate(order):
        if at in kills:
            restart()
        good &= bool(post(archive, rev))
    ok(good, f'{archive}: told in the order {order}, killed before {sorted(kills)}')
    restart()
    keys = [f'{archive}@{rev}:{name}' for rev in range(1, REVS + 1) for name in ('COMMIT', 'index', 'build', 'alone')]
    done = until(lambda: all(s.state(k) == 'D' for k in keys), seconds=60)
    ok(done, f'{archive}: all {len(keys)} tasks are done', [k for k in keys if s.state(k) != 'D'])
    lines = (TMP / f'{archive}.log').read_text().split('\n')[:-1]
    same([x for x in lines if x.startswith('index')], [f'index {rev} {word}' for rev in range(1, REVS + 1) for word in ('begin', 'end')], f'{archive}: indexing in the order of revisions, one at a time, once')
    same([x for x in lines if x.startswith('alone')], [f'alone {rev} {word}' for rev in range(1, REVS + 1) for word in ('begin', 'end')], f'{archive}: what has the lock too')
    same(sorted(x for x in lines if x.startswith('build')), [f'build {rev}' for rev in range(1, REVS + 1)], f'{archive}: every build once')
    ok(all(lines.index(f'index {rev} end') < lines.index(f'build {rev}') for rev in range(1, REVS + 1)), f'{archive}: each after its index', lines)
    started = [e['key'] for e in s.events(f'archive={archive}') if e['kind'] == 'move' and e.get('to') == 'X' and ':index' in e['key']]
    # a grant whose answer died with the server is taken back and given again, before the job began: the log above says that it ran once
    same(list(dict.fromkeys(started)), [f'{archive}@{rev}:index' for rev in range(1, REVS + 1)], f'{archive}: the events say the same')
    commits = [e['key'] for e in s.events(f'archive={archive}') if e['kind'] == 'move' and e.get('to') == 'D' and e['key'].endswith(':COMMIT')]
    same(commits, [f'{archive}@{rev}:COMMIT' for rev in range(1, REVS + 1)], f'{archive}: commits in order')
verify = s.cli('verify')
ok(verify.code == 0, 'verify: the history is whole', verify.out, verify.err)
end()
