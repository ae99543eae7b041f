"""house: a whole Weir for a test: `weir serve` with its executor, killed and started again, and everything it left ended by pid.

Builds on test/unit/api/serving.py (ok, same, until, refused, Server, Worker). What a kill -9 leaves behind (executor, shims, jobs) is found in /proc by
the data directory, which stands in the environment or on the command line of each of them, and by nothing else, so that no test can hit another's.
"""
import atexit
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'unit/api'))
import postgres  # noqa: E402
import serving  # noqa: E402
from serving import NAP, TMP, WEIR, Worker, end, ok, refused, same, until  # noqa: E402,F401

ENDED = ('D', 'F', 'T', 'A')


def skip(text, why):
    serving._n += 1
    print(f'ok {serving._n} - {text} # SKIP {why}', flush=True)


def read(path):
    try:
        with open(path, 'rb') as f:
            return f.read()
    except OSError:
        return b''


def alive(pid):
    """a process that runs; a zombie doesn't"""
    fields = read(f'/proc/{pid}/stat').rpartition(b')')[2].split()
    return bool(fields) and fields[0] not in (b'Z', b'X')


def processes(mark):
    """{pid: command line} of live processes with these bytes on the command line, in the environment or as working directory; not the test itself"""
    mark = mark.encode() if isinstance(mark, str) else mark
    found = {}
    for entry in os.listdir('/proc'):
        if not entry.isdigit() or int(entry) == os.getpid() or not alive(entry):
            continue
        line = read(f'/proc/{entry}/cmdline')
        try:
            folder = os.readlink(f'/proc/{entry}/cwd').encode()
        except OSError:
            folder = b''
        if mark in line or mark in folder or mark in read(f'/proc/{entry}/environ'):
            found[int(entry)] = line.replace(b'\0', b' ').decode(errors='replace').strip()
    return found


def clean_env(**more):
    env = {k: v for k, v in os.environ.items() if not k.startswith('WEIR') and k not in ('NO_COLOR', 'XDG_STATE_HOME')}
    env.update(HOME=str(TMP), TZ='UTC', TERM='xterm', **more)
    return env


def run(*args, stdin='', timeout=60, **env):
    """weir as a person calls it: .code .out .err"""
    done = subprocess.run([WEIR, *map(str, args)], input=stdin.encode() if isinstance(stdin, str) else stdin, capture_output=True, env=clean_env(**env),
                          timeout=timeout)
    done.code, done.out, done.err = done.returncode, done.stdout.decode(errors='replace'), done.stderr.decode(errors='replace')
    return done


class House(serving.Server):
    """weir serve with an executor beside it"""

    def __init__(self, name='data', *options, slots=2, **more):
        super().__init__(name, *options, slots=slots, **more)

    @property
    def socket(self):
        return f'unix:{self.dir}/weir.sock'

    def cli(self, *args, **more):
        return run(*args[:1], '--server', self.socket, *args[1:], **more)

    def executors(self):
        """pids of the executor processes of this data directory"""
        return [pid for pid, line in processes(str(self.dir)).items() if ' executor' in f' {line}' and 'shim' not in line]

    def shims(self):
        """not the shells of jobs, whose scripts are in the folders of their shims"""
        return [pid for pid, line in processes(str(self.dir)).items() if line.split()[1:2] == ['shim']]

    def kill(self):
        self.process.kill()
        self.process.wait()

    def left(self):
        return processes(str(self.dir))

    def enqueue(self, *tasks, seconds=60, **more):
        """one task: the task; several: a list. Refused because the store is away: asked again; what may have been taken is never asked twice"""
        deadline = time.monotonic() + seconds
        while True:
            answer = self.post('/v1/tasks', tasks[0] if len(tasks) == 1 else dict(tasks=list(tasks)), **more)
            if (answer.status, answer.code) != (503, 'unavailable') or time.monotonic() > deadline:
                break
            time.sleep(0.05)
        if answer.status not in (200, 201):
            raise SystemExit(f'Bail out! enqueue: {answer}')
        return answer.json if len(tasks) == 1 else answer.json['tasks']

    def ended(self, *ids, seconds=60):
        """the tasks once all of them have ended, or as they are when time is over"""
        until(lambda: all(self.state(i) in ENDED for i in ids), seconds=seconds)
        return [self.task(i) for i in ids]

    def until_state(self, task_id, letters, seconds=40):
        return until(lambda: self.state(task_id) in letters, seconds=seconds)

    def log_bytes(self, task_id, query=''):
        return self.patient(f'/v1/tasks/{task_id}/log{query}').body

    def verify(self, seconds=60):
        """weir verify through this server; .code .out .err. 69 and 75 say that nobody could look, not that something is wrong: asked again"""
        found = []
        until(lambda: found.append(self.cli('verify')) or found[-1].code not in (69, 75), seconds=seconds)
        return found[-1]

    def events(self, query='since=0', **more):
        answer = self.patient(f'/v1/events?{query}', **more)
        if answer.status != 200:
            raise SystemExit(f'Bail out! events: {answer}')
        return [json.loads(line) for line in answer.body.splitlines()]

    def mark(self):
        """what must not change when something is refused: how many tasks there are, and the last event"""
        events = self.events('since=0')
        return len(self.patient('/v1/tasks?limit=1000').json['tasks']), events[-1]['seq'] if events else 0


def database(name='weir', **more):
    """a PostgreSQL of the script's own, and the URL of an empty database there; where there is none the script ends here, skipped"""
    if not postgres.available():
        skip('PostgreSQL', f'there is no {postgres.BIN}')
        end()
    pg = postgres.Postgres(**more).start()
    return pg, pg.create(name)


def houses(url, names, **more):
    """servers of these names on one store; they have the history's key in common"""
    made = []
    for name in names:
        if made:
            (TMP / name).mkdir(mode=0o711)
            shutil.copy(made[0].dir / 'verify.key', TMP / name / 'verify.key')
        made.append(House(name, '--store', url, '--name', name, **more))
    return made


def sweep():
    """what is left of a test that failed in the middle; a test that passes has ended everything itself"""
    for server in serving._servers:
        for pid in processes(str(server.dir)):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


# runs after serving's own cleanup (atexit is last in, first out, and serving was imported before)
serving.atexit.unregister(serving._cleanup)
atexit.register(sweep)
atexit.register(serving._cleanup)
