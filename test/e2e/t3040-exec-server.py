"""The server goes, comes back, forgets, repeats itself, takes tasks away; and what happens to jobs whose lease can't be renewed."""
# time limit: 180
import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../unit/exec'))
from crew import TMP, Crew, Tap, poll, processes  # noqa: E402
from fake_server import FakeServer  # noqa: E402

tap = Tap()
COUNT = 'i=0; while [ $i -lt %d ]; do echo "line $i"; i=$((i+1)); sleep 0.0%d; done; exit %d'


def gone_and_back():
    with Crew(slots=2) as crew:
        f = crew.fake
        long = f.add(script=COUNT % (60, 3, 7))
        short = f.add(script='echo up; while [ ! -e %s/go ]; do sleep 0.02; done; echo x=y >> $WEIR_OUTPUT; exit 3' % TMP)
        f.wait(lambda: b'line 2' in long.log and b'up' in short.log, 10)
        f.stop()
        open(f'{TMP}/go', 'w').close()
        tap.ok(poll(lambda: not processes(short.fence), 10), 'jobs run on and end while the server is gone')
        f.start()
        f.wait_ended(long, short)
        tap.equal((long.finish.get('exit'), short.finish.get('exit'), short.finish.get('outputs')), (7, 3, {'x': 'y'}), 'their ends arrive when it is back')
        tap.equal(long.log.decode(), ''.join(f'line {i}\n' for i in range(60)), 'the log has no hole')
        tap.equal((long.grant, short.grant), (1, 1), 'nothing ran twice')
        for _ in range(5):
            f.stop()
            f.start()
        task = f.add(command=['true'])
        f.wait_ended(task)
        tap.equal(f.faults, [], 'the server saw nothing wrong')


def forgotten_bytes():
    with Crew(slots=1) as crew:
        f = crew.fake
        f.durable_follows = False  # what it has taken is in its memory only
        task = f.add(script='echo up; while [ ! -e %s/go3 ]; do sleep 0.02; done; echo down' % TMP)
        f.wait(lambda: b'up' in task.log, 10)
        f.stop()
        task.log = task.log[:0]
        open(f'{TMP}/go3', 'w').close()
        poll(lambda: not processes(task.fence), 10)
        f.durable_follows = True
        f.start()
        f.wait_ended(task)
        tap.equal((bytes(task.log), f.faults), (b'up\ndown\n', []), 'bytes that died with the server are there again before the end is told')


def forgotten_with_the_end():
    with Crew(slots=1) as crew:
        f = crew.fake
        f.durable_follows = False
        task = f.add(script='echo up; while [ ! -e %s/go4 ]; do sleep 0.02; done; echo down' % TMP)
        f.wait(lambda: b'up' in task.log, 10)
        time.sleep(0.2)  # the answer has come: the end will count on these bytes
        f.die_at_end = True
        open(f'{TMP}/go4', 'w').close()
        f.wait(lambda: not f.die_at_end, 10)
        f.durable_follows = True
        f.wait_ended(task)
        tap.equal((bytes(task.log), f.faults), (b'up\ndown\n', []), 'also when the server dies at the end: it is told anew, after what was lost')


def lost_answers():
    with Crew(slots=3) as crew:
        f = crew.fake
        f.wait(lambda: f.polls, 10)
        for round in range(6):
            f.lose_answers = 2
            tasks = [f.add(script='echo $WEIR_TASK_ID; echo run >> %s/runs' % TMP) for _ in range(3)]
            f.wait_ended(*tasks)
        tap.equal(len(open(f'{TMP}/runs').readlines()), 18, 'with lost answers every task still runs once')
        seqs = [p['seq'] for p in f.polls]
        tap.ok(len(set(seqs)) < len(seqs), 'polls are repeated under the same number', seqs)
        tap.equal(max(seqs) - min(seqs) + 1, len(set(seqs)), 'and numbers grow by one')
        f.fail_finishes = 3
        task = f.add(script='exit 6')
        f.wait_ended(task)
        tap.equal((task.finish.get('exit'), len(task.finishes) > 1), (6, True), 'an end that the server could not take is told again')


def forgotten():
    with Crew(slots=2) as crew:
        f = crew.fake
        task = f.add(script='echo up; sleep 0.5; exit 8')
        f.wait(lambda: b'up' in task.log, 10)
        with f.lock:
            f.executors.clear()
            f.granted.clear()
        f.wait_ended(task)
        f.wait(lambda: len(f.executors) == 1, 10, 'registered again')
        again = f.add(command=['true'])
        f.wait_ended(again)
        tap.ok(task.finish.get('exit') == 8 and len(f.executors) == 1, 'an executor the server does not know registers again and reports', task.finish)


def stale():
    with Crew(slots=2) as crew:
        f = crew.fake
        task = f.add(script='trap "" TERM HUP; echo up; while :; do sleep 0.05; done')
        f.wait(lambda: b'up' in task.log, 10)
        fence = task.fence
        f.take_away(task)
        tap.ok(poll(lambda: not processes(fence), 10), 'a job whose fence is stale is killed')
        talk = f.add(script='i=0; while :; do echo "$i"; i=$((i+1)); sleep 0.01; done')
        f.wait(lambda: len(talk.log) > 10, 10)
        fence = talk.fence
        f.take_away(talk)
        tap.ok(poll(lambda: not processes(fence), 10), 'also when its log says so first')
        ending = f.add(script='echo up; while [ ! -e %s/go2 ]; do sleep 0.02; done' % TMP)
        f.wait(lambda: b'up' in ending.log, 10)
        f.stop()
        open(f'{TMP}/go2', 'w').close()
        poll(lambda: not processes(ending.fence), 10)
        f.take_away(ending)
        f.start()
        after = f.add(command=['true'])
        f.wait_ended(after)
        tap.ok(ending.finish is None, 'a late end with a stale fence does not count')
        tap.ok(poll(lambda: all(entry['fence'].split('-')[1] != str(ending.id) for entry in f.polls[-1]['renew']), 10), 'and is dropped')


def last_sign(name):
    """when the job was last alive, by itself: whoever looks from outside may look late"""
    return float(open(f'{TMP}/{name}').read().splitlines()[-1])


def leases():
    lease = 10  # seconds: a poll that a busy machine holds up for two of them costs nothing
    with Crew(slots=4, lease_ms=1000 * lease, options=['--grace', '10s']) as crew:
        f = crew.fake
        free = f.add(script='echo up; while [ ! -e %s/survived ]; do sleep 0.05; done; echo survived' % TMP)
        ending = f.add(script='trap "" TERM; echo up; while :; do sleep 0.05; done', grace_ms=60000)
        f.wait(lambda: all(b'up' in t.log for t in (free, ending)), 10)
        for _ in range(3):  # an executor whose polls don't come through for half a lease is right to kill it: then once more
            held = f.add(script='trap "" TERM; echo up; while :; do date +%%s.%%N >> %s/held; sleep 0.05; done' % TMP, holds=True)
            f.wait(lambda: b'up' in held.log, 10)
            f.hang_polls, f.hung = 1, []
            time.sleep(lease)
            if processes(held.fence):
                break
        tap.ok(processes(held.fence) != [], 'a job that holds a slot lives while its lease is renewed, also when one poll is never answered')
        again = [p for p in f.polls if f.hung and p['seq'] == f.hung[0]['seq']][1:]
        tap.ok(f.hung and again and again[0]['wait_ms'] == 0 < f.hung[0]['wait_ms'], 'that poll is repeated, to be answered at once', (f.hung, again))
        f.cancel(ending, 'TERM')
        f.wait(lambda: any(True for p in f.polls[-3:]), 20)
        time.sleep(0.3)
        f.stop()
        began = time.time()
        tap.ok(poll(lambda: not processes(held.fence), 20), 'a job that holds a slot dies when the lease can not be renewed')
        tap.ok(last_sign('held') - began < lease, 'and before the lease is over', last_sign('held') - began)
        tap.ok(poll(lambda: not processes(ending.fence), 20), 'one that is being cancelled as well')
        tap.ok(processes(free.fence) != [], 'another job runs on')
        open(f'{TMP}/survived', 'w').close()
        f.start()
        f.wait_ended(free, held, ending)
        tap.equal((held.finish.get('outcome'), free.finish.get('exit')), ('lost', 0), 'the one is lost, the other done')
        tap.ok(free.log.endswith(b'survived\n'), 'with its log')

    with Crew(slots=1, lease_ms=4000) as crew:
        held = crew.fake.add(script='echo up; while :; do date +%%s.%%N >> %s/alone; sleep 0.05; done' % TMP, holds=True)
        crew.fake.wait(lambda: b'up' in held.log, 10)
        poll(lambda: os.path.exists(f'{TMP}/alone'))
        crew.kill()
        began = time.time()
        tap.ok(poll(lambda: not processes(held.fence), 20) and last_sign('alone') - began < 4.0, 'the shim does that without an agent too', last_sign('alone') - began)
        crew.start()
        crew.fake.wait_ended(held)
        tap.equal(held.finish.get('outcome'), 'lost', 'and the next agent says so')


def drain():
    with Crew(slots=2) as crew:
        f = crew.fake
        task = f.add(script='echo up; sleep 0.6; exit 2')
        f.wait(lambda: b'up' in task.log, 10)
        f.state = 'draining'
        more = f.add(command=['true'])
        with f.lock:
            f.lock.notify_all()
        tap.ok(poll(lambda: crew.agent.poll() is not None, 15), 'a drained executor ends')
        tap.equal((crew.agent.returncode, task.finish and task.finish.get('exit'), more.finish), (0, 2, None), 'when its job has ended and is reported')


def beside():
    with Crew(slots=1, options=['--beside']) as crew:
        f = crew.fake
        task = f.add(script='echo up; sleep 3; exit 4')
        f.wait(lambda: b'up' in task.log, 10)
        f.stop()
        time.sleep(1)
        tap.ok(crew.agent.poll() is None, 'the executor beside a server that is gone stays while a job runs')
        tap.ok(poll(lambda: crew.agent.poll() is not None, 15), 'and ends after it')
        f.start()
        crew.start()
        f.wait_ended(task)
        tap.equal(task.finish.get('exit'), 4, 'the next one reports the end')


def failover():
    first, second = FakeServer(), FakeServer()
    with Crew(slots=1, server=first, options=['--server', second.url]) as crew:
        task = first.add(command=['true'])
        first.wait_ended(task)
        first.stop()
        task = second.add(command=['true'])
        second.wait_ended(task)
        tap.ok(len(second.executors) == 1, 'with the first server gone it goes to the second')
        second.stop()
        first.start()
        task = first.add(command=['true'])
        first.wait_ended(task)
        tap.ok(True, 'and back')


def labels():
    with Crew(slots=3, options=['--label', 'os=linux', '--label', 'x=a=b', '--zone', 'eu', '--name', 'node-1']) as crew:
        crew.fake.wait(lambda: crew.fake.executors, 10)
        body = next(iter(crew.fake.executors.values()))
        wanted = {'name': 'node-1', 'slots': 3, 'labels': {'os': 'linux', 'x': 'a=b'}, 'zone': 'eu', 'kinds': ['command', 'script', 'image']}
        tap.equal({k: body.get(k) for k in wanted}, wanted, 'name, slots, labels, zone and kinds are registered')
        first = body['instance']
        crew.kill(signal.SIGTERM)
        crew.start()
        crew.fake.wait(lambda: crew.agent.poll() is None and len(crew.fake.polls) > 2, 10)
        tap.equal([b['instance'] for b in crew.fake.executors.values()], [first], 'the instance survives a restart')


for part in (gone_and_back, forgotten_bytes, forgotten_with_the_end, lost_answers, forgotten, stale, leases, drain, beside, failover, labels):
    part()
tap.end()
