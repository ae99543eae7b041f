#!/usr/bin/env python3
# time limit: 120
"""What a newcomer notices: faults of files are told in their place, why names the cause, show the parameters, and nothing is given up that hasn't come."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import TMP, House, end, ok, same, until  # noqa: E402
from repos import archive, next_of, sh  # noqa: E402

s = House('data', slots=2)
sh('svnadmin create r; svn checkout -q "file://$PWD/r" wc; mkdir wc/_workflows; svn add -q wc/_workflows')
same(s.cli('archive', 'add', 'a', '--svn', str(TMP / 'r')).code, 0, 'an archive')


def commit(rev, text, command='true'):
    """the workflow's text (bytes) becomes revision rev; `command` comes before the commit"""
    (TMP / 'wc/_workflows/w.yaml').write_bytes(text)
    sh(f'cd wc; svn add -q --force _workflows; {command}; svn commit -q -m {rev}; svn update -q')
    ok(until(lambda: next_of(s, 'a') == rev + 1, seconds=30), f'revision {rev} is taken', archive(s, 'a'))


# ---- faults of files, each in its place ----
commit(1, b'a\0b', command='printf "\\0" >_workflows/b.yaml; svn add -q _workflows/b.yaml')
log = s.cli('log', 'a@1:WORKFLOW').out.splitlines()
same(log, [f'_workflows/{name}.yaml: error: this is a binary file (it has a NUL byte in it)' for name in 'bw'], 'binary files: a line each, beginning with the file')
task = s.get('/v1/tasks?archive=a&rev=1&name=WORKFLOW').json['tasks'][0]
same((task['state'], task['reason']), ('F', '_workflows/b.yaml: this is a binary file (it has a NUL byte in it) (and 1 more)'), 'and its reason')
done = s.cli('retry', 'a@1:WORKFLOW')
ok(done.code != 0 and 'commit a correction' in done.err, 'it is not retried: the files of a revision stay as they are', done)
same(s.get('/v1/tasks?archive=a&rev=1&name=WORKFLOW').json['tasks'][0]['state'], 'F', 'and stays failed')

# ---- why, show ----
commit(2, b'- {name: bad, script: exit 3}\n- {name: dep, depends: [bad]}\n- {name: by-hand, "on": [manual], script: "true"}\n', command='svn rm -q _workflows/b.yaml')
same(s.cli('wait', 'a@2', '--timeout', '60s').code, 1, 'a task fails')
why = s.get(f'/v1/tasks/{s.get("/v1/tasks?archive=a&rev=2&name=dep").json["tasks"][0]["id"]}/why').json
same((why['verdict'], why.get('cause')), ('ended', 'a@2:bad'), 'why names the cause')
ok('reason: a dependency failed (a@2:bad)' in s.cli('why', 'a@2:dep').out, 'also on the command line', s.cli('why', 'a@2:dep').out)
same(s.cli('run', 'a', 'by-hand', '--param', 'who=ann', '--reason', 'to see').code, 0, 'a run with a parameter')
ok('\nparameters\n  who=ann\n' in s.cli('show', 'a@2:by-hand').out, 'show tells it', s.cli('show', 'a@2:by-hand').out)

# ---- what hasn't come can't be given up: its commit would be lost ----
done = s.cli('archive', 'skip', 'a', '3', '--reason', 'too early')
ok(done.code == 1 and "isn't in the repository" in done.err, 'the next revision is not skipped before it is there', done.code, done.err)
commit(3, b'- {name: late, script: "true"}\n')
same(s.cli('wait', 'a@3', '--timeout', '60s').code, 0, 'and runs when it comes')
end()
