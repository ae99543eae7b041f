#!/usr/bin/env python3
"""Workers that die, come back late and repeat themselves: who is heard, who is refused, and what a poll's seq is good for. Lease 2 s, raw HTTP."""
import pathlib
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import Worker, end, ok, refused, same, until  # noqa: E402
from house import House  # noqa: E402

s = House('data', slots=0, lease='2s')
zombie, heir = Worker(s, 'zombie'), Worker(s, 'heir')
same(zombie.lease_ms, 2000, 'weir serve --lease 2s: lease_ms')


def lost(task_id):
    return until(lambda: s.state(task_id) == 'P', seconds=20)


def data_task(name, **more):
    return s.enqueue(dict(name=name, data=dict(n=1), **more))['id']


# -- somebody else was granted the task: the late one isn't heard
task = data_task('contested')
old = zombie.claim()[0]
same((old['task'], old['lease_ms'], s.state(task)), (task, 2000, 'X'), 'the zombie has the task')
same(old['spec'].get('data'), {'n': 1}, 'the grant carries the data')
ok(zombie.log(old, 0, b'zombie says\n').status == 200, 'and writes a log')
ok(lost(task), 'when the lease is over the task is P again')
same([(a['number'], a['outcome'], a['executor']) for a in s.task(task)['attempts']], [(1, 'lost', 'zombie')], 'the attempt was lost')
new = heir.claim()[0]
quiet = threading.Event()


def beats():
    """the heir is heard of: what follows may take longer than a lease on a busy machine"""
    while not quiet.wait(0.3):
        heir.poll(free=0, renew=[dict(task=new['task'], fence=new['fence'])])


beating = threading.Thread(target=beats, daemon=True)
beating.start()
ok(new['fence'] > old['fence'] and new['fence'] != old['fence'], 'a newer fence sorts after the older', old, new)
before = s.mark()
refused(zombie.finish(old), 409, 'stale_fence', text='late finish')
refused(zombie.finish(old, exit=1), 409, 'stale_fence', text='late finish with another exit')
refused(zombie.log(old, 12, b'more\n'), 409, 'stale_fence', text='late log chunk')
same((s.mark(), s.state(task)), (before, 'X'), 'nothing of it changed anything')
answer = zombie.poll(free=0, renew=[dict(task=task, fence=old['fence'])])
same([(c['task'], c['fence'], c.get('reason')) for c in answer['cancels']], [(task, old['fence'], 'stale_fence')], 'a renewal of the old fence comes back in cancels, with reason')
ok(answer['cancels'][0]['signal'] in ('TERM', 'HUP', 'KILL'), 'and a signal', answer)
answer = s.post('/v1/finishes', dict(items=[dict(task=task, fence=old['fence'], exit=0), dict(task=task, fence='nonsense', exit=0)]))
same([(r['task'], r['status'], r.get('code')) for r in answer.json['results']][:1], [(task, 409, 'stale_fence')], 'late finish in a batch')
ok(answer.status == 200 and answer.json['results'][1]['status'] >= 400, 'a fence that is none is refused', answer)
same([(e['from'], e['to']) for e in s.events(f'task={task}') if e.get('from')][-1], ('P', 'X'), 'it is still the heir\'s')
same(heir.log(new, 0, b'heir says\n').status, 200, 'the heir writes its own log')
quiet.set()
beating.join()
same(heir.finish(new).status, 200, 'the heir finishes')
done = s.task(task)
same((done['state'], [a['outcome'] for a in done['attempts']]), ('D', ['lost', 'done']), 'the task is done, once')
same((s.log_bytes(task, '?attempt=1'), s.log_bytes(task)), (b'zombie says\n', b'heir says\n'), 'two attempts, two logs')
refused(zombie.finish(old), 409, 'stale_fence', text='the late finish after the end')

# -- the same again and another verdict
before = s.mark()
same([heir.finish(new).status for _ in range(3)], [200] * 3, 'the same finish again: 200')
refused(heir.finish(new, exit=1), 409, 'already_finished', text='another verdict for the same fence')
refused(heir.finish(new, signal=9), 409, 'already_finished', text='another verdict: a signal')
same((s.mark(), s.state(task)), (before, 'D'), 'nothing changed')

# -- nobody else was granted the task: the late one counts
for exit_code, letter in ((0, 'D'), (1, 'F')):
    task = data_task(f'late{exit_code}')
    grant = zombie.claim()[0]
    zombie.log(grant, 0, b'part one, ')
    ok(lost(task), 'lost')
    late = zombie.log(grant, 10, b'part two')
    answer = zombie.finish(grant, exit=exit_code)
    same(answer.status, 200, f'late finish with exit {exit_code} while nobody has the task: accepted')
    same(s.state(task), letter, f'and it is {letter}')
    moves = [(e['from'], e['to']) for e in s.events(f'task={task}') if e.get('to') and e.get('from')][-2:]
    same(moves, [('P', 'X'), ('X', letter)], 'two events in one turn')
    same(len(s.task(task)['attempts']), 1, 'one attempt')
    ok(late.status == 200, 'the late log chunk counts, too', late)
    same(s.log_bytes(task), b'part one, part two', 'and the log is whole')

# -- a late renewal: the zombie may go on
task = data_task('woken')
grant = zombie.claim()[0]
ok(lost(task), 'lost')
answer = zombie.poll(free=0, renew=[dict(task=task, fence=grant['fence'])])
if s.state(task) == 'X':
    ok(not answer['cancels'], 'a late renewal while nobody has the task is taken', answer)
else:
    ok([c['fence'] for c in answer['cancels']] == [grant['fence']] or not answer['cancels'], 'a late renewal isn\'t taken, and the worker is told', answer)
same(zombie.finish(grant).status, 200, 'its finish counts in any case')

# -- seq: lost answers burn nothing
w = Worker(s, 'counting', slots=4)
tasks = [data_task(f'seq{i}') for i in range(3)]
first = w.poll(free=2, seq=1)
again = w.poll(free=2, seq=1)
same(first['grants'], again['grants'], 'the same seq gives the same grants')
same([g['task'] for g in first['grants']], tasks[:2], 'two of them')
same(s.state(tasks[2]), 'P', 'the third wasn\'t taken by the repetition')
kept, dropped = first['grants']
third = w.poll(free=0, seq=2, renew=[dict(task=kept['task'], fence=kept['fence'])])
same(third['grants'], [], 'nothing free, nothing granted')
same((s.state(kept['task']), s.state(dropped['task'])), ('X', 'P'), 'a grant that is absent from the next renew goes back to P')
same(len(s.task(dropped['task'])['attempts']), 0, 'and no attempt is spent')
w2 = Worker(s, 'second')
fresh = {g['task']: g for g in w2.claim(free=5)}
same(sorted(fresh), sorted([dropped['task'], tasks[2]]), 'another gets it')
ok(fresh[dropped['task']]['fence'] > dropped['fence'], 'with a new fence')
refused(w.finish(dropped), 409, 'stale_fence', text='the one that dropped it is too late')
same([w2.finish(g).status for g in fresh.values()] + [w.finish(kept).status], [200] * 3, 'all finish')
task = s.task(dropped['task'])
same([a['number'] for a in task['attempts']], [1], 'the only attempt that counts is number 1')

# -- attempts last: lost each time
task = data_task('unlucky', retry=dict(attempts=2))
for _ in range(2):
    grant = zombie.claim()
    same([g['task'] for g in grant], [task], 'granted')
    until(lambda: s.state(task) != 'X', seconds=20)
same((s.state(task), [a['outcome'] for a in s.task(task)['attempts']]), ('F', ['lost', 'lost']), 'lost until the attempts are used up: F')

# -- a renewing worker keeps its task beyond many leases; wait_ms is bounded; cancels come through the poll, and its end is T also with exit 0. A machine
# that keeps us waiting for as long as the lease tells nothing: then again, with another task
for _ in range(10):
    task = data_task('kept')
    heard = [time.monotonic()]
    grant = heir.claim()[0]
    renewal = dict(free=0, renew=[dict(task=task, fence=grant['fence'])])
    polls = 0
    while heard[-1] < heard[0] + 5:
        answer = heir.poll(wait_ms=100000, **renewal)
        heard.append(time.monotonic())
        polls += 1
        if answer['cancels']:
            break
    kept = s.state(task), len(s.task(task)['attempts'])
    cancelled = s.post(f'/v1/tasks/{task}/cancel', dict(reason='enough')).status
    answer = heir.poll(wait_ms=600, **renewal)
    heard.append(time.monotonic())
    dying = s.state(task)
    finished = heir.finish(grant).status
    heard.append(time.monotonic())
    if max(c - a for a, c in zip(heard, heard[2:])) < 1.9:  # two polls and what is between them: there was a renewal in every lease
        break
same(kept, ('X', 1), 'renewed leases hold')
ok(polls >= 3, 'a long poll waits at most a third of the lease or so', polls)
same(cancelled, 200, 'cancel of a task that runs')
same([(c['task'], c['fence'], c['signal']) for c in answer['cancels']], [(task, grant['fence'], 'TERM')], 'is heard in the poll')
same(dying, 'X', 'until it is dead it is X')
same(finished, 200, 'it exits 0')
same((s.state(task), s.task(task)['reason']), ('T', 'enough'), 'and is T')

# -- a cancelled task whose worker never answers
task = data_task('mute')
grant = zombie.claim()[0]
s.post(f'/v1/tasks/{task}/cancel', dict(reason='gone'))
ok(until(lambda: s.state(task) == 'T', seconds=20), 'a cancelled task whose executor is lost is T, never P', s.task(task))

# -- fences of elsewhere
task = data_task('foreign')
grant = heir.claim()[0]
parts = grant['fence'].split('-')
before = s.events(f'task={task}')  # of the task: an executor may fall silent meanwhile
for fence in ['', 'x', '0' * len(parts[0]) + '-' + '-'.join(parts[1:]), f'{parts[0]}-{parts[1]}-99999999', f'{parts[0]}-999999-{parts[2]}', grant['fence'] + '0', 'x' * 5000]:
    answer = s.post(f'/v1/tasks/{task}/finish', dict(fence=fence, exit=0))
    ok(answer.status in (409, 422) and answer.headers['Content-Type'] == 'application/problem+json', f'fence {fence[:40]!r}: refused', answer)
same((s.events(f'task={task}'), s.state(task)), (before, 'X'), 'nothing changed')
same(heir.finish(grant).status, 200, 'the right one counts')
end()
