#!/usr/bin/env python3
# time limit: 120
# store: sqlite (it starts its own PostgreSQL)
"""`weir config apply` and `show`: the site's keys are changed for all servers at once, with versions and events that say who and what; a dry run changes nothing; all faults
of a file are told with file, line and column; keys of one server and of parts to come are refused; a server whose file says otherwise goes by the stored ones and says so."""
import json
import pathlib
import shutil
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import TMP, House, database, end, ok, refused, run, same, until  # noqa: E402
from voices import Voice, voice  # noqa: E402


def write(name, text):
    (TMP / name).write_text(text if isinstance(text, str) else json.dumps(text))
    return str(TMP / name)


def keys(server):
    return {k['name']: k for k in Voice(server).get('/v1/config').json['keys']}


def changed(server):
    return [(e['subject'], e['actor'], e['reason']) for e in Voice(server).events() if e['kind'] == 'config']


# -- a server alone
CHANGESETS = {'changesets': (0, {}), 'targets': (0, {})}  # t1320
conf = write('weir.yaml', 'semaphores: {licence: 3}\nretention: {history: 90d}\n')
lone = House('lone', '--config', conf, slots=0)
same({n: (k['version'], k['value']) for n, k in keys(lone).items()},
     {'semaphores': (1, {'licence': 3}), 'tenants': (0, {}), 'retention': (1, {'history': '90d'}), **CHANGESETS}, 'the file is taken, with versions')
site = write('site.yaml', 'semaphores:\n  licence: 5\n  scanner: 1\ntenants:\n  red: {quotas: {tasks: 2}}\n')
told = lone.cli('config', 'apply', site, '--dry-run')
difference = ['semaphores.licence: 3 -> 5', 'semaphores.scanner: none -> 1', 'tenants.red: none -> {"semaphores": {}, "quotas": {"tasks": 2}}']
same((told.code, told.out.splitlines()), (0, difference), 'a dry run says the difference')
ok('dry run' in told.err and keys(lone)['semaphores']['version'] == 1 and keys(lone)['tenants']['version'] == 0, 'and changes nothing', told.err, keys(lone))
told = lone.cli('config', 'apply', site)
same((told.code, told.out.splitlines()), (0, difference), 'apply says it too')
same({n: (k['version'], k['value']) for n, k in keys(lone).items()},
     {'semaphores': (2, {'licence': 5, 'scanner': 1}), 'tenants': (1, {'red': {'semaphores': {}, 'quotas': {'tasks': 2}}}), 'retention': (1, {'history': '90d'}), **CHANGESETS},
     'what it names is changed, what it doesn\'t stays')
same(Voice(lone).semaphore('licence')['limit'], 5, 'and is in force')
who = keys(lone)['tenants']['changed_by']
ok(who.startswith('uid:'), 'it says who', who)
same(changed(lone)[2:], [('semaphores', who, 'version 2: semaphores.licence: 3 -> 5; semaphores.scanner: none -> 1'),
                         ('tenants', who, 'version 1: tenants.red: none -> {"semaphores": {}, "quotas": {"tasks": 2}}')], 'events say who changed what')
told = lone.cli('config', 'apply', '-', stdin='{"semaphores": {"licence": 5, "scanner": 1}}')
ok(told.code == 0 and told.out == '' and 'nothing changes' in told.err, 'the same again: nothing', told)
same(len(changed(lone)), 4, 'and no event')
red = voice(lone, 'red')
red.enqueue(dict(name='a', queue='q', data=1), dict(name='b', queue='q', data=1))
refused(red.post('/v1/tasks', dict(name='c', queue='q', data=1)), 429, 'quota_exceeded', text='the quota is in force')
refused(red.post('/v1/config', dict(text='semaphores: {}')), 403, 'forbidden', text='a tenant\'s admin changes nothing of the site')
refused(red.get('/v1/config'), 403, 'forbidden', text='and sees nothing of it')
told = lone.cli('config', 'show')
ok(told.code == 0 and 'semaphores: {"licence": 5, "scanner": 1}  # version 2, ' in told.out and f', by {who}' in told.out, 'weir config show', told.out, told.err)
again = lone.cli('config', 'apply', write('shown.yaml', told.out))
ok(again.code == 0 and again.out == '', 'what it shows can be applied', again)
ok('another \'semaphores\'' in told.err, 'the file says another licence: told', told.err)
nodes = lone.cli('nodes')
ok(nodes.code == 0 and 'warning: ' in nodes.err and "'semaphores'" in nodes.err and 'config show' in nodes.err, 'weir nodes warns of it', nodes.err)

# -- faults: all of them, with their places, and nothing is changed
bad = write('bad.yaml', 'listen: 127.0.0.1:1\nsemaphores: {licence: 0, "a b": 1}\nhooks: {timeout: 3s}\ntennants: {}\nretention: {history: 5}\nslots: 3\n')
before = keys(lone)
told = lone.cli('config', 'apply', bad)
same(told.code, 65, 'a file with faults is refused')
for place, words in [('1:1', "'listen' is one server's"), ('2:23', 'limit'), ('2:26', 'a b'), ('3:1', "'hooks' isn't supported yet"), ('4:1', "unknown key 'tennants'"),
                     ('5:22', 'retention.history'), ('6:1', "'slots' is one server's")]:
    ok(any(line.startswith(f'{bad}:{place}: error:') and words in line for line in told.err.splitlines()), f'{place}: {words}', told.err)
ok("did you mean 'tenants'?" in told.err, 'with a suggestion', told.err)
answer = Voice(lone).post('/v1/config', dict(text=(TMP / 'bad.yaml').read_text(), file='bad.yaml'))
refused(answer, 422, 'invalid', text='the server says the same')
same(sorted((e['file'], e['line'], e['column']) for e in answer.json['errors']),
     [('bad.yaml', *p) for p in [(1, 1), (2, 23), (2, 26), (3, 1), (4, 1), (5, 22), (6, 1)]], 'with the same places')
for body, path in [({}, '/text'), (dict(text=1), '/text'), (dict(text='', dry=1), '/dry')]:
    refused(Voice(lone).post('/v1/config', body), 422, 'invalid', path, text=f'{body}')
told = lone.cli('config', 'apply', write('far.yaml', 'zz9: 1\nretention: {zz9: 3d}\ntenants: {red: {zz9: 1}}\n'))
same((told.code, [line.strip() for line in told.err.splitlines() if 'known here' in line]),
     (65, ['known here: semaphores, tenants, retention, changesets, targets', 'known here: history', 'known here: semaphores, quotas']), 'a key that looks like none: those that there are')
told = run('serve', '--data', TMP / 'never', '--config', write('far.yaml', 'zz9: 1\n'))
ok(told.code == 65 and 'known here: data, store, ' in told.err and ', listen, ' in told.err, 'also in the file of a server', told)
told = lone.cli('config', 'apply', write('broken.yaml', 'semaphores: {licence: 3\n'))
ok(told.code == 65 and 'broken.yaml:' in told.err, 'what isn\'t YAML has its place', told.err)
same(lone.cli('config', 'apply', TMP / 'none.yaml').code, 66, 'no such file')
same(lone.cli('config').code, 2, 'weir config alone is a usage error')
same(keys(lone), before, 'nothing was changed by all that')

# -- a restart and a reload
lone.stop()
lone.start()
same({n: k['version'] for n, k in keys(lone).items()}, {'semaphores': 2, 'tenants': 1, 'retention': 1, 'changesets': 0, 'targets': 0}, 'what was applied outlives a restart')
ok('config.differs' in lone.log.read_text(), 'the log says that the file differs')
write('weir.yaml', 'semaphores: {licence: 7}\n')
lone.process.send_signal(signal.SIGHUP)
until(lambda: keys(lone)['semaphores']['value'] == {'licence': 7}, 'a reload takes what the file names')
until(lambda: keys(lone)['retention']['value'] == {}, 'empties what it named before')
same(keys(lone)['tenants']['version'], 1, 'and leaves what it never named')
same(changed(lone)[-1][1], 'configuration', 'by the configuration')
same(lone.cli('nodes').err, '', 'nothing to warn of')
same(lone.stop(), 0, 'it ends')

# -- two servers on one store
pg, url = database()
a = House('a', '--store', url, '--name', 'a', '--config', write('a.yaml', 'semaphores: {licence: 1}\n'), slots=0)
(TMP / 'b').mkdir(mode=0o711)
shutil.copy(TMP / 'a/verify.key', TMP / 'b/verify.key')
b = House('b', '--store', url, '--name', 'b', '--config', write('b.yaml', 'semaphores: {licence: 9}\nretention: {history: 30d}\n'), slots=0)
ok('config.differs' in b.log.read_text() and 'config apply' in b.log.read_text(), 'b starts with another licence and says so', b.log.read_text())
same(Voice(b).semaphore('licence')['limit'], 1, 'and goes by the stored one')
same(keys(b)['retention'], keys(a)['retention'], 'what nobody had said is taken from its file')
for server in (a, b):
    for asked in ('nodes', 'config show'):
        until(lambda: "server 'b' says another 'semaphores'" in server.cli(*asked.split()).err, f'weir {asked} of {server.dir.name} says that b differs, and in what')
    same(("server 'a'" in server.cli('config', 'show').err, "'retention'" in server.cli('nodes').err), (False, False), 'and names nobody and nothing else')
made = b.cli('config', 'apply', write('site.yaml', 'semaphores: {licence: 4}\ntenants: {red: {quotas: {tasks: 1}}}\n'))
same(made.code, 0, 'applied through b')
until(lambda: Voice(a).semaphore('licence')['limit'] == 4, 'a follows without a restart')
turn = Voice(b).get('/v1/config').headers.get('Weir-Turn')
same(Voice(a).get(f'/v1/config?at_least={turn}').json['keys'], Voice(b).get('/v1/config').json['keys'], 'both say the same')
for server in (a, b):
    until(lambda: all(f"server '{n}' says another 'semaphores'" in server.cli('config', 'show').err for n in 'ab'), 'and now both have a file that says otherwise, told by both')
red = voice(a, 'red')
red.enqueue(dict(name='x', queue='q', data=1))
refused(red.post('/v1/tasks', dict(name='y', queue='q', data=1)), 429, 'quota_exceeded', text='a goes by the quota')
for i in range(6):
    same((a, b)[i % 2].cli('config', 'apply', write('n.yaml', f'semaphores: {{licence: {10 + i}}}\n')).code, 0, f'one after the other, through both: {10 + i}')
same(keys(b)['semaphores']['version'], 8, 'each is a version')
same([e[2].split(':')[0] for e in changed(a) if e[0] == 'semaphores'], [f'version {i}' for i in range(1, 9)], 'in the history, in order')
same([run('verify', '--server', s.socket).code for s in (a, b)], [0, 0], 'the history is whole')
same(b.stop(), 0, 'b ends')
until(lambda: [n['state'] for n in Voice(a).get('/v1/nodes').json['nodes'] if n['name'] == 'b'] == ['lost'], 'a sees that', seconds=30)
ok("server 'b'" not in a.cli('nodes').err + a.cli('config', 'show').err and "server 'a'" in a.cli('nodes').err, 'who is not there is not warned of', a.cli('nodes').err)
same(a.stop(), 0, 'a ends')
pg.stop()
end()
