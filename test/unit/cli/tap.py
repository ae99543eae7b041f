"""tap: the few lines that a Python test of the command line needs: run weir, compare, count."""
import os
import pty
import select
import subprocess
import sys
import time

WEIR = os.environ.get('WEIR', 'build/weir')
_n = 0
_failed = 0


def clean_env(**more):
    env = {k: v for k, v in os.environ.items() if not k.startswith('WEIR_') and k not in ('NO_COLOR', 'XDG_STATE_HOME')}
    env.update(LC_ALL='C.UTF-8', HOME=os.environ.get('TEST_TMP', '/nonexistent'), TZ='UTC', TERM='xterm', **more)
    return env


def lonely():
    """the words before a command whose network is its own, where nobody listens: the default address may be somebody's on this machine. None: the kernel refuses"""
    for flags in (['--net'], ['--net', '--map-root-user']):
        words = ['unshare', *flags, 'sh', '-c', 'ip link set lo up && exec "$@"', 'sh']
        if subprocess.run([*words, 'true'], stdin=subprocess.DEVNULL, capture_output=True).returncode == 0:
            return words
    return None


def weir(*args, stdin='', env=None, timeout=60, before=()):
    done = subprocess.run([*before, WEIR, *args], input=stdin.encode() if isinstance(stdin, str) else stdin, capture_output=True, env=env or clean_env(), timeout=timeout)
    done.out, done.err = done.stdout.decode(errors='replace'), done.stderr.decode(errors='replace')
    return done


def ok(good, text, *detail):
    global _n, _failed
    _n += 1
    _failed += not good
    print(('ok' if good else 'not ok'), _n, '-', text, flush=True)
    if not good:
        for part in detail:
            for line in str(part).splitlines():
                print('#   ', line, flush=True)
    return good


def same(got, wanted, text):
    return ok(got == wanted, text, f'got    {got!r}', f'wanted {wanted!r}')


def has(got, wanted, text):
    return ok(wanted in got, text, f'wanted {wanted!r} in:', got)


def skip(text, why):
    global _n
    _n += 1
    print(f'ok {_n} - {text} # SKIP {why}', flush=True)


def end():
    print(f'1..{_n}', flush=True)
    sys.exit(1 if _failed else 0)


class Terminal:
    """weir on a terminal of its own: what it wrote, keys, the exit code."""

    def __init__(self, *args, rows=24, columns=80, env=None):
        import fcntl
        import struct
        import termios
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack('HHHH', rows, columns, 0, 0))
        self.process = subprocess.Popen([WEIR, *args], stdin=slave, stdout=slave, stderr=slave, env=env or clean_env(), start_new_session=True)
        os.close(slave)
        self.text = ''

    def read(self, seconds):
        if select.select([self.master], [], [], seconds)[0]:
            try:
                data = os.read(self.master, 65536)
            except OSError:
                data = b''
            self.text += data.decode(errors='replace')
            return bool(data)
        return True

    def until(self, wanted, seconds=20):
        """reads until `wanted` stands in the text (True) or time or the program is over (False)"""
        deadline = time.monotonic() + seconds
        while wanted not in self.text and time.monotonic() < deadline:
            if not self.read(0.2):
                break
        return wanted in self.text

    def keys(self, text):
        os.write(self.master, text.encode())

    def exit(self, seconds=20):
        deadline = time.monotonic() + seconds
        while self.process.poll() is None and time.monotonic() < deadline:
            self.read(0.1)
        while self.process.poll() is not None and self.read(0.05) and select.select([self.master], [], [], 0)[0]:
            pass
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
            return 'still running'
        os.close(self.master)
        return self.process.returncode


class Server:
    """`weir serve` in a folder of its own, with its executor; ended by SIGINT, which ends its tasks, too."""

    def __init__(self, folder, *options):
        self.folder, self.options = folder, options
        self.start()

    def start(self):
        address = os.path.join(self.folder, 'address')
        if os.path.exists(address):
            os.unlink(address)
        listen = getattr(self, 'url', 'http://127.0.0.1:0')[len('http://'):]  # a second start takes the same port
        self.process = subprocess.Popen([WEIR, 'serve', '--data', self.folder, '--listen', listen, *self.options], stdout=subprocess.DEVNULL,
                                        stderr=open(os.path.join(os.path.dirname(self.folder), 'serve.err'), 'ab'), env=clean_env())
        deadline = time.monotonic() + 60
        while not os.path.exists(address):
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise RuntimeError('the server did not start')
            time.sleep(0.02)
        self.url = open(address).read().strip()
        self.socket = 'unix:' + os.path.join(self.folder, 'weir.sock')

    def stop(self, signo=2):
        self.process.send_signal(signo)
        return self.process.wait(timeout=60)
