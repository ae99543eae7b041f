#!/usr/bin/env python3
"""What tasks mean, with real processes: how they end, wait, cancel, share, get their surroundings and leave nothing behind."""
# time limit: 180
import datetime
import json
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import NAP, TMP, House, Worker, alive, end, ok, processes, same, until  # noqa: E402

os.environ['SECRET_OF_THE_SERVER'] = 'x'
s = House('data', '--label', 'os=linux', '--zone', 'eu', '--grace', '1s', '--log-limit', '6MiB', slots=6)


def sh(text, name='t', **more):
    return dict(name=name, script=text, **more)


def has(name):
    return until(lambda: (TMP / name).exists() and (TMP / name).read_text().strip(), seconds=40)


def pid_of(name):
    has(name)
    return int((TMP / name).read_text())


def ends():
    """all of them at the same time; back-off is short where it may be"""
    quick = dict(backoff='100ms')
    rows = [
        ('exit 0', sh('exit 0'), 'D', ['done']), ('exit 99', sh('exit 99'), 'D', ['skipped']), ('exit 100', sh('exit 100'), 'F', ['permanent']),
        ('exit 1', sh('exit 1'), 'F', ['failed']), ('exit 3', sh('exit 3'), 'F', ['failed']), ('exit 111 for ever', sh('exit 111', retry=dict(quick, attempts=3)), 'F', ['temporary'] * 3),
        ('exit 111 once', sh('[ $WEIR_ATTEMPT -gt 1 ] || exit 111', retry=quick), 'D', ['temporary', 'done']),
        ('SIGTERM', sh('kill -TERM $$'), 'T', None), ('SIGHUP', sh('kill -HUP $$'), 'A', None), ('SIGKILL once', sh('[ $WEIR_ATTEMPT -gt 1 ] || kill -KILL $$'), 'D', ['killed', 'done']),
        ('SIGKILL for ever', sh('kill -KILL $$', retry=dict(attempts=2)), 'F', ['killed'] * 2), ('SIGSEGV, two attempts', sh('kill -SEGV $$', retry=dict(attempts=2)), 'F', ['killed'] * 2),
        ('time-out', sh('sleep 1000', timeout='300ms'), 'T', ['timeout']), ('one attempt of 111', sh('exit 111', retry=dict(attempts=1)), 'F', ['temporary']),
        ('retry on failed', sh('exit $((2 - WEIR_ATTEMPT))', retry=dict(quick, attempts=3, on=['failed'])), 'D', ['failed', 'done']),
        ('retry on timeout', sh('[ $WEIR_ATTEMPT -gt 1 ] || sleep 1000', timeout='2s', retry=dict(quick, on=['timeout'])), 'D', ['timeout', 'done']),
        ('111 not in on', sh('exit 111', retry=dict(on=['lost'])), 'F', ['temporary']), ('no such program', dict(name='t', command='no-such-program-anywhere'), 'F', ['failed']),
        ('nothing to run', dict(name='t'), 'D', [])]
    made = s.enqueue(*[dict(task, name=f'e{i}', queue='ends') for i, (_, task, _, _) in enumerate(rows)])
    done = s.ended(*[t['id'] for t in made], seconds=60)
    for (text, _, letter, outcomes), task in zip(rows, done):
        got = [a['outcome'] for a in task['attempts']]
        ok(task['state'] == letter and (outcomes is None or got == outcomes), f'{text}: {letter} {outcomes or ""}', task['state'], got, task)
    by = dict(zip([r[0] for r in rows], done))
    same([(a['exit'], a['signal']) for a in by['exit 3']['attempts']], [(3, None)], 'exit and signal are told apart')
    same([(a['exit'], a['signal']) for a in by['SIGKILL once']['attempts']], [(None, 9), (0, None)], 'likewise')
    ok(all(a['usage']['cpu_ms'] >= 0 and a['usage']['max_rss_bytes'] > 0 for a in by['exit 3']['attempts']), 'resource use', by['exit 3'])
    waits = [e for e in s.events(f'task={by["exit 111 for ever"]["id"]}') if e.get('from') == 'X' and e.get('to') == 'S']
    same(len(waits), 2, 'exit 111 goes back to S for its back-off')


def backoff():
    task = s.enqueue(sh('exit 111', name='slow', retry=dict(backoff='1h')))['id']
    ok(s.until_state(task, 'S'), 'back-off is a hold in S')
    why = s.get(f'/v1/tasks/{task}/why').json
    same((why['verdict'], [c['kind'] for c in why['conditions']]), ('waiting', ['not_before']), 'why: not_before')
    until_time = datetime.datetime.fromisoformat(why['conditions'][0]['until'].replace('Z', '+00:00'))
    left = (until_time - datetime.datetime.now(datetime.timezone.utc)).total_seconds()
    ok(3000 < left < 4000, 'with its end', left)
    default = s.enqueue(sh('exit 111', name='five'))['id']
    s.until_state(default, 'S')
    c = s.get(f'/v1/tasks/{default}/why').json['conditions'][0]
    at = datetime.datetime.fromisoformat(c['until'].replace('Z', '+00:00')) - datetime.datetime.fromisoformat(s.task(default)['attempts'][0]['finished'].replace('Z', '+00:00'))
    ok(4.9 <= at.total_seconds() <= 5.1, 'the default is 5 s', at)
    for t in (task, default):
        same(s.post(f'/v1/tasks/{t}/cancel', dict(reason='x')).json['state'], 'T', 'a cancel ends it at once')


def edges():
    a = s.enqueue(sh(f'while [ ! -e {TMP}/go-a ]; do sleep 0.05; done; exit 0', name='a'))['id']
    rows = s.enqueue(dict(name='b', command='true', depends=[a]), dict(name='c', command='true', after=[a]), dict(name='d', command='true', depends=['b']))
    b, c, d = [t['id'] for t in rows]
    same([s.state(x) for x in (b, c, d)], ['S'] * 3, 'what waits is S')
    why = s.get(f'/v1/tasks/{d}/why').json
    ok([x['kind'] for x in why['conditions']] == ['dependency'] and f'{b}' in why['conditions'][0]['holder'] and why['conditions'][0]['since'], 'why names the dependency', why)
    (TMP / 'go-a').touch()
    same([t['state'] for t in s.ended(a, b, c, d)], ['D'] * 4, 'and runs in order')
    starts = [s.task(x)['started'] for x in (a, b, d)]
    ok(starts == sorted(starts) and s.task(b)['started'] >= s.task(a)['finished'], 'one after the other', starts)
    for exit_text, letter, passed in (('exit 1', 'F', 'F'), ('kill -TERM $$', 'T', 'F'), ('kill -HUP $$', 'A', 'A')):
        x, y, z, w = [t['id'] for t in s.enqueue(sh(exit_text, name='x'), dict(name='y', command='true', depends=['x']), dict(name='z', command='true', depends=['y']),
                                                 dict(name='w', command='true', after=['x', 'z']))]
        got = s.ended(x, y, z, w)
        same([t['state'] for t in got], [letter, passed, passed, 'D'], f'a dependency that ended {letter}: {passed}, transitively; after: runs')
        ok(str(x) in json.dumps([got[1].get('cause'), got[1].get('reason')]), 'the cause is named', got[1])
        same([len(got[1]['attempts']), len(got[2]['attempts'])], [0, 0], 'and they never ran')
    x, y = [t['id'] for t in s.enqueue(sh(f'[ -e {TMP}/fixed ]', name='x'), dict(name='y', command='true', depends=['x']))]
    s.ended(x, y)
    (TMP / 'fixed').touch()
    same(s.post(f'/v1/tasks/{x}/retry').status, 200, 'retry')
    same([t['state'] for t in s.ended(x, y)], ['D', 'D'], 'of the one brings back the other')
    same(len(s.task(x)['attempts']), 2, 'attempts are counted on')
    late = s.enqueue(dict(name='late', command='true', depends=[x]))['id']
    same(s.ended(late)[0]['state'], 'D', 'a dependency that is done already')


def cancels():
    old = s.enqueue(sh(f'trap "" TERM HUP; echo $$ > {TMP}/old; sleep 1000.75', name='old'))['id']
    pid = pid_of('old')
    new = s.enqueue(sh(f'if [ -d /proc/{pid} ] && ! grep -q "State:.Z" /proc/{pid}/status; then echo alive; else echo dead; fi', name='new', cancels=[old]))['id']
    got = s.ended(new, old)
    same([t['state'] for t in got], ['D', 'A'], 'cancels: the older is abandoned, the newer done')
    same(s.log_bytes(new), b'dead\n', 'the newer starts when the older is really dead, though it ignores TERM and HUP')
    ok(str(new) in json.dumps([got[1].get('reason'), got[1].get('cause')]), 'the older names its canceller', got[1])
    waiting = s.enqueue(dict(name='waiting', command='true', not_before='2099-01-01T00:00:00Z'))['id']
    new = s.enqueue(dict(name='n2', command='true', cancels=[waiting]))['id']
    same([t['state'] for t in s.ended(new, waiting)], ['D', 'A'], 'one that waits is abandoned at once')
    done = s.enqueue(dict(name='dd', command='true'))['id']
    s.ended(done)
    new = s.enqueue(dict(name='n3', command='true', cancels=[done]))['id']
    same([t['state'] for t in s.ended(new, done)], ['D', 'D'], 'one that has ended stays so')
    run = s.enqueue(sh(f'trap "exit 0" TERM; echo $$ > {TMP}/obeys; while :; do sleep 0.05; done', name='obeys'))['id']
    pid = pid_of('obeys')
    same(s.post(f'/v1/tasks/{run}/cancel', dict(reason='by hand')).status, 200, 'weir cancel of a running task')
    got = s.ended(run)[0]
    same((got['state'], got['reason'], alive(pid)), ('T', 'by hand', False), 'T though it exited 0, with the reason')


def sharing():
    hold = [t['id'] for t in s.enqueue(*[sh(f'echo $$ > {TMP}/sem{i}; while [ ! -e {TMP}/go-sem{i} ]; do sleep 0.05; done', name=f's{i}', semaphores=['pdf']) for i in range(3)])]
    has('sem0')
    same([s.state(x) for x in hold], ['X', 'S', 'S'], 'a semaphore that isn\'t declared has one place')
    sem = [x for x in s.get('/v1/semaphores').json['semaphores'] if x['name'] == 'pdf'][0]
    ok(sem['limit'] == 1 and sem['used'] == 1 and str(hold[0]) in json.dumps(sem['holders']), '/v1/semaphores shows the holder', sem)
    why = s.get(f'/v1/tasks/{hold[1]}/why').json
    ok(why['verdict'] == 'waiting' and why['conditions'][0]['kind'] == 'semaphore' and str(hold[0]) in str(why['conditions'][0].get('holder')) and 'pdf' in why['conditions'][0]['detail'],
       'why names semaphore and holder', why)
    both = s.enqueue(dict(name='both', semaphores=['pdf'], depends=[hold[1]], command='true'))['id']
    kinds = sorted(c['kind'] for c in s.get(f'/v1/tasks/{both}/why').json['conditions'])
    same(kinds, ['dependency', 'semaphore'], 'why names a full semaphore also while a dependency is open')
    after = s.enqueue(dict(name='after', cancels=[hold[0]], depends=[hold[1]], command='true'))['id']
    why = s.get(f'/v1/tasks/{after}/why').json
    ok(sorted(c['kind'] for c in why['conditions']) == ['dependency', 'precursor'] and 'supersedes' in json.dumps(why), 'and what it will supersede, while that executes', why)
    for task in (after, both):
        s.post(f'/v1/tasks/{task}/cancel', dict(reason='asked'))
    for i in range(3):
        ok(has(f'sem{i}'), f'place for {i}')
        (TMP / f'go-sem{i}').touch()
    same([t['state'] for t in s.ended(*hold)], ['D'] * 3, 'one after the other')
    spans = sorted((t['started'], t['finished']) for t in s.ended(*hold))
    ok(all(spans[i][1] <= spans[i + 1][0] for i in range(2)), 'never two at a time', spans)
    conc = [t['id'] for t in s.enqueue(*[sh(f'mkdir {TMP}/only && sleep 0.2 && rmdir {TMP}/only', name=f'c{i}', concurrency='{archive}/pdf') for i in range(4)])]
    states = [s.state(x) for x in conc]
    ok(states.count('X') + states.count('P') <= 1, 'concurrency: at most one', states)
    same([t['state'] for t in s.ended(*conc)], ['D'] * 4, 'concurrency: never two at a time')
    u = s.post('/v1/tasks', dict(name='u', unique='one/{name}', command='true', not_before='2099-01-01T00:00:00Z'))
    v = s.post('/v1/tasks', dict(name='u', unique='one/{name}', command='false'))
    same((u.json['id'], v.status in (200, 201)), (v.json['id'], True), 'unique: the answer is the first one')
    s.post(f'/v1/tasks/{u.json["id"]}/cancel', dict(reason='x'))
    v = s.post('/v1/tasks', dict(name='u', unique='one/{name}', command='true'))
    ok(v.status == 201 and v.json['id'] != u.json['id'], 'once it has ended another may come')
    s.ended(v.json['id'])


def holding():
    s.ended(s.enqueue(dict(name='x', queue='lane', command='true'))['id'])
    same(s.post('/v1/lanes/lane/pause', dict(reason='repairs')).status, 200, 'pause')
    held = s.enqueue(dict(name='held', queue='lane', command='true'))['id']
    why = s.get(f'/v1/tasks/{held}/why').json
    ok(why['verdict'] == 'waiting' and why['conditions'][0]['kind'] == 'pause' and 'repairs' in json.dumps(why), 'why: pause, and its reason', why)
    ok('uid:' in json.dumps(why) or 'by ' in json.dumps(why), 'and who', why)
    same(s.post('/v1/lanes/lane/resume', dict(reason='done')).status, 200, 'resume')
    same(s.ended(held)[0]['state'], 'D', 'then it runs')
    for more, text in ((dict(labels=dict(os='plan9')), 'a label that nobody has'), (dict(zone='mars'), 'a zone where nobody is'), (dict(labels=dict(gpu='1')), 'a label with no executor')):
        t = s.enqueue(dict(name='never', command='true', **more))['id']
        why = s.get(f'/v1/tasks/{t}/why').json
        ok(why['verdict'] == 'never' and why['conditions'][0]['kind'] == 'executor' and why['conditions'][0].get('remedy'), f'{text}: never, with a remedy', why)
        s.post(f'/v1/tasks/{t}/cancel', dict(reason='x'))
    t = s.enqueue(dict(name='fits', command='true', labels=dict(os='linux'), zone='eu'))['id']
    same(s.ended(t)[0]['state'], 'D', 'label and zone that fit')
    soon = (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=1.5)).strftime('%Y-%m-%dT%H:%M:%S.%fZ')
    t = s.enqueue(dict(name='soon', command='true', not_before=soon))
    same(t['state'], 'S', 'not_before: S')
    got = s.ended(t['id'])[0]
    ok(got['state'] == 'D' and got['started'][:23] >= soon[:23], 'and starts not before', got['started'], soon)
    same(s.get(f'/v1/tasks/{t["id"]}/why').json['verdict'], 'ended', 'why of an ended task: ended')
    s.post('/v1/lanes/lane/pause', dict(reason='order'))
    parked = s.enqueue(dict(name='parked', queue='lane', command='true', semaphores=['both']))['id']
    free = s.enqueue(dict(name='free', command='true', semaphores=['both']))['id']
    ok(s.until_state(free, 'D', 20), 'a task in a paused queue keeps no semaphore from others', s.get(f'/v1/tasks/{free}/why'))
    s.post('/v1/lanes/lane/resume', dict(reason='order'))
    same([x['state'] for x in s.ended(parked, free)], ['D', 'D'], 'both end')
    order = {x['id']: x['priority'] for x in s.enqueue(*[dict(name=f'p{i}', queue='lane', priority=p, data=p) for i, p in enumerate((-5, 0, 1000, 7, 0))])}
    w = Worker(s, 'worker', kinds=['data'], labels=dict(os='linux'), zone='eu')
    grants = [w.claim()[0] for _ in order]
    same([order[g['task']] for g in grants], [1000, 7, 0, 0, -5], 'larger priorities first')
    ok([g['task'] for g in grants if order[g['task']] == 0] == sorted(i for i in order if order[i] == 0), 'among equals the older')
    same([w.finish(g).status for g in grants], [200] * 5, 'they end')


def surroundings():
    a, b = [t['id'] for t in s.enqueue(
        sh('echo "size=42" >> $WEIR_OUTPUT; echo "long name=a=b" >> $WEIR_OUTPUT; echo size=43 >> $WEIR_OUTPUT', name='build-it'),
        dict(name='next', script='env -0 > %s/env; cat $WEIR_NEEDS > %s/needs; ls -l /proc/self/fd > %s/fds; cat | wc -c; tty; cat /proc/$$/stat > %s/stat; echo $$; id -u' % ((TMP,) * 4),
             env=dict(MINE='a b'), depends=['build-it']))]
    got = s.ended(a, b)
    same([t['state'] for t in got], ['D', 'D'], 'both ran')
    same(got[0]['outputs'].get('size'), '43', 'outputs: the last value counts')
    env = dict(e.split('=', 1) for e in (TMP / 'env').read_text().split('\0') if e)
    same({k: env.get(k) for k in ('WEIR_TASK', 'WEIR_TASK_ID', 'WEIR_KEY', 'WEIR_ATTEMPT', 'WEIR_OUTPUT_BUILD_IT_SIZE', 'MINE')},
         {'WEIR_TASK': 'next', 'WEIR_TASK_ID': str(b), 'WEIR_KEY': f'default:{b}', 'WEIR_ATTEMPT': '1', 'WEIR_OUTPUT_BUILD_IT_SIZE': '43', 'MINE': 'a b'}, 'the WEIR variables')
    ok('-00000001' in env['WEIR_FENCE'] and env['WEIR_SERVER'] and env['WEIR_OUTPUT'], 'fence, server, output', env)
    ok(env.get('WEIR_TOKEN'), 'WEIR_TOKEN: a token for this task', sorted(env))
    extra = {k for k in env if not k.startswith('WEIR_')} - {'PATH', 'HOME', 'LANG', 'MINE', 'PWD', 'SHLVL', '_', 'OLDPWD'}
    same(extra, set(), 'nothing else of the server\'s environment')
    same(json.loads((TMP / 'needs').read_text())['build-it']['outputs']['size'], '43', 'WEIR_NEEDS by task and name')
    fds = (TMP / 'fds').read_text()
    lines = s.log_bytes(b).decode().split('\n')
    same(lines[:2], ['0', 'not a tty'], 'stdin is empty, no terminal')
    ok(' 0 -> /dev/null' in fds and not any(f' {n} ->' in fds for n in range(4, 30)), 'descriptors 0, 1, 2 (3 is ls itself)', fds)
    stat = (TMP / 'stat').read_text().rpartition(')')[2].split()
    same(stat[2], lines[2], 'a process group of its own')
    data = s.enqueue(dict(name='input', script='cat $WEIR_INPUT', data=dict(a=[1, 'ä'])))['id']
    got = s.ended(data)[0]
    text = s.log_bytes(data)
    ok(got['state'] == 'D' and text.count(b'\n') <= 1 and json.loads(text) == dict(a=[1, 'ä']), 'WEIR_INPUT: data as one line of JSON', text)
    code = s.enqueue(dict(name='split', command="printf '%s|' 'a b' c\\ d \"e\" '$HOME' *"))['id']
    s.ended(code)
    same(s.log_bytes(code), b'a b|c d|e|$HOME|*|', 'a command is split by shell rules, no shell run')


def trees():
    script = (f'(setsid sleep {NAP} &) ; (sh -c "trap \\"\\" TERM HUP INT; setsid sleep {NAP}" &) ; python3 -c "'
              f'import os,time\nif os.fork()==0:\n os.setsid()\n if os.fork()==0:\n  time.sleep({NAP})\n" & echo $$ > {TMP}/treeN; ')
    ended = s.enqueue(sh(script.replace('treeN', 'tree1') + 'sleep 0.3; exit 0', name='tree'))['id']
    stopped = s.enqueue(sh('trap "" TERM; ' + script.replace('treeN', 'tree2') + f'while :; do sleep {NAP}; done', name='tree2'))['id']
    pid_of('tree2')
    same(s.ended(ended)[0]['state'], 'D', 'a job with runaway children ends')
    s.post(f'/v1/tasks/{stopped}/cancel', dict(reason='x'))
    same(s.ended(stopped)[0]['state'], 'T', 'and one that ignores TERM is killed')
    ok(until(lambda: not processes(NAP), seconds=30), 'nothing of them is left', processes(NAP))
    timed = s.enqueue(sh(f'trap "" TERM; (trap "" TERM; setsid sleep {NAP}) & sleep {NAP}', name='timed', timeout='500ms'))['id']
    got = s.ended(timed)[0]
    same((got['state'], got['attempts'][0]['outcome'], processes(NAP)), ('T', 'timeout', {}), 'a time-out kills all of it')


def logs():
    blob = os.urandom(5 << 20)
    (TMP / 'blob').write_bytes(blob)
    big = s.enqueue(dict(name='big', command=['cat', str(TMP / 'blob')]))['id']
    live = s.enqueue(sh(f'echo one; while [ ! -e {TMP}/go-live ]; do sleep 0.05; done; printf "two\\n\\0\\377"; echo three >&2', name='live'))['id']
    over = s.enqueue(sh('head -c 9000000 /dev/zero', name='over'))['id']
    follow = s.stream(f'/v1/tasks/{live}/log?follow=1')
    ok(follow.until(lambda d: d == b'one\n'), 'log follow: what is there', follow.data)
    (TMP / 'go-live').touch()
    ok(follow.until_end() and follow.data == b'one\ntwo\n\0\xffthree\n', 'the rest as it comes, then the end', follow.data)
    follow.close()
    got = s.ended(big, over)
    ok(s.log_bytes(big) == blob, '5 MiB of random bytes are byte-exact')
    same(s.log_bytes(big, f'?offset={5 * (1 << 20) - 100}'), blob[-100:], 'from an offset')
    same(s.log_bytes(big, '?tail=1000'), blob[-1000:], 'the tail')
    same(got[0]['attempts'][0]['log_bytes'], len(blob), 'log_bytes')
    text = s.log_bytes(over)
    ok(len(text) < 6.1 * (1 << 20) and b'[weir: ' in text[-300:], 'a log over its limit is cut and marked', len(text), text[-300:].strip(b'\0'))
    same(got[1]['state'], 'D', 'and the job isn\'t hurt')


def feeds():
    t = s.enqueue(dict(name='ev', queue='feed', command='true'))['id']
    s.ended(t)
    events = s.events('since=0&limit=1000')
    head = events[-1]['seq']
    while True:
        more = s.events(f'since={head}')
        if not more:
            break
        events += more
        head = more[-1]['seq']
    mine = [e for e in events if e.get('task') == t]
    same([e.get('to') for e in mine if e.get('to')][-2:], ['X', 'D'], 'the moves of a task')
    ok(all({'seq', 'time', 'kind', 'actor'} <= set(e) for e in events), 'every event has seq, time, kind, actor')
    sse = s.stream(f'/v1/events?since={head - 3}&follow=1', {'Accept': 'text/event-stream'})
    same(sse.response.headers.get('Content-Type', '').split(';')[0], 'text/event-stream', 'server-sent events')
    ok(sse.until(lambda d: f'id: {head}\n'.encode() in d), 'from since on', sse.data)
    sse.close()
    sse = s.stream('/v1/events?follow=1', {'Accept': 'text/event-stream', 'Last-Event-ID': str(head - 1)})
    ok(sse.until(lambda d: f'id: {head}\n'.encode() in d), 'Last-Event-ID resumes', sse.data)
    ok(f'id: {head - 1}\n'.encode() not in sse.data and sse.data.count(b'\nid: ') + sse.data.startswith(b'id: ') == 1, 'exactly after it', sse.data)
    t2 = s.enqueue(dict(name='ev2', queue='feed', command='true'))['id']
    ok(sse.until(lambda d: b'"to":"D"' in d and f'"task":{t2}'.encode() in d), 'and goes on live', sse.data[-500:])
    blocks = [b for b in sse.data.decode().split('\n\n') if 'data: ' in b]
    ids = [int(line[4:]) for b in blocks for line in b.split('\n') if line.startswith('id: ')]
    same(ids, list(range(head, head + len(ids))), 'dense')
    ok(all(json.loads(line[6:])['seq'] for b in blocks for line in b.split('\n') if line.startswith('data: ')), 'data is the event')
    sse.close()
    lines = s.stream(f'/v1/events?since={head}&follow=1')
    ok(lines.until(lambda d: d.count(b'\n') >= 5) and json.loads(lines.data.split(b'\n')[0])['seq'] == head + 1, 'JSON lines follow, too', lines.data)
    lines.close()
    same([e['seq'] for e in s.events('since=2&limit=3')], [3, 4, 5], 'since is exclusive, limit')
    same({e['key'].split(':')[0] for e in s.events('queue=feed') if e.get('key')}, {'feed'}, 'by queue')


def answers():
    stats = s.get('/v1/stats').json
    ok(all(isinstance(stats[k], int) for k in ('processed', 'failed', 'queued', 'working')) and stats['processed'] > 10 and stats['queues']['ends']['failed'] > 3, 'stats', stats)
    node = {n['role']: n for n in s.get('/v1/nodes').json['nodes']}
    ok(all({'name', 'role', 'version', 'host', 'load', 'state'} <= set(n) for n in node.values()) and set(node) == {'server', 'executor'}, 'nodes', node)
    text = s.get('/metrics').body.decode()
    names = {line.split('{')[0].split()[0] for line in text.splitlines() if line and line[0] != '#'}
    ok(names and all(n.startswith('weir_') for n in names), 'metrics begin with weir_', names)
    ok(s.get('/metrics').headers['Content-Type'].startswith('text/plain'), 'and are plain text')
    same([s.get(p).status for p in ('/healthz', '/readyz')], [200, 200], 'healthz, readyz')
    api = s.get('/openapi.json').json
    ok(api['openapi'].startswith('3.1') and {'/v1/tasks', '/v1/events', '/v1/finishes', '/v1/nodes', '/metrics'} <= set(api['paths']), 'openapi.json', sorted(api['paths']))
    for path, methods in (('/v1/tasks', {'get', 'post'}), ('/v1/tokens', {'get', 'post'})):
        ok(methods <= set(api['paths'][path]), f'openapi: {path}', sorted(api['paths'][path]))
    ids, cursor = [], ''
    while True:
        page = s.get('/v1/tasks?limit=7' + cursor).json
        ids += [t['id'] for t in page['tasks']]
        if page['next'] is None:
            break
        cursor = f'&cursor={page["next"]}'
    ok(ids == sorted(set(ids), reverse=True) and len(ids) > 40, f'{len(ids)} tasks in pages of 7, newest first, each once')


def tokens():
    same(s.get('/v1/tasks').status, 200, 'loopback without a token is open while there is none')
    made = s.cli('token', 'create', '--name', 'boss', '--scope', 'admin', '--scope', 'read', '--scope', 'enqueue', '--json')
    boss = json.loads(made.out)
    ok(set(boss) >= {'token', 'name', 'scopes', 'expires'} and boss['name'] == 'boss', 'token create --json', made.out)
    same((s.get('/v1/tasks').status, s.get('/v1/tasks', local=True).status), (401, 200), 'then loopback is closed, the socket stays open')
    same(s.get('/v1/tasks', token=boss['token']).status, 200, 'the token opens it')
    t = s.post('/v1/tasks', dict(name='tok', command='true'), token=boss['token']).json['id']
    ok(until(lambda: s.get(f'/v1/tasks/{t}', local=True).json['state'] == 'D', seconds=30), 'the executor beside the server works on')
    listed = s.cli('token', 'list', '--json').out
    ok(boss['token'] not in listed and 'boss' in listed, 'the list has no secrets')
    stored = b''.join(p.read_bytes() for p in s.dir.glob('*') if p.is_file())
    ok(boss['token'].encode() not in stored, 'nor has the store')
    job = s.post('/v1/tasks', dict(name='holds', script=f'echo $WEIR_TOKEN > {TMP}/job-token; while [ ! -e {TMP}/go-token ]; do sleep 0.05; done'), local=True).json['id']
    has('job-token')
    mine = (TMP / 'job-token').read_text().strip()
    same(s.get(f'/v1/tasks/{job}', token=mine).status, 200, 'a job\'s own token opens its task')
    same([s.get(f'/v1/tasks/{t}', token=mine).status, s.post(f'/v1/tasks/{t}/cancel', dict(reason='x'), token=mine).status, s.get('/v1/tokens', token=mine).status,
          s.post('/v1/lanes/all/pause', dict(reason='x'), token=mine).status], [403] * 4, 'and nothing of others')
    (TMP / 'go-token').touch()
    until(lambda: s.get(f'/v1/tasks/{job}', local=True).json['state'] == 'D', seconds=30)
    ok(until(lambda: s.get(f'/v1/tasks/{job}', token=mine).status == 401, seconds=30), 'it ends with the job', s.get(f'/v1/tasks/{job}', token=mine))
    short = s.cli('token', 'create', '--name', 'short', '--scope', 'read', '--expires', '1s').out.strip()
    ok(until(lambda: s.get('/v1/tasks', token=short).status == 401, seconds=20), 'it expires')
    actor = [e['actor'] for e in json.loads('[' + ','.join(s.get(f'/v1/events?task={t}', local=True).body.decode().splitlines()) + ']') if e['kind'] == 'created'][0]
    ok('boss' in actor, f'events name the token: {actor}')
    same(s.cli('token', 'revoke', 'boss').code, 0, 'revoke')
    same(s.get('/v1/tasks', token=boss['token']).status, 401, 'and it is closed')


began = time.monotonic()
for part in (ends, backoff, edges, cancels, sharing, holding, surroundings, trees, logs, feeds, answers, tokens):
    part()
    print(f'# {part.__name__}: {time.monotonic() - began:.1f} s', flush=True)
end()
