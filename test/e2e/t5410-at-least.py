#!/usr/bin/env python3
"""Logical time: every answer says as of which turn of the store it is valid (Weir-Turn); ?at_least=N makes a read wait for it, for a bounded time."""
import pathlib
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import House, end, ok, refused, same, until  # noqa: E402

s = House('data', slots=0)


def turn(answer):
    return int(answer.headers['Weir-Turn'])


def write(name):
    return s.post('/v1/tasks', dict(name=name, command='true'))


first = s.get('/v1/tasks')
ok(first.headers['Weir-Turn'] is not None and turn(first) >= 0, 'a read of an empty store has a turn', first.headers)
one, two = write('one'), write('two')
ok(0 < turn(one) < turn(two), 'each write answers with the turn that holds it', turn(one), turn(two))
for path in ('/v1/tasks', f'/v1/tasks/{two.json["id"]}', f'/v1/tasks/{two.json["id"]}/why', '/v1/stats', '/v1/events', '/v1/executors', '/v1/nodes'):
    answer = s.get(f'{path}?at_least={turn(two)}')
    ok(answer.status == 200 and turn(answer) >= turn(two), f'{path} as of the write, or newer', answer, answer.headers)
same(s.get('/v1/stats').json['turn'], turn(two), 'stats tell it as JSON')
same(s.ask('HEAD', f'/v1/tasks?at_least={turn(two)}').status, 200, 'HEAD too')
same(turn(s.get('/v1/tasks/999999')), turn(two), 'a 404 tells as of when')
same(turn(s.post('/v1/tasks', '{')), turn(two), 'a refusal does')

# -- a read that waits
answers = []


def waiting(path):
    began = time.monotonic()
    answer = s.get(path)
    answers.append((time.monotonic() - began, answer))



threads = [threading.Thread(target=waiting, args=(f'/v1/tasks?at_least={turn(two) + 1}',)) for _ in range(20)]
for thread in threads:
    thread.start()
same(until(lambda: answers, seconds=0.3), [], 'twenty reads wait for a turn that is not there')
three = write('three')
for thread in threads:
    thread.join(20)
same(sorted({(a.status, len(a.json['tasks']), turn(a) >= turn(three)) for _, a in answers}), [(200, 3, True)], 'and all see what it brought')
same(len(answers), 20, 'each of them')
ok(max(seconds for seconds, _ in answers) < 8, 'at once', answers)

# -- one that waits in vain, and one whose client goes
began = time.monotonic()
gone = s.connection(timeout=60)
gone.request('GET', f'/v1/tasks?at_least={turn(three) + 1000}')
early = s.connection(timeout=60)
early.request('GET', f'/v1/tasks?at_least={turn(three) + 1000}')
meanwhile = s.post('/v1/tasks', dict(name='meanwhile', data=1))
late = s.get(f'/v1/tasks?at_least={turn(three) + 1000}')
seconds = time.monotonic() - began
refused(late, 503, 'not_yet', text='a turn that never comes')
ok(9 < seconds < 20 and str(turn(three) + 1000) in late.json['detail'] and late.headers['Retry-After'] == '1', 'after ten seconds, with both numbers', seconds, late)
gone.close()
answer = early.getresponse()
ok(answer.status == 503 and int(answer.headers['Weir-Turn']) >= turn(meanwhile), 'its Weir-Turn is what the server has come to meanwhile', answer.headers.items(), turn(meanwhile))
early.close()

# -- nonsense
for value in ('-1', 'x', '', '9223372036854775808', '1.5'):
    same(s.get(f'/v1/tasks?at_least={value}').status, 400, f'at_least={value or "nothing"}: 400')
same(s.ask('POST', '/v1/tasks?at_least=1', dict(name='x', command='true')).status, 400, 'a write takes no at_least')
refused(s.get('/v1/tasks?at_leats=1'), 400, 'bad_request', text='nor anything misspelt')

# -- the number goes on after a restart, and a server that ends lets nobody wait
before = turn(s.get('/v1/tasks'))
s.stop()
s.start()
ok(turn(s.get('/v1/tasks')) >= before, 'the turn survives a restart')
answers.clear()
thread = threading.Thread(target=waiting, args=(f'/v1/tasks?at_least={before + 100000}',))
thread.start()
same(until(lambda: answers, seconds=0.2), [], 'one more waits')
same(s.stop(), 0, 'the server ends')
thread.join(20)
ok(answers and answers[0][0] < 8 and answers[0][1].status == 503, 'and who waited hears it', answers)
end()
