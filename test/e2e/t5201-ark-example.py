#!/usr/bin/env python3
"""The Ark document's worked example, as it stands there: its workflow, revision 3 told before revision 2, its DAG edge for edge, its events in its order."""
import json
import os
import pathlib
import re
import sys

sys.path.insert(0, os.environ.get('WEIR_TEST_LIB') or str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import TMP, House, Worker, end, ok, run, same, until

# from the document, to the letter
WORKFLOW = """\
- name: indexing
  depends:
    - PREV
    # * PREV = this task in the previous revision.
    # * PREV:task-name = the named task in the previous revision
- name: build-PDF
  depends:
    - indexing
  cancels:
    - PREV
"""
DAG = """\
rev-1:committed <-- rev-2:committed  // added implicitly with rev-2
rev-2:committed <-- rev-2:indexing   // added implicitly with rev-2
rev-2:indexing  <-- rev-2:build-PDF
rev-2:committed <-- rev-3:committed  // added implicitly with rev-3
rev-3:committed <-- rev-3:indexing   // added implicitly with rev-3
rev-2:indexing  <-- rev-3:indexing
rev-2:build-PDF <!= rev-3:build-PDF
rev-3:indexing  <-- rev-3:build-PDF
"""
SEQUENCE = """\
* manager is notified `rev-3:committed` (post-commit hook)
* manager adds workflow entries for `rev-3` to the queue
* manager is notified `rev-2:committed` (post-commit hook)
* manager adds workflow entries for `rev-2` to the queue
* manager logs `rev-2:committed` completed
* manager logs `rev-3:committed` completed
* manager triggers `rev-2:indexing` worker
* manager is notified `rev-2:indexing` completed
* manager triggers `rev-2:build-PDF` worker
* manager triggers `rev-3:indexing` worker
* manager is notified `rev-3:indexing` completed
* manager cancels `rev-2:build-PDF` worker
* manager triggers `rev-3:build-PDF` worker
* manager is notified `rev-3:build-PDF` completed
"""


def drawn(text):
    """the document's lines as {(waiter or canceller, sign, other)}"""
    found = set()
    for other, sign, own in re.findall(r'^(\S+)\s+(<--|<!=)\s+(\S+)', text, re.M):
        found.add((own, sign, other))
    return found


def of_keys(edges):
    """edges of Weir in the document's words"""
    name = lambda key: re.sub(r'^docs@(\d+):(.*)$', lambda m: f'rev-{m[1]}:' + ('committed' if m[2] == 'COMMIT' else m[2]), key)
    return {(name(e['from']), '<!=' if e['kind'] == 'cancels' else '<--', name(e['to'])) for e in edges}


wanted = drawn(DAG)
same(len(wanted), 8, 'the document draws eight edges')

# -- weir plan, without a server
root = TMP / 'archive'
empty = TMP / 'before'
for folder, text in ((root, WORKFLOW), (empty, '[]\n')):
    (folder / '_workflows').mkdir(parents=True)
    (folder / '_workflows/main.yaml').write_text(text)
two = json.loads(run('plan', root, '--archive', 'docs', '--rev', 2, '--before', empty, '--json').out)
three = json.loads(run('plan', root, '--archive', 'docs', '--rev', 3, '--json').out)
same(of_keys(two['edges'] + three['edges']), wanted, 'weir plan: edge for edge')
done = run('plan', root, '--archive', 'docs', '--rev', 3)
ok(done.code == 0 and re.search(r'docs@2:build-PDF\s+<!= docs@3:build-PDF', done.out) and re.search(r'docs@2:indexing\s+<-- docs@3:indexing', done.out), 'and as the document writes them', done.out)

# -- the queue itself. The document's tasks say nothing of what they run: a command is all that is added.
s = House('data', slots=0)
tasks = [dict(name='indexing', depends=['PREV'], command='index'), dict(name='build-PDF', depends=['indexing'], cancels=['PREV'], command='make pdf')]
s.post('/v1/archives', dict(name='docs', kind='external'))
s.post('/v1/archives/docs/revisions', dict(rev=1))
w = Worker(s, 'w')
since = s.events()[-1]['seq']


def claim(*keys):
    """what the next poll is given"""
    grants = w.claim(len(keys))
    ids = {s.task(key)['id']: key for key in keys}
    same(sorted(g['task'] for g in grants), sorted(ids), f'{" and ".join(keys)}: triggered')
    return {ids[g['task']]: g for g in grants if g['task'] in ids}


same(s.post('/v1/archives/docs/revisions', dict(rev=3, workflow=tasks)).status, 202, 'rev 3 is told first')
same(w.claim(5, wait_ms=0), [], 'nothing of it runs')
same(s.post('/v1/archives/docs/revisions', dict(rev=2, workflow=tasks)).status, 202, 'then rev 2')
first = claim('docs@2:indexing')
same(w.claim(5, wait_ms=0), [], 'and nothing else meanwhile')
w.finish(first['docs@2:indexing'])
both = claim('docs@2:build-PDF', 'docs@3:indexing')
build = both['docs@2:build-PDF']
w.finish(both['docs@3:indexing'])
cancels = until(lambda: w.poll(0, 500, renew=[dict(task=build['task'], fence=build['fence'])])['cancels'], 'the executor is told to end the build of rev 2')
same([(c['task'], c['signal']) for c in cancels], [(build['task'], 'HUP')], 'it is abandoned')
same(s.state('docs@3:build-PDF'), 'S', 'that of rev 3 starts once it is really dead')
w.finish(build, signal=1)
last = claim('docs@3:build-PDF')
w.finish(last['docs@3:build-PDF'])
same({k: s.state(k) for k in ('docs@2:indexing', 'docs@2:build-PDF', 'docs@3:indexing', 'docs@3:build-PDF')},
     {'docs@2:indexing': 'D', 'docs@2:build-PDF': 'A', 'docs@3:indexing': 'D', 'docs@3:build-PDF': 'D'}, 'the ends')
ok('docs@3:build-PDF' in s.task('docs@2:build-PDF').get('cause', ''), 'who superseded it is named', s.task('docs@2:build-PDF'))

# -- the events, in the document's words and order
told, seen = [], set()
for event in s.events(f'since={since}'):
    rev, _, name = event.get('key', '').partition('@')[2].partition(':')
    who = f'rev-{rev}:' + ('committed' if name == 'COMMIT' else name)
    kind, to = event['kind'], event.get('to')
    if kind == 'revision':
        told.append(f'* manager is notified `rev-{event["subject"].partition("@")[2]}:committed` (post-commit hook)')
    elif kind == 'created' and rev not in seen:
        seen.add(rev)
        told.append(f'* manager adds workflow entries for `rev-{rev}` to the queue')
    elif kind == 'move' and to == 'D' and name == 'COMMIT':
        told.append(f'* manager logs `{who}` completed')
    elif kind == 'move' and to == 'X':
        told.append(f'* manager triggers `{who}` worker')
    elif kind == 'move' and to == 'D':
        told.append(f'* manager is notified `{who}` completed')
    elif kind == 'ending':
        told.append(f'* manager cancels `{who}` worker')
same(told, SEQUENCE.splitlines(), "the events, in the document's order")

# -- weir graph
graphs = [json.loads(s.cli('graph', f'docs@{n}', '--format', 'json').out) for n in (2, 3)]
same(of_keys(graphs[0]['edges'] + graphs[1]['edges']), wanted, 'weir graph: edge for edge')
dot = s.cli('graph', 'docs@3', '--format', 'dot').out
ok(dot.count('->') == 5 and 'docs@2:build-PDF' in dot, 'with the tasks of the revision before', dot)
ok('3:build-PDF' in s.cli('graph', 'docs@3', '--width', '0').out or 'build-PDF' in s.cli('graph', 'docs@3', '--width', '0').out, 'drawn')
done = s.cli('plan', 'docs@3', '--json')
same(of_keys(json.loads(done.out)['edges']), {e for e in wanted if e[0].startswith('rev-3')}, "weir plan of what the server has: the same edges")

# -- a long build of an earlier revision: indexing isn't held up by it, a task that wants the archive for itself is
s.post('/v1/archives', dict(name='book', kind='external'))
pages = [dict(name='indexing', depends=['PREV'], command='index'), dict(name='build-PDF', depends=['indexing'], lock='shared', command='make pdf')]
s.post('/v1/archives/book/revisions', dict(rev=1, workflow=pages))
w.finish(claim('book@1:indexing')['book@1:indexing'])
long = claim('book@1:build-PDF')['book@1:build-PDF']
s.post('/v1/archives/book/revisions', dict(rev=2, workflow=[pages[0], dict(name='reorder', lock='exclusive', command='reorder')]))
w.finish(claim('book@2:indexing')['book@2:indexing'])
same([s.state(k) for k in ('book@1:build-PDF', 'book@2:indexing', 'book@2:reorder')], ['X', 'D', 'S'], 'indexing went on beside the long build, the exclusive task waits')
why = s.get('/v1/tasks/book@2:reorder/why').json
ok([c for c in why['conditions'] if c['kind'] == 'lock' and 'book@1:build-PDF' in json.dumps(c)], 'and why names who has the lock', why)
w.finish(long)
w.finish(claim('book@2:reorder')['book@2:reorder'])
same(s.state('book@2:reorder'), 'D', 'then it runs')
end()
