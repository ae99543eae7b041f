#!/usr/bin/env python3
# time limit: 300
"""Eight notifications in random orders, doubled and dropped, with kill -9 of the server between: no task starts out of order, nothing is lost."""
import os
import pathlib
import random
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import House, end, ok, run, same, until  # noqa: E402
from repos import git_commit, git_make, next_of, revision_events, sh, starts, svn_commit, svn_make  # noqa: E402

ROUNDS, REVISIONS = 4, 8
# `index` of a revision begins when that of the one before has left the queue; `free` whenever it likes
WORKFLOW = 'tasks:\n - name: index\n   depends: [PREV]\n   checkout: false\n   script: echo $WEIR_REV\n - name: free\n   checkout: false\n   script: exit 0\n'

seed = int(os.environ.get('WEIR_TEST_SEED', '7'))
print(f'# WEIR_TEST_SEED={seed}')
rng = random.Random(seed)
s = House('data', slots=3)
svn, git = svn_make('svn', 1, WORKFLOW), git_make('git', 1, WORKFLOW)
sh('git clone -q git wc')
same(s.cli('archive', 'add', 'a', '--svn', svn, '--from', '1', '--no-hook').code, 0, 'a Subversion archive')
same(s.cli('archive', 'add', 'g', '--git', git, '--from', '1', '--no-hook').code, 0, 'a git archive')
last = 1


def tell(revs):
    """notifications from several callers at once, as hooks are; a third never comes"""
    sent = [r for r in revs for _ in range(rng.choice((0, 1, 1, 2)))]
    rng.shuffle(sent)
    threads = [threading.Thread(target=lambda r=r: (run('notify', '--server', s.socket, 'a', r), run('notify', '--server', s.socket, 'g', 'HEAD'))) for r in sent]
    for t in threads:
        t.start()
    return threads


for n in range(ROUNDS):
    revs = range(last + 1, last + 1 + REVISIONS)
    victim = rng.randrange(REVISIONS)
    threads = []
    for i, rev in enumerate(revs):
        svn_commit('svn', f'r{rev}')
        git_commit('wc', f'r{rev}')
        if i == victim:
            threads += tell(list(revs)[:i + 3])  # some of what isn't there yet
            s.kill()
            s.start()
    threads += tell(revs)
    if n % 2:
        s.kill()
        s.start()
    for t in threads:
        t.join()
    last += REVISIONS
    ok(until(lambda: next_of(s, 'a') == last + 1 and next_of(s, 'g') == last + 1, seconds=60), f'round {n + 1}: all revisions are known',
       s.get('/v1/archives').body)

for name in ('a', 'g'):
    same(revision_events(s, name), list(range(1, last + 1)), f'{name}: each revision once, in order')
    want = {(rev, 'D') for rev in range(1, last + 1)}
    ok(until(lambda: want <= set(starts(s, name, 'index')) and want <= set(starts(s, name, 'free')), seconds=120), f'{name}: every task is done',
       sorted(want - set(starts(s, name, 'index'))))
    ended, out_of_order = 0, []
    for rev, to in starts(s, name, 'index'):
        if to == 'X' and ended < rev - 1:
            out_of_order.append((rev, ended))
        if to != 'X':
            ended = max(ended, rev)
    same(out_of_order, [], f'{name}: no task started before the one of the revision before had ended')
    ends = [rev for rev, to in starts(s, name, 'index') if to == 'D']
    same(sorted(ends), list(range(1, last + 1)), f'{name}: each ended once')
s.stop()
ok(until(lambda: not s.left(), seconds=60), 'nothing is left running', s.left())
end()
