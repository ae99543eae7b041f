#!/usr/bin/env python3
"""The README's first archive: its commands run as printed, against a server with all defaults."""
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import TMP, WEIR, House, clean_env, end, ok, same  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
work, home = TMP / 'work', TMP / 'home'
work.mkdir()
(work / 'examples').symlink_to(ROOT / 'examples')
env = clean_env(PATH=f'{pathlib.Path(WEIR).resolve().parent}:{os.environ["PATH"]}')
env['HOME'] = str(home)
s = House('home/.local/state/weir', slots=2)


def script(text):
    """a person's next line comes when the commit before has been noticed; here it may have to be said again"""
    deadline = time.monotonic() + 30
    while True:
        done = subprocess.run(['bash', '-euo', 'pipefail', '-c', text], cwd=work, env=env, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL, check=False)
        if done.returncode != 66 or time.monotonic() > deadline:
            return done.returncode, done.stdout, done.stderr
        time.sleep(0.1)


block = re.search(r'## A first archive\n\n.*\n\n((?:    .*\n)+)', (ROOT / 'README.md').read_text())[1]
lines = [line.strip() for line in block.splitlines()]
ok(len(lines) >= 8, 'the README has a first archive', lines)
said = {}
for line in lines:
    code, out, err = script(line)
    same(code, 0, f'README: {line}')
    said[line.split('#')[0].strip()] = out
    if code:
        print('#', out, err)
ok(said['weir log book@1:build-PDF'] == 'revision 1: 12 words\n', 'the log is what the README says', said['weir log book@1:build-PDF'])
ok('book.pdf' in said['weir artifacts book@1:build-PDF'], 'the PDF is kept', said['weir artifacts book@1:build-PDF'])
ok('The book begins' in said['weir history --archive book'], 'the history knows the message', said['weir history --archive book'])
ok((work / 'mine/book.pdf').exists() and not (ROOT / 'examples/book/book.pdf').exists(), 'weir local worked in its folder')
code, key, err = script('weir run book release --param version=1.4 --reason asked -q')
code, out, err = script(f'weir wait -q {key.strip()} > /dev/null && weir log {key.strip()}')
same((code, out), (0, 'version 1.4 goes out\n'), 'its release runs by hand')
same(s.stop(signal.SIGINT, 60), 0, 'the server ends')
end()
