"""How jobs end and what they get: exit codes, signals, environment, files, outputs; one executor, a fake server."""
import json
import os
import pathlib
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../unit/exec'))
from crew import TMP, Crew, Tap, poll  # noqa: E402

tap = Tap()


def ends(crew):
    rows = [
        (dict(command=['/bin/true']), {'exit': 0}), (dict(command=['false']), {'exit': 1}), (dict(command=['sh', '-c', 'exit 99']), {'exit': 99}),
        (dict(command=['sh', '-c', 'exit 255']), {'exit': 255}), (dict(command=['sh', '-c', 'kill -TERM $$']), {'signal': 15}),
        (dict(command=['sh', '-c', 'kill -HUP $$']), {'signal': 1}), (dict(command=['sh', '-c', 'kill -SEGV $$']), {'signal': 11}),
        (dict(command=['no-such-program']), {'exit': 127}), (dict(command=['/no/such/path']), {'exit': 127}),
        (dict(command=['/etc/passwd']), {'exit': 126}), (dict(command=['/tmp']), {'exit': 126}), (dict(command=['']), {'exit': 127}),
        (dict(command=[1]), {'exit': 126}), (dict(), {'exit': 126}), (dict(script='exit 5'), {'exit': 5}), (dict(script=''), {'exit': 0}),
        (dict(script='[[ a == a ]] && exit 7', shell='bash'), {'exit': 7}), (dict(script='true', shell='no-such-shell'), {'exit': 127}),
        (dict(command=['sh', '-c', 'x=$(head -c 3000000 /dev/zero | tr "\\0" a); exit 4']), {'exit': 4}),
        (dict(command=['/bin/echo', 'a' * 200000]), {'exit': 126}),
        (dict(image='no/such:image', command=['true']), None),
    ]
    tasks = [crew.fake.add(**spec) for spec, _ in rows]
    crew.fake.wait_ended(*tasks, seconds=60)
    for (spec, wanted), task in zip(rows, tasks):
        text = str(spec)[:90]
        if wanted is None:
            tap.ok(task.finish.get('outcome') == 'temporary' or task.finish.get('exit', 0) not in (0, None), f'{text} fails', task.finish)
            continue
        got = {k: task.finish[k] for k in ('exit', 'signal', 'outcome') if k in task.finish}
        tap.equal(got, wanted, f'{text} ends with {wanted}')
        if wanted.get('exit') in (126, 127) and 'kill' not in text:
            tap.ok(task.log.startswith(b'[weir: '), f'{text} says why in its log', bytes(task.log[:200]))
    tap.ok(all(t.finish['usage']['cpu_ms'] >= 0 and t.finish['usage']['max_rss_bytes'] >= 0 for t in tasks), 'resource use is reported')


def surroundings(crew):
    os.environ['SECRET_OF_EXECUTOR'] = 'x'
    task = crew.fake.add(command=['env', '-0'], archive='arch', rev=7, prev_rev=6, key='arch@7:t', name='t', attempt=2, token='tok', data={'a': [1, 'ä']},
                         env={'MINE': 'a b', 'LANG': 'de_DE', 'WEIR_FENCE': 'forged'}, needs={'build-x': {'outputs': {'file.name': 'v 1'}}}, params={'who me': 'you'})
    crew.fake.wait_ended(task)
    env = dict(entry.split('=', 1) for entry in task.log.decode().split('\0') if entry)
    wanted = {'WEIR_ARCHIVE': 'arch', 'WEIR_REV': '7', 'WEIR_PREV_REV': '6', 'WEIR_TASK': 't', 'WEIR_KEY': 'arch@7:t', 'WEIR_TASK_ID': str(task.id),
              'WEIR_ATTEMPT': '2', 'WEIR_FENCE': task.fence, 'WEIR_SERVER': crew.fake.url, 'WEIR_TOKEN': 'tok', 'MINE': 'a b', 'LANG': 'de_DE',
              'WEIR_OUTPUT_BUILD_X_FILE_NAME': 'v 1', 'WEIR_PARAM_WHO_ME': 'you'}
    tap.equal({k: env.get(k) for k in wanted}, wanted, 'the WEIR variables, env, needs and params are set, and none can be forged')
    rest = set(env) - set(wanted) - {'PATH', 'HOME', 'WEIR_OUTPUT', 'WEIR_NEEDS', 'WEIR_INPUT'}
    tap.equal(rest, set(), 'nothing else is in the environment')
    task = crew.fake.add(script='pwd; echo "$HOME"; cat "$WEIR_INPUT"; cat "$WEIR_NEEDS"; echo; ls -A; ls /proc/self/fd; read x; echo "read $?"; '
                         'ps -o pid= -o pgid= -o sid= -o tty= -p $$; grep -E "Sig(Blk|Ign|Cgt)" /proc/self/status; ulimit -c',
                         data={'a': [1, 'ä']}, needs={'b': {'outputs': {'n': 'v'}}})
    crew.fake.wait_ended(task)
    lines = task.log.decode().splitlines()
    tap.equal(lines[0], lines[1], 'HOME is the working directory')
    tap.ok(lines[0].startswith(os.path.realpath(crew.data)), 'which is in the data directory')
    tap.equal(json.loads(lines[2]), {'a': [1, 'ä']}, 'WEIR_INPUT is one line of JSON')
    tap.equal(json.loads(lines[3]), {'b': {'outputs': {'n': 'v'}}}, 'WEIR_NEEDS is JSON')
    tap.equal(lines[4:8], ['0', '1', '2', '3'], 'the directory is empty and there are descriptors 0, 1, 2 only (3 is ls itself)')
    tap.equal(lines[8], 'read 1', 'stdin is at its end')
    ids = lines[9].split()
    tap.ok(ids[0] == ids[1] == ids[2] and ids[3] == '?', 'own session, own group, no terminal', lines[9])
    masks = dict(line.split(':\t') for line in lines[10:13])
    tap.equal((int(masks['SigBlk'], 16), int(masks['SigIgn'], 16)), (0, 0), 'no signal is blocked or ignored')
    tap.equal(lines[13], '0', 'no core dumps')


def outputs(crew):
    f = crew.fake
    rows = [
        (r'printf "a=1\nb=x=y\nno line\n=z\na=2\nc=\n" > $WEIR_OUTPUT', {'a': '2', 'b': 'x=y', 'c': ''}),
        ('for i in $(seq 300); do echo "n$i=$i"; done > $WEIR_OUTPUT', {f'n{i}': str(i) for i in range(1, 257)}),
        ('ln -sf /etc/passwd $WEIR_OUTPUT', None), ('rm $WEIR_OUTPUT; mkfifo $WEIR_OUTPUT', None), ('rm $WEIR_OUTPUT; mkdir $WEIR_OUTPUT', None),
        ('echo k=v > x; mv x $WEIR_OUTPUT', {'k': 'v'}), ('true', None), ('rm $WEIR_OUTPUT', None), ('echo last=1 >> $WEIR_OUTPUT', {'last': '1'}),
    ]
    for script, wanted in rows:
        task = f.add(script=script)
        f.wait_ended(task)
        tap.equal(task.finish.get('outputs'), wanted, f'outputs of: {script[:60]}')
    task = f.add(script='head -c 200000 /dev/zero | tr "\\0" x | sed "s/^/big=/" > $WEIR_OUTPUT; echo ok')
    f.wait_ended(task)
    tap.equal(task.finish.get('outputs'), {}, 'a line over the limit is left out, not cut')


def leftovers(crew):
    f = crew.fake
    task = f.add(script='mkdir -p a/b/c; touch a/b/c/d .hidden; ln -s / root; mkdir locked; touch locked/x; chmod 000 locked; '
                 'd=$PWD; for i in $(seq 300); do mkdir d; cd d; done; echo made')
    f.wait_ended(task)
    after = [f.add(script='ls -A | wc -l; ls -d /etc') for _ in range(4)]
    f.wait_ended(*after)
    tap.ok(all(t.log == b'0\n/etc\n' for t in after), 'every job starts in an empty directory', [bytes(t.log) for t in after])
    task = f.add(script='rm -rf "$PWD"; echo gone')
    f.wait_ended(task)
    after = [f.add(script='touch x && ls') for _ in range(4)]
    f.wait_ended(*after)
    tap.ok(all(t.log == b'x\n' for t in after), 'also after a job that removed its own directory')


def groups_apart(crew):
    """two executors of one machine in the same cgroup: the end of one's job is nothing to the other's, and a killed shim's group is used again"""
    within = {'memory': 300 << 20, 'pids': 100}
    with Crew(slots=1) as other:
        long = crew.fake.add(script='echo up; sleep 1; while [ ! -e ' + str(TMP) + '/go ]; do sleep 0.05; done; echo whole', limits=within)
        poll(lambda: b'up' in long.log)
        short = other.fake.add(script='sleep 1000 & exit 0', limits=within)
        other.fake.wait_ended(short)
        tap.ok(short.finish.get('exit') == 0, 'a job with limits leaves a process behind and ends', short.finish)
        killed = other.fake.add(script='echo up; sleep 1000', limits=within)
        poll(lambda: b'up' in killed.log)
        for pid in other.shims().values():
            os.kill(pid, 9)
        again = other.fake.add(script='echo again', limits=within)
        other.fake.wait_ended(killed, again, seconds=40)
        tap.ok(again.log.split()[-1:] == [b'again'], 'a job after a killed shim has its limits', again.log)
        pathlib.Path(TMP, 'go').touch()
        crew.fake.wait_ended(long)
        tap.equal((long.finish.get('exit'), long.log.split()[-1:]), (0, [b'whole']), 'a job of another executor on the machine is untouched by that')


def limits(crew):
    f = crew.fake
    files = f.add(script='ulimit -n; ulimit -f', limits={'files': 64, 'file_bytes': 1048576})
    cpu = f.add(script='while :; do :; done', limits={'cpu_s': 1})
    memory = f.add(script='x=$(head -c 300000000 /dev/zero | tr "\\0" a); echo ${#x}', limits={'memory': 64 << 20})
    pids = f.add(script='for i in 1 2 3 4 5 6 7 8 9 10; do sleep 5 & done; echo end', limits={'pids': 5})
    f.wait_ended(files, cpu, memory, pids, seconds=30)
    tap.equal(files.log.split(), [b'64', b'2048'], 'limits on files and their size are set')
    tap.equal(cpu.finish.get('signal'), 9, 'a job over its CPU time is killed')
    tap.ok(memory.finish.get('exit') != 0 and b'300000000' not in memory.log, 'a job over its memory fails', memory.finish)
    if b'is one on address space' not in memory.log:
        tap.equal(memory.finish.get('reason'), 'over its memory limit of 64MiB', 'and its end says so')
    limited = b'no limit on processes' in pids.log or b'fork' in pids.log.lower() or b'resource' in pids.log.lower()
    tap.ok(limited, 'a limit on processes holds, or the log says that there is none', bytes(pids.log))


with Crew(slots=2, options=['--grace', '1s']) as crew:
    ends(crew)
    surroundings(crew)
    outputs(crew)
    leftovers(crew)
    limits(crew)
    groups_apart(crew)
    tap.equal(crew.fake.faults, [], 'the server saw nothing wrong')
tap.end()
