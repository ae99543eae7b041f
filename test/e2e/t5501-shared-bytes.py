#!/usr/bin/env python3
# time limit: 180
# store: sqlite (it starts its own PostgreSQL)
"""Two servers on one store: logs and artifacts of one are read through the other, also while they grow; both know of both; one name is one server's."""
import hashlib
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import TMP, WEIR, House, clean_env, database, end, ok, run, same, until  # noqa: E402

pg, url = database()
a = House('a', '--store', url, '--name', 'alpha', slots=2)
(TMP / 'b').mkdir()
shutil.copy(a.dir / 'verify.key', TMP / 'b/verify.key')
b = House('b', '--store', url, '--name', 'beta', slots=0)


def states(server):
    return {n['name']: n['state'] for n in server.patient('/v1/nodes').json['nodes'] if n['role'] == 'server'}


# -- who is there
for server in (a, b):
    ok(until(lambda: states(server) == {'alpha': 'active', 'beta': 'active'}), 'a server lists both', states(server))
ok('alpha' in b.cli('nodes').out and 'beta' in b.cli('nodes').out, 'and so do people see them', b.cli('nodes').out)
(TMP / 'c').mkdir()
shutil.copy(a.dir / 'verify.key', TMP / 'c/verify.key')
done = run('serve', '--data', TMP / 'c', '--listen', '127.0.0.1:0', '--slots', '0', '--store', url, '--name', 'alpha', timeout=60)
ok(done.code != 0 and 'alpha' in done.err and '--name' in done.err, 'a second server of that name is refused, with what to do', done.code, done.err)
same(states(b), {'alpha': 'active', 'beta': 'active'}, 'and has changed nothing')

# -- a large log and a large artifact, made through one and read through the other
SCRIPT = 'yes "a line of a log that is long enough to be one" | head -c 5000001; head -c 3000001 /dev/urandom >big; sha256sum big | cut -d" " -f1 >&2'
task = a.enqueue(dict(name='large', script=SCRIPT, shell='sh', artifacts=['big']))['id']
same(b.ended(task)[0]['state'], 'D', 'a task of one server ends, as the other sees it')
want = (b'a line of a log that is long enough to be one\n' * 110000)[:5000001]
log = b.log_bytes(task)
ok(log == a.log_bytes(task), 'both have the same log')
same((len(log), log[:5000001] == want), (5000001 + 65, True), 'byte by byte')
same(b.log_bytes(task, '?tail=65'), log[-65:], 'its tail')
same(b.log_bytes(task, '?offset=4999990'), log[4999990:], 'and from an offset')
digest = log[-65:].decode().strip()
for server in (a, b):
    got = server.get(f'/v1/tasks/{task}/artifacts/big').body
    same((len(got), hashlib.sha256(got).hexdigest()), (3000001, digest), 'the artifact')
ok(not list((a.dir / 'blobs').glob('??/*')) and not (a.dir / 'logs').exists(), 'no server keeps them for itself')

# -- followed through the other while it runs
gate = TMP / 'gate'
task = a.enqueue(dict(name='slow', script=f'echo first; while ! test -e {gate}; do sleep 0.1; done; echo last', shell='sh'))['id']
follower = subprocess.Popen([WEIR, 'log', '--server', b.socket, '-f', str(task)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_env())
same(follower.stdout.readline(), b'first\n', 'the first line comes while the task runs')
same(b.state(task), 'X', 'which it does')
gate.touch()
out, err = follower.communicate(timeout=30)
same((out, follower.returncode), (b'last\n', 0), 'and the rest, and then the end')

# -- one dies: the other has everything, and says so
a.kill()
ok(until(lambda: states(b) == {'alpha': 'lost', 'beta': 'active'}, seconds=20), 'a server that died is marked lost within ten seconds, or twenty on a busy machine', states(b))
same(b.log_bytes(task), b'first\nlast\n', 'its logs are there')
a.start()
ok(until(lambda: states(b) == {'alpha': 'active', 'beta': 'active'}), 'it comes back under its name', states(b))
same(a.log_bytes(task), b'first\nlast\n', 'and has them too')
for server in (a, b):
    server.stop(2)
pg.stop()
end()
