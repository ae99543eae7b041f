#!/usr/bin/env python3
# time limit: 400
"""Histories of 2,000 revisions, svn and git, taken from the first on, in order, side by side with archives that are broken or busy and don't slow each other."""
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import TMP, House, end, ok, same, until  # noqa: E402
from repos import archive, git_make, next_of, revision_events, sh, svn_commit, svn_make  # noqa: E402

N = int(os.environ.get('WEIR_TEST_REVISIONS', '2000'))
# three tasks: COMMIT, one that needs nothing to run, one with paths
WORKFLOW = 'tasks:\n - name: step\n   depends: [PREV]\n - name: docs\n   paths: ["docs/**"]\n'

s = House('data', slots=0)
svn, git, small = svn_make('svn', N, WORKFLOW), git_make('git', N, WORKFLOW), svn_make('small', 1, WORKFLOW)
broken = svn_make('broken', 3, WORKFLOW)
same(s.cli('archive', 'add', 'small', '--svn', small, '--from', '1').code, 0, 'a small archive')
same(s.cli('archive', 'add', 'broken', '--svn', broken, '--from', '1', '--no-hook').code, 0, 'one that breaks')
ok(until(lambda: next_of(s, 'small') == 2 and next_of(s, 'broken') == 4), 'both are taken')
(TMP / 'broken/db/current').write_text('garbage\n')
ok(until(lambda: archive(s, 'broken')['watch']['state'] == 'fault'), 'it broke')

began = time.monotonic()
same(s.cli('archive', 'add', 'a', '--svn', svn, '--from', '1').code, 0, f'{N} revisions of Subversion from the first on')
same(s.cli('archive', 'add', 'g', '--git', git, '--from', '1').code, 0, f'{N} commits of git from the first on')
beside, done = [], {}
for i in range(10000):
    svn_commit('small', f'x{i}')
    at = time.monotonic()
    until(lambda: next_of(s, 'small') > 2 + i, seconds=30)
    beside.append((time.monotonic() - at) * 1000)
    for name in ('a', 'g'):
        if name not in done and next_of(s, name) == N + 1:
            done[name] = time.monotonic() - began
    if len(done) == 2 or time.monotonic() - began > 300:
        break
same(sorted(done), ['a', 'g'], 'both histories are taken whole')
for name in done:
    print(f'# {name}: {N} revisions in {done[name]:.1f} s, {N / done[name]:.0f} a second (both at once, commits beside them)')
beside.sort()
print(f'# beside them: {len(beside)} commits to another archive, known after {beside[len(beside) // 2]:.0f} ms (median), {beside[-1]:.0f} ms at most')
ok(beside[len(beside) // 2] < 3000 and beside[-1] < 15000, 'another archive was not slowed down', beside)
for name in ('a', 'g'):
    same(revision_events(s, name), list(range(1, N + 1)), f'{name}: in order, each once')
    counts = archive(s, name)['counts']
    same((counts['D'], sum(counts.values())), (3 * N, 3 * N), f'{name}: {3 * N} tasks, all done')
    same(s.get(f'/v1/archives/{name}/revisions/{N}').json['message'], f'change {N}', f'{name}: the last one is the last one')
same(archive(s, 'broken')['watch']['state'], 'fault', 'the broken one is still broken')
ok('damaged' in archive(s, 'broken')['watch']['fault'], 'and says what is wrong', archive(s, 'broken')['watch'])
(TMP / 'broken/db/current').write_text('3\n')
svn_commit('broken', 'again')
ok(until(lambda: next_of(s, 'broken') == 5 and archive(s, 'broken')['watch']['state'] == 'ok', seconds=20), 'mended, it goes on by itself')
faults = [line for line in s.log.read_text().splitlines() if line.startswith('archive.fault')]
ok(1 <= len(faults) <= 2, 'the fault was logged when it came or changed, and not again', faults)
same(sum(line.startswith('archive.healed') for line in s.log.read_text().splitlines()), 1, 'and its end once')
s.stop()
ok(until(lambda: not s.left(), seconds=60), 'nothing is left running', s.left())
end()
