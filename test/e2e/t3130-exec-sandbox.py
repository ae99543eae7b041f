#!/usr/bin/env python3
"""sandbox: strict: own root, /tmp, network and pids, or a refusal that says what the kernel didn't give."""
# time limit: 120
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../unit/exec'))
from crew import TMP, Crew, Tap, poll, processes  # noqa: E402

tap = Tap()


def text(task):
    return bytes(task.log).decode(errors='replace')


with Crew(slots=4) as crew:
    fake = crew.fake
    first = fake.add(script='echo in; id -u', sandbox='strict')
    fake.wait_ended(first)
    if 'strict isn\'t possible here' in text(first):
        tap.equal(first.finish['exit'], 126, 'refused, not run weaker: ' + text(first).strip())
        tap.end()
    tap.equal((first.finish.get('exit'), text(first)), (0, f'in\n{os.getuid()}\n'), 'a strict job runs')

    secret = pathlib.Path('/tmp', 'weir-secret-%d' % os.getpid())
    secret.write_text('secret')
    rows = [
        ('its own /tmp', f'ls {secret} 2>&1 | tail -c 30; touch /tmp/mine && echo wrote', 'wrote'),
        ('system folders are read-only', 'touch /usr/x 2>&1 | tail -c 30; touch /etc/x 2>&1; test -e /usr/x || echo safe', 'safe'),
        ('no secrets of /etc', 'cat /etc/shadow 2>/dev/null; test -e /etc/shadow || echo none', 'none'),
        ('its own pids', 'ls /proc | grep -c "^[0-9]"', None),
        ('no network but loopback', 'tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d " "', 'lo'),
        ('no capabilities', 'grep -E "Cap(Prm|Eff|Bnd|Amb)" /proc/self/status | tr -d "0\\t" | cut -d: -f2 | tr -d "\\n"; echo', ''),
        ('no new privileges', 'grep NoNewPrivs /proc/self/status', 'NoNewPrivs:\t1'),
        ('the kernel\'s settings can\'t be changed', 'echo x 2>/dev/null >/proc/sys/kernel/hostname; echo $?', None),
        ('the host\'s folders are not there', 'ls / | tr "\\n" " "', None),
        ('it may write where it works', 'echo y >f && cat f && pwd | grep -c shims', 'y\n1'),
        ('it can\'t mount', 'mount -t tmpfs x /tmp 2>/dev/null || echo no', 'no'),
    ]
    tasks = [fake.add(script=script, sandbox='strict') for _, script, _ in rows]
    fake.wait_ended(*tasks, seconds=40)
    for (name, _, wanted), task in zip(rows, tasks):
        if wanted is not None:
            tap.ok(text(task).strip().endswith(wanted), name, text(task))
    got = {name: text(task).strip() for (name, _, _), task in zip(rows, tasks)}
    tap.ok(int(got['its own pids']) <= 6, 'its own pids', got['its own pids'])
    tap.ok(got['the kernel\'s settings can\'t be changed'] != '0', 'the kernel\'s settings can\'t be changed', got)
    tap.ok(not {'root', 'home', 'work', 'srv', 'mnt', 'sys', 'boot'} & set(got['the host\'s folders are not there'].split()), 'the host\'s folders are not there', got)
    tap.ok(secret.exists() and not pathlib.Path('/tmp/mine').exists(), 'nothing reached the host')
    secret.unlink()

    ends = [(fake.add(script='exit 7', sandbox='strict'), 'exit', 7), (fake.add(script='kill -SEGV $$', sandbox='strict'), 'signal', 11),
            (fake.add(command=['/nothing/here'], sandbox='strict'), 'exit', 127), (fake.add(script='kill -TERM $$', sandbox='strict'), 'signal', 15)]
    fake.wait_ended(*[t for t, _, _ in ends])
    tap.equal([t.finish.get(k) for t, k, _ in ends], [w for _, _, w in ends], 'exit statuses and signals are the job\'s own')

    out = fake.add(script='echo a=1 >"$WEIR_OUTPUT"; cat "$WEIR_INPUT"; echo kept >kept', sandbox='strict', data={'x': 1}, artifacts=['kept'])
    fake.wait_ended(out)
    tap.equal((out.finish.get('outputs'), text(out), [r['name'] for r in out.finish['artifacts']]), ({'a': '1'}, '{"x":1}\n', ['kept']),
              'outputs, input and artifacts work inside')

    slow = fake.add(script='echo up; sleep 1000 & trap "" HUP; sleep 1000', sandbox='strict')
    poll(lambda: b'up' in slow.log)
    fake.cancel(slow)
    fake.wait_ended(slow)
    tap.ok(slow.finish.get('signal') == 15 and poll(lambda: not processes(slow.fence), 20), 'a cancel ends it with all it started', slow.finish)
    stubborn = fake.add(script='trap "" TERM; echo up; while :; do sleep 1; done', sandbox='strict', grace_ms=200)
    poll(lambda: b'up' in stubborn.log)
    fake.cancel(stubborn)
    fake.wait_ended(stubborn)
    tap.ok(stubborn.finish.get('signal') == 9 and poll(lambda: not processes(stubborn.fence), 20), 'and what doesn\'t listen is killed', stubborn.finish)
    late = fake.add(script='echo up; sleep 1000', sandbox='strict', timeout_ms=300, grace_ms=500)
    fake.wait_ended(late)
    tap.equal(late.finish.get('outcome'), 'timeout', 'a time-out')

    # what a job takes of the machine is limited, whether it asks for that or not
    beside = fake.add(script='echo up; while [ ! -e %s/go ]; do sleep 0.05; done; sleep 1 & wait $! && echo whole' % TMP)
    bomb = fake.add(script='i=0; while [ $i -lt 700 ]; do sleep 100 & i=$((i+1)); done; echo all', sandbox='strict')
    hog = fake.add(command=['python3', '-c', 'x = b"a" * (300 << 20); print("had it")'], sandbox='strict', limits={'memory': 100 << 20})
    fake.wait_ended(bomb, hog, seconds=60)
    tap.ok('all' not in text(bomb) and bomb.finish.get('exit') != 0 and poll(lambda: not processes(bomb.fence), 20), 'a fork bomb ends at 512 processes', text(bomb)[-300:])
    tap.ok('had it' not in text(hog), 'a job over its memory', (hog.finish, text(hog)))
    full = fake.add(script='i=0; while :; do dd if=/dev/zero of=f$i bs=1M count=1 2>/dev/null; i=$((i+1)); [ $i -lt 3000 ] || break; done; echo all', sandbox='strict',
                    limits={'disk_bytes': 20 << 20})
    many = fake.add(command=['python3', '-c', 'for i in range(1000000): open("f%d" % i, "w")\nprint("all")'], sandbox='strict', limits={'disk_bytes': 20 << 20})
    large = fake.add(script='dd if=/dev/zero of=big bs=1M count=3000 2>/dev/null; echo all', sandbox='strict', limits={'disk_bytes': 20 << 20})
    fake.wait_ended(full, many, large, seconds=60)
    for job, name in ((full, 'a job over its limit on disk is stopped'), (many, 'also one with very many empty files')):
        tap.ok('all' not in text(job) and 'more than its limit of 20 MiB on disk' in text(job) and job.finish.get('outcome') == 'failed', name, (job.finish, text(job)[-300:]))
    tap.ok('all' in text(large) and sum(f.stat().st_blocks for f in pathlib.Path(crew.data).rglob('big')) == 0, 'a single file ends at the limit', text(large))
    pathlib.Path(TMP, 'go').touch()
    fake.wait_ended(beside)
    tap.equal(text(beside), 'up\nwhole\n', 'a job beside them goes on')

    subprocess.run(['sh', '-ec', 'svnadmin create r; mkdir i; echo hello >i/readme; svn import -qm x i "file://$PWD/r"'], cwd=TMP, check=True)
    source = {'archive': 'a', 'kind': 'svn', 'url': f'{TMP}/r', 'rev': 1, 'prev': 0}
    tree = fake.add(source=source, script='cat readme; echo new >readme; cat readme', sandbox='strict')
    fake.wait_ended(tree)
    again = fake.add(source=source, script='cat readme', sandbox='strict')
    fake.wait_ended(again)
    tap.equal((text(tree), text(again)), ('hello\nnew\n', 'hello\n'), 'a checkout in a sandbox')

    lost = fake.add(script='echo up; sleep 1000', sandbox='strict')
    poll(lambda: b'up' in lost.log)
    number = [n for n, pid in crew.shims().items() if b'up' in pathlib.Path(crew.data, 'shims', str(n), 'log').read_bytes()][0]
    os.kill(crew.shims()[number], 9)
    fake.wait_ended(lost)
    tap.ok(lost.finish.get('outcome') == 'lost' and poll(lambda: not processes(lost.fence), 20), 'a shim that is killed takes it along', lost.finish)

tap.end()
