#!/usr/bin/env python3
"""Operation: stats, metrics, nodes, semaphores, lanes, verify, backup, health, the OpenAPI document."""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'unit/api'))
import serving  # noqa: E402
from serving import TMP, Server, Worker, end, ok, refused, same, until  # noqa: E402

config = TMP / 'weir.yaml'
config.write_text('semaphores: {licence: 2}\n')
s = Server('data', '--config', str(config), '--name', 'node-a')
same((s.get('/healthz').json, s.get('/readyz').json), (dict(status='ok'), dict(status='ok')), 'health')
same(s.ask('HEAD', '/healthz').status, 200, 'HEAD where GET is')

# -- stats
w = Worker(s, 'w', slots=4)
s.post('/v1/tasks', dict(tasks=[dict(name=f'a{i}', queue='qa', data=1) for i in range(4)] + [dict(name='b', queue='qb', data=1)]))
grants = w.claim(free=3)
node = [n for n in s.get('/v1/nodes').json['nodes'] if n['name'] == 'w'][0]
same((node['running'], node['load']), (3, 0.75), 'what is granted counts at once, before anything is renewed')
w.finish(grants[0], exit=0)
w.finish(grants[1], exit=1)
w.poll(free=0, renew=[dict(task=grants[2]['task'], fence=grants[2]['fence'])])
stats = s.get('/v1/stats').json
same({k: stats[k] for k in ('processed', 'failed', 'queued', 'working')}, dict(processed=2, failed=1, queued=2, working=1), 'stats in all')
same(stats['seq'], len(s.get('/v1/events?since=0').body.splitlines()), 'the seq of the newest event')
same(sum(q['queued'] for q in stats['queues'].values()), 2, 'stats by queue')
same(sorted(stats['queues']), ['qa', 'qb'], 'each queue')
same(stats['executors']['w'], dict(processed=2, failed=1, queued=0, working=1), 'stats by executor')
w.finish(grants[2], outcome='timeout')
left = [t['id'] for t in s.get('/v1/tasks?state=P').json['tasks']]
for task in left:
    s.post(f'/v1/tasks/{task}/cancel', dict(reason='not needed'))
stats = s.get('/v1/stats').json
same({k: stats[k] for k in ('processed', 'failed', 'terminated', 'abandoned', 'queued', 'working')},
     dict(processed=5, failed=1, terminated=3, abandoned=0, queued=0, working=0), 'what is cancelled or runs out of time is terminated, not failed')
same({k: sum(q[k] for q in stats['queues'].values()) for k in ('failed', 'terminated')}, dict(failed=1, terminated=3), 'by queue too')
same(stats['executors']['w'], dict(processed=3, failed=1, queued=0, working=0), 'and by executor')

# -- metrics
text = s.get('/metrics').body.decode()
ok(s.get('/metrics').headers['Content-Type'].startswith('text/plain'), 'metrics are text')
samples = [line for line in text.splitlines() if line and not line.startswith('#')]
ok(samples and all(re.match(r'^weir_[a-z_]+(\{[^}]*\})? -?[0-9.e+]+$', line) for line in samples), 'each sample is a weir_ name and a number', text)
names = {re.match(r'[a-z_]+', line)[0] for line in samples}
ok(all(f'# TYPE {name} ' in text and f'# HELP {name} ' in text for name in names), 'each with HELP and TYPE')
ok({'weir_tasks', 'weir_turns_total', 'weir_commits_total', 'weir_commit_seconds_total', 'weir_events_total', 'weir_grants_total', 'weir_executors_live', 'weir_store_bytes',
    'weir_resident_bytes'} <= names, 'the names that operators want', names)
ok('weir_grants_total 3\n' in text and 'weir_finishes_total 3\n' in text, 'grants and finishes are counted', text)
by_state = {word: sum(int(line.split()[-1]) for line in samples if re.match(r'weir_tasks\{lane="q[ab]",state="%s"\} ' % word, line)) for word in ('done', 'failed', 'terminated')}
same(by_state, dict(done=1, failed=1, terminated=3), 'tasks by lane and state')

# -- nodes
nodes = {n['name']: n for n in s.get('/v1/nodes').json['nodes']}
same((nodes['node-a']['role'], nodes['node-a']['state'], nodes['w']['role'], nodes['w']['state']), ('server', 'active', 'executor', 'active'), 'nodes')
ok(all({'name', 'role', 'version', 'host', 'load', 'state'} <= set(n) for n in nodes.values()), 'with version, host and load', nodes)

# -- semaphores
sem = s.post('/v1/tasks', dict(tasks=[dict(name=f's{i}', queue='sem', data=1, semaphores=['licence']) for i in range(4)])).json['tasks']
same(s.get('/v1/semaphores').json['semaphores'], [dict(name='licence', limit=2, used=2, holders=[f'sem:{sem[0]["id"]}', f'sem:{sem[1]["id"]}'], waiting=2,
      waiters=[f'sem:{sem[2]["id"]}', f'sem:{sem[3]["id"]}'], scope='global')],
     'a semaphore of the configuration: limit, holders, waiting')
why = s.get(f'/v1/tasks/{sem[2]["id"]}/why').json
ok(why['verdict'] == 'waiting' and why['conditions'][0]['kind'] == 'semaphore' and 'licence' in why['conditions'][0]['detail'], 'why names it', why)

# -- lanes
answer = s.post('/v1/lanes/qp/pause', dict(reason='maintenance'))
same((answer.status, answer.json['paused'], sum(answer.json['counts'].values())), (200, True, 0), 'a queue can be paused before its first task')
s.post('/v1/tasks', dict(name='p0', queue='qp', data=1))
answer = s.post('/v1/lanes/qp/pause', dict(reason='maintenance'))
same((answer.status, answer.json['name'], answer.json['paused'], answer.json['reason']), (200, 'qp', True, 'maintenance'), 'pause')
paused = s.post('/v1/tasks', dict(name='p1', queue='qp', data=1)).json['id']
for g in w.claim(free=20, wait_ms=0):
    w.finish(g)
ok(s.state(paused) in 'SP', 'nothing starts there', s.task(paused))
why = s.get(f'/v1/tasks/{paused}/why').json
ok([c['kind'] for c in why['conditions']] == ['pause'] and 'maintenance' in str(why['conditions'][0]), 'why: who paused it and why', why)
lanes = {lane['name']: lane for lane in s.get('/v1/lanes').json['lanes']}
ok(lanes['qp']['paused'] and not lanes['qa']['paused'] and lanes['qa']['kind'] == 'queue' and sum(lanes['qa']['counts'].values()) == 4, 'the list of lanes', lanes)
same(s.post('/v1/lanes/qp/resume').json['paused'], False, 'resume')
until(lambda: [g for g in w.claim(free=20, wait_ms=100) if g['task'] == paused], 'it is granted then')
same(s.post('/v1/lanes/all/pause', dict(reason='all of it')).json['name'], 'all', 'everything can be paused')
s.post('/v1/tasks', dict(name='a', queue='qz', data=1))
same(w.poll(free=5)['grants'], [], 'and nothing is granted')
s.post('/v1/lanes/all/resume')
until(lambda: w.claim(free=20, wait_ms=100), 'until it is resumed')

# -- verify and backup
report = s.get('/v1/verify').json
ok(report['ok'] and report['events'] > 0 and len(report['head']['hash']) == 64, 'verify', report)
witness = f'{report["head"]["seq"]}:{report["head"]["hash"]}'
ok(s.get(f'/v1/verify?witness={witness}').json['ok'] and s.get(f'/v1/verify?witness={witness.upper()}').json['ok'], 'verify with a witness, in either case as offline')
ok(not s.get(f'/v1/verify?witness={report["head"]["seq"]}:{"0" * 64}').json['ok'], 'verify with a false witness')
target = TMP / 'backup.db'
if serving.STORE == 'postgres':
    refused(s.post('/v1/backup', dict(file=str(target))), 422, 'invalid', text='a backup is the database\'s own work')
else:
    same(s.post('/v1/backup', dict(file=str(target))).json, dict(file=str(target), without_artifacts=False, artifacts=0, artifacts_missing=0), 'backup')
    ok(target.stat().st_size > 0, 'the file is there')
ok(s.post('/v1/backup', dict(file=str(TMP / 'no/such/folder/x'))).status >= 400, 'a backup into nowhere is refused')

# -- the document
document = s.get('/openapi.json').json
same(document['openapi'], '3.1.0', 'OpenAPI 3.1')
listed = {(method.upper(), path) for path, item in document['paths'].items() for method in item}
defined = set(re.findall(r'ROUTE\("(\w+)", "([^"]+)"', (pathlib.Path(__file__).resolve().parents[2] / 'src/api/route.def').read_text()))
same(listed, defined, 'it lists every route')
refused(s.get('/v1/nothing'), 404, 'not_found', text='an unknown path')
end()
