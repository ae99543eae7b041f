"""voices: a server as the holder of one token hears it; for tests with several tenants."""
import json
import time

from house import Worker, processes  # noqa: F401


class Voice:
    """ask, get, post, task, state, events of a server, with a token (None: the socket's own user)"""

    def __init__(self, server, token=None, tenant=None):
        self.server, self.token, self.tenant = server, token, tenant

    def ask(self, method, path, body=None, headers=None, **more):
        if self.tenant:
            path += ('&' if '?' in path else '?') + f'tenant={self.tenant}'
        if self.token is None:
            more.setdefault('local', True)
        return self.server.ask(method, path, body, headers, token=self.token, **more)

    def get(self, path, **more):
        return self.ask('GET', path, **more)

    def post(self, path, body=None, **more):
        return self.ask('POST', path, {} if body is None else body, **more)

    def enqueue(self, *tasks, **more):
        answer = self.post('/v1/tasks', tasks[0] if len(tasks) == 1 else dict(tasks=list(tasks)), **more)
        if answer.status not in (200, 201):
            raise SystemExit(f'Bail out! enqueue: {answer}')
        return answer.json if len(tasks) == 1 else answer.json['tasks']

    def patient(self, path, seconds=60, **more):
        deadline = time.monotonic() + seconds
        while (answer := self.get(path, **more)).status == 503 and time.monotonic() < deadline:
            time.sleep(0.05)
        return answer

    def task(self, task_id):
        return self.patient(f'/v1/tasks/{task_id}').json

    def state(self, task_id):
        return self.task(task_id)['state']

    def states(self, *ids):
        return ''.join(self.state(i) for i in ids)

    def events(self, query='since=0'):
        return [json.loads(line) for line in self.patient(f'/v1/events?{query}').body.splitlines()]

    def semaphore(self, name):
        found = [s for s in self.patient('/v1/semaphores').json['semaphores'] if s['name'] == name]
        return found[0] if found else None

    def quotas(self, name=None):
        """{what: (used, limit)} of the own tenant, or of the one named"""
        rows = self.patient('/v1/tenants').json['tenants']
        row = [r for r in rows if name is None or r['name'] == name][0]
        return {k: (v.get('used'), v['limit']) for k, v in row['quotas'].items()}


def voice(server, tenant, *scopes, name='t'):
    """a new token of a tenant, and who speaks with it"""
    answer = server.post('/v1/tokens', dict(name=name, scopes=list(scopes or ['admin']), tenant=tenant), local=True)
    if answer.status != 201:
        raise SystemExit(f'Bail out! token: {answer}')
    return Voice(server, answer.json['token'])
