#!/usr/bin/env python3
# time limit: 240
"""Jobs that commit: in an ordinary git repository, in Subversion, by a push; with hooks that are slow. Each revision knows its cause, and a loop ends."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import TMP, House, end, ok, same, until  # noqa: E402
from repos import all_events, archive, git_make, next_of, sh, svn_commit, svn_make  # noqa: E402

JOB = '''tasks:
 - name: again
   checkout: false
   shell: sh
   env: {GIT_AUTHOR_NAME: Job, GIT_AUTHOR_EMAIL: job@example.org, GIT_COMMITTER_NAME: Job, GIT_COMMITTER_EMAIL: job@example.org}
   script: |
     %s
'''
s = House('data', slots=4)


def revisions(name):
    listed = s.get(f'/v1/archives/{name}/revisions').json['revisions']
    return [s.get(f'/v1/archives/{name}/revisions/{rev}').json for rev in sorted(r['rev'] for r in listed)]


def ended(name):
    """no more comes of it: a revision was too deep, nothing runs, nothing of the last one has run, and the hooks have told every cause"""
    deep = [e for e in all_events(s) if e['kind'] == 'cause_depth' and e['subject'].startswith(f'{name}@')]
    if not deep or sum(archive(s, name)['counts'][k] for k in 'QSPX'):
        return False
    found = revisions(name)
    return all(r.get('cause') for r in found[1:]) and all(t['key']['name'] == 'COMMIT' or t['state'] == 'A' for t in found[-1]['tasks'])


def chain(name, text):
    """each is one deeper than the one before; where the machine is so slow that the last cause came late too, a few may have begun"""
    found = revisions(name)
    first, depths = found[0]['rev'], [r['depth'] for r in found]
    ok(depths == list(range(len(found))) and 10 <= len(found) <= 13, f'{text}: each is one deeper than the one before, and there is an end', depths)
    same([r.get('cause') for r in found], [None] + [f'{name}@{first + i}:again' for i in range(len(found) - 1)], f'{text}: each names its cause')
    ok(all(t['key']['name'] == 'COMMIT' or t['state'] == 'A' for t in found[-1]['tasks']), f'{text}: of the last there is only COMMIT', found[-1]['tasks'])
    return found


def delay(path, seconds):
    hook = pathlib.Path(path)
    first, rest = hook.read_text().split('\n', 1)
    hook.write_text(f'{first}\nsleep {seconds}\n{rest}')


# ---- an ordinary repository: a plain commit; a hook that was there, and takes longer than weir would wait ----
sh(f'''git init -q -b main plain; cd plain; mkdir _workflows; cat >_workflows/w.yaml <<'END'
{JOB % f'cd {TMP}/plain; echo "$WEIR_REV" >n; git add n; git commit -q -m "by $WEIR_KEY"'}
END
git add .; git commit -q -m one; printf '#!/bin/sh\\nsleep 0.4\\necho "$WEIR_KEY" >>{TMP}/theirs\\n' >.git/hooks/post-commit; chmod +x .git/hooks/post-commit''')
kept = (TMP / 'plain/.git/hooks/post-commit').read_bytes()
added = s.cli('archive', 'add', 'plain', '--git', str(TMP / 'plain'))
ok(added.code == 0 and 'hooks/post-commit' in added.err, 'an ordinary git repository', added.err)
shown = s.cli('archive', 'show', 'plain').out
ok('installed: post-receive, post-commit, post-merge, post-rewrite, post-applypatch' in shown, 'its hooks are named', shown)
sh('cd plain; echo 2 >two; git add two; git commit -q -m two')

# ---- Subversion, with a hook that says nothing for a second ----
svn_make('svn', 1, JOB % f'svn mkdir -q -m "by $WEIR_KEY" "file://{TMP}/svn/n$WEIR_REV"')
same(s.cli('archive', 'add', 'svn', '--svn', str(TMP / 'svn')).code, 0, 'a Subversion archive')
delay(TMP / 'svn/hooks/post-commit', 1)
svn_commit('svn', 'begin')

# ---- a push, with a hook that says nothing for three seconds ----
git_make('bare', 1, JOB % f'''[ "$WEIR_REV" = 1 ] || exit 0
     git clone -q {TMP}/bare wc; cd wc; for i in 1 2; do echo $i >n; git add n; git commit -q -m "$i by $WEIR_KEY"; done; git push -q origin HEAD''')
same(s.cli('archive', 'add', 'bare', '--git', str(TMP / 'bare')).code, 0, 'a bare git archive')
delay(TMP / 'bare/hooks/post-receive', 3)
s.cli('archive', 'remove', 'bare')
same(s.cli('archive', 'add', 'late', '--git', str(TMP / 'bare'), '--from', '1', '--no-hook').code, 0, 'again, so that its only revision is taken')
(TMP / 'bare/hooks/post-receive').write_text((TMP / 'bare/hooks/post-receive').read_text().replace('notify bare ', 'notify late '))

ok(until(lambda: ended('plain'), seconds=90), 'plain commits come to an end', archive(s, 'plain'))
found = chain('plain', 'plain commits')
ok(until(lambda: (TMP / 'theirs').read_text().split() == [r['cause'] for r in found[1:]]), 'the hook that was there ran each time')

ok(until(lambda: next_of(s, 'late') == 4 and all(r.get('cause') for r in revisions('late')[1:]), seconds=60), 'a push whose hook was late', archive(s, 'late'))
found = revisions('late')
same([(r.get('cause'), r['depth']) for r in found], [(None, 0), ('late@1:again', 1), ('late@1:again', 1)], 'every commit of it got its cause and depth afterwards')
events = [(e['subject'], e.get('cause')) for e in all_events(s) if e['kind'] == 'cause' and e['subject'].startswith('late@')]
same(sorted(events), [('late@2', 'late@1:again'), ('late@3', 'late@1:again')], 'and events say so')

ok(until(lambda: ended('svn'), seconds=120), 'commits whose hooks are late come to an end too', archive(s, 'svn'))
found = chain('svn', 'late hooks')
ok(until(lambda: revisions('svn')[0].get('txn') == '1-1'), 'the transaction that the hook named is kept with the revision', revisions('svn')[0])

# ---- nobody can say it of a revision afterwards whose time that job didn't see ----
begin = sh('git -C bare rev-parse main~2')
same(s.cli('notify', 'late', begin, WEIR_KEY='late@3:again').code, 0, 'a note that isn\'t true')
sh(f'svn mkdir -q -m more file://{TMP}/svn/more')
ok(until(lambda: next_of(s, 'svn') == found[-1]['rev'] + 2), 'a person\'s commit')
same([revisions('late')[0].get('cause'), revisions('svn')[-1]['depth']], [None, 0], 'nothing came of it')

same(s.cli('archive', 'remove', 'plain').code, 0, 'removed')
ok((TMP / 'plain/.git/hooks/post-commit').read_bytes() == kept, 'what was there is back')
same(sorted(p.name for p in (TMP / 'plain/.git/hooks').iterdir() if not p.name.endswith('.sample')), ['post-commit'], 'and nothing else is left')
s.stop()
ok(until(lambda: not s.left(), seconds=60), 'nothing is left running', s.left())
end()
