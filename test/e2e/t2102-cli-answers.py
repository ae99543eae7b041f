#!/usr/bin/env python3
"""Answers and refusals: exit codes, JSON passed through, error texts, harmless text; against a server of canned answers."""
import json
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'test/unit/cli'))
from fake_server import Fake
from tap import Terminal, clean_env, end, has, ok, same, weir

TMP = pathlib.Path(os.environ.get('TEST_TMP', '/tmp'))
fake = Fake()
S = ['--server', fake.url]


def last():
    return fake.requests[-1]


# -- enqueue
task = dict(id=7, key=dict(queue='builds', name='a'), state='P', word='pending')
fake.can('POST', '/v1/tasks', 201, task)
done = weir('enqueue', *S, '-', stdin='{"name": "a", "command": "true"}')
ok(done.returncode == 0 and done.out == 'builds:7\n' and done.err == '', 'enqueue prints the key', done.out, done.err)
same(json.loads(last()[3]), {'name': 'a', 'command': 'true'}, 'a task is sent as it is')
same(json.loads(weir('enqueue', *S, '--json', '-', stdin='{"name": "a"}').out), task, 'enqueue --json of one task is the task')
weir('enqueue', *S, '--queue', 'q', '--name', 'n', '--priority', '5', '--idempotency-key', 'k1', '-', stdin='{"name": "a", "queue": "mine"}')
same(json.loads(last()[3]), {'name': 'n', 'queue': 'mine', 'priority': 5}, '--queue is a default, --name replaces')
same(last()[2].get('Idempotency-Key'), 'k1', '--idempotency-key is sent as a header')
weir('enqueue', *S, '--queue', 'q', '--command', '--', 'echo', '-n', 'a b')
same(json.loads(last()[3]), {'name': 'echo', 'command': ['echo', '-n', 'a b'], 'queue': 'q'}, '--command makes a task of the operands')
fake.can('POST', '/v1/tasks', 200, dict(task, unique='u', existing=True))
done = weir('enqueue', *S, '-', stdin='{"name": "a", "unique": "u"}')
ok(done.returncode == 0 and done.out == 'builds:7\n' and 'builds:7 was there already' in done.err, 'enqueue says that nothing was made', done.out, done.err)
same(weir('enqueue', *S, '-q', '-', stdin='{"name": "a", "unique": "u"}').err, '', '-q: not a word')
fake.can('POST', '/v1/tasks', 201, dict(tasks=[task, dict(task, id=8)]))
(TMP / 'two.json').write_text('[{"name": "a"}, {"name": "b", "depends": ["a"]}]')
done = weir('enqueue', *S, str(TMP / 'two.json'))
same(done.out, 'builds:7\nbuilds:8\n', 'a list of tasks: keys in order')
same(json.loads(last()[3]), {'tasks': [{'name': 'a'}, {'name': 'b', 'depends': ['a']}]}, 'a plain list is wrapped')
same([t['id'] for t in json.loads(weir('enqueue', *S, '--json', '-', stdin='{"tasks": [{"name": "a"}]}').out)], [7, 8], 'enqueue --json of many is an array')
for text, code, wanted in [('{"name": ', 65, 'stdin'), ('7', 65, 'JSON object'), ('', 65, 'stdin'), ('{"a":1,"a":2}', 65, 'stdin')]:
    n = len(fake.requests)
    done = weir('enqueue', *S, '-', stdin=text)
    ok(done.returncode == code and wanted in done.err and len(fake.requests) == n, f'enqueue of {text!r} is refused here', done.returncode, done.err)
done = weir('enqueue', *S, '--queue', b'q\xff', '-', stdin='{}')
ok(done.returncode == 65 and '--queue' in done.err, 'an option that is not UTF-8: 65', done.returncode, done.err)
done = weir('enqueue', *S, '/nonexistent/f')
ok(done.returncode == 66 and '/nonexistent/f' in done.err, 'a file that is not there: 66', done.returncode, done.err)
ok(weir('enqueue', *S, '--name', 'x', str(TMP / 'two.json')).returncode == 2, '--name with two tasks: 2')

# -- refusals: every code has its exit, errors[] one a line
fake.problem('POST', '/v1/tasks', 422, 'invalid', 'the document is refused', errors=[
    dict(path='/tasks/1/dependz', message='unknown field', suggestion="did you mean 'depends'?"), dict(path='/tasks/0/name', line=3, column=9, message='must be a string')])
done = weir('enqueue', *S, '-', stdin='{}')
ok(done.returncode == 65 and done.out == '', '422: exit 65', done.returncode, done.out)
has(done.err, "/tasks/1/dependz: unknown field; did you mean 'depends'?\n", 'errors[]: path, message and suggestion')
has(done.err, '/tasks/0/name: 3:9: must be a string\n', 'errors[]: line and column')
for status, code, exit_code, hint in [
    (401, 'unauthorized', 77, 'weir token create'), (403, 'forbidden', 77, 'scope'), (404, 'not_found', 66, ''), (409, 'already_ended', 1, ''),
    (409, 'order_passed', 1, '--force --reason'), (413, 'body_too_large', 65, ''), (422, 'cycle', 65, ''), (422, 'idempotency_mismatch', 65, ''),
    (429, 'too_many', 75, ''), (500, 'internal', 1, ''), (503, 'outcome_unknown', 75, 'idempotency-key'), (507, 'disk_full', 75, 'room'),
    (418, 'unheard_of', 1, ''), (503, 'unheard_of', 75, '')]:
    fake.problem('POST', '/v1/tasks/7/cancel', status, code, 'words of the server')
    done = weir('cancel', *S, '7', '--reason', 'r')
    ok(done.returncode == exit_code and 'words of the server' in done.err and hint in done.err, f'{status} {code}: exit {exit_code}', done.returncode, done.err)
fake.can('POST', '/v1/tasks/7/cancel', 502, b'<html>bad gateway</html>', 'text/html')
ok(weir('cancel', *S, '7', '--reason', 'r').returncode == 69, 'a proxy without a server behind it: 69')
fake.can('POST', '/v1/tasks/7/cancel', 200, b'not json')
ok(weir('cancel', *S, '7', '--reason', 'r').returncode == 1, 'an answer that is no JSON: 1')

# -- acting on tasks
fake.can('POST', '/v1/tasks/builds%3A7/cancel', 200, dict(task, state='T', word='terminated', reason='wrong'))
done = weir('cancel', *S, 'builds:7', '--reason', 'wrong')
same(done.out, 'builds:7  T terminated  wrong\n', 'cancel: key percent-encoded, new state printed')
same(json.loads(last()[3]), {'reason': 'wrong'}, 'cancel sends the reason')
fake.can('POST', '/v1/tasks/7/retry', 200, task)
weir('retry', *S, '7', '--force', '--reason', 'r')
same(json.loads(last()[3]), {'force': True, 'reason': 'r'}, 'retry --force sends both')
weir('retry', *S, '7')
same(json.loads(last()[3]), {}, 'retry alone sends nothing')
fake.problem('POST', '/v1/tasks/9/retry', 404, 'not_found', 'there is no task 9')
done = weir('retry', *S, '9', '7')
ok(done.returncode == 66 and 'builds:7' in done.out, 'of several keys the others are still done; the exit code tells', done.returncode, done.out)
fake.can('POST', '/v1/tasks/7/promote', 200, task)
same(json.loads(weir('promote', *S, '--json', '7').out), task, 'promote --json: the task')
fake.can('POST', '/v1/lanes/builds/pause', 200, dict(name='builds', paused=dict(reason='x')))
done = weir('pause', *S, 'builds', '--reason', 'x')
ok(done.out == 'builds is paused\n' and json.loads(last()[3]) == {'reason': 'x'}, 'pause', done.out, done.err)
fake.can('POST', '/v1/lanes/all/resume', 200, dict(name='all'))
same(weir('resume', *S, 'all').out, 'all is open\n', 'resume all')

# -- reading
first = fake.add('compile', 'D', queue='builds')
second = fake.add('pdf', 'F', queue='builds', reason='exit 3')
third = fake.add('evil\x1b[2J\nname', 'X', queue='other')
same([t['id'] for t in json.loads(weir('list', *S, '--json').out)], [3, 2, 1], 'list --json: an array, newest first')
weir('list', *S, '--state', 'df', '--queue', 'builds', '--task', 'pdf', '--limit', '5')
same(last()[1], '/v1/tasks?limit=5&state=DF&queue=builds&name=pdf', 'the filters go to the server')
same([t['id'] for t in json.loads(weir('list', *S, '--json', '--limit', '2').out)], [3, 2], '--limit')
done = weir('list', *S, '--limit', '2')
same(done.out.splitlines()[2].split()[:4], ['F', 'failed', 'builds:2', 'pdf'], 'list for people')
has(done.err, 'there are more', 'and says that there are more')
ok('\x1b' not in weir('list', *S).out, 'no escape of a name gets out')
same(json.loads(weir('show', *S, '--json', 'builds:2').out)['id'], 2, 'show --json is the task')
done = weir('show', *S, '2')
ok(done.returncode == 0 and 'F failed' in done.out and 'exit 3' in done.out, 'show for people', done.out)
done = weir('show', *S, '99')
ok(done.returncode == 66 and 'there is no task 99' in done.err, 'show of nothing: 66', done.returncode, done.err)
why = dict(id=3, key='other:3', state='S', verdict='never', conditions=[
    dict(kind='executor', detail='no executor has gpu=1', since='2026-11-15T06:00:00.000Z', remedy='start one with --label gpu=1'),
    dict(kind='dependency', detail='waits for builds:1', holder='builds:1', since=None)])
fake.can('GET', '/v1/tasks/3/why', 200, why)
same(json.loads(weir('why', *S, '--json', '3').out), why, 'why --json')
done = weir('why', *S, '3')
ok(all(part in done.out for part in ('can never run', 'executor: no executor has gpu=1', 'remedy   start one', 'held by  builds:1', 'since    2026-11-15')), 'why for people', done.out)
lanes = json.loads(weir('status', *S, '--json').out)
same([lane['name'] for lane in lanes], ['builds', 'other'], 'status --json: an array of lanes')
same(json.loads(weir('status', *S, '--json', 'other').out)['counts']['X'], 1, 'status of one')
ok(weir('status', *S, 'nothing').returncode == 66, 'status of an unknown name: 66')
has(weir('status', *S, 'other').out, 'other:3', 'status of a queue shows its tasks')
fake.can('GET', '/v1/stats', 200, dict(processed=9, failed=1, terminated=5, queued=2, working=3, queues=[dict(name='builds', queued=2)], executors=dict(e1=dict(processed=9))))
done = weir('stats', *S)
ok(all(part in done.out for part in ('PROCESSED', 'builds', 'e1')) and done.out.split('\n')[1].split()[:4] == ['all', '9', '1', '5'], 'stats', done.out)
same(json.loads(weir('stats', *S, '--json').out)['processed'], 9, 'stats --json')
fake.can('GET', '/v1/nodes', 200, dict(nodes=[dict(name='n1', role='server', version='1', host='h', load=0.5, state='active'), dict(name='e1', role='executor', slots=4, running=1, state='lost')], next=None))
done = weir('nodes', *S)
ok('n1' in done.out and '1/4' in done.out and 'lost' in done.out, 'nodes', done.out)
same(len(json.loads(weir('nodes', *S, '--json').out)), 2, 'nodes --json: an array')
fake.can('GET', '/v1/semaphores', 200, dict(semaphores=[dict(name='pdf', limit=2, used=2, waiting=1, holders=['builds:1', 'builds:2'])], next=None))
has(weir('semaphores', *S).out, 'builds:1 builds:2', 'semaphores name their holders')
has(weir('history', *S).out, 'builds:2', 'history lists what has ended')
same(sorted(t['state'] for t in json.loads(weir('history', *S, '--json').out)), ['D', 'F'], 'history --json')

# -- tokens
fake.can('POST', '/v1/tokens', 201, dict(token='weir_abc', name='ci', scopes=['read', 'enqueue'], expires=None))
done = weir('token', 'create', *S, '--name', 'ci', '--scope', 'read', '--scope', 'enqueue', '--expires', '90d')
same(done.out, 'weir_abc\n', 'token create prints the token alone')
same(json.loads(last()[3]), dict(name='ci', scopes=['read', 'enqueue'], expires='90d'), 'token create sends name, scopes, expiry')
weir('token', 'create', *S, '--name', 'ci', '--scope', 'read,enqueue', 'admin')
same(json.loads(last()[3])['scopes'], ['read', 'enqueue', 'admin'], 'scopes by comma and as words')
same(json.loads(weir('token', 'create', *S, '--json', '--name', 'ci', '--scope', 'read').out)['token'], 'weir_abc', 'token create --json')
fake.can('GET', '/v1/tokens', 200, dict(tokens=[dict(name='ci', scopes=['read'], tenant='default', created='2026-11-15T06:00:00.000Z', expires=None)], next=None))
ok(all(part in weir('token', 'list', *S).out for part in ('ci', 'read', 'never')), 'token list')
fake.can('DELETE', '/v1/tokens/ci', 200, dict(name='ci'))
ok(weir('token', 'revoke', *S, 'ci').returncode == 0 and last()[0] == 'DELETE', 'token revoke')
same(weir(*S, 'token', 'list').returncode, 0, 'common options before a command with parts')
(TMP / 'token').write_text('secret-1\nsecond line\n')
weir('list', *S, '--token-file', str(TMP / 'token'))
same(last()[2].get('Authorization'), 'Bearer secret-1', '--token-file: the first line')
weir('list', *S, env=clean_env(WEIR_TOKEN='secret-2'))
same(last()[2].get('Authorization'), 'Bearer secret-2', 'WEIR_TOKEN')
weir('list', *S, env=clean_env(WEIR_TOKEN='secret-2', WEIR_TOKEN_FILE=str(TMP / 'token')))
same(last()[2].get('Authorization'), 'Bearer secret-1', 'WEIR_TOKEN_FILE wins over WEIR_TOKEN')

# -- verify and backup
report = dict(ok=True, turns=3, events=9, head=dict(seq=9, hash='ab' * 32))
fake.can('GET', '/v1/verify', 200, report)
done = weir('verify', *S)
ok(done.returncode == 0 and '9:' + 'ab' * 32 in done.out, 'verify', done.out)
fake.can('GET', '/v1/verify', 200, dict(report, ok=False, fault='turn 2 was changed'))
done = weir('verify', *S)
ok(done.returncode == 1 and 'turn 2 was changed' in done.err, 'verify of a changed history: 1, and where', done.err)
ok(weir('verify', *S, '--json').returncode == 1, 'verify --json: the same exit code')
fake.can('POST', '/v1/backup', 200, dict(file='/x/b.db'))
weir('backup', *S, 'b.db')
same(json.loads(last()[3])['file'], os.getcwd() + '/b.db', 'backup: a relative name is taken from here')

# -- text on a terminal: no escapes of others, colours of ours
term = Terminal('list', *S)
term.exit()
ok('\x1b[2J' not in term.text and '\x1b[31m' in term.text, 'a name can\'t clear the screen; states are coloured', repr(term.text))
term = Terminal('list', *S, '--no-color')
term.exit()
ok('\x1b' not in term.text, '--no-color', repr(term.text))
term = Terminal('list', *S, env=clean_env(NO_COLOR='1'))
term.exit()
ok('\x1b' not in term.text, 'NO_COLOR', repr(term.text))
fake.tasks[third]['key']['name'] = 'c1\u009b31m'
term = Terminal('list', *S, '--json')
term.exit()
ok('\u009b' not in term.text and '\\u009B' in term.text, 'JSON on a terminal is ASCII', repr(term.text))
log = b'plain \x1b[31mred\x1b[0m \x1b]0;title\x07 \x1b[2J\x9b \xc2\x9b5A end \xc3\xa9\n'
fake.log_add(first, log, end=True)
same(weir('log', *S, '1').stdout, log, 'a log is byte-exact when stdout is no terminal')
same(weir('log', *S, '--tail', '8B', '1').stdout, log[-8:], 'log --tail')
term = Terminal('log', *S, '1')
term.exit()
ok('plain \x1b[31mred\x1b[0m' in term.text and 'end \xe9' in term.text, 'on a terminal colours pass', repr(term.text))
ok(all(bad not in term.text for bad in ('title', '\x1b[2J', '\u009b', '\x1b]')), 'and nothing else does', repr(term.text))
ok(weir('log', *S, '99').returncode == 66, 'log of nothing: 66')
done = weir('log', *S, '--json', '99')
ok(done.returncode == 66 and done.out == '' and 'there is no task 99' in done.err, 'log --json of nothing: 66', done.returncode, done.out, done.err)
same(json.loads(weir('log', *S, '--json', '1').out), dict(task=1, key='builds:1', attempt=None, bytes=len(log), log=log.decode(errors='replace')), 'log --json: one document, U+FFFD for what is not UTF-8')
fake.tasks[first]['attempts'] = [dict(number=1), dict(number=2)]
fake.log_add(first, b'\0"\n', end=True)
document = json.loads(weir('log', *S, '--json', '--tail', '3B', '1').out)
same((document['attempt'], document['bytes'], document['log']), (2, 3, '\0"\n'), 'log --json: the last attempt is named; --tail')
has(last()[1], 'attempt=2', 'and asked for')
same(json.loads(weir('log', *S, '--json', '--attempt', '1', '1').out)['attempt'], 1, 'log --json --attempt')
fake.close()
end()
