#!/usr/bin/env python3
"""The command line itself: usage errors with suggestions, help, version, completions, server choice. No server is needed."""
import os
import pathlib
import socket
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'test/unit/cli'))
from tap import clean_env, end, has, lonely, ok, same, skip, weir

TMP = pathlib.Path(os.environ.get('TEST_TMP', '/tmp'))

# -- usage errors: exit 2, on stderr, with what was meant
for args, wanted in [
    (['lst'], "did you mean 'list'?"),
    (['list', '--stat', 'X'], 'did you mean --state?'),
    (['list', '--limit'], '--limit needs a value'),
    (['list', '--limit', '-3'], "'-3' isn't a number from 0"),
    (['list', '--limit', '1', '--limit', '2'], '--limit stands twice'),
    (['list', '--state', 'SZ'], "'Z' is no state"),
    (['list', 'extra'], "'extra' is one word too many"),
    (['list', '--json=1'], '--json takes no value'),
    (['list', '-z'], 'unknown option -z'),
    (['show'], 'Nothing is named'),
    (['cancel', '1'], '--reason is required'),
    (['cancel', '1', '--reason', '  '], '--reason must not be empty'),
    (['pause', 'all'], '--reason is required'),
    (['retry', '1', '--force'], '--force needs a reason'),
    (['wait', '1', '--timeout', '5'], "isn't a duration"),
    (['log', '1', '--tail', '5'], "isn't a size"),
    (['log', '1', '--json', '-f'], '--follow and --json exclude each other'),
    (['graph', '1', '--format', 'png'], "isn't one of ascii|dot|svg|json"),
    (['token'], 'create, list or revoke?'),
    (['token', 'create', '--name', 'n'], '--scope is required'),
    (['token', 'drop'], "'drop' isn't create, list or revoke"),
    (['help', 'nothing'], "there is no command 'nothing'"),
    (['verify', '--data', '/', '--witness', '5:abc'], "isn't SEQ:HASH"),
]:
    done = weir(*args)
    ok(done.returncode == 2 and wanted in done.err and done.out == '', f"usage: weir {' '.join(args)}", done.returncode, done.out, done.err)

# -- words of the command line are harmless when they are repeated
for args in (['\x1b]0;x\x07'], ['list', '--\x1b[2J'], ['list', '--state', '\x1b[2J'], ['list', '\u202egnp.exe'], ['lint', '/nonexistent\x1b[2J'], ['help', '\x1b[2J'],
             ['show', '--server', 'unix:/n\x1b[2J', '1'], ['token', '\x1b[2J'], ['wait', '1', '--timeout', '\x1b[2J']):
    done = weir(*args)
    ok(done.returncode != 0 and not set('\x1b\x07\u202e') & set(done.err + done.out), f'nothing raw: weir {args!r}', done.returncode, repr(done.err))

# -- help and version
done = weir('help')
ok(done.returncode == 0 and done.err == '', 'help goes to stdout', done.err)
commands = [line.split()[0] for line in done.out.splitlines() if line.startswith('  ')]
for command in 'serve executor archive run notify lint plan enqueue wait cancel retry promote pause resume status list show why log graph history events top nodes semaphores stats token verify backup restore version help'.split():
    ok(command in commands, f'help lists {command}')
    one = weir(command, '--help')
    ok(one.returncode == 0 and 'usage: weir ' + command in one.out and '--help' in one.out, f'{command} --help', one.out, one.err)
    same(weir('help', command).out, one.out, f'help {command} is the same text')
for command in ('serve', 'executor'):
    ok('between TERM and KILL (default 10s)' in weir(command, '--help').out, f'{command}: the same default of --grace')
ok('shim' not in commands, 'the hidden command is not listed')
has(weir('help', 'token', 'create').out, '--expires D', 'help of a part')
for args in (['--version'], ['version']):
    ok(weir(*args).out.startswith('weir ') and len(weir(*args).out.split()) == 2, f'{args[0]} is one line')
same(weir('--help').out, done.out, '--help is help')

# -- the man page comes out of the same tables, and scdoc takes it
manual = weir('help', '--man').out
ok(all(f'## weir {command}\n' in manual for command in commands if command[0] != '#'), 'the man page has every command')
try:
    page = subprocess.run(['scdoc'], input=manual.encode(), capture_output=True)
    ok(page.returncode == 0 and b'.TH' in page.stdout, 'scdoc takes the man page', page.stderr)
except FileNotFoundError:
    skip('scdoc takes the man page', 'no scdoc')

# -- completions: shells take them, every command and option is in
for shell in ('bash', 'zsh', 'fish'):
    script = weir('help', '--completion', shell)
    ok(script.returncode == 0 and all(word in script.out for word in ('enqueue', 'idempotency-key', 'ascii', 'revoke')), f'{shell}: commands and options', script.err)
    ok('shim' not in script.out, f'{shell}: nothing hidden')
bash = weir('help', '--completion', 'bash').out
probe = bash + '''
reply() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _weir; echo "${COMPREPLY[@]}"; }
reply weir gra
reply weir graph --form
reply weir graph --format d
reply weir token re
reply weir --server x lis
'''
got = subprocess.run(['bash', '-c', probe], capture_output=True, text=True)
same(got.stdout.splitlines(), ['graph', '--format', 'dot', 'revoke', 'list'], 'bash completes commands, options, choices, parts')

# -- which server
alone = lonely()
if alone:
    done = weir('list', before=alone)
    ok(done.returncode == 69 and 'http://127.0.0.1:8420' in done.err and 'weir serve' in done.err, 'no server: exit 69, and how to start one', done.returncode, done.err)
else:
    skip('no server: exit 69', 'the kernel refuses network namespaces, and the default address may be in use')
done = weir('list', '--server', 'unix:/nonexistent/s')
ok(done.returncode == 69 and 'unix:/nonexistent/s' in done.err, 'a socket that is not there: 69', done.err)
done = weir('list', '--server', 'nonsense')
ok(done.returncode == 2 and 'http://HOST:PORT' in done.err, 'a server that is no address: 2', done.returncode, done.err)
done = weir('list', env=clean_env(WEIR_SERVER='http://127.0.0.1:1'))
ok(done.returncode == 69 and 'http://127.0.0.1:1' in done.err, 'WEIR_SERVER names the server', done.err)
done = weir('--server', 'http://127.0.0.1:2', 'list', env=clean_env(WEIR_SERVER='http://127.0.0.1:1'))
ok('http://127.0.0.1:2' in done.err, '--server before the command wins over WEIR_SERVER', done.err)
done = weir('list', '--token-file', '/nonexistent')
ok(done.returncode == 66 and '/nonexistent' in done.err, 'a token file that is not there: 66', done.returncode, done.err)
(TMP / 'empty').write_text('\n')
done = weir('list', '--token-file', str(TMP / 'empty'))
ok(done.returncode == 65 and 'holds no token' in done.err, 'a token file without a token: 65', done.returncode, done.err)
state = TMP / 'state' / 'weir'
state.mkdir(parents=True)
dead = socket.socket(socket.AF_UNIX)
dead.bind(str(state / 'weir.sock'))
dead.close()
if alone:
    done = weir('list', env=clean_env(XDG_STATE_HOME=str(TMP / 'state')), before=alone)
    ok('127.0.0.1:8420' in done.err, 'a socket that nobody listens on is passed over', done.err)
else:
    skip('a socket that nobody listens on is passed over', 'the kernel refuses network namespaces')
os.unlink(state / 'weir.sock')
live = socket.socket(socket.AF_UNIX)
live.bind(str(state / 'weir.sock'))
live.listen(4)
import threading


def hang_up():
    for _ in range(2):
        live.accept()[0].close()


threading.Thread(target=hang_up, daemon=True).start()
done = weir('list', env=clean_env(XDG_STATE_HOME=str(TMP / 'state')))
ok(done.returncode == 69 and 'unix:' + str(state / 'weir.sock') in done.err, 'the local socket is the default', done.returncode, done.err)
end()
