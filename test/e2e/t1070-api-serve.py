#!/usr/bin/env python3
"""weir serve: options, configuration, the address, a second server, signals, the executor beside it that outlives the server."""
# time limit: 180
import json
import os
import pathlib
import resource
import signal
import stat
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'unit/api'))
from serving import TMP, WEIR, Server, end, ok, same, until  # noqa: E402


def serve(*args, env=None, timeout=60):
    done = subprocess.run([WEIR, 'serve', *args], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=timeout,
                          env=dict({k: v for k, v in os.environ.items() if not k.startswith('WEIR_') or k == 'WEIR_TEST_LIB'}, **(env or {})))
    return done.returncode, done.stdout, done.stderr


# -- usage
status, out, err = serve('--help')
ok(status == 0 and '--lease D' in out and '--slots N' in out, 'serve --help', out, err)
for args, words in [(['--slots', 'many'], '--slots'), (['--slots', '-1'], '--slots'), (['--lease', '15'], '--lease'), (['--listen', 'nowhere'], '--listen'), (['--lease', '0s'], '--lease')]:
    status, out, err = serve('--data', str(TMP / 'unused'), *args)
    ok(status in (2, 65) and words in err, f'{args} is refused by name', status, err)
ok(serve('--lisen', 'x')[0] == 2, 'an unknown option: exit 2')
ok(serve('operand')[0] == 2, 'an operand: exit 2')
status, out, err = serve('--data', str(TMP / 'elsewhere'), '--store', 'postgresql://127.0.0.1:1/y')
ok(status == 69 and 'is PostgreSQL running there' in err, 'a database that is not there is said at once', status, err)
for args, words in [(['--coordination', 'zookeeper://h:1/w'], 'coordination')]:
    status, out, err = serve('--data', str(TMP / 'unused'), *args)
    ok(status == 2 and words in err and 'PostgreSQL' in err, f'{args[0]} on SQLite says what it needs', status, err)

# -- configuration
config = TMP / 'weir.yaml'
config.write_text('lease: 7s\nsemaphores: {a: 2}\nslots: 3\n')
status, out, err = serve('--config', str(config), '--data', str(TMP / 'shown'), '--show-config', env={'WEIR_SLOTS': '5'})
ok(status == 0 and 'lease: 7s' in out and f'{config}:1' in out and 'slots: 5' in out and 'WEIR_SLOTS' in out and '--data' in out, '--show-config: values with origins', out, err)
ok(not (TMP / 'shown').exists(), '--show-config touches nothing')
bad = TMP / 'bad.yaml'
bad.write_text('leese: 7s\nslots: many\n')
status, out, err = serve('--config', str(bad), '--data', str(TMP / 'unused'))
ok(status == 65 and f'{bad}:1:1: error' in err and f'{bad}:2:' in err and "did you mean 'lease'" in err, 'a bad file: all faults with line and column', status, err)
ok(serve('--config', '/nonexistent/weir.yaml')[0] in (65, 66), 'a file that is not there')
ok(not (TMP / 'unused').exists(), 'none of these made anything')

# -- the data directory
open_dir = TMP / 'open'
open_dir.mkdir()
open_dir.chmod(0o777)
status, out, err = serve('--data', str(open_dir))
ok(status == 77 and str(open_dir) in err, 'a data directory that others can write is refused', status, err)
s = Server('data', slots=2, lease='3s')
same((s.dir / 'address').read_text().strip(), s.url, 'DIR/address holds the address')
modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in s.dir.iterdir()}
same((stat.S_IMODE(s.dir.stat().st_mode), modes['run']), (0o711, 0o755), 'DIR is 0711, run/ is 0755')
ok(all(mode & 0o077 == 0 for name, mode in modes.items() if name != 'run'), 'the rest is for the owner alone', modes)
ok('sandbox=none' in s.log.read_text(), 'the trust in tasks is said at start')
status, out, err = serve('--data', str(s.dir), '--listen', '127.0.0.1:0')
ok(status != 0 and str(s.dir) in err and 'listening' not in out, 'a second server in the same directory is refused', status, out, err)
status, out, err = serve('--data', str(TMP / 'other'), '--listen', f'127.0.0.1:{s.port}', '--slots', '0')
ok(status != 0 and str(s.port) in err, 'a second one on the same port too', status, err)
if os.environ.get('WEIR_TEST_STORE', 'sqlite') == 'sqlite':
    for name in ('weir.db', 'verify.key'):
        (TMP / 'other' / name).chmod(0o666)
    other = Server('other', slots=0)
    same([e['kind'] for e in map(json.loads, other.get('/v1/events').body.splitlines())].count('started'), 1, 'that start left no trace: it was none')
    said = [line for line in other.log.read_text().splitlines() if line.startswith('data.mode')]
    same([any(f'/{name} ' in line for line in said) for name in ('weir.db', 'verify.key', 'token.key')], [True, True, False], 'files that others can read or write are named at the start')
    other.stop()

# -- the executor beside it
executors = until(lambda: [e for e in s.get('/v1/executors').json['executors'] if e['state'] == 'active'], 'an executor registers')
same(executors[0]['slots'], 2, 'with the slots asked for')
pid = int((s.dir / 'executor.pid').read_text().split()[0])
ok(pathlib.Path(f'/proc/{pid}/cmdline').read_bytes().split(b'\0')[1] == b'executor', 'it is a process `weir executor`')
ok(os.getsid(pid) == pid != os.getsid(s.process.pid), 'of a session of its own')
task = s.post('/v1/tasks', dict(name='t', script='echo hello; ulimit -n')).json['id']
until(lambda: s.state(task) == 'D', 'it runs tasks')
same(s.get(f'/v1/tasks/{task}/log').body, f'hello\n{resource.getrlimit(resource.RLIMIT_NOFILE)[0]}\n'.encode(), "and brings their output; their limit on files is the user's")

# -- SIGTERM: executor and tasks go on, the next server finds them
flag = TMP / 'go'
task = s.post('/v1/tasks', dict(name='long', script=f'umask; echo begun; while [ ! -e {flag} ]; do sleep 0.05; done; echo ended')).json['id']
until(lambda: b'begun' in s.get(f'/v1/tasks/{task}/log').body, 'a long task runs')
same(s.stop(signal.SIGTERM), 0, 'SIGTERM: exit 0')
ok(not (s.dir / 'address').exists(), 'the address is gone')
os.kill(pid, 0)
s.start()
until(lambda: [e for e in s.get('/v1/executors').json['executors'] if e['state'] == 'active'], 'the executor is found again')
same(int((s.dir / 'executor.pid').read_text().split()[0]), pid, 'the same process')
ok('executor.found' in s.log.read_text(), 'and it is said')
flag.write_text('')
until(lambda: s.state(task) == 'D', 'the task ends well')
same([a['number'] for a in s.task(task)['attempts']], [1], 'in its first attempt')
umask = os.umask(0)
os.umask(umask)
same(s.get(f'/v1/tasks/{task}/log').body, f'{umask:04o}\nbegun\nended\n'.encode(), "its log is whole, its umask is the user's")

# -- kill -9 of the server
flag.unlink()
task = s.post('/v1/tasks', dict(name='hard', script=f'echo begun; while [ ! -e {flag} ]; do sleep 0.05; done; echo ended')).json['id']
until(lambda: b'begun' in s.get(f'/v1/tasks/{task}/log').body)
s.stop(signal.SIGKILL)
flag.write_text('')
s.start()
until(lambda: s.state(task) == 'D', 'after kill -9 the task that ran is finished')
same((len(s.task(task)['attempts']), s.get(f'/v1/tasks/{task}/log').body), (1, b'begun\nended\n'), 'once, with its whole log')

# -- the executor dies: it is started again
os.kill(pid, signal.SIGKILL)
until(lambda: int((s.dir / 'executor.pid').read_text().split()[0]) != pid, 'a dead executor is started again')
task = s.post('/v1/tasks', dict(name='t', command='true')).json['id']
until(lambda: s.state(task) == 'D', 'and works')

# -- other slots: replaced, its tasks go on
flag.unlink()
task = s.post('/v1/tasks', dict(name='kept', script=f'while [ ! -e {flag} ]; do sleep 0.05; done')).json['id']
until(lambda: s.state(task) == 'X')
s.stop(signal.SIGTERM)
s.options[1] = '4'
s.start()
until(lambda: [e['slots'] for e in s.get('/v1/executors').json['executors'] if e['state'] == 'active'] == [4], 'other slots: the executor is replaced')
flag.write_text('')
until(lambda: s.state(task) == 'D', 'its task goes on under the new one')
same(len(s.task(task)['attempts']), 1, 'in the same attempt')

# -- SIGINT ends all of it
task = s.post('/v1/tasks', dict(name='endless', script='echo $$; exec sleep 1000')).json['id']
until(lambda: s.get(f'/v1/tasks/{task}/log').body.endswith(b'\n'))
job = int(s.get(f'/v1/tasks/{task}/log').body)
pid = int((s.dir / 'executor.pid').read_text().split()[0])
same(s.stop(signal.SIGINT), 0, 'SIGINT: exit 0')
ok(not pathlib.Path(f'/proc/{job}').exists() and not pathlib.Path(f'/proc/{pid}').exists(), 'server, executor and tasks have ended')

# -- SIGHUP
config.write_text('slots: 1\nlease: 3s\nhooks: {before_enqueue: [/bin/true]}\n')
h = Server.__new__(Server)
h.__init__('hup', '--config', str(config), slots=0)
h.stop(signal.SIGINT)
del h.options[:2]  # --slots
h.start()
until(lambda: [e['slots'] for e in h.get('/v1/executors').json['executors'] if e['state'] == 'active'] == [1], 'slots of the file')
ok('key=hooks.before_enqueue' in h.log.read_text(), 'settings that do nothing yet are named', h.log.read_text())
config.write_text('slots: lots\n')
h.process.send_signal(signal.SIGHUP)
until(lambda: 'config.refused' in h.log.read_text(), 'a bad reload is refused, and said')
ok(f'{config}:1:8: error' in h.log.read_text(), 'with its faults', h.log.read_text())
same(h.get('/healthz').status, 200, 'the server goes on')
config.write_text('slots: 2\nlease: 4s\nsemaphores: {pdf: 3}\n')
h.process.send_signal(signal.SIGHUP)
until(lambda: 'config.loaded' in h.log.read_text(), 'a good one is taken')
until(lambda: [(x['name'], x['limit']) for x in h.get('/v1/semaphores').json['semaphores']] == [('pdf', 3)], 'semaphores count at once')
ok('key=lease' in h.log.read_text() and 'restart' in h.log.read_text(), 'what needs a restart is said')
until(lambda: [e['slots'] for e in h.get('/v1/executors').json['executors'] if e['state'] == 'active'] == [2], 'the executor gets its new slots')
end()
