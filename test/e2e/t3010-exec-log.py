"""Logs byte for byte: binary, large, trickling, cut, through lost requests and a server whose disk lags behind."""
# time limit: 180
import hashlib
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../unit/exec'))
from crew import TMP, Crew, Tap, poll  # noqa: E402

tap = Tap()


def sha(data):
    return hashlib.sha256(bytes(data)).hexdigest()


def file_of(name, size):
    path = os.path.join(TMP, name)
    with open(path, 'wb') as out:
        out.write(os.urandom(size))
    return path


def exact(crew):
    f = crew.fake
    sizes = [1, 16384, 16385, 65536, 262144, 262145, 1 << 20, 20 << 20]
    paths = [file_of(f'bytes{size}', size) for size in sizes]
    tasks = [f.add(command=['cat', path]) for path in paths]
    f.wait_ended(*tasks, seconds=90)
    for size, path, task in zip(sizes, paths, tasks):
        tap.equal(sha(task.log), sha(open(path, 'rb').read()), f'{size} random bytes arrive as they are')
        tap.equal(task.finish['log_bytes'], size, f'log_bytes says {size}')
    tap.ok(all(length <= 262144 for t in tasks for _, length in t.chunks), 'no chunk is over 256 KiB')
    small = tasks[0]
    tap.ok(not small.chunks and 'log' in small.finish, 'a small log rides in the finish, without a request of its own', small.chunks)


def order(crew):
    f = crew.fake
    task = f.add(script='for i in $(seq 2000); do echo "out $i"; echo "err $i" >&2; done')
    f.wait_ended(task)
    wanted = ''.join(f'out {i}\nerr {i}\n' for i in range(1, 2001)).encode()
    tap.ok(task.log == wanted, 'stdout and stderr come in the order they were written')


def stream(crew):
    f = crew.fake
    task = f.add(script='echo first; while [ ! -e go ]; do sleep 0.05; done; echo second', env={})
    f.wait(lambda: task.log == b'first\n', 10, 'first line')
    tap.ok(task.finish is None, 'bytes are sent while the job runs')
    task2 = f.add(script='i=0; while [ $i -lt 20 ]; do echo $i; i=$((i+1)); sleep 0.1; done')
    f.wait(lambda: len(task2.log) > 0, 10, 'a beginning')
    seen, began = set(), time.monotonic()
    while not task2.finish and time.monotonic() < began + 20:
        seen.add(len(task2.log))
        time.sleep(0.02)
    tap.ok(len(seen) >= 8, 'a trickle arrives as it comes', sorted(seen))
    f.cancel(task, 'KILL')
    f.wait_ended(task, task2)


def cut(data):
    with Crew(slots=1, options=['--log-limit', '100KiB']) as crew:
        f = crew.fake
        path = os.path.join(TMP, 'bytes1048576')
        whole = open(path, 'rb').read()
        task = f.add(command=['cat', path])
        under = f.add(command=['head', '-c', '102400', path])
        over = f.add(command=['head', '-c', '102401', path])
        f.wait_ended(task, under, over, seconds=30)
        mark = b'\n[weir: log cut at 102400 bytes, %d bytes dropped]\n' % (len(whole) - 102400)
        tap.ok(task.log == whole[:102400] + mark, 'a log over the limit is cut there and the mark says exactly what is missing', bytes(task.log[102400:]))
        tap.ok(under.log == whole[:102400], 'a log at the limit has no mark')
        tap.ok(over.log == whole[:102400] + b'\n[weir: log cut at 102400 bytes, 1 bytes dropped]\n', 'one byte more has')
        tap.equal(task.finish.get('exit'), 0, 'the job itself is not disturbed')
        tap.equal(f.faults, [], 'the server saw nothing wrong')


def lag(crew):
    """Stored isn't durable: the spool must stay until it is, whatever the finish said."""
    f = crew.fake
    f.durable_follows = False
    task = f.add(command=['cat', os.path.join(TMP, 'bytes1048576')])
    f.wait_ended(task, seconds=30)
    sizes = lambda: [os.path.getsize(os.path.join(crew.data, 'shims', n, 'log')) for n in os.listdir(os.path.join(crew.data, 'shims'))]  # noqa: E731
    tap.ok(1048576 in sizes(), 'the spool is kept while the server has not said durable', sizes())
    other = f.add(command=['true'])
    f.wait_ended(other)
    tap.ok(1048576 in sizes(), 'also while other jobs come and go')
    with f.lock:
        kept = len(task.log) - 300000
        del task.log[kept:]  # the server lost what it had not synced
    f.durable_follows = True
    ok = poll(lambda: len(task.log) == 1048576 and 1048576 not in sizes(), 20)
    tap.ok(ok, 'bytes that the server lost again are sent again, then the spool is emptied', (len(task.log), sizes()))
    tap.equal(sha(task.log), sha(open(os.path.join(TMP, 'bytes1048576'), 'rb').read()), 'and the log is whole')


with Crew(slots=2) as crew:
    exact(crew)
    order(crew)
    stream(crew)
    tap.equal(crew.fake.faults, [], 'the server saw nothing wrong')
    lag(crew)
cut(None)
tap.end()
