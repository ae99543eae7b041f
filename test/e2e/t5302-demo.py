#!/usr/bin/env python3
# store: sqlite
# time limit: 300
"""make run: the demo as a newcomer sees it: without a terminal it ends by itself, on one it stays up; it can fail; nothing stays behind."""
import os
import pathlib
import signal
import subprocess
import sys
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'test/unit/cli'))
import tap
tap.WEIR = os.path.abspath(tap.WEIR)
from tap import Terminal, clean_env, end, has, ok, same

TMP = pathlib.Path(os.environ.get('TEST_TMP', '/tmp')) / 'demo'
PLACE = TMP / 'tmp'
PLACE.mkdir(parents=True, exist_ok=True)
ENV = clean_env(TMPDIR=str(PLACE)) if len(str(PLACE)) <= 60 else clean_env()
DEMO = str(ROOT / 'tools/demo')


def left():
    return sorted(p.name for p in PLACE.iterdir())


def demo(weir):
    done = subprocess.run([DEMO, weir], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENV, text=True, timeout=300, check=False)
    return done.returncode, done.stdout, done.stderr


code, out, err = demo(tap.WEIR)
ok(code == 0 and out.endswith('\nEvery expectation held.\n') and err == '', 'without a terminal it ends after the sample work, with 0', code, out, err)
story = [line.strip() for line in out.splitlines()]
wanted = ['ann commits revision 2', 'build-PDF of revision 2 executes', 'ann commits revision 3', 'indexing of revision 3 is done',
          'build-PDF of revision 2 is told to stop: superseded by docs@3:build-PDF', 'build-PDF of revision 3 executes', 'build-PDF of revision 3 is done',
          "did you mean 'cancels'?", 'indexing of revision 5 is done']
places = [next((i for i, line in enumerate(story) if line.startswith(text)), None) for text in wanted]
ok(None not in places and places == sorted(places), 'the story in its order', places, out)
ok('upload of revision 6 waits to be tried again: temporary (exit 111)' in out and 'print of revision 6 failed: failed (exit 1)' in out,
   'a retry and a failure are told as they happen', out)
ok('listening on http://127.0.0.1:' in out and out.count('  holds: ') >= 9, 'an address, and expectations that are looked at', out)
same(left(), [], 'its folder is gone')

# -- it can fail: a weir whose history doesn't verify
fake = TMP / 'weir'
fake.write_text(f'#!/bin/sh\n[ "$1" != verify ] || exit 1\nexec {tap.WEIR} "$@"\n')
fake.chmod(0o755)
code, out, err = demo(str(fake))
ok(code == 1 and 'DOES NOT HOLD: the history verifies' in out and '1 expectations did not hold' in out, 'an expectation that does not hold: 1', code, out[-600:], err)
fake.write_text('#!/bin/sh\necho broken >&2\nexit 3\n')
code, out, err = demo(str(fake))
ok(code == 1 and 'broken' in err, 'a server that does not start: 1 and what it said', code, err)
same(left(), [], 'and nothing stays')
same(demo(str(TMP / 'nothing'))[0], 1, 'no weir: 1')

# -- on a terminal it stays until Ctrl-C
tap.WEIR, weir = DEMO, tap.WEIR
terminal = Terminal(weir, env=ENV, columns=160)
if ok(terminal.until('stays up at http://', 120), 'on a terminal it stays up', terminal.text[-800:]):
    terminal.until('weir top', 10)
    url = terminal.text.split('stays up at ')[1].split()[0]
    with urllib.request.urlopen(url + '/healthz', timeout=20) as answer:
        same(answer.status, 200, 'the address answers')
    has(terminal.text, 'weir why docs@2:build-PDF', 'and it says what to try next')
os.killpg(terminal.process.pid, signal.SIGINT)  # what a terminal does to its foreground group
same(terminal.exit(60), 0, 'Ctrl-C: 0')
same(left(), [], 'and its folder is gone')
end()
