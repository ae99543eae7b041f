"""crew: what the end-to-end tests of the executor share: an executor process on a fake server, TAP, and questions about processes."""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from fake_server import FakeServer

WEIR = os.environ.get('WEIR', 'build/weir')
TMP = os.environ.get('TEST_TMP') or tempfile.mkdtemp(prefix='weir-exec-')


class Tap:
    def __init__(self):
        self.n = 0
        self.bad = 0

    def ok(self, good, text, detail=''):
        self.n += 1
        self.bad += not good
        print(f"{'ok' if good else 'not ok'} {self.n} - {text}", flush=True)
        if not good and detail != '':
            print(f'# {detail}', flush=True)
        return good

    def equal(self, got, wanted, text):
        return self.ok(got == wanted, text, f'got {got!r}, wanted {wanted!r}')

    def end(self):
        print(f'1..{self.n}', flush=True)
        sys.exit(1 if self.bad else 0)


def poll(condition, seconds=40):
    """True as soon as the condition holds; False after that many seconds, or more: what comes late on a busy machine isn't wrong."""
    until = time.monotonic() + max(seconds, 40)
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.01)
    return bool(condition())


def processes(mark):
    """Processes whose environment or command line holds the mark, zombies left out."""
    found = []
    for entry in os.listdir('/proc'):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            text = pathlib.Path('/proc', entry, 'environ').read_bytes() + b'\0' + pathlib.Path('/proc', entry, 'cmdline').read_bytes()
            state = pathlib.Path('/proc', entry, 'stat').read_text().rsplit(')', 1)[1].split()[0]
        except OSError:
            continue
        if mark.encode() in text and state != 'Z':
            found.append(int(entry))
    return found


def parent_of(pid):
    return int(pathlib.Path('/proc', str(pid), 'stat').read_text().rsplit(')', 1)[1].split()[1])


class Crew:
    """A fake server and one executor process; `with` ends everything, by pid."""

    def __init__(self, slots=2, lease_ms=15000, options=(), data=None, server=None):
        self.fake = server or FakeServer(lease_ms=lease_ms)
        self.data = data or tempfile.mkdtemp(dir=TMP)
        self.slots = slots
        self.options = list(options)
        self.agent = None
        self.log = open(os.path.join(self.data, 'agent.log'), 'ab')
        self.start()

    def start(self):
        argv = [WEIR, 'executor', '--server', self.fake.url, '--data', self.data, '--slots', str(self.slots)] + self.options
        self.agent = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)

    def kill(self, signo=signal.SIGKILL):
        self.agent.send_signal(signo)
        return self.agent.wait(60)

    def shims(self):
        """pid by directory number. What a shim has forked (a sanitizer's leak check, the first process of a sandbox) looks like it: its parent does, too."""
        found = {}
        for entry in (e for e in os.listdir('/proc') if e.isdigit()):
            try:
                words = pathlib.Path('/proc', entry, 'cmdline').read_bytes().split(b'\0')
                if len(words) > 2 and words[1] == b'shim' and words[2].startswith(os.path.realpath(self.data).encode() + b'/'):
                    found[int(entry)] = int(words[2].rsplit(b'/', 1)[1]), parent_of(entry)
            except OSError:
                continue
        return {number: pid for pid, (number, parent) in found.items() if found.get(parent, (None,))[0] != number}

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if self.agent.poll() is None:
            self.agent.send_signal(signal.SIGINT)
            try:
                self.agent.wait(60)
            except subprocess.TimeoutExpired:
                self.agent.kill()
                self.agent.wait()
        if not poll(lambda: not self.shims(), 30):  # they end by themselves
            print(f'# shims left: {self.shims()}', file=sys.stderr)
        while self.shims():
            for pid in self.shims().values():
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        self.fake.stop()
        self.log.close()
        if error is not None or self.fake.faults:
            print('# ' + '\n# '.join(self.fake.faults), file=sys.stderr)
            print(open(os.path.join(self.data, 'agent.log'), errors='replace').read(), file=sys.stderr)
