#!/usr/bin/env python3
"""Commands that follow: wait, top, events -f, log -f; against a scripted stream of events."""
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'test/unit/cli'))
from fake_server import Fake
from tap import WEIR, Terminal, clean_env, end, has, ok, same, weir

fake = Fake()
S = ['--server', fake.url]


def start(*args):
    return subprocess.Popen([WEIR, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, env=clean_env())


def finish(process, seconds=30):
    out, err = process.communicate(timeout=seconds)
    return process.returncode, out.decode(), err.decode()


# -- wait: what has ended already needs no stream
done_task, failed_task = fake.add('good', 'D'), fake.add('bad', 'F', reason='exit 3')
done = weir('wait', *S, '1')
ok(done.returncode == 0 and done.out.startswith('D done  default:1  good'), 'a task that is D: 0', done.returncode, done.out, done.err)
done = weir('wait', *S, '1', '2')
ok(done.returncode == 1 and 'F failed  default:2  bad' in done.out and 'exit 3' in done.out, 'one that is F: 1', done.returncode, done.out)
same([t['id'] for t in json.loads(weir('wait', *S, '--json', '2', '1').out)], [2, 1], 'wait --json: the tasks, in the order given')
same(json.loads(weir('wait', *S, '--json', '1').out)['id'], 1, 'wait --json of one: the task')
ok(weir('wait', *S, '77').returncode == 66, 'wait for a task that is not there: 66')
done = weir('wait', *S, 'nothing')
ok(done.returncode == 66 and 'no archive, queue or task' in done.err, 'wait for a queue that is not there: 66', done.err)
ok(weir('wait', *S, 'default').returncode == 1, 'a queue in which something failed: 1')

# -- wait: moves come by the stream; only ends are asked about
slow = fake.add('slow', 'P')
before = fake.streams
process = start('wait', *S, str(slow))
fake.streams_wait(before + 1)
n = len(fake.requests)
fake.move(slow, 'X')
fake.move(slow, 'P', reason='executor lost')
fake.move(slow, 'X')
fake.move(slow, 'D')
code, out, err = finish(process)
ok(code == 0 and out.startswith('D done  default:3  slow'), 'waits through a lost executor to the end', code, out, err)
same([line.split('  ')[1] for line in err.splitlines()], ['P pending', 'X executing', 'P pending: executor lost', 'X executing', 'D done'],
     'how it stands, then one line a change, on stderr')
asked = [r[1] for r in fake.requests[n:] if r[1].startswith('/v1/tasks/')]
ok(1 <= len(asked) <= 3, 'no polling: asked only about the end', asked)

# -- wait: time is over
never = fake.add('never', 'S')
began = time.monotonic()
done = weir('wait', *S, str(never), '--timeout', '300ms')
ok(done.returncode == 75 and 'the time is over' in done.err and 'S staged' in done.out, 'time-out: 75', done.returncode, done.out, done.err)
ok(0.3 <= time.monotonic() - began < 20, 'and about then')
ok(weir('wait', *S, str(never), '--timeout', '0s').returncode == 75, '--timeout 0s only looks')

# -- wait: a queue, with tasks that come while it waits
one = fake.add('one', 'X', queue='q')
before = fake.streams
process = start('wait', *S, 'q')
fake.streams_wait(before + 1)
two = fake.add('two', 'P', queue='q')
fake.move(one, 'D')
fake.move(two, 'X')
ok(process.poll() is None, 'a queue is waited for until nothing in it is left')
fake.move(two, 'D')
code, out, err = finish(process)
ok(code == 0 and out == 'q  2 done\n', 'then: 0', code, out, err)

# -- wait: a server that goes away and comes back on the same address
again = fake.add('again', 'X')
before = fake.streams
process = start('wait', *S, str(again))
fake.streams_wait(before + 1)
port = fake.server_address[1]
kept = (fake.tasks, fake.events, fake.edges, fake.logs)
fake.close()
fake = Fake(port)
fake.tasks, fake.events, fake.edges, fake.logs = kept
fake.streams_wait(1)
fake.move(again, 'D')
code, out, err = finish(process)
ok(code == 0 and 'D done' in out, 'a restarted server is found again', code, out, err)

# -- wait: a refused stream is told
fake.problem('GET', '/v1/events', 401, 'unauthorized', 'a token is needed')
done = weir('wait', *S, str(never))
ok(done.returncode == 77 and 'weir token create' in done.err, 'no token: 77', done.returncode, done.err)
fake.canned.clear()

# -- wait on a terminal: tree and bar
a, b = fake.add('compile', 'X'), fake.add('link', 'S')
fake.edge(b, a)
before = fake.streams
term = Terminal('wait', *S, str(b))
ok(term.until('\u2514\u2500 X default:%d  compile executing' % a), 'the tree shows what is waited for', repr(term.text))
ok(term.until('0/2 ended'), 'and a bar', repr(term.text))
fake.move(a, 'D')
fake.move(b, 'X')
ok(term.until('1/2 ended, 1 done'), 'which moves', repr(term.text))
fake.move(b, 'F', reason='exit 1')
same(term.exit(), 1, 'exit 1 on a terminal, too')
ok(term.text.rstrip().splitlines()[-1].endswith('exit 1'), 'the end stands there last', repr(term.text))

# -- events
done = weir('events', *S, '--json')
events = json.loads(done.out)
same([e['seq'] for e in events], list(range(1, len(fake.events) + 1)), 'events --json: one array, oldest first')
same([e['seq'] for e in json.loads(weir('events', *S, '--json', '--since', '3', '--limit', '2').out)], [4, 5], '--since is exclusive, --limit')
same(weir('events', *S, '--json', '--since', '99999').out, '[]\n', 'no events: an empty array')
has(weir('events', *S).out, 'executor lost', 'events for people')
before = fake.streams
process = start('events', *S, '-f', '--json', '--since', str(len(fake.events)), '--limit', '2')
fake.streams_wait(before + 1)
fake.move(never, 'P')
fake.move(never, 'X')
code, out, err = finish(process)
same([json.loads(line)['to'] for line in out.splitlines()], ['P', 'X'], 'events -f --json: one JSON object a line, as they come')
has(weir('history', *S, str(never)).out, 'S>P', 'history of one task')

# -- log -f
fake.log_add(never, b'first\n')
process = start('log', *S, '-f', str(never))
same(process.stdout.readline(), b'first\n', 'log -f gives what is there')
fake.log_add(never, b'second\n')
same(process.stdout.readline(), b'second\n', 'and what comes')
fake.move(never, 'D')
fake.log_add(never, b'third\n', end=True)
code, out, err = finish(process)
ok(code == 0 and out == 'third\n', 'and ends with the task', code, out, err)

# -- top
fake.move(never, 'X')
fake.can('GET', '/v1/stats', 200, dict(processed=9, failed=1, queued=2, working=3, queues=[], executors=[]))
fake.can('GET', '/v1/nodes', 200, dict(nodes=[dict(name='exec-1', role='executor', slots=4, running=1, state='active')], next=None))
done = weir('top', *S)
ok(done.returncode == 0 and all(part in done.out for part in ('queues', 'exec-1', 'never', 'processed 9')) and '\x1b' not in done.out, 'top once, plain', done.out, done.err)
same(json.loads(weir('top', *S, '--json').out)['stats']['processed'], 9, 'top --json')
before = fake.streams
term = Terminal('top', *S, rows=40, columns=100)
ok(term.until('q leaves') and 'exec-1' in term.text, 'top draws', repr(term.text))
fake.streams_wait(before + 1)
newest = fake.add('fresh-task', 'P')
fake.move(newest, 'X')
ok(term.until('fresh-task', 30), 'and draws what the stream tells', repr(term.text[-600:]))
term.keys('q')
same(term.exit(), 0, 'q leaves')
ok('\x1b[?1049h' in term.text and term.text.rindex('\x1b[?1049l') > term.text.rindex('\x1b[?1049h'), 'the screen is given back')
term = Terminal('top', *S)
term.until('q leaves')
term.process.terminate()
same(term.exit(), 0, 'SIGTERM ends it in order')
ok('\x1b[?1049l' in term.text, 'and gives the screen back')
same(weir('top', '--server', 'http://127.0.0.1:1').returncode, 69, 'top without a server: 69')
fake.close()
end()
