#!/usr/bin/env python3
# store: sqlite
"""The documents tell the truth: the commands of the README's first job and every `sh` block of the manual run as printed, against a server with all defaults."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import TMP, WEIR, House, clean_env, end, ok, run, same, skip  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
work = TMP / 'work'
work.mkdir()
(work / 'examples').symlink_to(ROOT / 'examples')
env = clean_env(PATH=f'{pathlib.Path(WEIR).parent}:{os.environ["PATH"]}')


def home(name):
    """a server on the defaults of a home directory of its own; its port, which the documents don't use, is the only thing chosen"""
    path = TMP / name
    env['HOME'] = str(path)
    return House(f'{name}/.local/state/weir', slots=2)


def script(text):
    done = subprocess.run(['bash', '-euo', 'pipefail', '-c', text], cwd=work, env=env, capture_output=True, text=True, timeout=180, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout, done.stderr


# -- README
readme = (ROOT / 'README.md').read_text()
block = re.search(r'In another terminal:\n\n((?:    .*\n)+)', readme)[1]
lines = [line.strip() for line in block.splitlines()]
ok(len(lines) >= 5 and all(line.startswith('weir ') for line in lines), 'the README has a first job', lines)
s = home('one')
for line in lines:
    code, out, err = script(line)
    same(code, 0, f'README: {line}')
    if code:
        print('#', out, err)
ok('the size is 42' in out, 'its last line is what the README says', out)
same(s.stop(signal.SIGINT, 60), 0, 'the server ends')
for link in re.findall(r'\]\(([^)#:]+)\)', readme):
    ok((ROOT / link).exists(), f'README: {link} is there')

# -- the manual
s = home('two')
manual = (ROOT / 'doc/manual.md').read_text()
blocks = re.findall(r'^```sh\n(.*?)^```', manual, re.M | re.S)
ok(len(blocks) >= 6, 'the manual has blocks to run', len(blocks))
for text in blocks:
    first = text.splitlines()[0]
    if 'curl' in text and not shutil.which('curl'):
        skip(f'manual: {first} ...', 'no curl')
        continue
    code, out, err = script(text)
    ok(code == 0, f'manual: {first} ...', code, out[-2000:], err[-2000:])
for link in re.findall(r'\]\(([^)#:]+)\)', manual):
    ok((ROOT / 'doc' / link).exists(), f'manual: {link} is there')

# -- the worker, with what it can't take
bad = s.enqueue(dict(name='bad', data=dict(a=1)))['id']
code, out, err = script(f'timeout 120 examples/worker.py {s.url}')
same((code, s.state(bad)), (0, 'F'), 'the worker refuses bad data for good')
ok(b'bad data' in s.log_bytes(bad), 'and says so in the log', s.log_bytes(bad))
for word in re.findall(r'^`weir ([a-z]+)', manual, re.M):
    same(run(word, '--help').code, 0, f'weir {word} is a command')
same(s.stop(signal.SIGINT, 60), 0, 'the server ends')
end()
