#!/usr/bin/env python3
"""RQ24 to RQ28 on git: a real executor and real repositories, the server's half of the protocol played; kills at the worst moments."""
# time limit: 120
import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../unit/exec'))
from applying import TMP, Applier, sh  # noqa: E402
from crew import Tap, poll, processes  # noqa: E402

tap = Tap()
sh('git init -q -b main work; git -C work commit -qm one --allow-empty; git clone -q --bare work repo.git; git init -q --bare -b main empty.git')
source = {'archive': 'docs', 'kind': 'git', 'url': f'{TMP}/repo.git', 'branch': 'main'}
tip = lambda repo='repo.git': sh(f'git -C {repo} rev-parse -q --verify main || echo none')
show = lambda path: sh(f'git -C repo.git show main:{path}', check=False)
count = lambda: int(sh('git -C repo.git rev-list --count main'))
body = lambda rev='main': sh(f'git -C repo.git log -1 --format=%B {rev}')



def hook_put(name, script):
    """a hook that says that it has begun"""
    if os.path.exists(f'{TMP}/hangs'):
        os.unlink(f'{TMP}/hangs')
    with open(f'{TMP}/repo.git/hooks/{name}', 'w') as f:
        f.write(f'#!/bin/sh\ntouch {TMP}/hangs\n{script}\n')
    os.chmod(f'{TMP}/repo.git/hooks/{name}', 0o755)


with Applier() as crew:
    before = tip()
    task = crew.apply(source, 'c1', {'a.txt': 'one\ntwo\nthree\n', 'bin/run': '#!/bin/sh\n'}, run=['bin/run'], apply={'ticket': 'T1', 'depends': ['c0']})
    tap.equal(crew.end(task), (0, tip(), ''), 'RQ24 a change set is one commit, and its end says which')
    tap.equal((task.outputs, count()), ([{'base': before}], 2), 'RQ24 the base was recorded')
    tap.equal((show('a.txt'), sh('git -C repo.git ls-tree main bin/run')[:6]), ('one\ntwo\nthree', '100755'), 'files and the executable bit')
    lines = body().splitlines()
    tap.ok(lines[0] == 'c1: 2 files' and {'Weir-CSID: c1', 'Weir-Submitter: ann', 'Weir-Ticket: T1', 'Weir-Movetype: DC', 'Weir-Depends: c0', 'Weir-Cause: docs:c1'}
           <= set(lines), 'the commit says whose it is, and that its cause is the change set', lines)
    tap.equal(crew.done(source, 'c1', {'a.txt': 'x'}, apply={'base_rev': before})[:2], (0, tip()), 'RQ25 found, and not committed twice')
    tap.equal(count(), 2, 'no second commit')
    first = tip()
    crew.done(source, 'c2', {'a.txt': 'one\nTWO\nthree\n'})
    how, revision, reason = crew.done(source, 'c3', {'a.txt': 'one\nzwei\nthree\n'}, apply={'base': first})
    tap.ok(how == 100 and 'a.txt' in reason and 'c2' in reason, 'RQ25 a conflict names path and change set', (how, reason))
    task = crew.apply({**source, 'url': f'{TMP}/empty.git'}, 'c1', {'a': 'b'})
    tap.equal((crew.end(task)[:2], task.outputs), ((0, tip('empty.git')), [{'base': 'none'}]), 'a branch without a commit has the base "none"')
    tap.equal(crew.done({**source, 'url': f'{TMP}/empty.git'}, 'c1', {'a': 'b'}, apply={'base_rev': 'none'})[:2], (0, tip('empty.git')), 'and it is found behind that')

    how, revision, reason = crew.done({**source, 'url': f'{TMP}/work'}, 'c4', {'a': 'b'})
    tap.ok(how == 100 and 'checked out' in reason, 'a branch that is checked out: never, and what to do', (how, reason))
    how, revision, reason = crew.done({**source, 'branch': 'gone'}, 'c4', {'a': 'b'})
    tap.ok(how == 100 and 'gone' in reason, 'a branch that is not there', (how, reason))
    sh('printf "#!/bin/sh\\necho frozen today >&2; exit 1\\n" >repo.git/hooks/update; chmod +x repo.git/hooks/update')
    how, revision, reason = crew.done(source, 'c4', {'a': 'b'})
    tap.ok(how == 100 and 'frozen today' in reason, 'RQ25 a hook that refuses: its words', (how, reason))
    sh('rm repo.git/hooks/update')

    # killed before the commit: pre-receive hangs; after it, before the report: post-receive hangs
    for hook, found in ('pre-receive', False), ('post-receive', True):
        csid = f'k-{hook}'
        hook_put(hook, 'sleep 1000')
        task, commits = crew.apply(source, csid, {'k': csid}), count()
        poll(lambda: os.path.exists(f'{TMP}/hangs'))
        base = task.outputs[0]['base']
        for pid in crew.shims().values():
            if any(p for p in processes(task.fence) if open(f'/proc/{p}/stat').read().rsplit(')', 1)[1].split()[1] == str(pid)):
                os.kill(pid, signal.SIGKILL)
        tap.equal(crew.end(task)[:2], ('lost', None), f'RQ26 the shim is killed while {hook} runs: the attempt is lost')
        tap.ok(poll(lambda: not processes(task.fence)), 'and nothing of it lives')
        sh(f'rm repo.git/hooks/{hook}')
        tap.equal(count() - commits, int(found), 'the commit was made' if found else 'nothing was committed')
        tap.equal((crew.done(source, csid, {'k': csid}, apply={'base_rev': base})[:2], count() - commits), ((0, tip()), 1),
                  'RQ25 the next grant ' + ('finds it: no second commit' if found else 'applies it'))

    # the agent is killed: the next one reports the end
    hook_put('post-receive', f'while test -e {TMP}/hangs; do sleep 0.05; done')
    task = crew.apply(source, 'k3', {'k': 'three'})
    poll(lambda: os.path.exists(f'{TMP}/hangs'))
    crew.kill()
    os.unlink(f'{TMP}/hangs')
    crew.start()
    tap.equal(crew.end(task)[:2], (0, tip()), 'RQ26 a killed agent: the next one reports the revision')
    sh('rm repo.git/hooks/post-receive')

    fourth = tip()
    undo = {'undoes': [{'csid': 'k3', 'revision': tip()}, {'csid': 'c2', 'revision': sh('git -C repo.git log --format=%H --grep=Weir-CSID:.c2')}]}
    tap.equal(crew.done(source, 'r1', movetype='RB', apply=undo)[:2], (0, tip()), 'RQ27 a rollback is one commit')
    tap.ok(sh('git -C repo.git rev-parse main^') == fourth and show('a.txt') == 'one\ntwo\nthree' and 'Weir-Rolls-Back: k3 c2' in body().splitlines(),
           'RQ27 which undoes all of them, and says so', body())
    sh('mv repo.git away')
    how, revision, reason = crew.done(source, 'c5', {'a': 'b'})
    tap.ok(how == 111, 'a repository that is away: later', (how, reason))
    tap.equal(crew.done(source, 'c5', {'a': 'b'}, grace_ms=2000, timeout_ms=3000, apply={'base_rev': fourth, 'look': True})[0], 'timeout', 'a look waits for it')
    sh('mv away repo.git')

with Applier(lease_ms=2000) as crew:
    hook_put('pre-receive', 'sleep 1000')
    task = crew.apply(source, 'l1', {'l': 'l'})
    poll(lambda: os.path.exists(f'{TMP}/hangs'))
    crew.fake.stop()
    tap.ok(poll(lambda: not processes(task.fence)), 'RQ26 an apply step is dead before its lease is over')
    sh('rm repo.git/hooks/pre-receive')
    crew.fake.start()
    tap.equal(crew.end(task)[:2], ('lost', None), 'and is reported as lost')
tap.end()
