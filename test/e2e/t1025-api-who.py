#!/usr/bin/env python3
"""Who may say what: an executor is its token's, for every route that names an executor, a task or a fence; what an executor gives back is believed only as this
site gave it out: fences, `seen`; what it says of itself counts within what it registered."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'unit/api'))
from serving import Server, Worker, end, ok, refused, same, until  # noqa: E402

s = Server(lease='3s')
admin = s.post('/v1/tokens', dict(name='admin', scopes=['admin'])).json['token']


def token(name, *scopes, **more):
    return s.post('/v1/tokens', dict(name=name, scopes=scopes, **more), token=admin).json['token']


def kinds(kind):
    return [e for e in s.get('/v1/events', token=admin).body.decode().splitlines() if f'"kind":"{kind}"' in e]


class Voice(Worker):
    """an executor of its own token"""
    def __init__(self, token, name, **more):
        self.token = token
        answer = s.post('/v1/executors', dict(name=name, kinds=['data'], **more), token=token)
        ok(answer.status == 201, f'{name} is registered', answer)
        self.server, self.id, self.name, self.seq = s, answer.json['id'], name, 0

    def say(self, body, executor=None):
        return s.post(f'/v1/executors/{executor or self.id}/poll', body, token=self.token)


one, two = Voice(token('one', 'execute'), 'one', slots=9), Voice(token('two', 'execute'), 'two', slots=9)
acme = Voice(token('acme', 'execute', tenant='acme'), 'acme-1')


def granted(n=1):
    for i in range(n):
        s.post('/v1/tasks', dict(name=f'job{i}', queue='q', data={}), token=admin)
    return one.say(dict(free=n)).json['grants']


# -- `seen`: a number that nobody told says nothing; what this site has signed is believed by it alone
held = granted()[0]
for text, seen in [('a bare number', 10**15), ('no text of ours', 'x'), ('a text with a tag of its own', '0' * 16 + f'-{10**15}-' + '0' * 16),
                   ('a tag of a fence', '-'.join(held['fence'].split('-')[:1] + [str(10**15)] + held['fence'].split('-')[3:])), ('nothing', '')]:
    for voice in (acme, two):
        same(voice.say(dict(free=0, seen=seen)).status, 200, f'`seen` of {voice.name} with {text}: the poll is answered')
refused(two.say(dict(free=0, seen=[1])), 422, 'invalid', '/seen', '`seen` that is neither text nor number')
answer = one.say(dict(free=0, renew=[dict(task=held['task'], fence=held['fence'])]))
same((kinds('incarnation'), answer.json['cancels']), ([], []), 'no fence became stale by it')
same(one.say(dict(free=0, seen=answer.json['seen'], renew=[dict(fence=held['fence'])])).json['cancels'], [], 'what the server said is taken back')

# -- a fence doesn't follow from another one
other = granted()[0]
front, task, number, tag = held['fence'].split('-')
theirs = other['fence'].split('-')
forged = [f'{front}-{task}-{number}-{theirs[3]}', f'{front}-{task}-{number}', f'{front}-{task}-{int(number) + 1:08d}-{tag}',
          f'{front}-{task}-{number}-{tag[::-1]}', f'{front}-{task}-{number}-{tag}0', f'{front}-{task}-{number}-{tag.upper()}x']
for bad in forged:
    refused(s.post(f'/v1/tasks/{task}/finish', dict(fence=bad, exit=0), token=one.token), 409, 'stale_fence', text=f'finish with {bad}')
    refused(s.ask('POST', f'/v1/tasks/{task}/log?fence={bad}&offset=0', b'x', token=one.token), 409, 'stale_fence', text='its log')
    refused(s.ask('POST', f'/v1/tasks/{task}/artifacts/f?fence={bad}&offset=0&last=1', b'x', token=one.token), 409, 'stale_fence', text='its file')
    refused(s.post(f'/v1/tasks/{task}/outputs?fence={bad}', dict(a='b'), token=one.token), 409, 'stale_fence', text='its outputs')
    answer = s.post('/v1/finishes', dict(items=[dict(task=int(task), fence=bad, exit=0)]), token=one.token)
    same([r.get('code') for r in answer.json['results']], ['stale_fence'], 'and in a list')
    same([(c['fence'], c['signal']) for c in one.say(dict(free=0, renew=[dict(task=int(task), fence=bad)])).json['cancels']], [(bad, 'KILL')], 'a renewal with it')
same(s.get(f'/v1/tasks/{task}', token=admin).json['state'], 'X', 'nothing came of that')
shown = {e.split('"fence":"')[1].split('"')[0] for e in s.get('/v1/events', token=token('reader', 'read')).body.decode().splitlines() if '"fence"' in e}
same(shown, {'-'.join(f.split('-')[:3]) for f in (held['fence'], other['fence'])}, 'who may read only reads which grants there were, without their tags')
job = held['spec']['token']
same(s.get(f'/v1/tasks/{task}', token=job).status, 200, "a job's token reads its task")
same(s.get(f'/v1/tasks/{other["task"]}', token=job.replace(held['fence'], other['fence'])).status, 401, 'and gives no other one')
same(s.get(f'/v1/tasks/{other["task"]}', token=job.replace(f'-{task}-', f'-{other["task"]}-')).status, 401, 'nor with its own tag')

# -- every route that takes an executor, a task or a fence, with every other voice
SEND = '?fence={fence}&offset=0'
ROUTES = [  # method, path, body; what another token of the tenant, another tenant's token and one that may only read are answered
    ('/v1/executors/{executor}/poll', dict(free=5)),
    ('/v1/executors/{executor}/pause', dict(reason='r')),
    ('/v1/executors/{executor}/drain', dict(reason='r')),
    ('/v1/executors/{executor}/resume', dict(reason='r')),
    ('/v1/tasks/{task}/finish', dict(fence='{fence}', exit=0)),
    ('/v1/tasks/{task}/log' + SEND, b'forged'),
    ('/v1/tasks/{task}/artifacts/f' + SEND + '&last=1', b'forged'),
    ('/v1/tasks/{task}/outputs?fence={fence}', dict(forged='x')),
    ('/v1/finishes', dict(items=[dict(fence='{fence}', exit=0)])),
]
grant = granted()[0]
fill = dict(executor=one.id, task=grant['task'], fence=grant['fence'])
listed = {(m, p) for path, ops in s.get('/openapi.json', token=admin).json['paths'].items() for m in ops
          for p in [path] if m == 'post' and ('{executor}' in p or 'fence' in str(ops[m]) or p == '/v1/finishes')}
tried = {p.split('?')[0].replace('/artifacts/f', '/artifacts/{file}') for p, _ in ROUTES}
same({p for _, p in listed} - tried, set(), 'no route of executors is left out here')
reader = token('reader2', 'read', 'enqueue')
job = grant['spec']['token']
for path, body in ROUTES:
    body = {k: v.format(**fill) if k == 'fence' else v for k, v in body.items()} if isinstance(body, dict) and 'items' not in body else body
    if isinstance(body, dict) and 'items' in body:
        body = dict(items=[dict(fence=grant['fence'], exit=0)])
    for who, voice, status in [('another token of the tenant', two.token, 403), ("another tenant's token", acme.token, 404), ('who may read and enqueue', reader, 403),
                               ('a running job', job, 403), ('nobody', None, 401)]:
        if voice == job and '/outputs' in path:
            continue # of itself it may
        answer = s.ask('POST', path.format(**fill), body, token=voice)
        if path == '/v1/finishes' and answer.status == 200:
            same([r['status'] for r in answer.json['results']], [status], f'{path} of {who}: {status} in its place')
        else:
            ok(answer.status == status, f'{path} of {who}: {status}', answer)
own, others = f'/v1/tasks/{grant["task"]}/outputs?fence={grant["fence"]}', f'/v1/tasks/{other["task"]}/outputs?fence={other["fence"]}'
same([s.post(path, dict(a='b'), token=job).status for path in (own, others)], [200, 403], 'a job tells its own outputs, and no other one\'s')
same(s.get(f'/v1/tasks/{grant["task"]}', token=admin).json['outputs'], dict(a='b'), 'they are kept, and nobody else\'s')
refused(s.post(own, dict(a='x' * 262145), token=one.token), 422, 'invalid', '/a', 'a value over 256 KiB')
same(s.post(own, dict(a='x' * 262144), token=one.token).status, 200, 'one of 256 KiB')
refused(s.post(own, dict(a=1), token=one.token), 422, 'invalid', '/a', 'a number')
refused(s.post(own, [], token=one.token), 422, 'invalid', '', 'a list')
refused(s.post(f'/v1/tasks/{grant["task"]}/outputs', dict(a='b'), token=one.token), 400, 'bad_request', text='no fence')
same([c['signal'] for c in two.say(dict(free=0, renew=[dict(fence=grant['fence'])])).json['cancels']], ['KILL'], 'a renewal by another token is none')
task = s.get(f'/v1/tasks/{grant["task"]}', token=admin).json
same((task['state'], s.get('/v1/executors/one', token=admin).json['state'], s.get(f'/v1/tasks/{task["id"]}/log', token=admin).body), ('X', 'active', b''), 'nothing came of it')
same(one.say(dict(free=0, renew=[dict(fence=f['fence']) for f in (held, other, grant)])).json['cancels'], [], 'the executor goes on')
for path, body in [('/v1/executors/{executor}/poll', dict(free=0)), ('/v1/executors/{executor}/resume', {}), ('/v1/tasks/{task}/log' + SEND, b'x'),
                   ('/v1/tasks/{task}/finish', dict(fence=grant['fence'], exit=0, log_bytes=1))]:
    same(s.ask('POST', path.format(**fill), body, token=admin).status, 200, f'{path} of admin')
same(s.post(f'/v1/tasks/{grant["task"]}/finish', dict(fence=grant['fence'], exit=0, log_bytes=1), token=two.token).status, 403, 'not even what was said already may be said again')

# -- names: while the executor lives it is its token's; who is the same executor may come with another token; then when it is gone
refused(s.post('/v1/executors', dict(name='one', slots=9), token=two.token), 409, 'name_taken', text="another token's name")
mine = s.post('/v1/executors', dict(name='moves', slots=2, kinds=['data'], instance='a secret of its own'), token=one.token).json['id']
work = s.post(f'/v1/executors/{mine}/poll', dict(free=0), token=one.token)
same(work.status, 200, 'an executor with an instance')
answer = s.post('/v1/executors', dict(name='moves', slots=2, kinds=['data'], instance='a secret of its own'), token=two.token)
same((answer.status, answer.json.get('id')), (201, mine), 'the same executor with another token (they were exchanged)')
refused(s.post(f'/v1/executors/{mine}/poll', dict(free=0), token=one.token), 403, 'forbidden', text='the token before it')
same(s.post(f'/v1/executors/{mine}/poll', dict(free=0), token=two.token).status, 200, 'it goes on with the new one')
until(lambda: s.post('/v1/executors', dict(name='moves', slots=2, instance='another'), token=one.token).status == 201, 'one that is gone for a lease leaves its name', seconds=20)

# -- names are a tenant's
for name in ('one', 'build-7'):
    same(s.post('/v1/executors', dict(name=name, slots=1, kinds=['data']), token=acme.token).status, 201, f'acme may have a {name} of its own')
same(s.post('/v1/executors', dict(name='build-7', slots=1, kinds=['data']), token=two.token).status, 201, 'and so may the site')
beta = token('beta', 'execute', tenant='beta')
ids = {s.post('/v1/executors', dict(name='build-7', slots=1, kinds=['data']), token=voice).json['id'] for voice in (acme.token, two.token, beta)}
same(len(ids), 3, 'three executors')
same(s.get('/v1/executors/build-7', token=admin).json['id'] in ids, True, 'the name means the own one')
same([s.get(f'/v1/executors/build-7?tenant={t}', token=admin).status for t in ('acme', 'beta')], [200, 200], "or a tenant's, if one says so")
counted = [k for k in s.get('/v1/stats', token=admin).json['executors'] if k.endswith('build-7')]
same(sorted(counted), ['acme/build-7', 'beta/build-7', 'build-7'], 'stats tell them apart')
s.post('/v1/tasks?tenant=acme', dict(name='theirs', queue='q', data={}), token=admin)
own = s.post(f'/v1/executors/{acme.id}/poll', dict(free=1), token=acme.token).json['grants']
same([g['spec']['name'] for g in own], ['theirs'], "acme's gets acme's work")
refused(s.post(f'/v1/tasks/{own[0]["task"]}/finish', dict(fence=own[0]['fence'], exit=0), token=two.token), 403, 'forbidden', text='another tenant\'s fence at the site\'s executor')

# -- what is free: no more than its slots less what it holds
for i in range(6):
    s.post('/v1/tasks', dict(name=f'many{i}', queue='q', data={}), token=admin)
small = Voice(one.token, 'small', slots=2)
first = small.say(dict(free=1000)).json['grants']
renew = [dict(fence=g['fence']) for g in first]
same((len(first), len(small.say(dict(free=1000, renew=renew)).json['grants'])), (2, 0), 'two slots: two grants, whatever is said to be free')
refused(small.say(dict(free=1000, ahead=17, renew=renew)), 422, 'invalid', '/ahead', 'so many ahead of its slots')
node = next(n for n in s.get('/v1/nodes', token=admin).json['nodes'] if n['name'] == 'small')
same(node['load'], 1, 'and a load of 1')
got = small.say(dict(free=1000, renew=renew, finishes=[dict(fence=first[0]['fence'], exit=0)])).json['grants']
same(len(got), 1, 'what ends by the same poll makes room')
eager = Voice(one.token, 'eager', slots=1)
same(len(eager.say(dict(free=1000, ahead=1)).json['grants']), 2, 'one ahead of its slot, and no more')
end()
