#!/usr/bin/env python3
# time limit: 240
"""git: pushes of several commits, merges, forced pushes, branches; and jobs that commit to their own archive: cause, depth, and its limit."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import TMP, House, end, ok, same, until  # noqa: E402
from repos import all_events, archive, git_commit, git_make, next_of, revision_events, sh, svn_make  # noqa: E402

s = House('data', slots=2)
git = git_make('git', 3)
sh('git clone -q git wc')
same(s.cli('archive', 'add', 'g', '--git', git, '--from', '1').code, 0, 'a git archive')
ok(until(lambda: next_of(s, 'g') == 4), 'its history is taken')


def revision(rev):
    return s.get(f'/v1/archives/g/revisions/{rev}').json


# ---- a push of several commits ----
for i in range(3):
    git_commit('wc', f'p{i}', f'push {i}', push=False)
sh('cd wc; git push -q origin HEAD')
ok(until(lambda: next_of(s, 'g') == 7), 'every commit of a push is a revision')
same([revision(r)['message'] for r in (4, 5, 6)], ['push 0', 'push 1', 'push 2'], 'oldest first')
same(revision(6)['commit'], sh('git -C wc rev-parse HEAD'), 'with its commit beside it')

# ---- a merge ----
sh('cd wc; git checkout -q -b side HEAD~1; echo s >s; git add s; git commit -q -m side; git checkout -q main; git merge -q --no-ff -m merged side;'
   'c=$(git commit-tree -p HEAD -p HEAD~2 -m two HEAD^{tree}); git reset -q --hard $c; git push -q origin HEAD')
ok(until(lambda: next_of(s, 'g') == 9), 'a merge is one revision, and what it brought along is none')
same([revision(7)['message'], revision(7)['prev']], ['merged', [6]], 'PREV of the merge is the parent that has a number')
same([revision(8)['message'], sorted(revision(8)['prev'])], ['two', [5, 7]], 'PREV of a merge of two numbered ones is both')

# ---- forced pushes ----
sh('cd wc; git reset -q --hard HEAD~3; echo f >f; git add f; git commit -q -m forced; git push -q -f origin HEAD')
ok(until(lambda: next_of(s, 'g') == 10), 'after a forced push numbers go on')
rewritten = until(lambda: [e for e in all_events(s) if e['kind'] == 'rewritten'])
same(len(rewritten), 1, 'and an event says so')
ok(sh('git -C wc rev-parse HEAD') in rewritten[0].get('reason', ''), 'with the commit', rewritten)
same(revision_events(s, 'g'), list(range(1, 10)), 'no number was used twice')

# ---- another branch of the same repository ----
sh('cd wc; git checkout -q -b feature/x main; git push -q origin HEAD')
same(s.cli('archive', 'add', 'x', '--git', git, '--branch', 'feature/x').code, 0, 'a branch is an archive of its own')
first = archive(s, 'x')['next']
git_commit('wc', 'on-x', 'on x')
ok(until(lambda: next_of(s, 'x') == first + 1), 'its commits are its own')
same(next_of(s, 'g'), 10, 'and nobody else\'s')
sh('cd wc; git checkout -q main')
ok(s.cli('archive', 'add', 'y', '--git', git, '--branch', 'nosuch').code != 0, 'a branch that is not there is refused')

# ---- jobs that commit ----
# each `again` pushes one more commit; its hook has WEIR_KEY in its environment and says the cause
WORKFLOW = '''tasks:
 - name: again
   checkout: false
   shell: sh
   script: |
     rm -rf wc
     git clone -q %s wc
     cd wc
     echo "$WEIR_REV" >n
     git add n
     git -c user.name=Job -c user.email=job@example.org commit -q -m "by $WEIR_KEY"
     git push -q origin HEAD
''' % (TMP / 'loop')
git_make('loop', 1, WORKFLOW)
same(s.cli('archive', 'add', 'loop', '--git', str(TMP / 'loop'), '--from', '1').code, 0, 'an archive whose job commits to it')


def loop():
    """its revisions, the first first"""
    listed = s.get('/v1/archives/loop/revisions').json['revisions']
    return [s.get(f'/v1/archives/loop/revisions/{r}').json for r in sorted(r['rev'] for r in listed)]


def over(found):
    """nothing runs, the last was too deep for more than COMMIT, and the hooks have told every cause (on a slow machine some come late, and a few more revisions with them)"""
    return (sum(archive(s, 'loop')['counts'][k] for k in 'QSPX') == 0 and all(r.get('cause') for r in found[1:])
            and all(t['key']['name'] == 'COMMIT' or t['state'] == 'A' for t in found[-1]['tasks']))


ok(until(lambda: [e for e in all_events(s) if e['kind'] == 'cause_depth'] and over(loop()), seconds=90), 'it comes to an end', archive(s, 'loop'), loop()[-1])
found = loop()
same([r['depth'] for r in found], list(range(len(found))), 'each is one deeper than the one before')
ok(10 <= len(found) <= 13, 'eight deep, and one that was too deep', len(found))
same([r.get('cause') for r in found], [None] + [f'loop@{r}:again' for r in range(1, len(found))], 'each names its cause')
# a person's commit begins anew
sh('git clone -q loop loop-wc')
git_commit('loop-wc', 'by-hand')
ok(until(lambda: next_of(s, 'loop') > len(found) + 1 and s.get(f'/v1/archives/loop/revisions/{len(found) + 1}').json['depth'] == 0), 'a person\'s commit has depth 0')
s.cli('archive', 'remove', 'loop')

# ---- Subversion: the revision property ----
svn_make('prop', 1)
same(s.cli('archive', 'add', 'p', '--svn', str(TMP / 'prop'), '--from', '1').code, 0, 'a Subversion archive')
ok(until(lambda: next_of(s, 'p') == 2), 'its revision')
sh(f'svn mkdir -q -m two file://{TMP}/prop/two --with-revprop weir:cause=p@1:step')
ok(until(lambda: next_of(s, 'p') == 3), 'a commit with weir:cause')
two = s.get('/v1/archives/p/revisions/2').json
same([two.get('cause'), two['depth']], ['p@1:step', 1], 'its cause and depth')
s.stop()
ok(until(lambda: not s.left(), seconds=60), 'nothing is left running', s.left())
end()
