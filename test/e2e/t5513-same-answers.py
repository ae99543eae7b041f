#!/usr/bin/env python3
# time limit: 150
# store: sqlite (it starts its own PostgreSQL)
"""Two servers behind no balancer: every GET route that the API describes, with everything in the store that it could show, gives the same bytes from either, as of
the newest commit of both (at_least)."""
import json
import pathlib
import re
import shutil
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'promises'))
from promise import Agent  # noqa: E402
import postgres  # noqa: E402
from house import TMP, House, end, ok, same, skip, until  # noqa: E402

if not postgres.available():
    skip('PostgreSQL', f'there is no {postgres.BIN}')
    end()
pg = postgres.Postgres().start()
url = pg.create('weir')
a = House('a', '--store', url, '--name', 'a', slots=0, lease='6s')
(TMP / 'b').mkdir(mode=0o711)
shutil.copy(TMP / 'a/verify.key', TMP / 'b/verify.key')
b = House('b', '--store', url, '--name', 'b', slots=0, lease='6s')
pair = [a, b]
x = Agent(a, 'x', slots=4, options=['--server', b.socket, '--label', 'os=linux'])
until(x.active, 'an executor is there', 30)

# -- something of everything, through one or the other
made = [a.enqueue(dict(name='done', script='echo out; echo kept > out.txt; echo "{\\"n\\": 7}" > "$WEIR_OUTPUTS" 2>/dev/null || true', artifacts=['out.txt']))['id'],
        b.enqueue(dict(name='failed', script='echo no >&2; exit 3', retry=dict(attempts=1)))['id']]
made += [b.enqueue(dict(name='after', command='true', depends=[made[0]]))['id'], a.enqueue(dict(name='never', command='true', depends=[made[1]]))['id']]
made += [a.enqueue(dict(name='later', command='true', not_before='2099-01-01T00:00:00Z'))['id'], b.enqueue(dict(name='nobody', command='true', labels={'os': 'other'}))['id']]
made += [a.enqueue(dict(name=f'slot{i}', script='sleep 60', semaphores=['one']))['id'] for i in range(2)]
cancelled = b.enqueue(dict(name='cancelled', command='true', not_before='2099-01-01T00:00:00Z'))['id']
a.post(f'/v1/tasks/{cancelled}/cancel', dict(reason='enough'))
made.append(cancelled)
b.post('/v1/archives', dict(name='docs', kind='external'))
for rev in (1, 2, 3):
    workflow = [dict(name='index', depends=['PREV'], checkout=False, script=f'echo {rev}'), dict(name='every', schedule='0 3 * * *', checkout=False, script='true')]
    pair[rev % 2].post('/v1/archives/docs/revisions', dict(rev=rev, workflow=workflow))
a.post('/v1/lanes/still/pause', dict(reason='test'))
until(lambda: a.state(made[0]) == 'D' and b.state(made[1]) == 'F' and a.state(made[2]) == 'D' and 'X' in (a.state(made[6]), a.state(made[7])), 'it is worked on', 60)
until(lambda: len(a.get('/v1/tasks?archive=docs&state=D&limit=100').json['tasks']) >= 5, 'and the revisions', 60)
a.cli('token', 'create', '--name', 'reader', '--scope', 'read')  # from here on only the socket lets us in without a token
every = [t['id'] for t in a.get('/v1/tasks?limit=1000', local=True).json['tasks']]


def told(server, path, commit):
    mark = '&' if '?' in path else '?'
    return server.get(f'{path}{mark}at_least={commit}' if commit else path, local=True)


def newest():
    return max(int(s.get('/v1/tasks?limit=1', local=True).headers['Weir-Turn']) for s in pair)


def plain(path, answer):
    """what must be the same: all of it, but for what a server says of itself"""
    if path.startswith('/v1/nodes'):
        nodes = answer.json['nodes']
        return sorted((n['name'], n['role'], n['version'], n['host'], n['state'], n.get('slots'), n.get('running')) for n in nodes)
    return answer.body


def compared(path):
    """the same from both, unless something was committed between the two questions: then once more"""
    pairs = []

    def once():
        commit = newest()
        pairs[:] = [told(s, path, commit) for s in pair]
        return pairs[0].status == pairs[1].status and plain(path, pairs[0]) == plain(path, pairs[1])

    return until(once, seconds=20), pairs


paths = [path for path, verbs in a.get('/openapi.json', local=True).json['paths'].items() if 'get' in verbs]
OWN = {'/metrics': 'of this process'}
WORDS = {'task': every, 'archive': ['docs'], 'rev': [1, 2, 3], 'executor': ['x'], 'file': ['out.txt']}
n = 0
for path in sorted(paths):
    if path in OWN:
        continue
    forms = [path]
    for word in re.findall(r'\{(\w+)\}', path):
        ok(word in WORDS, f'{path}: the test knows a {word}')
        forms = [form.replace(f'{{{word}}}', str(value)) for form in forms for value in WORDS.get(word, ['?'])]
    if path == '/v1/events':
        forms = ['/v1/events?since=0&limit=100000', '/v1/events?since=5&limit=7']
    if path == '/v1/tasks':
        forms = ['/v1/tasks?limit=1000', '/v1/tasks?state=DF&limit=3', '/v1/tasks?archive=docs', '/v1/tasks?queue=nothing']
    wrong, statuses = [], set()
    for form in forms:
        good, answers = compared(form)
        statuses.update(x.status for x in answers)
        n += 1
        if not good:
            wrong.append((form, answers))
    ok(not wrong, f'{path}: {len(forms)} times the same from both ({", ".join(map(str, sorted(statuses)))})', *wrong[:3])
    if not path.endswith('/tree'):  # revisions that were posted have no files
        ok(statuses & {200}, f'{path}: and there was something to show', statuses)
print(f'# {n} answers compared', flush=True)
for words in (['list', '--json'], ['why', str(made[3])], ['graph', str(made[2])], ['semaphores'], ['log', str(made[0])]):
    out = [s.cli(*words) for s in pair]
    same((out[0].code, out[0].out), (out[1].code, out[1].out), f'weir {words[0]}: the same from both')
x.kill_all()
for s in pair:
    same(s.stop(signal.SIGINT), 0, f'{s.dir.name} ends')
pg.remove()
end()
