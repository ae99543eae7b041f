#!/usr/bin/env python3
"""weir plan: the tasks and edges that a revision would get; the Ark document's DAG edge for edge. No server is needed."""
import json
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'test/unit/cli'))
from tap import end, has, ok, same, weir

TMP = pathlib.Path(os.environ.get('TEST_TMP', '/tmp')) / 'plan'


def put(name, text):
    path = TMP / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


def plan(*args):
    done = weir('plan', *args, '--json')
    if done.returncode:
        raise SystemExit(f'Bail out! {args}: {done.err}')
    return json.loads(done.out)


def edges(document):
    return {(e['from'], e['kind'], e['to']) for e in document['edges']}


put('ark/_workflows/w.yaml', '''- name: indexing
  depends:
    - PREV
- name: build-PDF
  depends:
    - indexing
  cancels:
    - PREV
''')
put('before/_workflows/w.yaml', '[]\n')
ark, before = str(TMP / 'ark'), str(TMP / 'before')

# -- the document: revision 2 is the first with the workflow, revision 3 has the same
two, three = plan(ark, '--archive', 'My-Project', '--rev', '2', '--before', before), plan(ark, '--archive', 'My-Project', '--rev', '3', '--prev', '2')
same(edges(two) | edges(three), {
    ('My-Project@2:COMMIT', 'after', 'My-Project@1:COMMIT'),
    ('My-Project@2:indexing', 'depends', 'My-Project@2:COMMIT'),
    ('My-Project@2:build-PDF', 'depends', 'My-Project@2:indexing'),
    ('My-Project@3:COMMIT', 'after', 'My-Project@2:COMMIT'),
    ('My-Project@3:indexing', 'depends', 'My-Project@3:COMMIT'),
    ('My-Project@3:indexing', 'after', 'My-Project@2:indexing'),
    ('My-Project@3:build-PDF', 'cancels', 'My-Project@2:build-PDF'),
    ('My-Project@3:build-PDF', 'depends', 'My-Project@3:indexing'),
}, 'the eight edges of the document, and no other')
same([t['key'] for t in three['tasks']], [{'archive': 'My-Project', 'rev': 3, 'name': n} for n in ('COMMIT', 'indexing', 'build-PDF')], 'its tasks')
same(weir('plan', ark, '--archive', 'My-Project', '--rev', '3').out, '''My-Project@3: 3 tasks, 5 edges
  COMMIT
  indexing
  build-PDF
edges (<-- waits for, <!= cancels)
  My-Project@2:COMMIT    <-- My-Project@3:COMMIT  (after)
  My-Project@3:COMMIT    <-- My-Project@3:indexing  (depends)
  My-Project@2:indexing  <-- My-Project@3:indexing  (after)
  My-Project@3:indexing  <-- My-Project@3:build-PDF  (depends)
  My-Project@2:build-PDF <!= My-Project@3:build-PDF  (cancels)
''', 'as text, in the arrows of the document')
same(edges(plan(ark, '--rev', '1')), {('archive@1:indexing', 'depends', 'archive@1:COMMIT'), ('archive@1:build-PDF', 'depends', 'archive@1:indexing')},
     'PREV of the first revision is satisfied')
same(edges(plan(ark, '--rev', '9', '--prev', '4')) & {('archive@9:COMMIT', 'after', 'archive@4:COMMIT')}, {('archive@9:COMMIT', 'after', 'archive@4:COMMIT')}, '--prev')

# -- what commits don't create, paths, locks
mixed = put('mixed.yaml', '''workflow: [B, C]
jobs:
  A: {detached: true}
  B: {detached: true}
  C:
  D: {paths: ["docs/**", "!docs/private/**"], cancels: PREV}
  E: {lock: exclusive}
  F: {schedule: "H 3 * * *"}
  G: {on: {message: go}}
''')
document = plan(mixed)
same([t['name'] for t in document['tasks']], ['COMMIT', 'D', 'E'], 'detached tasks, their chains and scheduled ones are left out')
same(document['omitted'], [{'name': 'A', 'why': 'detached'}, {'name': 'B', 'why': 'detached'}, {'name': 'C', 'why': 'chain'}, {'name': 'F', 'why': 'schedule'},
                           {'name': 'G', 'why': 'message'}], 'and named, with the reason')
has(weir('plan', mixed).out, 'not created by a commit\n  A  (detached)\n', 'also in the text')
same([e for e in document['edges'] if e.get('lock')], [{'from': 'archive@2:E', 'to': 'archive@1:E', 'kind': 'after', 'lock': True}], 'the lock is an edge')
for touched, skipped in [(['docs/a'], False), (['src/a'], True), (['docs/private/a'], True), (['docs/private/a', 'docs/b'], False)]:
    document = plan(mixed, *[a for t in touched for a in ('--touch', t)])
    same([t['skipped'] for t in document['tasks'] if t['name'] == 'D'], [skipped], f'paths: {touched}')
    same(('archive@2:D', 'cancels', 'archive@1:D') in edges(document), not skipped, f'what is skipped cancels nobody: {touched}')

# -- the difference
same(weir('plan', ark, '--before', before, '--diff', '--archive', 'a').out, '''+ task a@2:indexing
+ task a@2:build-PDF
+ edge a@2:COMMIT <-- a@2:indexing  (depends)
+ edge a@2:indexing <-- a@2:build-PDF  (depends)
''', 'what is added')
removed = json.loads(weir('plan', before, '--before', ark, '--diff', '--json').out)
same(([t['name'] for t in removed['removed']['tasks']], removed['added']), (['indexing', 'build-PDF'], {'tasks': [], 'edges': []}), 'what is removed, as JSON')
same(weir('plan', ark, '--before', ark, '--diff').out, '', 'no difference')

# -- faults
bad = put('bad.yaml', '- {name: a, depends: [b]}\n')
done = weir('plan', bad)
ok(done.returncode == 65 and done.out == '' and "there is no task 'b'" in done.err, 'a faulty workflow: exit 65 and the diagnostics', done.returncode, done.err)
for args, status in [([str(TMP / 'nowhere')], 66), ([], 2), ([ark, '--rev', '0'], 2), ([ark, '--rev', '3', '--prev', '3'], 2), ([ark, '--archive', 'a b'], 2),
                     ([ark, '--archive', 'all'], 2), ([ark, '--diff'], 2), ([ark, '--before', str(TMP / 'nowhere')], 66)]:
    done = weir('plan', *args)
    ok(done.returncode == status and done.out == '', f'exit {status}: {[a.replace(str(TMP), "") for a in args]}', done.returncode, done.err)

# -- a large one
large = put('large.yaml', ''.join(f'- {{name: t{i}, depends: [PREV, {"COMMIT" if i == 0 else f"t{i - 1}"}], cancels: ["PREV:t{4999 - i}"]}}\n'
                                  for i in range(5000) if 4999 - i != i))
document = plan(large)
same((len(document['tasks']), len(document['edges'])), (5001, 1 + 3 * 5000), '5,000 tasks')
end()
