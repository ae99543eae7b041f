#!/usr/bin/env python3
# time limit: 150
# store: sqlite (it starts its own PostgreSQL)
"""Two servers behind no balancer: every GET route that the API describes, with everything in the store that it could show, gives the same bytes from either, as of
the newest commit of both (at_least). And what was written through one the other shows at once, for every route that writes; a token that was made at one
opens the other, one that was revoked at one writes nothing at the other. A server that has just begun knows who lives, as those before it do."""
import json
import pathlib
import re
import shutil
import signal
import sys
import threading
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'promises'))
from promise import Agent  # noqa: E402
from house import TMP, House, database, end, houses, ok, same, until  # noqa: E402
from tarballs import tarball  # noqa: E402

pg, url = database()
a, b = houses(url, 'ab', slots=0, lease='30s')
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
csid = b.post('/v1/changesets', tarball(files={'a': b'x'}, target='docs')).json['csid']
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
OWN = {'/metrics': 'of this process', '/v1/changesets/{csid}/diff': 'of a repository (t1313), which an external archive has not'}
WORDS = {'task': every, 'archive': ['docs'], 'rev': [1, 2, 3], 'executor': ['x'], 'file': ['out.txt'], 'csid': [csid], 'target': ['docs']}
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
    out = []
    until(lambda: out.extend(s.cli(*words) for s in pair) or (out[-2].code, out[-2].out) == (out[-1].code, out[-1].out), seconds=20)  # something may be committed between the two
    same((out[-2].code, out[-2].out), (out[-1].code, out[-1].out), f'weir {words[0]}: the same from both')

# -- written through one, asked at once of the other: it is there, and with at_least it must be
lag, asked = [], set()


def wrote(route, server, path, body=None, look=None, seen=None, method='POST', data=None):
    """the answer of a write through `server`; `look` is then asked of the other, where `seen` holds"""
    other = b if server is a else a
    asked.add(f'{method} {route}')
    answer = server.ask(method, path, data if data is not None else {} if body is None else body, local=True)
    if answer.status not in (200, 201, 202):
        lag.append((route, answer))
        return answer
    for commit in (None, answer.headers['Weir-Turn']):
        shown = told(other, look(answer) if callable(look) else look, commit)
        if not seen(shown, answer):
            lag.append((route, 'with at_least' if commit else 'without', shown, 'after', answer))
    return answer


def state(letters):
    return lambda shown, answer: shown.status == 200 and shown.json['state'] in letters


def paused(queue, wanted):
    return lambda shown, answer: [lane['paused'] for lane in shown.json['lanes'] if lane['name'] == queue] == [wanted]


T, E, A = '/v1/tasks/{task}', '/v1/executors/{executor}', '/v1/archives/{archive}'
for round_no in range(3):
    one, two = pair[round_no % 2], pair[1 - round_no % 2]
    queue, worker, archive = f'at{round_no}', f'w{round_no}', f'arc{round_no}'
    task = wrote('/v1/tasks', one, '/v1/tasks', dict(name='n', queue=queue, data=1), lambda r: f'/v1/tasks/{r.json["id"]}', state('P')).json['id']
    told(two, f'/v1/tasks/{queue}:{task}', None).status == 200 or lag.append('its key')
    wrote(f'{T}/promote', two, f'/v1/tasks/{task}/promote', {}, '/v1/events?since=0&limit=100000',
          lambda r, _: any(e.get('task') == task and e['kind'] == 'promoted' for e in map(json.loads, r.body.splitlines())))
    wrote(f'{T}/cancel', one, f'/v1/tasks/{task}/cancel', {}, f'/v1/tasks/{task}', state('T'))
    wrote(f'{T}/retry', two, f'/v1/tasks/{task}/retry', {}, f'/v1/tasks/{task}', state('P'))
    wrote('/v1/lanes/{lane}/pause', one, f'/v1/lanes/{queue}/pause', dict(reason='r'), '/v1/lanes', paused(queue, True))
    wrote('/v1/lanes/{lane}/resume', two, f'/v1/lanes/{queue}/resume', {}, '/v1/lanes', paused(queue, False))
    at = f'/v1/executors/{worker}'
    wrote('/v1/executors', one, '/v1/executors', dict(name=worker, slots=2, kinds=['data']), at, lambda r, _: r.status == 200 and r.json['slots'] == 2)
    for verb in ('pause', 'resume', 'drain', 'resume'):
        wrote(f'{E}/{verb}', two, f'{at}/{verb}', {}, at, lambda r, answer: r.json['state'] == answer.json['state'])
    grant = wrote(f'{E}/poll', one, f'{at}/poll', dict(free=1, wait_ms=2000), f'/v1/tasks/{task}', state('X')).json['grants'][0]
    fence = urllib.parse.quote(grant['fence'])
    wrote(f'{T}/log', two, f'/v1/tasks/{task}/log?fence={fence}&offset=0', None, f'/v1/tasks/{task}', state('X'), data=b'said\n')
    until(lambda: told(one, f'/v1/tasks/{task}/log', None).body == b'said\n', seconds=20) or lag.append('its log, once it is durable')
    wrote(f'{T}/outputs', one, f'/v1/tasks/{task}/outputs?fence={fence}', dict(k='v'), f'/v1/tasks/{task}', state('X'))
    kept = wrote(f'{T}/artifacts/{{file}}', one, f'/v1/tasks/{task}/artifacts/f.txt?fence={fence}&offset=0&last=1', None, f'/v1/tasks/{task}', state('X'), data=b'kept').json
    wrote(f'{T}/finish', two, f'/v1/tasks/{task}/finish', dict(fence=grant['fence'], exit=0, artifacts=[kept]), f'/v1/tasks/{task}/artifacts/f.txt',
          lambda r, _: r.body == b'kept' and state('D')(told(one, f'/v1/tasks/{task}', None), None))
    task = one.post('/v1/tasks', dict(name='n', queue=queue, data=1), local=True).json['id']
    grant = two.post(f'{at}/poll', dict(free=1, wait_ms=2000), local=True).json['grants'][0]
    wrote('/v1/finishes', one, '/v1/finishes', dict(items=[dict(fence=grant['fence'], exit=0)]), f'/v1/tasks/{task}', state('D'))
    C, there = '/v1/changesets', lambda r, _: r.status == 200
    new = wrote(C, two, C, None, lambda r: f'{C}/{r.json["csid"]}', there, data=tarball(files={f'f{round_no}': b'x'}, target='docs')).json['csid']
    wrote(f'{C}/{{csid}}/approve', one, f'{C}/{new}/approve', dict(ticket='t'), f'{C}/{new}', there)
    wrote('/v1/rollbacks', two, '/v1/rollbacks', dict(csids=[new]), lambda r: f'{C}/{r.json["csid"]}', there)
    at = f'/v1/archives/{archive}'
    wrote('/v1/archives', one, '/v1/archives', dict(name=archive, kind='external'), at, lambda r, _: r.status == 200)
    workflow = [dict(name='index', checkout=False, script='true', labels={'os': 'none'})]
    wrote(f'{A}/revisions', two, f'{at}/revisions', dict(rev=1, workflow=workflow), f'{at}/revisions/1', lambda r, _: r.status == 200)
    wrote(f'{A}/runs', one, f'{at}/runs', dict(rev=1, task='index'), lambda r: f'/v1/tasks/{r.json["id"]}', state('QSP'))
    wrote(f'{A}/skip', two, f'{at}/skip', dict(rev=2, reason='r'), f'{at}/revisions', lambda r, _: 2 in [x['rev'] for x in r.json['revisions']])
    wrote('/v1/prune', one, '/v1/prune', dict(older_than='1d', dry_run=False), '/v1/stats', lambda r, _: r.status == 200)
    wrote('/v1/config', two, '/v1/config', dict(text=f'semaphores: {{site: {7 + round_no}}}'), '/v1/semaphores',
          lambda r, _: [x['limit'] for x in r.json['semaphores'] if x['name'] == 'site'] == [7 + round_no])
    wrote(A, two, at, None, at, lambda r, _: r.status == 404 or r.json.get('removed'), method='DELETE')
    # a token, of a tenant that wasn't there before
    token = wrote('/v1/tokens', one, '/v1/tokens', dict(name=f'k{round_no}', scopes=['read', 'enqueue'], tenant=f'ten{round_no}'), f'/v1/tasks?tenant=ten{round_no}',
                  lambda r, _: r.status == 200).json['token']
    two.get('/v1/tasks', token=token).status == 200 or lag.append('its token')
    gone = wrote('/v1/tokens/{name}', one, f'/v1/tokens/k{round_no}?tenant=ten{round_no}', None, '/v1/tokens',
                 lambda r, _: f'k{round_no}' not in [x['name'] for x in r.json['tokens']], method='DELETE')
    posted = two.post('/v1/tasks', dict(name='n', data=1), token=token)
    posted.status == 401 or lag.append(('a token that was revoked', posted))
    read = two.get(f'/v1/tasks?at_least={gone.headers["Weir-Turn"]}', token=token)
    read.status == 401 or lag.append(('a token that was revoked, read', read))
    until(lambda: two.get('/v1/tasks', token=token).status == 401, seconds=20) or lag.append('a token that was revoked, by and by')
ok(not lag, 'what was written through one the other shows at once', *lag[:10])
writes = {f'{verb.upper()} {path}' for path, verbs in a.get('/openapi.json', local=True).json['paths'].items() for verb in verbs if verb != 'get'}
same(sorted(writes - asked), ['POST /v1/backup', 'POST /v1/spool/scan'], 'every route that writes, but the copy for SQLite and the look at one server\'s own folder')

# -- tokens made at one at once open the other, many times; strangers who knock meanwhile don't keep them out, and cost the store little
refusals = []
for i in range(25):
    token = pair[i % 2].post('/v1/tokens', dict(name=f'new{i}', scopes=['read']), local=True).json['token']
    for s in (pair[1 - i % 2], pair[i % 2]):
        answer = s.get('/v1/tasks?limit=1', token=token)
        if answer.status != 200:
            refusals.append((i, s.dir.name, answer))
ok(not refusals, 'a token is good at both as soon as it is there', *refusals[:3])
taken = []
for i in range(25):  # the word of the other server comes within milliseconds: most of these overtake it
    one, two = pair[i % 2], pair[1 - i % 2]
    token = one.post('/v1/tokens', dict(name=f'gone{i}', scopes=['enqueue']), local=True).json['token']
    first = two.post('/v1/tasks', dict(name='n', data=1), token=token)
    one.ask('DELETE', f'/v1/tokens/gone{i}', local=True)
    answer = two.post('/v1/tasks', dict(name='n', data=1), token=token)
    if first.status != 201 or answer.status not in (401, 429):
        taken.append((i, first, answer))
ok(not taken, 'a token that was revoked at one writes nothing at the other', *taken[:3])

# -- connections to the database end again and again: who reads meanwhile waits for new ones, and isn't told 503
refusals, reads, over = [], [], threading.Event()


def look(server):
    while not over.is_set():
        answer = server.get('/v1/tasks?limit=50', local=True)
        reads.append(answer.status)
        if answer.status != 200:
            refusals.append((server.dir.name, answer))


threads = [threading.Thread(target=look, args=(s,), daemon=True) for s in pair for _ in range(2)]
for thread in threads:
    thread.start()
for i in range(10):
    pg.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'weir'")
    for s in pair:
        answer = s.post('/v1/tasks', dict(name='n', queue='ended', data=1), headers={'Idempotency-Key': f'ended{i}'}, local=True)
        if answer.status != 201:
            refusals.append((i, answer))
over.set()
for thread in threads:
    thread.join(60)
ok(not refusals, f'connections end: {len(reads)} reads and 20 writes are answered all the same', *refusals[:3])

# -- a server that begins says of an executor what the others do, also of one that it can't have heard of: the word of its last poll went round before
def beat(name):
    return int(pg.sql(f"SELECT beat FROM server WHERE name = '{name}'", 'weir').strip())


def said(server, path):
    return server.patient(path, local=True)


def of_y(server):
    return [n['state'] for n in said(server, '/v1/nodes').json['nodes'] if n['name'] == 'y']


fits = a.post('/v1/tasks', dict(name='fits', data=1, labels={'os': 'odd'}), local=True).json['id']
y = a.post('/v1/executors', dict(name='y', slots=1, kinds=['data'], labels={'os': 'odd'}), local=True).json['id']
(TMP / 'c').mkdir(mode=0o711)
shutil.copy(a.dir / 'verify.key', TMP / 'c/verify.key')
c = None
for _ in range(5):  # once more where b, which hears no more of it either, has given it up meanwhile: the machine was too slow
    polled = a.post(f'/v1/executors/{y}/poll', dict(free=0, wait_ms=0), local=True).status
    for s in pair:  # a writes it with its beat, b follows before its own
        n = beat(s.dir.name)
        until(lambda s=s, n=n: beat(s.dir.name) >= n + 2, seconds=60)
    if c:
        c.start()
    else:
        c = House('c', '--store', url, '--name', 'c', slots=0, lease='30s')
    shown = [of_y(c), [n['state'] for n in said(c, f'/v1/nodes?at_least={newest()}').json['nodes'] if n['name'] == 'y'], [said(c, '/v1/executors/y').json['state']]]
    whys = [said(s, f'/v1/tasks/{fits}/why').json for s in (c, b)]
    live = int(re.search(rb'^weir_executors_live (\d+)', said(c, '/metrics').body, re.M)[1])
    known = of_y(b)
    c.stop(signal.SIGINT)
    if known == ['active']:
        break
same((polled, known), (200, ['active']), 'an executor polls, is busy, and known to the others')
same(shown, [['active']] * 3, 'a server that has just begun calls it active, as the others do')
same(whys[0], whys[1], 'and says the same of what waits for it')
ok(live >= 2, 'and counts it', live)
x.kill_all()
for s in pair:
    same(s.stop(signal.SIGINT), 0, f'{s.dir.name} ends')
pg.remove()
end()
