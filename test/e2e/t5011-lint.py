#!/usr/bin/env python3
"""weir lint: every fault of workflow files in one run, as a compiler tells them, and what hostile files get. No server is needed."""
import json
import os
import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'test/unit/cli'))
from tap import end, has, ok, same, skip, weir

TMP = pathlib.Path(os.environ.get('TEST_TMP', '/tmp')) / 'lint'
TMP.mkdir(exist_ok=True)

DOCUMENT = '''- name: indexing
  depends:
    - PREV
    # * PREV = this task in the previous revision.
    # * PREV:task-name = the named task in the previous revision
- name: build-PDF
  depends:
    - indexing
  cancels:
    - PREV
'''
# The second snippet of the Ark document; "..." as it stands there.
DEFINITION = '''- name: COMMIT
  depends:
    - PREV:COMMIT
- name: other-task
- name: another-task
- name: task-name
  depends:
    - other-task
  cancels:
    - another-task
  image: image/tag
  script: |
    some command to run
    some other command to run
  shell: bash
'''


def put(name, text):
    path = TMP / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(path)


# -- what is right
for name, text in {'document.yaml': DOCUMENT, 'definition.yml': DEFINITION, 'list.json': '[{"name": "a"}]', 'empty.yaml': '', 'none.yaml': '[]'}.items():
    done = weir('lint', put(name, text))
    ok(done.returncode == 0 and done.err == '' and 'no errors' in done.out, f'{name} is fine', done.out, done.err)
    same(weir('lint', '--json', str(TMP / name)).out, '[]\n', f'{name} as JSON: an empty array')
same(weir('lint', '-q', str(TMP / 'document.yaml')).out, '', 'quiet')

# -- all faults at once, with place, source line, caret and suggestion
bad = put('bad.yaml', '''- name: indexing
  comand: make index
- name: build-PDF
  depends: [indexng]
  timeout: 30
- name: publish
  depends: [build-PDF]
  cancels: [build-PDF]
- name: a
  depends: [b]
- name: b
  depends: [a]
- name: a
''')
done = weir('lint', bad)
same(done.returncode, 1, 'faults: exit 1')
same(done.out, '', 'diagnostics go to stderr')
same(done.err.replace(bad, 'bad.yaml'), '''bad.yaml:2:3: error: unknown key 'comand'
      comand: make index
      ^
    did you mean 'command'?
bad.yaml:4:13: error: there is no task 'indexng'
      depends: [indexng]
                ^
    did you mean 'indexing'?
bad.yaml:5:12: error: 'timeout' must be a duration with a unit, such as 90s, 15m, 2h or 7d, not '30'
      timeout: 30
               ^
    did you mean '30s'?
bad.yaml:8:13: error: 'publish' depends on 'build-PDF' and cancels it
      cancels: [build-PDF]
                ^
bad.yaml:10:13: error: tasks wait for each other in a circle: a -> b -> a
      depends: [b]
                ^
bad.yaml:13:9: error: there is a task 'a' already, at bad.yaml:9
    - name: a
            ^
'''.replace('at bad.yaml', 'at bad.yaml'), 'the whole report')
done = weir('lint', '--json', bad)
report = json.loads(done.out)
same((done.returncode, done.err, len(report)), (1, '', 6), 'as JSON: on stdout, all six')
same(report[1], {'file': bad, 'line': 4, 'column': 13, 'severity': 'error', 'message': "there is no task 'indexng'", 'suggestion': "did you mean 'indexing'?"},
     'one of them')
unicode = put('unicode.yaml', '- {name: a, env: {X: "äöü"}, nme: b}\n')
same(json.loads(weir('lint', '--json', unicode).out)[0]['column'], 30, 'columns count characters')
done = weir('lint', put('warn.yaml', '- {name: a, depends: [b, b]}\n- {name: b}\n'))
ok(done.returncode == 0 and 'warning:' in done.err, 'a warning is no error', done.err)

# -- archives: one namespace, roots, files of the folder
put('ark/_workflows/one.yaml', '- {name: a, depends: [b]}\n')
put('ark/_workflows/two.json', '[{"name": "b"}]')
put('ark/_workflows/README', 'no workflow')
for path in ('ark', 'ark/', 'ark/_workflows', 'ark/_workflows/one.yaml'):
    done = weir('lint', str(TMP / path) + ('/' if path.endswith('/') else ''))
    ok(done.returncode == 0 and '2 files, 2 tasks' in done.out, f'{path}: files of the folder share names', done.out, done.err)
put('twice/_workflows/a.yaml', '- name: a\n')
put('twice/_workflows/b.yml', '- name: a\n')
has(weir('lint', str(TMP / 'twice')).err, "b.yml:1:9: error: there is a task 'a' already, at", 'doubles across files')
same(weir('lint', str(TMP / 'document.yaml'), str(TMP / 'ark'), str(TMP / 'twice')).returncode, 1, 'several paths: the worst counts')
for path in ('nowhere', 'nowhere/_workflows/x.yaml', '.'):
    done = weir('lint', str(TMP / path))
    ok(done.returncode == 66 and done.out == '' and done.err.startswith('weir lint: '), f'{path}: exit 66', done.returncode, done.err)
same(weir('lint').returncode, 2, 'no path: usage')

# -- hostile files
(TMP / 'link').mkdir(exist_ok=True)
if not (TMP / 'link/_workflows').is_symlink():
    (TMP / 'link/_workflows').symlink_to('../ark/_workflows')
done = weir('lint', str(TMP / 'link'))
ok(done.returncode == 1 and 'not a link' in done.err, '_workflows as a symbolic link', done.err)
(TMP / 'linked/_workflows').mkdir(parents=True, exist_ok=True)
if not (TMP / 'linked/_workflows/x.yaml').is_symlink():
    (TMP / 'linked/_workflows/x.yaml').symlink_to('/etc/passwd')
done = weir('lint', str(TMP / 'linked'))
ok(done.returncode == 1 and 'symbolic link' in done.err and 'root:' not in done.err, 'a file that is a symbolic link is not read', done.err)
bomb = 'a: &a [x,x,x,x,x,x,x,x,x]\n' + ''.join(f'{chr(98 + i)}: &{chr(98 + i)} [{",".join(["*" + chr(97 + i)] * 9)}]\n' for i in range(8))
many = ''.join(f'- name: t{i}\n' for i in range(10000))
for name, text, wanted in [
    ('bomb.yaml', bomb, 'alias'),
    ('deep.yaml', '[' * 100000, 'nested'),
    ('deep.json', '[' * 100000, 'nested'),
    ('large.yaml', '- name: a\n  script: "' + 'x' * (1 << 20) + '"\n', 'larger than'),
    ('keys.yaml', '- {' + ', '.join(f'k{i}: 1' for i in range(60000)) + '}\n', 'nodes'),
    ('tag.yaml', '- name: !!python/object:os.system x\n', 'tag'),
    ('twice.yaml', '- name: a\n  name: b\n', "'name'"),
    ('utf16.yaml', '- name: a\n'.encode('utf-16'), 'UTF-8'),
    ('binary.yaml', bytes(range(256)), 'UTF-8'),
    ('two.yaml', '- name: a\n---\n- name: b\n', 'document'),
    ('comment.json', '[{"name": "a",}]', 'error'),
    ('many.yaml', many, 'more than 5000 tasks'),
    ('control.yaml', '- name: "a\\e[31m"\n', 'control characters'),
    ('circle.yaml', ''.join(f'- {{name: t{i}, depends: [t{(i + 1) % 3000}]}}\n' for i in range(3000)), 't0 -> t1 -> '),
]:
    began = time.monotonic()
    done = weir('lint', put('hostile-' + name, text))
    ok(done.returncode == 1 and wanted in done.err and '\x1b' not in done.err and len(done.err) < 100000, f'refused: {name}', done.returncode, done.err[:2000])
    ok(time.monotonic() - began < 20, f'in time: {name}')
typed = json.loads(weir('lint', '--json', put('typed.yaml', '- {name: a, priority: 0777}\n- {name: b, checkout: no}\n- {name: c, priority: 1e3}\n- {name: d, timeout: 2026-01-01}\n'
                                              '- {name: no, env: {A: no, B: 0777, C: 1e3, D: 2026-01-01}}\n')).out)
same([d['line'] for d in typed], [1, 2, 3, 4], 'what looks like a number, truth or date is what the key says')

# -- what only a later version will carry out: refused here as the server refuses it (t5304)
for text in ('matrix: {os: [x]}', 'blocked_by: [b]', 'collapse: true', 'directory: /srv/x', 'freeze: "* 22 * * *"', 'window: "* 8 * * *"'):
    path = put('policy.yaml', f'- name: a\n  {text}\n- name: b\n')
    key = text.split(':')[0]
    for command in ('lint', 'plan'):
        done = weir(command, path)
        ok(done.returncode != 0 and f"policy.yaml:2:3: error: '{key}' is reserved" in done.err, f'{command}: {key} is reserved, and refused', done.returncode, done.err)
same(weir('lint', put('policy.yaml', '- {name: a, collapse: false, freeze: null}\n')).returncode, 0, 'a policy that asks for nothing is taken')

# -- in JSON a string is written as one, as POST /v1/tasks wants it; numbers and truth values are texts where the schema takes them
for value in ('"command": 5', '"command": true', '"script": 5', '"image": 1.5', '"zone": 7', '"unique": 1', '"artifacts": 3'):
    done = weir('lint', put('typed.json', f'[{{"name": "a", {value}}}]'))
    key = value.split('"')[1]
    ok(done.returncode == 1 and f"typed.json:1:{20 + len(key)}: error: '{key}' must be a string" in done.err, f'JSON: {value} is refused', done.returncode, done.err)
same(weir('lint', put('typed.json', '[{"name": "a", "command": ["sleep", 5], "env": {"N": 5}, "labels": {"n": 1}, "priority": 5, "zone": null}]')).returncode, 0,
     'JSON: words of a list, env and labels may be numbers')
same(weir('lint', put('typed.yaml', '[{"name": "a", "command": 5}]')).returncode, 0, 'in YAML 5 is a text where a text is asked for')

# -- the schema
schema = json.loads(weir('lint', '--schema').out)
same(schema['$schema'], 'https://json-schema.org/draft/2020-12/schema', 'a JSON Schema')
ok({'name', 'depends', 'cancels', 'schedule', 'artifacts'} <= set(schema['$defs']['task']['properties']), 'with the keys of a task')
try:
    import jsonschema
    validator = jsonschema.Draft202012Validator(schema)
    good = {'on': ['commit'], 'defaults': {'shell': 'bash', 'timeout': '1h'}, 'semaphores': {'pdf': 2}, 'workflow': ['a', {'parallel': ['b', 'c']}],
            'tasks': [{'name': 'a', 'depends': ['PREV', {'task': 'b', 'on': 'finished'}], 'retry': {'attempts': 3, 'on': ['lost']}, 'env': {'K': 1},
                       'schedule': {'cron': 'H 3 * * *', 'tz': 'UTC'}, 'on': [{'message': 'm'}]}], 'jobs': {'b': None, 'c': {}}}
    same([e.message for e in validator.iter_errors(good)], [], 'the schema takes what lint takes')
    same([e.message for e in validator.iter_errors([{'name': 'a', 'depends': ['PREV']}])], [], 'also the list')
    ok(list(validator.iter_errors([{'name': 'a', 'comand': 'x'}])), 'and refuses an unknown key')
    ok(list(validator.iter_errors([{'name': 'a', 'lock': 'x'}])), 'and a wrong word')
except ImportError:
    skip('the schema takes what lint takes', 'no jsonschema')
end()
