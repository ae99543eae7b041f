#!/usr/bin/env python3
"""RQ24 to RQ28 whole: change sets posted to a server become commits, each exactly one, while executors, shims and the server are killed."""
# time limit: 200
import os
import signal
import sys
import pathlib

sys.path.insert(0, os.environ.get('WEIR_TEST_LIB') or str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import TMP, House, alive, end, ok, processes, same, until  # noqa: E402
from repos import sh  # noqa: E402
from tarballs import meta, tarball  # noqa: E402

sh('git init -q -b main work; git -C work commit -qm one --allow-empty; git clone -q --bare work git; svnadmin create svn; svn mkdir -qm one "file://$PWD/svn/trunk"')
s = House('data', slots=2, lease='2s')
same(s.post('/v1/archives', dict(name='docs', kind='git', url=f'{TMP}/git', branch='main')).status, 201, 'a git archive')
same(s.post('/v1/archives', dict(name='code', kind='svn', url=f'file://{TMP}/svn')).status, 201, 'a Subversion archive')
HANGS = TMP / 'hangs'


def submit(target='docs', **more):
    answer = s.post('/v1/changesets', tarball(target=target, **more))
    ok(answer.status == 202, f'RQ1 a change set for {target}', answer)
    return answer.json['csid'], answer.json['task']


def hook(name, script, repository='git'):
    HANGS.unlink(missing_ok=True)
    path = TMP / repository / 'hooks' / name
    path.write_text(f'#!/bin/sh\ntouch {HANGS}\n{script}\n')
    path.chmod(0o755)
    return path


def trailers(csid):
    """commits of the branch with that CSID"""
    return sh(f'git -C git log main --format=%H --fixed-strings --grep="Weir-CSID: {csid}"').split()


def ended(task, state, text, seconds=60):
    until(lambda: s.state(task) == state, seconds=seconds)
    row = s.task(task)
    ok(row['state'] == state, text, row)
    return row


def fence_of(task):
    return [p for p, line in processes(str(s.dir)).items() if f'-{task}-' in open(f'/proc/{p}/environ', errors='replace').read()]


# ---- the way of a change set: RQ24, and its revision in the archive's own history ----
csid, task = submit(files={'a.txt': b'one\ntwo\nthree\n'}, message='first')
row = ended(task, 'D', 'RQ24 posted to git: done')
same(len(trailers(csid)), 1, 'RQ24 one commit')
same(row.get('outputs', {}).get('base'), sh('git -C git rev-parse main^'), 'RQ24 its base is an output')
revisions = lambda name: s.patient(f'/v1/archives/{name}/revisions').json['revisions']
until(lambda: any(r.get('cause') for r in revisions('docs')), 'RQ28 the commit is a revision of the archive, and its cause is the change set', seconds=60)
code, code_task = submit('code', files={'trunk/f': b'f\n'})
ended(code_task, 'D', 'RQ24 posted to Subversion: done')
same((sh('svn cat "file://$PWD/svn/trunk/f"'), sh('svnlook propget --revprop -r 2 svn weir:csid')), ('f', code), 'RQ24 one revision, which names it')
until(lambda: any(r.get('cause') for r in revisions('code')), 'RQ28 and it is one of that archive', seconds=60)

# ---- conflicts and refusals: RQ25 ----
base = sh('git -C git rev-parse main')
submit(files={'a.txt': b'one\nTWO\nthree\n'})
csid, task = submit(files={'a.txt': b'one\nzwei\nthree\n'}, base=base)
row = ended(task, 'F', 'RQ25 a conflict: F')
ok('a.txt' in row['reason'] and 'conflict' in row['reason'], 'RQ25 which names the path', row['reason'])
refuses = hook('pre-receive', 'echo not now >&2; exit 1')
row = ended(submit(files={'b': b'1'})[1], 'F', 'RQ25 a hook that refuses: F')
ok('not now' in row['reason'], 'with its words', row['reason'])
refuses.unlink()

# ---- killed: RQ26 ----
for name, found in (('pre-receive', False), ('post-receive', True)):
    hangs = hook(name, 'sleep 1000')
    csid, task = submit(files={'k': name.encode()})
    until(HANGS.exists, f'{name} runs')
    hangs.unlink()
    same(len(trailers(csid)), int(found), 'it has committed' if found else 'it has not committed')
    for pid in s.executors() + s.shims():
        os.kill(pid, signal.SIGKILL)
    row = ended(task, 'D', f'RQ26 executor and shims killed while {name} ran: done by the next grant', seconds=90)
    same(len(trailers(csid)), 1, 'RQ25 with one commit')
    same(s.patient(f'/v1/tasks/{task}').json['attempts'][-1]['outcome'], 'done', 'its last attempt')

hangs = hook('post-receive', 'sleep 1000')
csid, task = submit(files={'k': b'cancelled'})
until(HANGS.exists)
hangs.unlink()
s.post(f'/v1/tasks/{task}/cancel', dict(reason='no'))
row = ended(task, 'D', 'RQ26 cancelled after its commit: it is done')
same(len(trailers(csid)), 1, 'one commit')
hangs = hook('pre-receive', 'sleep 1000')
csid, task = submit(files={'k': b'cancelled before'})
until(HANGS.exists)
s.post(f'/v1/tasks/{task}/cancel', dict(reason='no'))
row = ended(task, 'T', 'RQ26 cancelled before its commit: T')
same(len(trailers(csid)), 0, 'no commit')
csid, task = submit(files={'k': b'cancelled and lost'})
until(lambda: s.state(task) == 'X' and any(' apply' in line for line in s.left().values()))
hangs.unlink()
hangs = hook('post-receive', 'sleep 1000')
s.post(f'/v1/tasks/{task}/cancel', dict(reason='no'))
ended(task, 'T', 'RQ26 cancelled at its start')
csid, task = submit(files={'k': b'lost after its commit and cancelled'})
until(HANGS.exists)
hangs.unlink()
for pid in s.executors() + s.shims():
    os.kill(pid, signal.SIGKILL)
s.post(f'/v1/tasks/{task}/cancel', dict(reason='no'))
ended(task, 'D', 'RQ26 its executor lost after the commit, then cancelled: the next grant looks, and it is done', seconds=90)
same(len(trailers(csid)), 1, 'one commit')

hangs = hook('post-receive', f'while test -e {HANGS}; do sleep 0.05; done')
csid, task = submit(files={'k': b'server killed'})
until(HANGS.exists)
s.kill()
HANGS.unlink()
s.start()
ended(task, 'D', 'RQ26 the server is killed meanwhile: the executor reports to the next one', seconds=90)
same(len(trailers(csid)), 1, 'one commit')
hangs.unlink()

# ---- a repository that is away heals ----
(TMP / 'git').rename(TMP / 'away')
csid, task = submit(files={'h': b'heals'})
until(lambda: s.task(task).get('attempts') and s.task(task)['state'] == 'S', 'RQ25 the repository is away: it waits', seconds=60)
(TMP / 'away').rename(TMP / 'git')
ended(task, 'D', 'RQ25 and heals', seconds=90)

# ---- rollback: RQ27 ----
one, one_task = submit(files={'r1': b'1'})
two, two_task = submit(files={'r2': b'2'}, dependencies=[one])
ended(two_task, 'D', 'two that depend on each other')
back, back_task = submit(movetype='RB', dependencies=[one])
ended(back_task, 'D', 'RQ27 a rollback of the first')
same(sh('git -C git ls-tree --name-only main r1 r2'), '', 'RQ27 both are undone')
same(sh(f'git -C git log -1 --format="%(trailers:key=Weir-Rolls-Back,valueonly)" main').split(), [two, one], 'by one commit, which says so')
seen = s.verify()
ok(seen.code == 0, 'weir verify', seen.out, seen.err)
s.stop()
end()
