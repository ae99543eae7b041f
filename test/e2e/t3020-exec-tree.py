"""Nothing of a job lives longer than the job: forks, sessions, ignored signals, stopped processes; time-outs and cancels."""
import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../unit/exec'))
from crew import Crew, Tap, poll, processes  # noqa: E402

tap = Tap()
ODD = f'1000.{os.getpid():08d}'  # found by this number alone

ESCAPES = {
    'a background process': 'sleep 1000 & echo started',
    'a session of its own': 'setsid sleep 1000 & sleep 0.1; echo started',
    'a double fork with its own session': '(setsid sh -c "sleep 1000 & sleep 1000" &) ; sleep 0.1; echo started',
    'one that ignores TERM and HUP': '(trap "" TERM HUP INT; setsid sleep 1000) & sleep 0.1; echo started',
    'one that stopped itself': '(setsid sh -c "kill -STOP \\$\\$; sleep 1000") & sleep 0.2; echo started',
    'one that cleared its environment': 'env -i setsid sleep %s & sleep 0.1; echo started' % ODD,
    'a chain of forks': 'f() { if [ $1 -gt 0 ]; then (setsid sh -c "sleep 1000" & f $(($1-1))) & fi; wait; }; f 10 & sleep 0.3; echo started',
}


def escapes(crew):
    for name, script in ESCAPES.items():
        task = crew.fake.add(script=script)
        crew.fake.wait_ended(task)
        left = processes(task.fence) + (processes(ODD) if 'cleared' in name else [])
        tap.ok(task.finish.get('exit') == 0 and not left, f'{name} is gone when the end is reported', (task.finish, left))


def held_pipe(crew):
    began = time.monotonic()
    task = crew.fake.add(script='(trap "" TERM; sleep 1000) & echo out; exit 3')
    crew.fake.wait_ended(task)
    tap.ok(task.finish.get('exit') == 3 and time.monotonic() - began < 20, 'a child that keeps the pipe open delays nothing')
    tap.equal(bytes(task.log), b'out\n', 'and the log is whole')


def timeouts(crew):
    f = crew.fake
    began = time.monotonic()
    kind = f.add(script='trap "echo cleaned; exit 0" TERM; echo up; while :; do sleep 0.05; done', timeout_ms=2000)  # it must have its trap by then
    f.wait_ended(kind)
    tap.equal(kind.finish.get('outcome'), 'timeout', 'a job over its time ends with outcome timeout')
    tap.ok(kind.log.endswith(b'cleaned\n') and 1.9 < time.monotonic() - began < 20, 'it gets TERM first and may clean up', bytes(kind.log))
    rude = f.add(script='trap "" TERM; (trap "" TERM; setsid sleep 1000) & sleep 1000', timeout_ms=300, grace_ms=400)
    f.wait_ended(rude)
    tap.ok(rude.finish.get('outcome') == 'timeout' and not processes(rude.fence), 'one that ignores TERM is killed after the grace, with all it started', rude.finish)
    fast = f.add(script='exit 4', timeout_ms=60000)
    f.wait_ended(fast)
    tap.equal((fast.finish.get('exit'), fast.finish.get('outcome')), (4, None), 'a job within its time is not touched')


def cancel_when(crew, task, text, name):
    crew.fake.wait(lambda: text in task.log, 10, f'{text} in the log')
    began = time.monotonic()
    crew.fake.cancel(task, name)
    crew.fake.wait_ended(task)
    return time.monotonic() - began


def cancels(crew):
    f = crew.fake
    task = f.add(script='echo up; sleep 1000')
    cancel_when(crew, task, b'up', 'TERM')
    tap.equal(task.finish.get('signal'), signal.SIGTERM, 'cancel with TERM')
    task = f.add(script='echo up; sleep 1000')
    cancel_when(crew, task, b'up', 'HUP')
    tap.equal(task.finish.get('signal'), signal.SIGHUP, 'cancel with HUP')
    task = f.add(script='trap "" TERM HUP; echo up; while :; do sleep 1; done')
    cancel_when(crew, task, b'up', 'KILL')
    tap.equal(task.finish.get('signal'), signal.SIGKILL, 'cancel with KILL')
    task = f.add(script='trap "" TERM; echo up; while :; do sleep 1; done', grace_ms=500)
    spent = cancel_when(crew, task, b'up', 'TERM')
    tap.ok(task.finish.get('signal') == 9 and 0.4 < spent < 20, 'TERM ignored: KILL after the grace of the task', (task.finish, spent))
    task = f.add(script='kill -STOP $$; echo never', grace_ms=1000)
    f.wait(lambda: task.state == 'X', 10)
    poll(lambda: any(state_of(pid) == 'T' for pid in processes(task.fence)), 10)
    f.cancel(task, 'TERM')
    f.wait_ended(task)
    tap.equal(task.finish.get('signal'), signal.SIGTERM, 'a stopped job is woken to hear TERM')
    child = f.add(script='sh -c \'trap "sleep 0.3; echo child done" TERM; echo up; while :; do sleep 0.05; done\' & wait', grace_ms=5000)
    cancel_when(crew, child, b'up', 'TERM')
    tap.ok(b'child done' in child.log, 'children may use the grace too, when the main process has gone at once', bytes(child.log))
    tap.ok(not processes(f.incarnation), 'nothing is left of all these', processes(f.incarnation))


def state_of(pid):
    try:
        return open(f'/proc/{pid}/stat').read().rsplit(')', 1)[1].split()[0]
    except OSError:
        return None


def bomb(crew):
    task = crew.fake.add(script='b() { i=0; while [ $i -lt 40 ]; do (setsid sleep 1000 &); i=$((i+1)); done; }; b; b & b & sleep 0.2; echo up; sleep 1000')
    cancel_when(crew, task, b'up', 'KILL')
    tap.ok(not processes(task.fence), 'a hundred detached processes die with their job')


with Crew(slots=2, options=['--grace', '60s']) as crew:
    escapes(crew)
    held_pipe(crew)
    timeouts(crew)
    cancels(crew)
    bomb(crew)
    tap.equal(crew.fake.faults, [], 'the server saw nothing wrong')
tap.end()
