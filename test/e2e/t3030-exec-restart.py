"""The agent dies and comes back, shims die, both die: jobs go on, ends and logs arrive, what can't be known is lost, nothing lives on."""
# time limit: 180
import hashlib
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../unit/exec'))
from crew import TMP, WEIR, Crew, Tap, poll, processes  # noqa: E402

tap = Tap()
ODD = f'1001.{os.getpid()}'  # found by this number alone
COUNT = 'i=0; while [ $i -lt %d ]; do echo "line $i of the job"; i=$((i+1)); sleep 0.0%d; done; exit %d'


def counted(n):
    return ''.join(f'line {i} of the job\n' for i in range(n)).encode()


def adoption(crew):
    f = crew.fake
    tasks = [f.add(script=COUNT % (60, 3, 40 + i)) for i in range(2)]
    f.wait(lambda: all(b'line 3 ' in t.log for t in tasks), 10, 'both run')
    shims = crew.shims()
    for _ in range(5):
        crew.kill()
        crew.start()
    f.wait_ended(*tasks, seconds=40)
    tap.equal([t.finish.get('exit') for t in tasks], [40, 41], 'jobs go on through five kills of the agent; their exit codes arrive')
    tap.ok(all(t.log == counted(60) for t in tasks), 'and their logs are whole', [len(t.log) for t in tasks])
    tap.equal([t.grant for t in tasks], [1, 1], 'no attempt was spent')
    tap.equal(len(f.executors), 1, 'the server knows it as the same executor')
    tap.ok(set(shims.values()) & set(crew.shims().values()) == set(shims.values()), 'the shims are the same', (shims, crew.shims()))
    again = f.add(command=['true'])
    f.wait_ended(again)
    tap.equal(again.finish['exit'], 0, 'adopted shims serve on')


def ended_meanwhile(crew):
    f = crew.fake
    path = os.path.join(TMP, 'big')
    with open(path, 'wb') as out:
        out.write(os.urandom(3 << 20))
    task = f.add(script=f'echo up; while [ ! -e {TMP}/go ]; do sleep 0.02; done; cat {path}; echo a=b >> $WEIR_OUTPUT; exit 17')
    f.wait(lambda: b'up' in task.log, 10)
    crew.kill()
    open(os.path.join(TMP, 'go'), 'w').close()
    tap.ok(poll(lambda: not crew.shims(), 10), 'without an agent a shim exits when its job has ended')
    crew.start()
    f.wait_ended(task)
    tap.equal((task.finish.get('exit'), task.finish.get('outputs')), (17, {'a': 'b'}), 'a job that ended meanwhile is reported from what its shim wrote')
    tap.equal(hashlib.sha256(task.log).hexdigest(), hashlib.sha256(b'up\n' + open(path, 'rb').read()).hexdigest(), 'with its whole log')


def shim_killed(crew):
    f = crew.fake
    for name, script in {'plain': 'echo up; sleep 1000', 'with detached children': '(setsid sleep 1000 &); (env -i setsid sleep %s &); sleep 0.1; echo up; sleep 1000' % ODD}.items():
        task = f.add(script=script)
        f.wait(lambda: b'up' in task.log, 10)
        shim = next(pid for number, pid in crew.shims().items() if processes(task.fence) and pid in parents(task))
        os.kill(shim, signal.SIGKILL)
        f.wait_ended(task)
        tap.equal(task.finish.get('outcome'), 'lost', f'the shim killed, {name}: lost')
        tap.ok(poll(lambda: not processes(task.fence) and not processes(ODD), 20), 'and no process is left', processes(task.fence) + processes(ODD))
        tap.ok(task.log.startswith(b'up\n'), 'the log up to there is kept')
    after = f.add(command=['true'])
    f.wait_ended(after)
    tap.equal(after.finish['exit'], 0, 'the executor goes on')


def parents(task):
    found = set()
    for pid in processes(task.fence):
        try:
            found.add(int(open(f'/proc/{pid}/stat').read().rsplit(')', 1)[1].split()[1]))
        except OSError:
            pass
    return found


def both_killed(crew):
    f = crew.fake
    task = f.add(script='(setsid sleep 1000 &); sleep 0.1; echo up; sleep 1000')
    f.wait(lambda: b'up' in task.log, 10)
    shims = crew.shims()
    crew.kill()
    for pid in shims.values():
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    crew.start()
    f.wait_ended(task)
    tap.equal(task.finish.get('outcome'), 'lost', 'agent and shim killed: the next agent says lost')
    tap.ok(not processes(task.fence), 'and has killed what was left', processes(task.fence))


def terminated(crew):
    f = crew.fake
    task = f.add(script=COUNT % (40, 3, 9))
    f.wait(lambda: b'line 2 ' in task.log, 10)
    tap.equal(crew.kill(signal.SIGTERM), 0, 'SIGTERM ends the agent with 0')
    tap.ok(processes(task.fence) != [], 'and leaves the job running')
    crew.start()
    f.wait_ended(task)
    tap.ok(task.finish.get('exit') == 9 and task.log == counted(40), 'which the next agent reports', task.finish)


def second(crew):
    argv = [WEIR, 'executor', '--server', crew.fake.url, '--data', crew.data]
    done = subprocess.run(argv, capture_output=True, timeout=60)
    tap.ok(done.returncode == 75 and b'another executor' in done.stderr, 'a second executor in the same directory is refused', (done.returncode, done.stderr))


def stopped(crew):
    """An agent that stands still for a while: its jobs don't notice."""
    f = crew.fake
    task = f.add(script=COUNT % (30, 2, 5))
    f.wait(lambda: b'line 2 ' in task.log, 10)
    os.kill(crew.agent.pid, signal.SIGSTOP)
    time.sleep(1.5)
    os.kill(crew.agent.pid, signal.SIGCONT)
    f.wait_ended(task)
    tap.ok(task.finish.get('exit') == 5 and task.log == counted(30), 'an agent that was stopped catches up', task.finish)


def idle_shim_ends(crew):
    """An idle shim ends when its agent is gone; the next agent may find it before it is dead, and must not give it a job."""
    f = crew.fake
    shims = crew.shims().values()
    for pid in shims:
        os.kill(pid, signal.SIGSTOP)
    crew.kill()
    crew.start()
    task = f.add(command=['true'])
    f.wait_ended(task)
    tap.ok(shims and task.finish.get('exit') == 0, 'a shim that has not said it stays is given no job', task.finish)
    for pid in shims:
        os.kill(pid, signal.SIGCONT)


def interrupted(crew):
    f = crew.fake
    nice = f.add(script='trap "echo bye; exit 0" TERM; echo up; while :; do sleep 0.05; done')
    rude = f.add(script='trap "" TERM; echo up; while :; do sleep 0.05; done')
    f.wait(lambda: b'up' in nice.log and b'up' in rude.log, 10)
    began = time.monotonic()
    tap.equal(crew.kill(signal.SIGINT), 0, 'SIGINT ends the agent')
    tap.ok(time.monotonic() - began < 30, 'within the grace and a little')
    tap.equal([nice.finish.get('outcome'), rude.finish.get('outcome')], ['lost', 'lost'], 'its jobs are reported as lost')
    tap.ok(nice.log.endswith(b'bye\n'), 'after they had their TERM')
    tap.ok(not processes(nice.fence) and not processes(rude.fence), 'and are dead')
    tap.ok(poll(lambda: not crew.shims(), 20), 'no shim is left', crew.shims())


with Crew(slots=2, options=['--grace', '2s']) as crew:
    adoption(crew)
    ended_meanwhile(crew)
    shim_killed(crew)
    both_killed(crew)
    terminated(crew)
    second(crew)
    stopped(crew)
    idle_shim_ends(crew)
    interrupted(crew)
    tap.equal(crew.fake.faults, [], 'the server saw nothing wrong')
tap.end()
