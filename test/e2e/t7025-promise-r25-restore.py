#!/usr/bin/env python3
# time limit: 240
"""R25, restore never re-issues a fence: backup under load, go on, restore in place, and let the old executors report: nothing of theirs is accepted."""
import pathlib
import shutil
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'promises'))
from promise import Promise, scaled, verify  # noqa: E402
from house import TMP, House, Worker, end, run, same, until  # noqa: E402

ROUNDS = scaled(3)
p = Promise('R25', 'restore never re-issues a fence')
for what in ('stale effects accepted', 'fences issued twice', 'accepted before the backup lost', 'wrong ends'):
    p.zero(what)
s = House('data', slots=0, lease='2s')
fences, incarnations = set(), set()
for round in range(ROUNDS):
    w = Worker(s, f'old{round}', slots=200)
    ids = [t['id'] for t in s.enqueue(*[dict(queue=f'q{round}', name=f'n{i}', command='x', retry=dict(attempts=9)) for i in range(30)])]
    early = w.claim(free=15)  # granted before the backup
    same(s.cli('backup', TMP / f'copy{round}').code, 0, f'backup {round + 1}')
    late = w.claim(free=15)  # granted after it: the copy doesn't know
    for g in early[:5] + late[:5]:
        w.finish(g, exit=1)  # and these ends are forgotten by the restore
    s.stop(signal.SIGINT)
    shutil.move(s.dir, TMP / f'gone{round}')
    same(run('restore', TMP / f'copy{round}', '--data', s.dir, '--active').code, 0, f'restore {round + 1}')
    s.start()
    p.did('restores')
    p.zero('accepted before the backup lost', sum(s.get(f'/v1/tasks/{i}').status != 200 for i in ids))
    heir = Worker(s, f'new{round}', slots=200)
    fresh = {g['task']: g for g in heir.claim(free=10)}  # some are granted anew before the old ones speak, some after
    for g in early + late:
        fences.add(g['fence'])
        incarnations.add(g['fence'].split('-')[0])
        for answer in (w.finish(g, exit=1), w.log(g, 0, b'old')):
            p.did('stale reports')
            p.zero('stale effects accepted', int(answer.status != 409), answer)
    # a poll by the old executor, with its old fences: it is told
    answer = s.post(f'/v1/executors/{w.id}/poll', dict(free=0, wait_ms=0, renew=[dict(task=g['task'], fence=g['fence']) for g in early]))
    p.zero('stale effects accepted', int(answer.status == 200 and any(s.task(g['task'])['attempts'] and s.task(g['task'])['attempts'][-1]['outcome'] == 'failed' for g in early)))
    have = dict(fresh)

    def all_granted():
        for g in heir.claim(free=50, wait_ms=100, renew=[dict(task=x['task'], fence=x['fence']) for x in have.values()]):
            have[g['task']] = g
        return set(ids) <= set(have)
    until(all_granted, f'round {round + 1}: all are granted anew', 30)
    for i in ids:
        if i not in have:
            continue
        p.zero('fences issued twice', int(have[i]['fence'] in fences))
        fences.add(have[i]['fence'])
        incarnations.add(have[i]['fence'].split('-')[0])
        heir.finish(have[i], exit=0)
        task = s.task(i)
        p.zero('wrong ends', int(task['state'] != 'D' or sum(a['outcome'] == 'done' for a in task['attempts']) != 1), task)
        p.did('tasks')
p.did('incarnations', len(incarnations))
p.zero('fences issued twice', int(len(incarnations) != ROUNDS + 1), incarnations)
verify(p, s)
p.report()
end()
