#!/usr/bin/env python3
"""An executor elsewhere: over TCP with a token, in a data directory of its own; wrong tokens are told and end it; a dead server is passed over."""
import pathlib
import signal
import socket
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import TMP, WEIR, House, clean_env, end, ok, same, until  # noqa: E402

s = House('data', slots=0)


def token(name, *scopes):
    done = s.cli('token', 'create', '--name', name, *[part for scope in scopes for part in ('--scope', scope)])
    path = TMP / f'{name}.token'
    path.write_text(done.out)
    path.chmod(0o600)
    return path


def executor(name, *options, wait=None):
    """the executor's process; with `wait` (seconds) the exit code and what it said instead"""
    error = TMP / f'{name}.err'
    process = subprocess.Popen([WEIR, 'executor', '--data', str(TMP / f'data-{name}'), '--name', name, *map(str, options)], env=clean_env(), stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=error.open('wb'))
    if wait is None:
        return process
    try:
        code = process.wait(wait)
    except subprocess.TimeoutExpired:
        process.kill()
        code = process.wait()
    return code, error.read_text()


good = token('crew', 'execute')
s.token = token('me', 'read', 'enqueue').read_text().strip()

# -- with a token
far = executor('far', '--server', s.url, '--token-file', good, '--label', 'os=x', '--slots', '2')
task = s.enqueue(dict(name='there', script='echo here is $WEIR_TASK; pwd', labels=dict(os='x')))['id']
ended = s.ended(task)[0]
same((ended['state'], [a['executor'] for a in ended['attempts']]), ('D', ['far']), 'a task with its label runs on the remote executor')
text = s.log_bytes(task).decode()
ok(text.startswith('here is there\n') and str(TMP / 'data-far') in text, 'in its own data directory, and the log arrives', text)
same((TMP / 'data-far').stat().st_mode & 0o077 & ~0o011, 0, 'which nobody else can read')
ok(good.read_text().strip() not in (TMP / 'far.err').read_text(), 'the token is in no log')
command = pathlib.Path(f'/proc/{far.pid}/cmdline').read_bytes().decode()
ok(good.read_text().strip() not in command, 'nor on the command line')

# -- without one, with a wrong one, with one that may not, with a file that isn't there
code, said = executor('bare', '--server', s.url, wait=30)
ok(code == 77 and 'token' in said, 'no token: 77, and it is said', code, said)
(TMP / 'wrong.token').write_text('weir_' + 'x' * 40 + '\n')
code, said = executor('wrong', '--server', s.url, '--token-file', TMP / 'wrong.token', wait=30)
ok(code == 77 and 'token' in said, 'a wrong token: 77, and it is said', code, said)
code, said = executor('reader', '--server', s.url, '--token-file', token('reader', 'read'), wait=30)
ok(code == 77 and ('scope' in said or 'token' in said), 'a token that may only read: 77', code, said)
code, said = executor('nofile', '--server', s.url, '--token-file', TMP / 'none.token', wait=30)
ok(code not in (0, 1, None) and 'none.token' in said, 'a token file that is not there: named', code, said)

# -- failover
with socket.create_server(('127.0.0.1', 0)) as free:
    dead = f'http://127.0.0.1:{free.getsockname()[1]}'
second = executor('second', '--server', dead, '--server', s.url, '--token-file', good, '--label', 'os=y')
task = s.enqueue(dict(name='over', command='true', labels=dict(os='y')))['id']
same([(t['state'], t['attempts'][0]['executor']) for t in s.ended(task)], [('D', 'second')], 'the first server is dead: it turns to the second')

# -- the token is revoked: they go on trying, since jobs may run and a new one may come
same(s.cli('token', 'revoke', 'crew').code, 0, 'revoke')
ok(until(lambda: 'request=poll' in (TMP / 'far.err').read_text(), seconds=60), 'a revoked token is told', (TMP / 'far.err').read_text()[-1000:])
same((far.poll(), second.poll()), (None, None), 'and the executors stay')
for process in (far, second):
    process.send_signal(signal.SIGINT)
    same(process.wait(60), 0, 'until they are told to end')
same(s.stop(signal.SIGINT), 0, 'the server ends')
end()
