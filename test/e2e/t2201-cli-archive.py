#!/usr/bin/env python3
"""The commands around archives against the real server: archive add|list|show|remove|skip, run, status, list, show, graph, wait, why, history, plan."""
import json
import os
import pathlib
import sys

sys.path.insert(0, os.environ.get('WEIR_TEST_LIB') or str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import House, end, ok, run, same, until

s = House('data', slots=2)
WF = [dict(name='build', script='echo "built $WEIR_REV"', checkout=False, depends=['PREV']), dict(name='test', command='true', checkout=False, depends=['build'], after=['PREV']),
      dict(name='release', detached=True, script='echo "release $WEIR_PARAM_VERSION"', checkout=False)]


def w(*args, **more):
    return s.cli(*args, **more)


def j(*args):
    done = w(*args, '--json')
    return json.loads(done.out) if done.out else done.err


def part(*args):
    """archive add and its like: the part's name stands first"""
    return run('archive', args[0], '--server', s.socket, *args[1:])


def post(rev, archive='docs', **more):
    return s.post(f'/v1/archives/{archive}/revisions', dict(rev=rev, **more))


def gives(done, code, *texts):
    both = done.out + done.err
    return done.code == code and all(t in both for t in texts)


# -- add
done = part('add', 'docs', '--external')
ok(gives(done, 0, 'docs: external, next revision 1') and done.err == '', 'archive add', done.out, done.err)
same(part('add', 'docs', '--external').code, 0, 'again: 0')
same(json.loads(part('add', 'late', '--external', '--from', '5', '--json').out)['next'], 5, '--from, --json')
for args, code, text in [(('add',), 2, 'NAME'), (('add', 'x'), 2, '--svn, --git and --external'), (('add', 'x', '--external', '--svn', '/x'), 2, '--external'),
                         (('add', 'x', '--external', '--branch', 'b'), 2, '--git'), (('add', 'x', '--external', '--from', '0'), 2, '--from'), (('add', 'all', '--external'), 65, 'reserved'),
                         (('add', 'a b', '--external'), 65, 'name'), (('add', 'x', '--svn', 'not/there'), 66, 'not/there'), (('add', 'docs', '--external', '--from', 'x'), 2, '--from'),
                         (('add', 'x', '--externl'), 2, '--external'), (('destroy', 'x'), 2, 'remove'), ((), 2, 'add')]:
    done = part(*args) if args else run('archive')
    ok(done.code == code and text in done.err and done.out == '', f'archive {" ".join(args)}: {code}', done.code, done.err)
ok(gives(run('archive', '--help'), 0, 'archive add', 'skip'), 'archive --help')
ok(gives(run('archive', 'add', '--help'), 0, '--no-hook', '--from', '--branch'), 'archive add --help')
s.enqueue(dict(name='t', queue='builds'))
done = part('add', 'builds', '--external')
ok(done.code == 1 and 'builds' in done.err, "a queue's name: 1", done.err)

# -- revisions, and what shows them
post(1, author='Ann', message='first\n\nmore', workflow=WF)
done = w('wait', 'docs@1', '--timeout', '60s')
ok(gives(done, 0, 'docs@1:test', 'docs@1:COMMIT') and done.out.count('D done') == 3, 'wait ARCHIVE@REV', done.out, done.err)
post(2, author='Bob', message='second', workflow=WF)
same(w('wait', 'docs', '--timeout', '60s').code, 0, 'wait ARCHIVE')
same(w('wait', 'docs@9').code, 66, 'wait of a revision that is not known: 66')
same(w('wait', 'nothing').code, 66, 'of no archive: 66')
post(4, author='Ann', message='fourth', workflow=WF)
ok(gives(w('wait', 'docs', '--timeout', '300ms'), 75, 'docs'), 'behind a gap: 75')
ok(gives(part('list'), 0, 'NAME', 'docs', 'waits for revision 3', 'external'), 'archive list', part('list').out)
same([a['name'] for a in json.loads(part('list', '--json').out)], ['late', 'docs'], 'archive list --json: newest first')
done = part('show', 'docs')
ok(gives(done, 0, 'next       3', 'youngest   4', 'waits for revision 3', 'Ann', 'second'), 'archive show', done.out)
same(json.loads(part('show', 'docs', '--json').out)['missing'], 3, 'archive show --json')
same(part('show', 'nothing').code, 66, 'archive show of none: 66')
ok(gives(w('status', 'docs'), 0, 'revision 3 is missing', 'Bob', 'docs@4:build', 'Q queued'), 'status ARCHIVE', w('status', 'docs').out)
ok(gives(w('status', 'docs@2'), 0, 'Bob', 'second', 'docs@2:build', 'D done'), 'status ARCHIVE@REV')
ok(gives(w('status'), 0, 'docs', 'archive', 'builds', 'queue'), 'status')
same(w('status', 'docs@77').code, 66, 'status of no revision: 66')
ok(gives(w('why', 'docs@4:build'), 0, 'gap', 'revision 3', 'weir archive skip docs 3'), 'why', w('why', 'docs@4:build').out)
done = w('show', 'docs@1')
ok(gives(done, 0, 'author     Ann', 'message    first', 'workflow.json', 'built $WEIR_REV', 'docs@1:test') and 'docs@1:release' not in done.out, 'show ARCHIVE@REV: who, the definition, its tasks', done.out)
same((j('show', 'docs@1')['author'], json.loads(j('show', 'docs@1')['definition'][0]['text'])), ('Ann', WF), 'show ARCHIVE@REV --json')
ok(gives(w('show', 'docs@1:build'), 0, 'docs@1:build', 'D done', 'COMMIT'), 'show KEY')
same(w('log', 'docs@2:build').out, 'built 2\n', 'log KEY')
ok(gives(w('list', '--archive', 'docs', '--task', 'build'), 0, 'docs@1:build', 'docs@2:build', 'docs@4:build'), 'list --archive --task')
same([t['key']['name'] for t in j('list', '--archive', 'docs', '--rev', '2')], ['test', 'build', 'COMMIT'], 'list --rev')
same(w('list', '--rev', 'x').code, 2, 'list --rev x: 2')
ok(gives(w('graph', 'docs@2'), 0, 'build', '1:COMMIT'), 'graph ARCHIVE@REV', w('graph', 'docs@2').out)
edges = {(e['from'], e['kind'], e['to']) for e in j('graph', 'docs@2')['edges']}
ok(('docs@2:test', 'after', 'docs@1:test') in edges and ('docs@2:build', 'after', 'docs@1:build') in edges, 'graph --json', edges)

# -- skip
for args, code in [(('docs', '3'), 2), (('docs', 'x', '--reason', 'r'), 2), (('docs', '1', '--reason', 'r'), 1), (('none', '3', '--reason', 'r'), 66), (('docs',), 2)]:
    same(part('skip', *args).code, code, f'archive skip {" ".join(args)}: {code}')
ok(gives(part('skip', 'docs', '3', '--reason', 'lost'), 0, 'docs@3 is skipped'), 'archive skip')
same(w('wait', 'docs@4', '--timeout', '60s').code, 0, 'what is behind it runs')
ok(gives(w('status', 'docs'), 0, 'skipped', 'lost'), 'status shows it')

# -- run
done = w('run', 'docs', 'release', '--param', 'version=1.4', '--reason', 'asked for')
same((done.code, done.out), (0, 'docs@4:release\n'), 'run prints the key')
same(w('wait', 'docs@4:release', '--timeout', '60s').code, 0, 'and it is waited for')
same(w('log', 'docs@4:release').out, 'release 1.4\n', 'with its parameter')
same(w('run', 'docs', 'release', '--rev', '1').out, 'docs@1:release\n', '--rev')
same(j('run', 'docs', 'release')['key'], dict(archive='docs', rev=4, name='release', run=2), '--json, #2')
same(w('wait', 'docs@4:release#2', '--timeout', '60s').code, 0, 'a key with #2 works')
for how in ('ascii', 'dot', 'svg'):
    ok('release#2' in w('graph', 'docs@4', '--format', how).out, f'graph --format {how} tells the second run from the first', w('graph', 'docs@4', '--format', how).out)
done = w('retry', 'docs@4:release')
ok(done.code != 0 and 'is done' in done.err and '`weir retry' not in done.err, 'retry of what is done: refused, without advice to retry it', done.err)
same([w('list', '--archive', name, '--state', 'T').code for name in ('docs', 'nosuch')], [0, 66], 'list --archive of one that has nothing, and of one that is not there')
done = w('plan', 'docs@4', 'docs@4')
ok(done.code == 0 and done.out == '' and 'no difference' in done.err, 'plan of the same twice says that nothing differs', done.err)
for args, code, text in [(('docs',), 2, ''), (('docs', 'nothing'), 66, 'nothing'), (('none', 'release'), 66, 'none'), (('docs', 'release', '--rev', '9'), 66, '9'), (('docs', 'release', '--param', 'x'), 2, 'NAME=VALUE'),
                         (('docs', 'release', '--param', '=x'), 2, 'NAME=VALUE'), (('docs', 'release', '--param', 'a b=x'), 65, 'params'), (('docs', 'release', '--rev', '0'), 2, '--rev'), (('docs', 'a b'), 65, 'task')]:
    done = w('run', *args)
    ok(done.code == code and text in done.err and done.out == '', f'run {" ".join(args)}: {code}', done.code, done.err)
same(w('run', 'docs', 'release', '--param', b'v=\xff').code, 65, 'bytes that are not UTF-8: 65')
first = w('run', 'docs', 'release', '--idempotency-key', 'k')
same(w('run', 'docs', 'release', '--idempotency-key', 'k').out, first.out, '--idempotency-key: the same run')

# -- history
same(w('wait', 'docs', 'builds', '--timeout', '60s').code, 0, 'all is done')
done = w('history', '--archive', 'docs', '--limit', '0')
ok(gives(done, 0, 'AUTHOR', 'MESSAGE', 'Ann', 'second', 'docs@2:test'), 'history: revisions, authors, messages', done.out)
same({t['key']['rev'] for t in j('history', '--archive', 'docs', '--author', 'Bob')}, {2}, '--author')
same({t['key']['rev'] for t in j('history', '--archive', 'docs', '--author', 'Ann')}, {1, 4}, 'and another')
same(j('history', '--author', 'Eve'), [], 'nobody')
same({t['key']['rev'] for t in j('history', '--archive', 'docs', '--rev', '1..2')}, {1, 2}, '--rev N..M')
same({t['key']['rev'] for t in j('history', '--archive', 'docs', '--rev', '2')}, {2}, '--rev N')
same({t['key']['name'] for t in j('history', '--archive', 'docs', '--task', 'test')}, {'test'}, '--task')
same(j('history', '--archive', 'docs', '--state', 'F'), [], '--state')
same(len(j('history', '--archive', 'docs', '--limit', '3')), 3, '--limit')
same({t['revision']['message'] for t in j('history', '--archive', 'docs', '--rev', '1')}, {'first\n\nmore'}, 'the JSON has the revision in it')
all_of = j('history', '--archive', 'docs', '--limit', '0')
same(len(j('history', '--archive', 'docs', '--limit', '0', '--since', '1h')), len(all_of), '--since 1h')
middle = sorted(t['created'] for t in all_of)[len(all_of) // 2]
recent, old = j('history', '--archive', 'docs', '--limit', '0', '--since', middle), j('history', '--archive', 'docs', '--limit', '0', '--until', middle)
ok(recent and old and len(recent) + len(old) == len(all_of) and all(t['created'] >= middle for t in recent) and all(t['created'] < middle for t in old), '--since and --until', len(recent), len(old), len(all_of))
for args in (('--rev', 'x'), ('--rev', '2..1'), ('--rev', '0'), ('--since', 'yesterday'), ('--until', '7'), ('--state', 'Z')):
    same(w('history', *args).code, 2, f'history {" ".join(args)}: 2')
ok(gives(w('history', 'docs@2:build'), 0, 'X>D'), 'history KEY')
ok(gives(w('history'), 0, 'builds:', 'docs@'), 'history of everything')

# -- plan of what is known, and the difference of two revisions
post(5, author='Ann', message='changed', workflow=WF[:1] + [dict(name='lint', command='true', depends=['build'])])
done = w('plan', 'docs@2', 'docs@5')
ok(done.code == 0 and '- task docs@5:test' in done.out and '+ task docs@5:lint' in done.out and 'build' not in [line.split(':')[-1] for line in done.out.splitlines() if ' task ' in line], 'plan A@R1 A@R2: the difference', done.out, done.err)
diff = json.loads(w('plan', 'docs@2', 'docs@5', '--json').out)
same(([t['name'] for t in diff['removed']['tasks']], [t['name'] for t in diff['added']['tasks']]), (['test'], ['lint']), 'as JSON')
plan, known = json.loads(w('plan', 'docs@5', '--json').out), j('graph', 'docs@5')
same(sorted((e['from'], e['kind'], e['to']) for e in plan['edges']), sorted((e['from'], e['kind'], e['to']) for e in known['edges']), 'plan A@R: what the server has made of it')
for args, code in [(('docs@77',), 66), (('none@1',), 66), (('docs@2', 'docs@77'), 66), (('docs@2', '.'), 2), (('docs@2', 'docs@5', '--before', '.'), 2), (('docs@x',), 2)]:
    same(w('plan', *args).code, code, f'plan {" ".join(args)}: {code}')

# -- remove
done = part('remove', 'docs', '--reason', 'moved')
ok(gives(done, 0, 'docs is removed'), 'archive remove', done.err)
same(part('remove', 'docs').code, 66, 'again: 66')
same([a['name'] for a in json.loads(part('list', '--json').out)], ['late'], 'it is gone')
ok(until(lambda: 'docs' not in [lane['name'] for lane in j('status')]), 'and out of status, as soon as its tasks have ended', j('status'))
ok(gives(w('history', '--archive', 'docs'), 0, 'Bob'), 'its history stays')
ok(gives(w('show', 'docs@2'), 0, 'Bob'), 'its revisions too')
same(json.loads(part('add', 'docs', '--external', '--json').out)['next'], 6, 'added again: the numbers go on')

# -- a repository's server isn't there, or our own
done = part('add', 'away', '--svn', 'svn://127.0.0.1:1/x')
ok(done.code == 69 and 'check the address' in done.err and 'weir serve' not in done.err, 'no server of the repository: it is named, not ours', done.err)
done = run('archive', 'list', '--server', 'http://127.0.0.1:1')
ok(done.code == 69 and 'no server answers at http://127.0.0.1:1: ' in done.err and 'weir serve' in done.err, 'no server: 69, and how to start one', done.err)
end()
