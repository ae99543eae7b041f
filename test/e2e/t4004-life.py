#!/usr/bin/env python3
"""A server's life: how it starts, where it listens, what its signals do, who may run beside it, and the exit codes of the command line."""
import json
import os
import pathlib
import re
import signal
import socket
import stat
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import NAP, TMP, WEIR, House, alive, clean_env, end, ok, processes, run, same, until  # noqa: E402


def has_pid(name):
    path = TMP / name
    until(lambda: path.exists() and path.read_text().strip(), seconds=40)
    return int(path.read_text())


# -- starting: --listen port 0, the line, the address file, modes
s = House('data', slots=2)
ok(re.fullmatch(r'listening on http://127\.0\.0\.1:[1-9]\d*\n', s.line), f'prints where it listens: {s.line.strip()}')
same((s.dir / 'address').read_text().strip(), s.url, 'DIR/address has the same')
same(s.get('/healthz').status, 200, 'it answers there')
same(s.ask('GET', '/healthz', local=True).status, 200, 'and on its socket')
mode = stat.S_IMODE(os.stat(s.dir).st_mode)
ok(mode & 0o066 == 0, f'the data directory is not readable for others: {mode:o}')


def open_to_others(path):
    try:
        found = os.lstat(path)
    except FileNotFoundError:  # it was made for a moment
        return False
    return not stat.S_ISLNK(found.st_mode) and not stat.S_ISSOCK(found.st_mode) and stat.S_IMODE(found.st_mode) & 0o077


loose = [str(p) for p in s.dir.rglob('*') if 'run' not in p.relative_to(s.dir).parts and open_to_others(p)]
same(loose, [], 'nor is anything in it')

# -- a second one on the same data
second = run('serve', '--data', s.dir, '--listen', '127.0.0.1:0', '--slots', '0', timeout=60)
ok(second.code not in (0, 2) and second.err.strip(), f'a second server on the same data is refused: {second.code} {second.err.strip()[:100]}', second)
same(s.get('/healthz').status, 200, 'and the first one lives')
same((s.dir / 'address').read_text().strip(), s.url, 'with its address')
busy = run('serve', '--data', TMP / 'busy', '--listen', f'127.0.0.1:{s.port}', '--slots', '0')
ok(busy.code not in (0, 2) and str(s.port) in busy.err and '--listen' in busy.err, f'a port in use is refused: {busy.code} {busy.err.strip()[-100:]}', busy.err)

for option, word in (('--name', 'executor'), ('--zone', 'zone')):
    wrong = run('executor', '--server', s.url, '--data', TMP / 'wrong', option, 'a b')
    ok(wrong.code == 2 and f"{option}: the {word} name 'a b'" in wrong.err and not (TMP / 'wrong').exists(), f'weir executor {option} that no server takes: 2, and nothing is kept',
       wrong.code, wrong.err)

# -- SIGTERM: jobs run on, the next server finds them
job = s.enqueue(dict(name='stays', script=f'echo $$ > {TMP}/stays; echo one; while [ ! -e {TMP}/go ]; do sleep 0.05; done; echo two; exit 0'))
pid = has_pid('stays')
executor = s.executors()
same(s.stop(signal.SIGTERM), 0, 'SIGTERM: the server ends, 0')
ok(alive(pid), 'the job runs on')
ok(len(executor) == 1 and alive(executor[0]), 'the executor stays')
ok(not [p for p, line in s.left().items() if ' serve ' in line], 'the server is gone')
same(run('list', '--server', s.socket).code, 69, 'no server: 69')
s.start()
same((s.state(job['id']), s.executors()), ('X', executor), 'the next server finds both')
(TMP / 'go').touch()
done = s.ended(job['id'])[0]
same((done['state'], len(done['attempts']), s.log_bytes(job['id'])), ('D', 1, b'one\ntwo\n'), 'the job ends in its one attempt, log and all')
same(s.stop(signal.SIGTERM), 0, 'SIGTERM without jobs')
ok(until(lambda: not s.left(), seconds=40), 'an executor without a server and without jobs exits', s.left())

# -- SIGINT: everything ends
s.start()
jobs = s.enqueue(dict(name='polite', script=f'echo $$ > {TMP}/polite; sleep {NAP}'),
                 dict(name='rude', grace='1s', script=f'trap "" TERM HUP INT; (trap "" TERM; setsid sleep {NAP} &) ; echo $$ > {TMP}/rude; sleep {NAP} & wait; sleep {NAP}'))
pids = [has_pid('polite'), has_pid('rude')]
same(s.stop(signal.SIGINT, 60), 0, 'SIGINT: the server ends, 0')
ok(until(lambda: not s.left() and not processes(NAP) and not any(alive(p) for p in pids), seconds=30), 'and nothing is left behind', s.left(), processes(NAP))
s.start()
states = [s.state(t['id']) for t in jobs]
ok(all(x in 'TPXFA' for x in states), f'the next server knows what became of them: {states}')
for t in jobs:
    if s.state(t['id']) not in 'DFTA':
        s.post(f'/v1/tasks/{t["id"]}/cancel', dict(reason='end of test'))
s.ended(*[t['id'] for t in jobs])
same(s.stop(signal.SIGINT, 60), 0, 'SIGINT again')

# -- configuration: --show-config with origins, reload, bad reload
config = TMP / 'weir.yaml'
config.write_text('slots: 0\nlease: 20s\nsemaphores: {licence: 3}\n')
shown = run('serve', '--config', config, '--show-config', '--data', TMP / 'conf', WEIR_LEASE='30s')
ok(shown.code == 0 and 'lease' in shown.out and 'slots' in shown.out, '--show-config', shown.out, shown.err)
lease = [line for line in shown.out.splitlines() if 'lease' in line]
ok(lease and '30s' in lease[0] and 'WEIR_LEASE' in lease[0], f'names value and origin: {lease}', shown.out)
ok(any('slots' in line and 'weir.yaml' in line for line in shown.out.splitlines()), 'of the file, too', shown.out)
ok(any('data' in line and '--data' in line for line in shown.out.splitlines()), 'and of the option', shown.out)
ok(not (TMP / 'conf').exists(), 'it makes nothing')
for text, words in (('slotz: 3\n', ['1:1', 'slots']), ('lease: soon\n', ['1:8']), ('lease: 15\n', ['1:8']), ('slots: -1\n', ['1:8']), ('slots: [\n', ['weir.yaml']), ('- a\n', ['1:1'])):
    config.write_text(text)
    bad = run('serve', '--config', config, '--show-config')
    ok(bad.code == 65 and all(w in bad.err for w in words), f'{text.strip()!r}: 65 with line and column', bad.code, bad.err)
same(run('serve', '--config', TMP / 'none.yaml', '--show-config').code, 66, 'no such file: 66')
for args in (['--slots', 'x'], ['--slots', '-1'], ['--lease', 'soon'], ['--lease', '0s'], ['--listen', '127.0.0.1'], ['--listen', '127.0.0.1:99999'], ['--frob'], ['extra']):
    bad = run('serve', '--data', TMP / 'conf', *args, '--show-config')
    ok(bad.code == 2 and bad.err, f'serve {" ".join(args)}: 2', bad.code, bad.err)
same(run('serve', '--data', TMP / 'conf', '--show-config', WEIR_SLOTS='x').code, 65, 'a bad value in a variable: 65')
config.write_text('slots: 0\nsemaphores: {licence: 3}\n')
c = House('conf', '--config', str(config), slots=0)
limits = {x['name']: x['limit'] for x in c.get('/v1/semaphores').json['semaphores']}
same(limits, {'licence': 3}, 'a semaphore of the configuration')
config.write_text('slots: 0\nsemaphores: {licence: 5}\n')
c.process.send_signal(signal.SIGHUP)
ok(until(lambda: {x['name']: x['limit'] for x in c.get('/v1/semaphores').json['semaphores']} == {'licence': 5}, seconds=20), 'SIGHUP: the new value is in force', c.log.read_text())
config.write_text('slots: 0\nsemaphores: {licence: many}\n')
size = len(c.log.read_text())
c.process.send_signal(signal.SIGHUP)
ok(until(lambda: 'licence' in c.log.read_text()[size:] or 'many' in c.log.read_text()[size:], seconds=20), 'a bad reload is said', c.log.read_text()[size:])
same((c.process.poll(), {x['name']: x['limit'] for x in c.get('/v1/semaphores').json['semaphores']}), (None, {'licence': 5}), 'and leaves the old in force')
same(c.stop(signal.SIGINT), 0, 'it ends')

# -- XDG: no option at all but a free port
state = TMP / 'xdg'
state.mkdir()
x = subprocess.Popen([WEIR, 'serve', '--listen', '127.0.0.1:0', '--slots', '0'], env=clean_env(XDG_STATE_HOME=str(state)), stdout=subprocess.PIPE, stdin=subprocess.DEVNULL,
                     stderr=subprocess.DEVNULL)
line = x.stdout.readline().decode()
ok(line.startswith('listening on '), 'weir serve with data by default', line)
ok((state / 'weir/address').read_text().strip() in line, 'which is $XDG_STATE_HOME/weir')
mine = dict(XDG_STATE_HOME=str(state))
same(run('enqueue', '-', stdin='{"name": "a"}', **mine).code, 0, 'commands find its socket without an option')
# -- exit codes
for args, code, text in (
        (['list'], 0, 'success'), (['show', '1'], 0, 'a task'), (['wait', '1'], 0, 'wait for what is done'), (['show', '99'], 66, 'no such task'),
        (['log', 'default:99'], 66, 'no log of no task'), (['cancel', '1'], 2, 'no reason'), (['cancel', '1', '--reason', 'x'], 1, 'already ended'),
        (['pause', 'all'], 2, 'no reason'), (['frobnicate'], 2, 'no such command'), (['list', '--frob'], 2, 'no such option'), (['show'], 2, 'no key'),
        (['wait', '1', '--timeout', 'x'], 2, 'no duration'), (['enqueue', str(TMP / 'missing.json')], 66, 'no such file'), (['list', '--server', 'http://127.0.0.1:1'], 69, 'nobody there'),
        (['list', '--server', f'unix:{TMP}/none.sock'], 69, 'no socket'), (['--version'], 0, 'version'), (['help'], 0, 'help'), (['list', '--help'], 0, 'help of one')):
    got = run(*args, **mine)
    ok(got.code == code and (code == 0 or (got.err.strip() and not got.out.strip())), f'weir {" ".join(args)}: {code} ({text})', got.code, got.out, got.err)
for text, word in (('{"name": "a",}', '1:'), ('{"nam": "a"}', 'nam'), ('{"name": 5}', 'name'), ('', ''), ('{"name":"a","depends":["b"]}', 'b')):
    got = run('enqueue', '-', stdin=text, **mine)
    ok(got.code in (65, 66) and word in got.err and not got.out, f'enqueue of {text!r}: {got.code}', got.code, got.err)
held = json.loads(run('enqueue', '--json', '-', stdin='{"name": "a", "data": 1}', **mine).out)
held = held[0] if isinstance(held, list) else held
same(run('wait', held['id'], '--timeout', '300ms', **mine).code, 75, 'wait --timeout run out: 75')
made = run('token', 'create', '--name', 'reader', '--scope', 'read', **mine)
token = made.out.strip()
ok(made.code == 0 and re.fullmatch(r'\S+', token), 'token create prints the token alone', made.out, made.err)
url = line.split()[2]
same(run('list', '--server', url).code, 77, 'without the token: 77')
same(run('list', '--server', url, WEIR_TOKEN=token).code, 0, 'with WEIR_TOKEN: 0')
(TMP / 'token').write_text(token + '\n')
same(run('list', '--server', url, '--token-file', TMP / 'token').code, 0, 'with --token-file: 0')
same(run('enqueue', '-', '--server', url, stdin='{"name": "a"}', WEIR_TOKEN=token).code, 77, 'a scope that is missing: 77')
same(run('list', '--server', url, WEIR_TOKEN=token + 'x').code, 77, 'a wrong token: 77')
x.send_signal(signal.SIGINT)
same(x.wait(30), 0, 'it ends')
ok(not (state / 'weir/address').exists() or socket.socket().connect_ex(('127.0.0.1', int(url.rsplit(':', 1)[1]))) != 0, 'and nobody listens there')
end()
