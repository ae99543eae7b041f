#!/usr/bin/env python3
# store: sqlite
"""A restored store is paused: no task starts, no schedule fires, no repository is followed beside the original; `weir resume all` lets it go on. --active: at once."""
import pathlib
import signal
import sqlite3
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import TMP, House, end, ok, run, same, until  # noqa: E402

repo = TMP / 'repo'
git = ['git', '-C', str(repo), '-c', 'user.name=t', '-c', 'user.email=t@t']


def commit(text):
    (repo / 'file').write_text(text)
    subprocess.run([*git, 'add', '.'], check=True)
    subprocess.run([*git, 'commit', '-qm', text], check=True)


subprocess.run(['git', 'init', '-q', str(repo)], check=True)
(repo / '_workflows').mkdir()
(repo / '_workflows/w.yaml').write_text('tasks:\n  - {name: tick, command: "true", schedule: {cron: "* * * * *"}}\n  - {name: build, command: "true"}\n')
commit('one')
s = House('data', slots=2)
same(s.cli('archive', 'add', 'repo', '--git', repo, '--from', '1').code, 0, 'a repository is followed')
until(lambda: s.get('/v1/archives/repo/revisions/1').status == 200, 'its first revision is known', 30)
until(lambda: s.get('/v1/tasks?state=X,P,S,Q').json['tasks'] == [], seconds=30)
same(s.cli('backup', TMP / 'copy').code, 0, 'a backup')
s.stop(signal.SIGINT)
commit('two')

restored = run('restore', TMP / 'copy', '--data', TMP / 'again')
ok(restored.code == 0 and 'it is paused' in restored.err and 'weir resume all' in restored.err, 'a restore says that it is paused, and how it goes on', restored)
db = sqlite3.connect(TMP / 'again/weir.db')
n = db.execute('UPDATE schedule SET next_ms = 1000').rowcount  # as if the minute had come long ago
db.commit()
db.close()
ok(n == 1, 'it has a schedule, which is due', n)
r = House('again', slots=2)
ok('server.paused' in r.log.read_text() and 'weir resume all' in r.log.read_text(), 'the server says so when it starts', r.log.read_text())
waiting = r.post('/v1/tasks', dict(name='new', script='true')).json['id']
why = r.get(f'/v1/tasks/{waiting}/why').json
ok(any(c['kind'] == 'pause' and 'restored' in c['detail'] and c['remedy'] == 'weir resume all' for c in why['conditions']), 'why says it', why)
status = r.cli('status')
ok('restored' in status.out + status.err and 'all' in status.out, 'status says it', status)
r.cli('notify', 'repo', '2')
begun = time.monotonic()
until(lambda: time.monotonic() - begun > 4, seconds=6)  # what would happen has time to
same((r.state(waiting), r.get('/v1/archives/repo/revisions/2').status, [e['kind'] for e in r.events() if e['kind'] == 'scheduled']), ('S', 404, []),
     'no task is started, no revision is read, no schedule fires')
same(r.cli('verify').code, 0, 'and its history holds, pause and all')
same(r.cli('resume', 'all').code, 0, 'somebody resumes it')
until(lambda: r.state(waiting) == 'D', 'then tasks start', 30)
until(lambda: r.get('/v1/archives/repo/revisions/2').status == 200, 'the repository is followed', 40)
until(lambda: any(e['kind'] == 'scheduled' for e in r.events()), 'and the schedule fires', 40)
r.stop(signal.SIGINT)

same(run('restore', TMP / 'copy', '--data', TMP / 'now', '--active').code, 0, 'restore --active')
a = House('now', slots=2)
until(lambda: a.state(a.post('/v1/tasks', dict(name='new', script='true')).json['id']) in 'XD' or a.get('/v1/archives/repo/revisions/2').status == 200, 'goes on at once', 30)
ok('server.paused' not in a.log.read_text(), 'and nothing is said of a pause')
end()
