#!/usr/bin/env python3
# time limit: 180
"""Hooks: installed, lost, called with nonsense, with no server: commits never suffer, and every commit is found within a second all the same."""
import os
import pathlib
import socket
import stat
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import TMP, House, clean_env, end, ok, run, same, until  # noqa: E402
from repos import archive, git_commit, git_make, next_of, sh, svn_commit, svn_make  # noqa: E402

s = House('data', slots=0)
svn = svn_make('svn', 2)
git = git_make('git', 2)
quiet_svn = svn_make('quiet-svn', 2)
quiet_git = git_make('quiet-git', 2)
sh('git clone -q git wc; git clone -q quiet-git quiet-wc')
same(s.cli('archive', 'add', 'a', '--svn', svn).code, 0, 'a Subversion archive with its hook')
same(s.cli('archive', 'add', 'g', '--git', git).code, 0, 'a git archive with its hook')
same(s.cli('archive', 'add', 'qa', '--svn', quiet_svn, '--no-hook').code, 0, 'a Subversion archive without')
same(s.cli('archive', 'add', 'qg', '--git', quiet_git, '--no-hook').code, 0, 'a git archive without')
ok(os.access(TMP / 'svn/hooks/post-commit', os.X_OK) and os.access(TMP / 'git/hooks/post-receive', os.X_OK), 'hooks are there where they were wanted')
ok(not (TMP / 'quiet-svn/hooks/post-commit').exists() and not (TMP / 'quiet-git/hooks/post-receive').exists(), 'and not where they were not')
ok(until(lambda: all(archive(s, n)['watch']['state'] == 'ok' for n in ('a', 'g', 'qa', 'qg'))), 'all are looked at')
same([next_of(s, n) for n in ('a', 'g', 'qa', 'qg')], [3, 3, 3, 3], 'the next revision is the first one taken')


def seen(name, rev, commit):
    """milliseconds from the commit's end until the server knows the revision"""
    commit()
    began = time.monotonic()
    if not until(lambda: next_of(s, name) > rev, seconds=20):
        return None
    return (time.monotonic() - began) * 1000


times = {n: [] for n in ('a', 'g', 'qa', 'qg')}
for i in range(5):
    times['a'].append(seen('a', 3 + i, lambda: svn_commit('svn', f'n{i}')))
    times['g'].append(seen('g', 3 + i, lambda: git_commit('wc', f'n{i}')))
    times['qa'].append(seen('qa', 3 + i, lambda: svn_commit('quiet-svn', f'n{i}')))
    times['qg'].append(seen('qg', 3 + i, lambda: git_commit('quiet-wc', f'n{i}')))
for name, text in (('a', 'svn with hook'), ('g', 'git with hook'), ('qa', 'svn, hook lost'), ('qg', 'git, hook lost')):
    print(f'# {text}: ' + ', '.join('never' if t is None else f'{t:.0f} ms' for t in times[name]))
    ok(None not in times[name] and sorted(times[name])[len(times[name]) // 2] < 3000, f'{text}: all known, mostly within a second, or three on a busy machine', times[name])

# ---- the socket ----
mode = os.stat(TMP / 'data/run/notify.sock').st_mode
ok(stat.S_ISSOCK(mode) and mode & 0o777 == 0o666, 'the notify socket is for everybody')
same([os.stat(TMP / 'data').st_mode & 0o777, os.stat(TMP / 'data/run').st_mode & 0o777], [0o711, 0o755], 'the way to it is open, what is beside it is not')
ok(all(entry.name == 'run' or entry.stat(follow_symlinks=False).st_mode & 0o077 == 0 for entry in os.scandir(TMP / 'data')), 'nothing else is')
out = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
for junk in (b'', b'\0' * 1000, b'weir-notify 1 a ' + b'9' * 500, b'weir-notify 1 a 5 x y z', b'\xff' * 2048, b'weir-notify 1 a 1\n', b'x' * 100000):
    out.sendto(junk, str(TMP / 'data/run/notify.sock'))
same(s.get('/healthz').status, 200, 'junk in the socket does nothing')

# ---- weir notify ----
http = s.url
for args, told in ((['a', '3'], ''), (['a', '999999'], ''), (['g', 'HEAD'], ''), (['nobody', '3'], 'no archive of this name'), (['a', 'x;y'], 'no revision'),
                   (['a', '-5'], ''), (['a', '0'], 'no revision'), (['../a', '1'], 'archive'), ([], 'named'), (['a'], ''), (['a', '1', '2'], ''),
                   (['a', '1', '--nonsense'], ''), (['a', '3', '--txn', '2-3'], ''), (['a' * 5000, '1'], 'archive')):
    done = s.cli('notify', *args)
    ok(done.code == 0 and done.out == '' and told in done.err, f'notify {" ".join(args)[:40]}: exit 0{" and says so" if told else ""}', done.code, done.err)
done = run('notify', '--server', http, 'a', '3')
ok(done.code == 0 and done.err == '', 'notify by HTTP', done.err)
done = run('notify', '--server', http, 'nobody', '3')
ok(done.code == 0 and 'nobody' in done.err, 'notify by HTTP of an archive that is not there: exit 0, said', done.err)
same(s.post('/v1/archives', dict(name='ext', kind='external')).status, 201, 'an external archive')
for server in (s.socket, http):
    done = run('notify', '--server', server, 'ext', '1')
    ok(done.code == 0 and 'external' in done.err, f'notify of an external archive says what to do ({server[:4]})', done.err)
same(s.get('/v1/archives/ext/revisions').json['revisions'], [], 'and makes no revision')
same(s.post('/v1/archives/a/revisions', dict(rev=3)).status, 200, 'a post of a revision that is known')
same(s.post('/v1/archives/a/revisions', dict(rev=99)).status, 202, 'a post of one that is not is a hint')

# ---- without a server ----
s.stop()
began = time.monotonic()
done = run('notify', '--server', s.socket, 'a', '9')
ok(done.code == 0 and done.err and time.monotonic() - began < 20, 'notify without a server: exit 0, said, quick', done.err)
began = time.monotonic()
done = sh(f'svn mkdir -q -m down file://{TMP}/svn/down', check=False)
ok(done.returncode == 0 and done.stderr == b'', 'a commit without a server is a commit like any other', done.stderr)
done = sh('cd wc; echo down >down; git add down; git commit -q -m down; git push -q origin HEAD', check=False)
ok(done.returncode == 0 and done.stderr == b'', 'and so is a push', done.stderr)
print(f'# commit and push without a server: {(time.monotonic() - began) * 1000:.0f} ms')
s.start()
ok(until(lambda: next_of(s, 'a') == 9 and next_of(s, 'g') == 9), 'the next server finds them')
same(s.cli('archive', 'remove', 'a').code, 0, 'removed')
ok(not (TMP / 'svn/hooks/post-commit').exists(), 'the hook is gone with the archive')
end()
