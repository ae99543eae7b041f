#!/usr/bin/env python3
"""Who may come in without a token: the server's own user and root, over loopback and the socket; nobody else. A server that isn't root's."""
import os
import pathlib
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import NAP, TMP, WEIR, House, clean_env, end, ok, same, skip, until  # noqa: E402

if os.getuid() != 0 or not shutil.which('setpriv'):
    skip('strangers', 'only root can be somebody else')
    end()

NOBODY, DAEMON = 65534, 1


def as_user(uid, *command, **more):
    return subprocess.run(['setpriv', '--reuid', str(uid), '--regid', str(uid), '--clear-groups', *map(str, command)], capture_output=True, text=True, env=clean_env(), timeout=60,
                          stdin=subprocess.DEVNULL, **more)


def reaches(path):
    """another user can run the binary and see the folder (a temp folder of root's may be shut)"""
    return as_user(NOBODY, 'test', '-x', path).returncode == 0


for folder in [TMP, *TMP.parents]:
    if str(folder).startswith('/tmp/'):
        os.chmod(folder, os.stat(folder).st_mode | 0o011)
if not reaches(WEIR) or not reaches(TMP):
    skip('strangers', 'another user cannot reach the binary or the temp folder here')
    end()

s = House('data', slots=1)
t = s.enqueue(dict(name='secret', script='echo secret'))['id']
s.ended(t)
before = s.mark()
got = as_user(NOBODY, WEIR, 'list', '--server', s.url)
ok(got.returncode == 77 and not got.stdout, 'another user over loopback: 77', got.returncode, got.stdout, got.stderr)
got = as_user(NOBODY, WEIR, 'list', '--server', s.socket)
ok(got.returncode == 77 and not got.stdout, f'over the socket: {got.returncode}', got.stdout, got.stderr)
got = as_user(NOBODY, 'curl', '-s', '-o', '/dev/null', '-w', '%{http_code}', '-X', 'POST', '-d', '{"name":"x"}', f'{s.url}/v1/tasks')
if got.returncode == 0 or got.stdout:
    same(got.stdout, '401', 'with curl: 401')
got = as_user(NOBODY, 'sh', '-c', f'cat {s.dir}/weir.db {s.dir}/verify.key; ls {s.dir}/logs {s.dir}/executor')
ok(got.returncode != 0 and not got.stdout, 'nor can it read the files', got.stdout[:200])
same(s.mark(), before, 'nothing changed')
token = s.cli('token', 'create', '--name', 'guest', '--scope', 'read').out.strip()
(TMP / 'guest').write_text(token)
os.chmod(TMP / 'guest', 0o644)
got = as_user(NOBODY, WEIR, 'list', '--server', s.url, '--token-file', TMP / 'guest')
ok(got.returncode == 0 and 'secret' in got.stdout, 'with a token it may', got.stderr)
same(s.stop(signal.SIGINT), 0, 'it ends')

# -- a server of somebody who isn't root
home = TMP / 'nob'
home.mkdir()
os.chown(home, NOBODY, NOBODY)
n = subprocess.Popen(['setpriv', '--reuid', str(NOBODY), '--regid', str(NOBODY), '--clear-groups', WEIR, 'serve', '--data', home / 'data', '--listen', '127.0.0.1:0', '--slots', '2'],
                     env=clean_env(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=open(TMP / 'nob.err', 'wb'), cwd=home)
line = n.stdout.readline().decode()
ok(line.startswith('listening on '), 'weir serve as nobody', line, (TMP / 'nob.err').read_text())
url, sock = line.split()[2], f'unix:{home}/data/weir.sock'
got = as_user(NOBODY, WEIR, 'enqueue', '--server', sock, '--name', 'who', '--command', '--', 'id', '-u')
key = got.stdout.strip()
ok(got.returncode == 0 and key, 'its own user may enqueue', got.stderr)
got = as_user(NOBODY, WEIR, 'wait', key, '--server', sock, '--timeout', '40s')
same(got.returncode, 0, 'and it runs')
same(as_user(NOBODY, WEIR, 'log', key, '--server', url).stdout, f'{NOBODY}\n', 'as that user; loopback is open to it')
same(as_user(0, WEIR, 'list', '--server', url).returncode, 0, 'and to root')
same(as_user(DAEMON, WEIR, 'list', '--server', url).returncode, 77, 'not to a third')
tree = as_user(NOBODY, WEIR, 'enqueue', '--server', sock, '--name', 'tree', '--command', '--', 'sh', '-c', f'(setsid sleep {NAP} &) ; trap "" TERM; sleep {NAP}')
until(lambda: as_user(0, 'pgrep', '-f', NAP.replace('.', '[.]') + '$').returncode == 0, seconds=20)
n.send_signal(signal.SIGINT)
same(n.wait(60), 0, 'SIGINT ends it')
ok(until(lambda: as_user(0, 'pgrep', '-f', 'sleep ' + NAP.replace('.', '[.]')).stdout == '', seconds=30), 'and all its jobs, without the rights of root', as_user(0, 'pgrep', '-af', NAP.replace('.', '[.]')).stdout)
same(as_user(NOBODY, WEIR, 'verify', '--data', home / 'data').returncode, 0, 'verify without a server')
end()
