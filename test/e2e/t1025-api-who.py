#!/usr/bin/env python3
"""Who may say what: what an executor gives back is believed only as this site gave it out: fences, `seen`."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'unit/api'))
from serving import Server, Worker, end, ok, refused, same  # noqa: E402

s = Server(lease='5s')
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
end()
