#!/usr/bin/env python3
# store: sqlite
# time limit: 300
"""weir local: a folder's workflow here, without a server: what runs, where, in which order; how it ends; that nothing stays behind."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'test/unit/cli'))
import tap
tap.WEIR = os.path.abspath(tap.WEIR)
from tap import WEIR, Terminal, clean_env, end, has, ok, same, weir

TMP = pathlib.Path(os.environ.get('TEST_TMP', '/tmp')) / 'local'
RUNS = TMP / 'r'
RUNS.mkdir(parents=True, exist_ok=True)
ENV = clean_env(TMPDIR=str(RUNS)) if len(str(RUNS)) <= 70 else clean_env()
SHORT = 'TMPDIR' in ENV


def folder(name, text, file='w.yaml'):
    path = TMP / name / '_workflows'
    path.mkdir(parents=True, exist_ok=True)
    (path / file).write_text(text)
    return path.parent


def local(where, *options, **more):
    return weir('local', str(where), *options, env={**ENV, **more})


def letters(done):
    return {t['key']['name']: t['state'] for t in json.loads(done.out)}


def left(mark):
    """pids of processes that carry the mark in their environment or arguments"""
    found = []
    for entry in pathlib.Path('/proc').iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if mark in (entry / 'environ').read_bytes() or mark in (entry / 'cmdline').read_bytes():
                found.append(int(entry.name))
        except OSError:
            pass
    return found


def until(condition, seconds=30):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return bool(condition())


def runs_left():
    return sorted(p.name for p in RUNS.iterdir()) if SHORT else []


# -- the document's workflow, by hand
docs = folder('My-Project', '''- name: indexing
  depends: [PREV]
  script: |
    pwd > where
    echo "$WEIR_ARCHIVE $WEIR_REV $WEIR_TASK $WEIR_KEY $WEIR_ATTEMPT $HOME" > variables
    echo "words=42" >> "$WEIR_OUTPUT"
- name: build-PDF
  depends: [indexing]
  cancels: [PREV]
  command: sh -c 'echo "pdf of $WEIR_OUTPUT_INDEXING_WORDS words" > pdf'
''')
done = local(docs)
same(done.returncode, 0, 'all done: 0')
same((docs / 'where').read_text(), f'{docs.resolve()}\n', 'the working directory is the folder itself')
same((docs / 'variables').read_text(), f'My-Project 1 indexing My-Project@1:indexing 1 {docs.resolve()}\n', 'variables as in a server run')
same((docs / 'pdf').read_text(), 'pdf of 42 words\n', 'outputs reach dependents, and what a task writes stays')
same([line.split()[:3] for line in done.out.splitlines()[1:3]], [['D', 'done', 'indexing'], ['D', 'done', 'build-PDF']], 'the ends on stdout')
same([line.split('  ') for line in done.err.splitlines()],
     [['indexing', 'X executing'], ['indexing', 'D done'], ['build-PDF', 'X executing'], ['build-PDF', 'D done']], 'one line a change on stderr')
same(runs_left(), [], 'the folder of the run is gone')
same(local(docs, '-q').err, '', '-q: no progress')
os.chdir(docs)
done = weir('local', '--json', env=ENV)
os.chdir('/')
same(letters(done), {'COMMIT': 'D', 'indexing': 'D', 'build-PDF': 'D'}, '--json, and the current folder is the default')

# -- failures
fails = folder('fails', '''tasks:
  - {name: good, command: "true"}
  - name: bad
    depends: [good]
    script: "echo said on stdout; echo said on stderr >&2; exit 3"
  - {name: next, depends: [bad], command: "true"}
  - {name: beside, depends: [good], command: echo never shown}
  - {name: loose, allow_failure: true, command: "false"}
  - {name: follows, depends: [loose], command: "true"}
''')
done = local(fails)
same(done.returncode, 1, 'something failed: 1')
has(done.out, 'log of bad\nsaid on stdout\nsaid on stderr\n', 'the log of what failed is shown')
ok('never shown' not in done.out, 'and of what was done it is not', done.out)
has(done.out, 'a dependency failed (fails@1:bad)', 'a dependent names the cause')
same(letters(local(fails, '--json')), {'COMMIT': 'D', 'good': 'D', 'bad': 'F', 'next': 'F', 'beside': 'D', 'loose': 'F', 'follows': 'D'}, 'the rest goes on')
same(local(fails, '--task', 'follows').returncode, 0, 'a failure that is allowed is none')

# -- which tasks
some = folder('some', '''tasks:
  - {name: a, command: "true"}
  - {name: b, depends: [a], command: "true"}
  - {name: c, command: "true", paths: ["nowhere/**"]}
  - {name: deploy, detached: true, depends: [b], command: "true"}
  - {name: nightly, schedule: "* * * * *", command: "true"}
  - {name: elsewhere, labels: {os: plan9}, zone: mars, after: ["PREV:a"], lock: exclusive, semaphores: [one], command: "true"}
''')
same(letters(local(some, '--json')), {'COMMIT': 'D', 'a': 'D', 'b': 'D', 'c': 'D', 'elsewhere': 'D'},
     'as a commit that touches everything: nothing detached or scheduled; labels and zones do not count')
same(letters(local(some, '--json', '--task', 'b')), {'COMMIT': 'D', 'a': 'D', 'b': 'D'}, '--task: it and what it depends on')
same(letters(local(some, '--json', '--task', 'deploy', '--task', 'nightly')), {'COMMIT': 'D', 'a': 'D', 'b': 'D', 'deploy': 'D', 'nightly': 'D'},
     'detached and scheduled ones by name')
done = local(some, '--task', 'deplyo')
ok(done.returncode == 66 and "did you mean 'deploy'?" in done.err, 'a task that is not there: 66', done.returncode, done.err)
only = folder('only', '- {name: deploy, detached: true, command: "true"}\n')
done = local(only)
ok(done.returncode == 0 and 'name one with --task' in done.err, 'nothing that a commit would start: said, 0', done.returncode, done.err)

# -- how many at a time
count = 'tasks:\n' + ''.join(f'  - {{name: t{i}, script: "echo + >> trace; sleep 0.05; echo - >> trace"}}\n' for i in range(6)) + \
    '  - {name: last, depends: [t0, t1, t2, t3, t4, t5], script: "echo last >> trace"}\n'
serial = folder('serial', count)
same(local(serial, '--serial', '-q').returncode, 0, '--serial')
same((serial / 'trace').read_text().split(), ['+', '-'] * 6 + ['last'], 'one at a time, in topological order')
wide = folder('wide', 'tasks:\n' + ''.join(f'''  - name: t{i}
    timeout: 30s
    script: |
      touch here{i}
      until [ -e here0 ] && [ -e here1 ] && [ -e here2 ] && [ -e here3 ]; do sleep 0.02; done
''' for i in range(4)))
same(local(wide, '--parallel', '4').returncode, 0, '--parallel 4: four that wait for each other')
for options in (['--serial', '--parallel', '2'], ['--parallel', '0'], ['--parallel', 'x'], ['a', 'b']):
    same(local(some, *options).returncode, 2, f'usage: {" ".join(options)}')

# -- where and with what
places = folder('places', '''tasks:
  - {name: empty, checkout: false, script: "[ -z \\"$(ls -A)\\" ] && [ \\"$PWD\\" != \\"$ROOT\\" ]", env: {ROOT: "@"}}
  - {name: python, shell: python3, script: "import os; open('by-python', 'w').write(os.getcwd())"}
  - {name: own-home, env: {HOME: /somewhere}, command: sh -c 'echo $HOME > home'}
  - {name: relative, command: [./prog, "a b", "$HOME"]}
  - {name: strict, sandbox: strict, command: "true"}
'''.replace('@', str((TMP / 'places').resolve())))
(places / 'prog').write_text('#!/bin/sh\nprintf "%s|" "$@" > arguments\n')
(places / 'prog').chmod(0o755)
done = local(places)
ok(done.returncode == 0, 'checkout: false, other shells, programs of the folder', done.out, done.err)
same((places / 'by-python').read_text(), str(places.resolve()), 'a script of another language works there too')
same((places / 'home').read_text(), '/somewhere\n', 'the task may set HOME')
same((places / 'arguments').read_text(), 'a b|$HOME|', 'arguments arrive as they are')
has(done.err, '`sandbox: strict`', 'what does not count here is said')

# -- an image: the container program is told to show the folder, and to begin there
programs = TMP / 'programs'
programs.mkdir(exist_ok=True)
(programs / 'podman').write_text('#!/bin/sh\n[ "$1" = run ] || exit 0\nprintf "%s\\n" "$@" > "$RECORD"\n')
(programs / 'podman').chmod(0o755)
image = folder('image', '- {name: a, image: some/image, command: make it, artifacts: [x]}\n')
done = local(image, PATH=f'{programs}:{os.environ["PATH"]}', RECORD=str(TMP / 'record'))
words = (TMP / 'record').read_text().split('\n') if (TMP / 'record').exists() else []
root = str(image.resolve())
ok(done.returncode == 0 and f'--volume={root}:{root}' in words and [w for w in words if w.startswith('--workdir=')][-1:] == [f'--workdir={root}'],
   'an image sees the folder and begins there', done.out, words)
ok(words[-4:-1] == ['some/image', 'make', 'it'], 'its command is as written', words)

# -- faults
bad = folder('bad', '- name: a\n  depnds: [b]\n- name: b\n  depends: [nothing]\n')
done = local(bad)
same((done.returncode, done.err), (65, weir('lint', str(bad)).err), 'a faulty workflow: 65 and the diagnostics of lint')
done = local(folder('later', '- {name: a, matrix: {os: [x, y]}, command: "true"}\n'))
ok(done.returncode != 0 and "'matrix' is reserved" in done.err, 'a policy that is not carried out is refused, not ignored', done.err)
(TMP / 'none').mkdir(exist_ok=True)
done = local(TMP / 'none')
ok(done.returncode == 66 and '_workflows' in done.err, 'no _workflows: 66', done.returncode, done.err)
same(local(TMP / 'nowhere').returncode, 66, 'no such folder: 66')
same(local(bad / '_workflows/w.yaml').returncode, 66, 'a file is no folder: 66')
same(local(folder('empty', '[]\n')).returncode, 0, 'a workflow without tasks: 0')
ok(local(docs, WEIR_TOKEN='of-another-server', WEIR_SERVER='http://127.0.0.1:9').returncode == 0, 'server and token of the environment are not used')

# -- on a terminal: the picture, Ctrl-C
mark = f'weir-local-test-{os.getpid()}'
sleeper = folder('sleeper', '''tasks:
  - {name: first, script: "echo ready; setsid sleep 1000 & exec sleep 1000", env: {MARK: @}}
  - {name: second, depends: [first], command: "true"}
'''.replace('@', mark))
terminal = Terminal('local', str(sleeper), env=ENV)
ok(terminal.until('X first') and terminal.until('S second'), 'a live tree on a terminal', terminal.text)
ok(until(lambda: len(left(mark.encode())) > 0), 'its task runs')
os.killpg(terminal.process.pid, signal.SIGINT)  # what a terminal does to its foreground group
same(terminal.exit(30), 130, 'Ctrl-C: 130')
ok(until(lambda: not left(mark.encode()), 20), 'and nothing runs on', left(mark.encode()))
same(runs_left(), [], 'and no folder stays')
ok(until(lambda: not left(str(RUNS).encode() + b'/weir-local'), 20), 'no part of it either', left(str(RUNS).encode() + b'/weir-local'))


def begun(where, *options):
    process = subprocess.Popen([WEIR, 'local', str(where), *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENV, text=True)
    while True:
        line = process.stderr.readline()
        if not line or 'X executing' in line:
            return process


# -- signals; one that won't end
deaf = folder('deaf', f'- {{name: deaf, script: "trap \'\' TERM; echo > begun; while :; do sleep 1; done", env: {{MARK: {mark}}}}}\n')
process = begun(deaf)
ok(until(lambda: (deaf / 'begun').exists()), 'a task that ignores TERM has begun')
process.send_signal(signal.SIGTERM)
time.sleep(0.3)
began = time.monotonic()
process.send_signal(signal.SIGINT)
until(lambda: not left(mark.encode()))
spent = time.monotonic() - began  # of the task; the program itself may take its time to go
process.communicate(timeout=60)
ok(process.returncode == 143 and spent < 4.5, 'a second signal does not wait for the grace', process.returncode, spent)
ok(until(lambda: not left(mark.encode()), 20) and not runs_left(), 'and nothing stays', left(mark.encode()), runs_left())

# -- killed: those who stay clean up
process = begun(sleeper)
ok(until(lambda: len(left(mark.encode())) > 0), 'it runs')
process.kill()
process.communicate(timeout=30)
ok(until(lambda: not left(mark.encode()), 20), 'kill -9: the tasks end', left(mark.encode()))
ok(until(lambda: not runs_left() and not left(str(RUNS).encode() + b'/weir-local'), 20), 'and the folder goes', runs_left())

end()
