#!/usr/bin/env python3
"""A worker for `data` tasks: takes {"a": 1, "b": 2}, answers with the output sum=3. usage: worker.py URL [TOKEN]; ends when nothing came for a while."""
import json
import sys
import urllib.request

URL, TOKEN = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None


def post(path, body):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {'Authorization': f'Bearer {TOKEN}'} if TOKEN else {}
    with urllib.request.urlopen(urllib.request.Request(URL + path, data, headers)) as answer:
        return json.load(answer)


me = post('/v1/executors', {'name': 'adder', 'slots': 1, 'kinds': ['data']})
idle = seq = 0
while idle < 3:
    seq += 1  # an answer that got lost is given again to who asks with the same number
    answer = post(f'/v1/executors/{me["id"]}/poll', {'free': 1, 'wait_ms': me['lease_ms'] // 5, 'seq': seq})
    idle = 0 if answer['grants'] else idle + 1
    for grant in answer['grants']:
        task, fence = grant['task'], grant['fence']
        given = grant['spec']['data']  # work that takes longer than lease_ms names the grant in `renew` of further polls
        try:
            end = {'exit': 0, 'outputs': {'sum': str(given['a'] + given['b'])}}
        except (KeyError, TypeError) as error:
            post(f'/v1/tasks/{task}/log?fence={fence}&offset=0', f'bad data: {error!r}\n'.encode())
            end = {'exit': 100}  # failed for good: trying again won't help
        post(f'/v1/tasks/{task}/finish', {'fence': fence, **end})
