#!/usr/bin/env python3
# time limit: 120
# store: sqlite (it starts its own PostgreSQL)
"""The manual's section about several machines, block by block as it stands, on one machine: names of hosts, ports and folders are all that is replaced."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
import postgres  # noqa: E402
from house import TMP, WEIR, clean_env, end, ok, same, skip, until  # noqa: E402
from papers import free_port  # noqa: E402

if not postgres.available():
    skip('PostgreSQL', f'there is no {postgres.BIN}')
    end()
ROOT = pathlib.Path(__file__).resolve().parents[2]
manual = (ROOT / 'doc/manual.md').read_text()
section = re.search(r'^## Several machines\n(.*?)^## ', manual, re.M | re.S)[1]
blocks = re.findall(r'^```bash\n(.*?)^```', section, re.M | re.S)
same([block[:4] for block in blocks], [f'# {n}.' for n in range(1, 8)], 'the section has seven steps')
pg = postgres.Postgres().start()
work = TMP / 'work'
work.mkdir()
ports = {'weir-1': free_port(), 'weir-2': free_port()}
env = clean_env(PATH=f'{pathlib.Path(WEIR).parent}:{postgres.BIN}:{os.environ["PATH"]}', PGHOST=str(pg.dir), PGUSER='weir', PGDATABASE='postgres')


def here(text, host=None):
    """one machine instead of many"""
    text = text.replace('postgresql://weir@db/weir', f'"{pg.url("weir")}"').replace('createuser weir', 'createuser site').replace('--owner weir', '--owner site')
    text = text.replace('DNS:%s', 'DNS:localhost,DNS:%s').replace('/var/lib/weir-executor', str(TMP / 'executor'))
    for name, port in ports.items():
        text = text.replace(f'https://{name}:8420', f'https://localhost:{port}')
    if host:
        text = text.replace('/var/lib/weir', str(TMP / host)).replace('0.0.0.0:8420', f'127.0.0.1:{ports[host]}')
    return text


def step(n, host=None, **more):
    done = subprocess.run(['bash', '-euo', 'pipefail', '-c', here(blocks[n - 1], host)], cwd=work, env=dict(env, **more), capture_output=True, text=True, timeout=100, stdin=subprocess.DEVNULL)
    ok(done.returncode == 0, f'step {n}: {blocks[n - 1].splitlines()[0][5:70]}', done.returncode, done.stdout, done.stderr)
    return done.stdout


def stays(n, host=None):
    log = open(TMP / f'step{n}.log', 'wb')
    process = subprocess.Popen(['bash', '-euo', 'pipefail', '-c', 'exec ' + re.sub(r'^#.*\n', '', here(blocks[n - 1], host))], cwd=work, env=env, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE if host else log, stderr=log, start_new_session=True)
    log.close()
    if host:
        line = process.stdout.readline().decode()
        ok(line.startswith('listening on https://'), f'step {n}: {host} serves', line, (TMP / f'step{n}.log').read_text())
    return process


step(1)
step(2)
first = stays(3, 'weir-1')
step(4, 'weir-1', WEIR_SERVER=f'unix:{TMP}/weir-1/weir.sock')
(TMP / 'weir-2').mkdir(mode=0o711)
shutil.copy(TMP / 'weir-1/verify.key', TMP / 'weir-2/verify.key')
second = stays(5, 'weir-2')
executor = stays(6)
said = step(7)
ok(f'hello from {os.uname().nodename}' in said, 'the job ran, and its log is read through the other server', said)
ok('weir-1' in said and 'weir-2' in said and 'executor' in said, 'nodes has both servers and the executor', said)
first.kill()
first.wait()
task = '{"name": "again", "script": "echo still here"}'
done = subprocess.run([WEIR, 'enqueue', '-', '--server', f'https://localhost:{ports["weir-2"]}', '--ca', 'ca.pem', '--token-file', 'ops.token'], cwd=work, env=env, input=task,
                      capture_output=True, text=True, timeout=60)
same(done.returncode, 0, 'weir-1 is killed: weir-2 takes work')
ok(until(lambda: subprocess.run([WEIR, 'wait', 'default:2', '--timeout', '30s', '--server', f'https://localhost:{ports["weir-2"]}', '--ca', 'ca.pem', '--token-file', 'ops.token'],
                                cwd=work, env=env, capture_output=True, timeout=60).returncode == 0, seconds=60), 'and the executor does it')
for process in (executor, second):
    process.send_signal(signal.SIGINT)
same([process.wait(60) for process in (executor, second)], [0, 0], 'they end')
pg.remove()
end()
