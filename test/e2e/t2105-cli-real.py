#!/usr/bin/env python3
"""Every command against the real server and its executor. What a command prints for people is shown by the tests with canned answers; here it is that
each one does what it says."""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'test/unit/cli'))
from tap import WEIR, Server, Terminal, clean_env, end, has, lonely, ok, same, skip, weir

TMP = pathlib.Path(os.environ.get('TEST_TMP') or '/tmp/weir-cli-real')
(TMP / 'state').mkdir(parents=True)
server = Server(str(TMP / 'state' / 'weir'), '--slots', '4')
E = clean_env(XDG_STATE_HOME=str(TMP / 'state'))  # so the local socket is found without --server


def w(*args, stdin='', **more):
    return weir(*args, stdin=stdin, env=E, **more)


def j(*args, stdin=''):
    done = w(*args, '--json', stdin=stdin)
    return json.loads(done.out) if done.out else done.err


def start(*args):
    return subprocess.Popen([WEIR, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, env=E)


def state(key):
    return j('show', str(key))['state']


def until(condition, seconds=30):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


# -- a small graph that succeeds and one that fails
tasks = [dict(name='fetch', command='echo fetched'), dict(name='build', script='echo building; echo size=7 >> $WEIR_OUTPUT', depends=['fetch']),
         dict(name='ship', command='true', depends=['build'])]
done = w('enqueue', '-', stdin=json.dumps(tasks))
keys = done.out.split()
same(keys, ['default:1', 'default:2', 'default:3'], 'enqueue prints the keys')
done = w('wait', *keys, '--timeout', '60s')
ok(done.returncode == 0 and done.out.count('D done') == 3, 'wait: all is done, 0', done.returncode, done.out, done.err)
same(w('log', keys[1]).out, 'building\n', 'log')
task = j('show', keys[1])
ok(task['outputs'] == {'size': '7'} and task['depends'][0]['id'] == 1 and task['word'] == 'done', 'show --json', task)
has(w('show', '2').out, 'size=7', 'show')
bad = w('enqueue', '-', stdin='[{"name": "bad", "queue": "f", "command": "sh -c \\"exit 3\\""}, {"name": "after-bad", "queue": "f", "command": "true", "depends": ["bad"]}]').out.split()
done = w('wait', *bad, '--timeout', '60s')
ok(done.returncode == 1 and done.out.count('F failed') == 2, 'wait: something failed, 1', done.returncode, done.out, done.err)
has(done.out, bad[0] + ')', 'and the one that failed because of the other names it')
same(w('wait', 'default', '--timeout', '60s').returncode, 0, 'wait for a queue that is all done: 0')
same(w('wait', 'f', '--timeout', '60s').returncode, 1, 'wait for one with failures: 1')
graph = j('graph', bad[1])
same(([t['state'] for t in sorted(graph['tasks'], key=lambda t: t['id'])], graph['edges']),
     (['F', 'F'], [{'from': bad[1], 'to': bad[0], 'kind': 'depends'}]), 'graph as json')
has(w('graph', bad[1]).out, 'F 4 bad', 'graph as boxes')
same(w('why', bad[1]).returncode, 0, 'why of an ended task')
same([t['key']['name'] for t in j('list', '--queue', 'f')], ['after-bad', 'bad'], 'list --queue, newest first')
same([t['key']['name'] for t in j('list', '--state', 'D', '--task', 'ship')], ['ship'], 'list --state --task')
same(len(j('list', '--limit', '2')), 2, 'list --limit')
same(sorted(t['state'] for t in j('history')), ['D', 'D', 'D', 'F', 'F'], 'history')
moves = [e.get('to') for e in j('history', keys[0]) if e.get('to')]
ok(moves[-1] == 'D' and 'X' in moves, 'history of one task: its events, oldest first', moves)
same(w('retry', bad[0]).returncode, 0, 'retry')
same(w('wait', *bad, '--timeout', '60s').returncode, 1, 'fails again, and its dependent with it')

# -- pause, why, resume, promote
same(w('resume', 'never').returncode, 66, 'resume of a queue that never was: 66')
same(w('pause', 'early', '--reason', 'not yet').returncode, 0, 'a queue can be paused before its first task')
early = w('enqueue', '-', stdin='{"name": "early", "queue": "early", "command": "true"}').out.strip()
has(w('why', early).out, 'not yet', 'which waits then')
same(w('resume', 'early').returncode, 0, 'until it is resumed')
w('wait', w('enqueue', '--queue', 'p', '--command', '--', 'true').out.strip(), '--timeout', '60s')
same(w('pause', 'p', '--reason', 'repairs').returncode, 0, 'pause of a queue')
waiting = w('enqueue', '--queue', 'p', '--command', '--', 'true').out.strip()
why = j('why', waiting)
ok(why['verdict'] == 'waiting' and why['conditions'][0]['kind'] == 'pause' and 'repairs' in why['conditions'][0]['detail'], 'why names the pause', why)
has(w('status').out, 'repairs', 'status shows it')
done = w('wait', waiting, '--timeout', '200ms')
ok(done.returncode == 75, 'wait --timeout: 75', done.returncode, done.err)
same(w('resume', 'p').returncode, 0, 'resume')
same(w('wait', 'p', '--timeout', '60s').returncode, 0, 'then it runs')
w('pause', 'all', '--reason', 'everything')
held = w('enqueue', '--command', '--', 'true').out.strip()
same(state(held), 'S', 'pause all')
w('resume', 'all')
same(w('wait', held, '--timeout', '60s').returncode, 0, 'resume all')
stuck = w('enqueue', '-', stdin='{"name": "gpu", "command": "true", "labels": {"gpu": "1"}}').out.strip()
same(j('why', stuck)['verdict'], 'never', 'why: no executor has the label')
has(w('why', stuck).out, 'can never run', 'in words')
same(w('promote', stuck).returncode, 0, 'promote of a pending task')
same(w('promote', keys[0]).returncode, 1, 'promote of an ended one: 1')

# -- cancel
same(w('cancel', stuck, '--reason', 'not needed').returncode, 0, 'cancel of a pending task')
same((state(stuck), j('show', stuck)['reason']), ('T', 'not needed'), 'is T at once, with the reason')
long = w('enqueue', '--name', 'long', '--command', '--', 'sleep', '600').out.strip()
ok(until(lambda: state(long) == 'X'), 'a task runs')
same(w('cancel', long, '--reason', 'enough').returncode, 0, 'cancel of a running one')
done = w('wait', long, '--timeout', '60s')
ok(done.returncode == 1 and 'T terminated' in done.out, 'becomes T', done.out)
done = w('cancel', long, '--reason', 'again')
ok(done.returncode == 1 and 'is terminated' in done.err, 'cancel of an ended one: 1', done.returncode, done.err)

# -- TOOK is the time of the last attempt, not of the wait behind it
again = w('enqueue', '--name', 'again', '--command', '--', 'false').out.strip()
w('wait', again, '--timeout', '60s')
has(w('show', again).out, '\ntook ', 'an ended task says how long it took')
w('pause', 'all', '--reason', 'hold')
w('retry', again)
for how, letter in (('retried', 'S'), ('cancelled', 'T')):
    row = next(line for line in w('list').out.splitlines() if f' {again} ' in line)
    ok(row.startswith(letter) and re.fullmatch(r'.* ago +(hold)?', row) and '\ntook ' not in w('show', again).out, f'a {how} one that waited took nothing', row)
    w('cancel', again, '--reason', 'hold')
w('resume', 'all')

# -- following: log -f, events -f, wait through a restart of the server
slow = w('enqueue', '--name', 'slow', '-', stdin=json.dumps(dict(script='echo one; while [ ! -e %s/go ]; do sleep 0.05; done; echo two' % TMP))).out.strip()
process = start('log', '-f', slow)
same(process.stdout.readline(), b'one\n', 'log -f: what is there')
head = j('events')[-1]['seq'] - 1
feed = start('events', '-f', '--json', '--since', str(head))
same(json.loads(feed.stdout.readline())['seq'], head + 1, 'events -f begins behind --since')
waiter = start('wait', slow, '--timeout', '100s')
same(waiter.stderr.readline().split()[:2], [slow.encode(), b'X'], 'wait says how things stand')
top = Terminal('top', env=E, rows=30, columns=100)
ok(top.until('slow'), 'top shows what runs', repr(top.text[-500:]))
same(server.stop(signal.SIGTERM), 0, 'the server ends on SIGTERM, the task goes on')
server.start()
(TMP / 'go').touch()
same((waiter.wait(timeout=100), waiter.stdout.read().decode().split()[:3]), (0, ['D', 'done', slow]), 'wait survives a restart of the server')
out, err = process.communicate(timeout=60)
ok(out == b'two\n' and process.returncode == 0, 'so does log -f', out, err)
event = {}
while not (event.get('task') == j('show', slow)['id'] and event.get('to') == 'D'):
    event = json.loads(feed.stdout.readline())
ok(event['seq'] > head, 'and events -f', event)
feed.terminate()
feed.wait()
feed.stdout.close()
feed.stderr.close()
waiter.stderr.close()
waiter.stdout.close()
top.keys('q')
same(top.exit(), 0, 'and top; q leaves')

# -- operation
has(w('stats').out, 'default', 'stats')
nodes = j('nodes')
same(sorted(n['role'] for n in nodes), ['executor', 'server'], 'nodes')
name = [n['name'] for n in nodes if n['role'] == 'executor'][0]
same(w('executor', 'pause', name).returncode, 0, 'executor pause')
has(w('nodes').out, 'paused', 'shows in nodes')
same([line.split(None, 1) for line in w('executor', 'show', name).out.splitlines() if line.startswith(('executor', 'state'))],
     [['executor', name], ['state', 'paused']], 'executor show')
same((j('executor', 'show', name)['name'], w('executor', 'show', 'nobody').returncode), (name, 66), 'executor show --json; one that is not there: 66')
same(w('executor', 'resume', name).returncode, 0, 'executor resume')
held = w('enqueue', '-', stdin='{"name": "s", "command": ["sleep", "60"], "semaphores": ["licence"]}').out.strip()
same([s['name'] for s in j('semaphores')], ['licence'], 'semaphores')
w('cancel', held, '--reason', 'seen')
w('wait', held, '--timeout', '60s')
same(j('semaphores'), [], 'one whose limit nobody has set goes when nobody has it')
done = w('verify')
ok(done.returncode == 0 and done.out.startswith('ok'), 'verify with a server', done.out, done.err)
ok(w('verify', '--data', str(TMP / 'state' / 'weir')).returncode == 0, 'verify --data')
same(w('backup', str(TMP / 'b.db')).returncode, 0, 'backup')
ok(w('restore', str(TMP / 'b.db')).returncode != 0, 'restore over a living store is refused')
same(w('restore', str(TMP / 'b.db'), '--data', str(TMP / 'restored')).returncode, 0, 'restore elsewhere')
same(json.loads(w('restore', str(TMP / 'b.db'), '--data', str(TMP / 'restored2'), '--json').out), dict(data=str(TMP / 'restored2'), paused=True, logs_missing=0, artifacts=0, artifacts_missing=0, without_artifacts=False), 'restore --json')
done = w('verify', '--data', str(TMP / 'restored'))
ok(done.returncode == 0, 'and it verifies', done.out, done.err)
ok(w('restore', str(TMP / 'nothing'), '--data', str(TMP / 'x')).returncode in (1, 66), 'restore of nothing')

(TMP / 'no-backup').write_text('something else')
done = w('restore', str(TMP / 'no-backup'), '--data', str(TMP / 'x'))
ok(done.returncode == 65 and '`weir backup` has written' in done.err, 'restore of what is no backup: 65, and what to give', done.returncode, done.err)

# -- why, in the words that help: what would fit, where it runs, and what to do after an end
key = w('enqueue', '-', stdin='{"name": "far", "queue": "why", "command": "true", "labels": {"os": "plan9"}, "zone": "mars"}').out.strip()
has(w('why', key).out, 'remedy   start one: weir executor --server URL --label os=plan9 --zone mars', 'why: the executor that would fit')
far = w('enqueue', '-', stdin='{"name": "worker", "queue": "why", "data": 1}').out.strip()
has(w('why', far).out, 'kinds: ["data"]', 'why: data is for a worker of your own')
key = w('enqueue', '-', stdin='{"name": "long", "queue": "why", "command": "sleep 600"}').out.strip()
ok(until(lambda: state(key) == 'X'), 'it runs')
has(w('why', key).out, f'attempt 1 on {name}', 'why: where it runs')
heir = w('enqueue', '-', stdin=json.dumps(dict(name='heir', queue='why', command='true', depends=[int(key.split(':')[1])]))).out.strip()
same(w('cancel', key, '--reason', 'enough').returncode, 0, 'cancel')
same(w('wait', key, heir, '--timeout', '60s').returncode, 1, 'both end')
has(w('why', key).out, f'remedy: weir retry {key} ', 'why: what runs it again')
has(w('why', heir).out, f'remedy: weir why {key}; weir retry {key} ', 'why: who has to be run again first')
ok(key in j('show', heir)['reason'] and j('show', heir)['cause'] == key, 'the reason of a dependent names the task that made it fail', j('show', heir))
has(w('why', 'why').err, 'QUEUE:ID', 'why of a queue: how a task is written')

# -- refusals of the real server: named field, exit code, nothing changed
before = j('events')[-1]['seq']
for text, code, wanted in [('{"name": "x", "comand": "true"}', 65, "unknown field 'comand'; did you mean 'command'?\n"), ('{"name": 5}', 65, '/name'),
                           ('[{"name": "a", "depends": ["b"]}, {"name": "b", "depends": ["a"]}]', 65, 'a'), ('{"name": "x", "depends": [99999]}', 66, '99999')]:
    done = w('enqueue', '-', stdin=text)
    ok(done.returncode == code and wanted in done.err and done.out == '', f'enqueue {text}: {code}', done.returncode, done.err)
same(j('events')[-1]['seq'], before, 'nothing changed')
first = w('enqueue', '--idempotency-key', 'k', '-', stdin='{"name": "idem", "command": "true"}').out
same(w('enqueue', '--idempotency-key', 'k', '-', stdin='{"name": "idem", "command": "true"}').out, first, 'the same idempotency key: the same task')
same(w('enqueue', '--idempotency-key', 'k', '-', stdin='{"name": "other"}').returncode, 65, 'with another body: 65')
for args in (['show', '99999'], ['why', 'nothing:1'], ['log', '99999'], ['wait', '99999'], ['cancel', '99999', '--reason', 'r'], ['graph', '99999'], ['status', 'nothing']):
    same(w(*args).returncode, 66, f"{' '.join(args)}: 66")

# -- tokens: once one exists, loopback needs one; the socket doesn't
token = w('token', 'create', '--name', 'ci', '--scope', 'read', '--expires', '1h').out.strip()
ok(len(token) > 20, 'token create prints the token alone', token)
same(weir('list', '--server', server.url).returncode, 77, 'loopback without a token: 77')
same(weir('list', '--server', server.url, env=clean_env(WEIR_TOKEN=token)).returncode, 0, 'with it: 0')
same(weir('cancel', '1', '--reason', 'r', '--server', server.url, env=clean_env(WEIR_TOKEN=token)).returncode, 77, 'beyond its scope: 77')
same([t['name'] for t in j('token', 'list')], ['ci'], 'token list')
same(w('token', 'revoke', 'ci').returncode, 0, 'token revoke')
same(w('token', 'revoke', 'ci').returncode, 66, 'twice: 66')
same(w('wait', 'default', '--timeout', '60s').returncode, 1, 'the queue comes to rest')
same(server.stop(), 0, 'the server ends on SIGINT, and all with it')
alone = lonely()
if alone:
    same(w('list', before=alone).returncode, 69, 'then: 69')
    has(w('verify', before=alone).err, 'weir verify --data DIR', 'verify without a server: the other way')
else:
    skip('then: 69', 'the kernel refuses network namespaces, and the default address may be in use')
end()
