#!/usr/bin/env python3
"""RQ24 to RQ28 on Subversion: a real executor and a real repository, the server's half of the protocol played."""
# time limit: 120
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../unit/exec'))
from applying import TMP, Applier, sh  # noqa: E402
from crew import Tap  # noqa: E402

tap = Tap()
sh('svnadmin create svn; svn mkdir -qm one "file://$PWD/svn/trunk" "file://$PWD/svn/tags"')
source = {'archive': 'docs', 'kind': 'svn', 'url': f'file://{TMP}/svn', 'path': 'trunk'}
cat = lambda path: sh(f'svn cat "file://$PWD/svn/trunk/{path}"', check=False)
prop = lambda name, rev: sh(f'svnlook propget --revprop -r {rev} svn {name}', check=False)
youngest = lambda: int(sh('svnlook youngest svn'))

with Applier() as crew:
    tap.ok('apply' in list(crew.fake.executors.values())[0]['kinds'] if crew.fake.wait(lambda: crew.fake.executors) is None else False,
           'an executor with --apply registers the kind')
    task = crew.apply(source, 'c1', {'a.txt': 'one\ntwo\nthree\n', 'bin/run': '#!/bin/sh\n'}, run=['bin/run'], apply={'ticket': 'T1', 'message': 'first'})
    tap.equal(crew.end(task), (0, '2', ''), 'RQ24 a change set is one commit, and its end says which')
    tap.equal(task.outputs, [{'base': '1'}], 'RQ24 the base was recorded')
    tap.equal((cat('a.txt'), cat('bin/run')), ('one\ntwo\nthree', '#!/bin/sh'), 'its files are there')
    tap.equal([prop(name, 2) for name in ('svn:author', 'weir:csid', 'weir:submitter', 'weir:ticket', 'weir:movetype', 'weir:cause', 'svn:log')],
              ['ann', 'c1', 'ann', 'T1', 'DC', 'docs:c1', 'first'], 'the commit says whose it is, and that its cause is the change set')
    tap.ok('*' in sh('svn propget svn:executable "file://$PWD/svn/trunk/bin/run"'), 'the executable bit is kept')

    tap.equal(crew.done(source, 'c1', {'a.txt': 'one\ntwo\nthree\n', 'bin/run': '#!/bin/sh\n'}, apply={'base_rev': '1'}), (0, '2', ''),
              'RQ25 a change set that was committed by an attempt that was lost is found, and not committed twice')
    tap.equal(youngest(), 2, 'no second commit')
    tap.equal(crew.done(source, 'c1', {'x': 'y'}, apply={'base_rev': '1', 'look': True}), (0, '2', ''), 'a grant that only looks finds it')
    tap.equal(crew.done(source, 'c9', {'x': 'y'}, apply={'base_rev': '1', 'look': True})[:2], ('signal 15', None), 'and says when it is not there')

    tap.equal(crew.done(source, 'c2', {'b': 'b\n'}, removed=['bin/run'])[:2], (0, '3'), 'a file is added and one removed')
    tap.equal(cat('bin/run'), '', 'which is gone')
    how, revision, reason = crew.done(source, 'c3', {'a.txt': 'one\nTWO\nthree\n'}, apply={'base': '2'})
    tap.equal((how, revision), (0, '4'), 'a file that nobody changed since ##base')
    how, revision, reason = crew.done(source, 'c4', {'a.txt': 'one\nzwei\nthree\n'}, apply={'base': '2'})
    tap.ok(how == 100 and 'a.txt' in reason and 'c3' in reason and '2' in reason, 'RQ25 a conflict is permanent, and names path, line and change set in the way',
           (how, reason))
    tap.equal(youngest(), 4, 'nothing was committed')

    sh('printf "#!/bin/sh\\necho not on a Friday >&2; exit 1\\n" >svn/hooks/pre-commit; chmod +x svn/hooks/pre-commit')
    how, revision, reason = crew.done(source, 'c5', {'b': 'B\n'})
    tap.ok(how == 100 and 'not on a Friday' in reason, 'RQ25 a hook that refuses: its words', (how, reason))
    sh('printf "#!/bin/sh\\nsleep 1000\\n" >svn/hooks/pre-commit')
    how, revision, reason = crew.done(source, 'c5', {'b': 'B\n'}, timeout_ms=1500, grace_ms=20000)
    tap.equal((how, revision), ('timeout', None), 'RQ26 a hook that hangs is ended at the time-out of the target')
    tap.equal(crew.fake.tasks[len(crew.fake.tasks)].finish.get('signal'), 15, 'and it was looked for: it is not in the repository')
    task = crew.apply(source, 'c5', {'b': 'B\n'}, grace_ms=20000)
    crew.fake.wait(lambda: task.outputs)
    crew.fake.cancel(task, 'HUP')
    tap.equal(crew.end(task)[:2], ('signal 1', None), 'RQ26 HUP amid a hook: by that signal')
    sh('printf "#!/bin/sh\\nsleep 1000\\n" >svn/hooks/post-commit; rm svn/hooks/pre-commit; chmod +x svn/hooks/post-commit')
    task = crew.apply(source, 'c5', {'b': 'B\n'}, grace_ms=20000)
    crew.fake.wait(lambda: youngest() == 5)
    crew.fake.cancel(task, 'TERM')
    tap.equal(crew.end(task)[:2], (0, '5'), 'RQ26 TERM after the commit: it is done, with its revision')
    sh('rm svn/hooks/post-commit')

    crew.fake.outputs_status = 503
    how, revision, reason = crew.done(source, 'c6', {'b': 'six\n'})
    tap.ok(how == 111 and youngest() == 5, 'a base that cannot be recorded: nothing is committed, later', (how, reason))
    crew.fake.outputs_status = 200
    sh('mv svn away')
    how, revision, reason = crew.done(source, 'c6', {'b': 'six\n'})
    tap.ok(how == 111 and 'svn' in reason, 'a repository that is away: later', (how, reason))
    sh('mv away svn')
    how, revision, reason = crew.done({**source, 'path': 'nowhere'}, 'c6', {'b': 'six\n'})
    tap.ok(how == 100 and 'nowhere' in reason, 'a folder that is not there: never', (how, reason))
    task = crew.apply(source, 'c6', {'b': 'six\n'}, apply={'sha256': '0' * 64})
    tap.ok(crew.end(task)[0] == 100 and youngest() == 5, 'a tarball with other bytes than those that were accepted: never', task.finish)
    how, revision, reason = crew.done({'archive': 'docs', 'kind': 'external'}, 'c6', {'b': 'six\n'})
    tap.ok(how == 100 and 'program' in reason, 'an archive without a repository and no program: never, and what to do', (how, reason))

    undo = {'undoes': [{'csid': 'c5', 'revision': '5'}, {'csid': 'c3', 'revision': '4'}], 'message': 'back'}
    task = crew.apply(source, 'r1', movetype='RB', apply=undo)
    tap.equal(crew.end(task)[:2], (0, '6'), 'RQ27 a rollback is one commit')
    tap.equal((cat('a.txt'), cat('b')), ('one\ntwo\nthree', 'b'), 'RQ27 it undoes all of them')
    tap.equal((prop('weir:rolls-back', 6), prop('weir:csid', 6), task.outputs), ('c5 c3', 'r1', [{'base': '5'}]), 'and says which')
    tap.equal(crew.done(source, 'r2', movetype='RB')[0], 99, 'a rollback without anything to undo is skipped')

    program = [str(TMP) + '/put']
    with open(program[0], 'w') as f:
        f.write("""#!/bin/sh
{ echo "$WEIR_CSID $WEIR_TARGET $WEIR_MOVETYPE $WEIR_TICKET"; pwd; echo "$WEIR_CS_DIR"; ls; test -f "$WEIR_CS_DIR/meta" && echo meta; cat "$WEIR_ROLLBACK"; } >"$SEEN" 2>/dev/null
echo "revision=R$WEIR_CSID" >>"$WEIR_OUTPUT"
exit ${STATUS:-0}
""")
    os.chmod(program[0], 0o755)
    seen = f'{TMP}/seen'
    external = {'archive': 'docs', 'kind': 'external'}
    def programmed(csid, source=external, status='0', program=program, **more):
        return crew.done(source, csid, more.pop('files', {'f': 'x'}), apply={'program': program, 'ticket': 'T2', **more.pop('apply', {})}, env={'SEEN': seen, 'STATUS': status}, **more)
    tap.equal(programmed('p1')[:2], (0, 'Rp1'), 'RQ24 a program of the target applies it, and says the revision')
    lines = open(seen).read().splitlines()
    tap.ok(lines[0] == 'p1 docs DC T2' and lines[1] == lines[2] + '/lroot' and lines[3:] == ['f', 'meta'], 'it has the unpacked tarball', lines)
    tap.equal(programmed('p2', movetype='RB', apply={'undoes': [{'csid': 'p1', 'revision': 'Rp1'}, {'csid': 'p0', 'revision': ''}]})[:2], (0, 'Rp2'), 'RQ27 a rollback by it')
    lines = open(seen).read().splitlines()
    tap.ok(lines[0].startswith('p2 docs RB') and lines[3:] == ['p1', 'p0'], 'with the list, in an empty folder', lines)
    tap.equal(programmed('p3', program=['/no/such/program'])[0], 100, 'a program that cannot be executed: F at once')
    tap.equal([programmed('p4', status=s)[0] for s in ('111', '100', '7', '99')], [111, 100, 7, 99], 'its other ends are its own; 99 of an external archive')
    tap.equal(programmed('p5', source=source, status='99')[0], 111, 'RQ25 99 where the repository does not have it: later')
    sh(f'svn mkdir -qm by-hand --with-revprop weir:csid=p6 "file://$PWD/svn/trunk/p6"')
    tap.equal(programmed('p6', source=source, status='99', apply={'base_rev': '6'})[:2], (0, '7'), 'RQ25 99 where it has it: done')

with Applier(slots=1) as plain:
    pass
tap.end()
