#!/usr/bin/env python3
"""What a job is told of its dependencies, whatever their end and size; grants have a budget of bytes; what no program can be given is refused."""
# time limit: 200
import json
import os
import pathlib
import sys

sys.path.insert(0, os.environ.get('WEIR_TEST_LIB') or str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import House, end, ok, same  # noqa: E402

s = House('data', slots=4)
SHOW = 'cat $WEIR_NEEDS'


def needs_of(task):
    return json.loads(s.log_bytes(task).split(b'\n')[0])


def made(*tasks):
    return [t['id'] for t in s.enqueue(*tasks)]


# -- the ends of dependencies, those that failed too
ask = ('for p in %s; do curl -s -o /dev/null -w "%%{http_code} " -H "Authorization: Bearer $WEIR_TOKEN" '
       '$([ -S "${WEIR_SERVER#unix:}" ] && echo --unix-socket ${WEIR_SERVER#unix:} http://x || echo $WEIR_SERVER)/v1/tasks/$p; done; echo')
stranger = s.enqueue(dict(name='stranger', command=['true']))['id']
bad, soft, fine, after, join = made(
    dict(name='bad', script='echo k=v >$WEIR_OUTPUT; echo text; echo x >f; exit 3', artifacts=['f']),
    dict(name='soft', script='kill -9 $$', allow_failure=True, retry=dict(attempts=1)), dict(name='fine', command=['true']), dict(name='later', command=['true']),
    dict(name='join', script=SHOW + '; echo; env | grep ^WEIR_OUTPUT_BAD', depends=[{'task': 'bad', 'on': 'finished'}, 'soft', 'fine'], after=['later']))
s.ended(join)
same(s.task(join)['state'], 'D', 'a task that depends on ends of any kind runs')
found = needs_of(join)
same(sorted(found), ['bad', 'fine', 'soft'], 'WEIR_NEEDS has a member for each entry of depends, and for no other')
files = found['bad'].pop('artifacts')
same(found['bad'], dict(id=bad, key=f'default:{bad}', on='finished', state='F', outcome='failed', exit=3, signal=None, reason=s.task(bad)['reason'], attempts=1,
                        outputs={'k': 'v'}), 'the end of one that failed, with its outputs')
same([(f['name'], f['bytes'], f['mode']) for f in files], [('f', 2, '0644')], 'and its files')
same([found['soft'][k] for k in ('state', 'outcome', 'exit', 'signal', 'outputs', 'artifacts')], ['F', 'killed', None, 9, {}, []], 'one that was killed')
same([found['fine'][k] for k in ('on', 'state', 'outcome', 'exit', 'attempts', 'reason')], ['success', 'D', 'done', 0, 1, None], 'one that is done')
ok(b'WEIR_OUTPUT_BAD_K=v' in s.log_bytes(join), 'WEIR_OUTPUT_<TASK>_<NAME> is set for every end')
reader = s.enqueue(dict(name='reader', script=ask % f'{bad} {bad}/why {bad}/log {bad}/artifacts/f {bad}/graph {stranger} {after}/log', depends=[{'task': bad, 'on': 'finished'}],
                        after=[after]))['id']
s.ended(reader)
same(s.log_bytes(reader).split(), [b'200', b'200', b'200', b'200', b'403', b'403', b'403'], "a job's token reads what it depends on, and nothing else")

# -- two of one name, by id: their members would be one
one, two = [s.enqueue(dict(name='twin', script=f'echo k={i} >$WEIR_OUTPUT'))['id'] for i in range(2)]
both = s.enqueue(dict(name='both', script=SHOW, depends=[one, two]))['id']
plain = s.enqueue(dict(name='plain', command=['true']))['id']
s.ended(both, plain)
same([s.task(both)['state'], s.task(plain)['state']], ['D', 'D'], 'two dependencies of one name: the task and a plain one after it end')
same({k: v['outputs'] for k, v in needs_of(both).items()}, {str(one): {'k': '0'}, str(two): {'k': '1'}}, 'they are named by their ids')

# -- outputs that no environment holds
ids = made(*[dict(name=f'p{i}', script=r'printf "v=%060000d\n" 7 >$WEIR_OUTPUT') for i in range(40)],
           dict(name='wide', script='env | grep -c ^WEIR_OUTPUT_P; wc -c <$WEIR_NEEDS', depends=[f'p{i}' for i in range(40)]))
s.ended(ids[-1])
lines = s.log_bytes(ids[-1]).split(b'\n')
same((s.task(ids[-1])['state'], lines[1]), ('D', b'17'), 'forty outputs of 60 KB: as many variables as fit 1 MiB')
ok(b'23 outputs of dependencies are in WEIR_NEEDS only' in lines[0] and int(lines[2]) > 40 * 60000, 'the rest is in WEIR_NEEDS, and the log says so', lines)

# -- grants that an executor could not take together
big = 'x' * (24 << 20)
s.post('/v1/lanes/big/pause', dict(reason='together'))
large = [s.enqueue(dict(name='big', queue='big', script='wc -c <$WEIR_INPUT', data=big))['id'] for _ in range(3)]
s.post('/v1/lanes/big/resume', {})
small = s.enqueue(dict(name='small', command=['true']))['id']
s.ended(small, *large)
same([s.task(i)['state'] for i in (small, *large)], ['D'] * 4, 'three tasks of 24 MiB and a small one')
same({s.log_bytes(i) for i in large}, {b'%d\n' % (len(big) + 3)}, 'each was told all of it, in one attempt')
same([len(s.task(i)['attempts']) for i in large], [1] * 3, 'and none was given back')

for what, task in (('a task of 31.5 MiB', dict(name='t', command=['true'], data='x' * (63 << 19))), ('a variable of 128 KiB', dict(name='t', command=['true'], env=dict(K='x' * (128 << 10)))),
                   ('a variable that its name makes too long', dict(name='t', command=['true'], env={'K' * 200: 'x' * ((128 << 10) - 150)})),
                   ('a word of 128 KiB', dict(name='t', command=['echo', 'x' * (128 << 10)]))):
    answer = s.post('/v1/tasks', task)
    same((answer.status, answer.code), (422, 'invalid'), f'{what} is refused')
longest = s.enqueue(dict(name='longest', command=['sh', '-c', 'echo ${#K}'], env=dict(K='x' * ((128 << 10) - 10))))['id']
s.ended(longest)
same(s.log_bytes(longest), b'%d\n' % ((128 << 10) - 10), 'the longest that is taken arrives')
end()
