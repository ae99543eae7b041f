"""Many quick jobs through few slots: each runs once, never more at the same time than slots, few requests, idle shims wait."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../unit/exec'))
from crew import TMP, Crew, Tap, poll  # noqa: E402

tap = Tap()
N = 200

with Crew(slots=4) as crew:
    f = crew.fake
    script = 'mkdir "%s/now.$WEIR_TASK_ID"; set -- %s/now.*; echo $#; echo $WEIR_TASK_ID >> %s/ran; rmdir "%s/now.$WEIR_TASK_ID"; exit $((WEIR_TASK_ID %% 50))'
    tasks = [f.add(script=script % (TMP, TMP, TMP, TMP)) for _ in range(N)]
    f.wait_ended(*tasks, seconds=60)
    tap.ok(all(t.finish['exit'] == t.id % 50 for t in tasks), f'{N} jobs, each with its own exit code')
    tap.equal(sorted(int(line) for line in open(f'{TMP}/ran')), sorted(t.id for t in tasks), 'each ran once')
    most = max(int(t.log.split()[0]) for t in tasks)
    tap.ok(2 <= most <= 4, 'at most four at the same time', most)
    crossed = sum(t.grant - 1 for t in tasks)
    tap.ok(crossed <= N // 5, 'few grants cross a newer poll on the wire and are given back', crossed)
    tap.ok(sum(bool(t.chunks) for t in tasks) < N / 2, 'small logs of quick jobs ride in the finish', sum(bool(t.chunks) for t in tasks))
    quick = [f.add(command=['/bin/true']) for _ in range(N)]
    before = len(f.polls)
    f.wait_ended(*quick, seconds=60)
    tap.ok(len(f.polls) - before <= 2 * N + 10, 'ends are told together', len(f.polls) - before)
    tap.ok(len(crew.shims()) <= 24, 'shims are used again', len(crew.shims()))
    tap.ok(poll(lambda: f.polls[-1]['free'] >= 4 and not f.polls[-1]['renew'], 10), 'in the end all slots are free', f.polls[-1])

    # Short jobs make the executor ask ahead of its slots; when long ones follow, what it can't start at once goes back within moments.
    short = [f.add(command=['/bin/true']) for _ in range(40)]
    long = [f.add(script='sleep 1.5') for _ in range(12)]
    f.wait_ended(*short)
    f.wait(lambda: sum(t.state == 'X' for t in long) > 0, 10)
    settled = poll(lambda: sum(t.state == 'X' and not t.finish for t in long) == 4 and len(f.polls[-1]['renew']) == 4, 20)
    tap.ok(settled, 'no more are held than slots, once jobs are long', [t.state for t in long])
    f.wait_ended(*long)
    tap.ok(all(t.finish['exit'] == 0 for t in long), 'and all of them run')
    tap.equal(f.faults, [], 'the server saw nothing wrong')
tap.end()
