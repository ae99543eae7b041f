#!/usr/bin/env python3
"""Whatever bytes a job writes into every file and descriptor it has, its executor goes on with other work, and the log says what isn't kept.

First with a server that refuses ends, wholly and one by one; then hostile jobs at the real one, each with a plain job after it."""
# time limit: 200
import json
import os
import pathlib
import signal
import sys

sys.path.insert(0, os.environ.get('WEIR_TEST_LIB') or str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../unit/exec'))
from crew import Crew, poll  # noqa: E402
from fake_server import FakeServer  # noqa: E402
from house import House, end, ok, same, skip  # noqa: E402


class Strict(FakeServer):
    """Can't read a body in which a task of `bad` says more than `says`; answers `status` to the whole of it."""
    bad, says, status, refusals = (), (), 400, 0

    def serve(self, path, body):
        if path.endswith('/poll') or path.endswith('/finishes'):
            document = json.loads(body)
            items = document.get('finishes', []) + document.get('items', [])
            if any(item['task'] in self.bad and any(word in item for word in self.says) for item in items):
                self.refusals += 1
                return self.status, {'code': 'bad_json', 'detail': 'no'}
        return super().serve(path, body)


def refusals(slots, status):
    with Crew(slots=slots, server=Strict()) as crew:
        f = crew.fake
        f.status, f.says = status, ('outputs',)
        f.fail_finishes = 1000  # ends gather, so that one request carries several
        jobs = [f.add(script=f'echo log {i}; echo k={i} >$WEIR_OUTPUT; exit {i}') for i in range(4)]
        f.wait(lambda: all(job.finishes for job in jobs))
        f.bad = {jobs[1].id}
        f.fail_finishes = 0
        plain = f.add(command=['true'])
        f.wait_ended(plain, *jobs)
        same([(j.finish['exit'], j.finish.get('outputs')) for j in jobs], [(0, {'k': '0'}), (1, None), (2, {'k': '2'}), (3, {'k': '3'})],
             f'{slots} slots, {status}: the end that is refused is told bare, its companions whole')
        ok(b'log 1\n[weir: the server refused what this job left' in jobs[1].log, 'its log is there, and says so', bytes(jobs[1].log))
        ok(f.refusals < 8, 'a refused body is not repeated', f.refusals)

        f.says = ('outputs', 'usage')  # even bare
        never = f.add(script='echo k=v >$WEIR_OUTPUT')
        f.bad = {never.id}
        after = f.add(command=['true'])
        f.wait_ended(after)
        ok(poll(lambda: f.refusals >= 4), 'an end that is refused however it is told')
        before = f.refusals
        more = f.add(command=['true'])
        f.wait_ended(more)
        ok(f.refusals <= before + 2, 'is given up', f.refusals)


def restarted():
    with Crew(slots=1, server=Strict()) as crew:
        f = crew.fake
        f.fail_finishes = 1000
        job = f.add(script='echo k=v >$WEIR_OUTPUT; exit 5')
        ok(poll(lambda: job.finishes), 'the agent is killed while it has an end to tell')
        crew.kill()
        f.fail_finishes, f.says, f.bad = 0, ('outputs',), {job.id}
        crew.start()
        plain = f.add(command=['true'])
        f.wait_ended(job, plain)
        same((job.finish['exit'], 'outputs' in job.finish), (5, False), 'the next agent finds the record and tells it bare')


HOSTILE = {
    'a NUL in a name': r"printf 'a\000b=1\n' >$WEIR_OUTPUT",
    'names that become one': r"printf '\377=1\n\376=2\n' >$WEIR_OUTPUT",
    'every byte in names and values': r"""for i in $(seq 0 255); do o=$(printf '%o' $i); printf "x\\$o=\\$o\n"; done >$WEIR_OUTPUT""",
    'a value that grows': r"(printf 'v='; head -c 60000 /dev/zero | tr '\000' '\377') >$WEIR_OUTPUT",
    'values that are escaped': r"(printf 'v='; head -c 65000 /dev/zero | tr '\000' '\001') >$WEIR_OUTPUT",
    'no line feed at all': r"head -c 300000 /dev/urandom >$WEIR_OUTPUT",
    'a log of noise': r"head -c 300000 /dev/urandom; head -c 300000 /dev/urandom >&2",
    'a folder for an output': r"rm $WEIR_OUTPUT; mkdir $WEIR_OUTPUT; chmod 0 $WEIR_OUTPUT",
    'names of files': r"""for i in $(seq 1 46) $(seq 48 255); do : >"$(printf "f\\$(printf '%o' $i).txt")"; done 2>/dev/null; exit 0""",
    'long names of files': r"""q=$(head -c 240 /dev/zero | tr '\000' '"'); d=$q/$q/$q/$q; mkdir -p $d; for i in $(seq 300); do : >$d/$i; done""",
    'no working directory': r'd=$PWD; cd /; rm -rf "$d"; echo x >"$d"',
    'another working directory': r'mv "$PWD" "$PWD.gone"; mkdir "$HOME"; echo x >"$HOME/y"',
    'a link for a working directory': r'd=$PWD; cd /; rm -rf "$d"; ln -s /etc "$d"',
    'its own folder': r'chmod 0 . ; chmod 0 "$(dirname $WEIR_OUTPUT)"',
}


def hostile():
    s = House('data', slots=1)
    for name, script in HOSTILE.items():
        bad, good = [t['id'] for t in (s.enqueue(dict(name='bad', script=script, artifacts=['**'])), s.enqueue(dict(name='good', script='echo x >f && [ "$(ls)" = f ]')))]
        s.ended(bad, good)
        same([s.task(bad)['state'], s.task(good)['state']], ['D', 'D'], f'{name}: the job and a plain one after it end')
        same(len(s.task(bad)['attempts']), 1, 'in one attempt')
        if name in ('a NUL in a name', 'names that become one', 'a value that grows'):
            ok(b'WEIR_OUTPUT are left out' in s.log_bytes(bad), 'what is left out is said in the log', s.log_bytes(bad))
        if name == 'names of files':
            kept = [row['name'] for row in s.task(bad)['artifacts']]
            ok('f\\.txt' in kept and 'f".txt' in kept and 'f?.txt' in kept and 'f%.txt' in kept and len(kept) > 90, 'plain names are kept, backslashes too', kept)
            same(s.get(f'/v1/tasks/{bad}/artifacts/f%5C.txt').status, 200, 'and can be had')
            ok(b'not plain text' in s.log_bytes(bad), 'the others are said in the log')
        if name == 'long names of files':
            ok(len(s.task(bad)['artifacts']) > 200 and b"isn't kept" in s.log_bytes(bad), 'as many as a finish can list; the rest is said')
    same(s.get('/v1/tasks/1%5C2').status, 404, 'a backslash elsewhere in a path is nothing')
    s.stop(signal.SIGINT)  # the executor, too: its next life finds what they left of its folders
    s.start()
    modes = s.enqueue(dict(name='modes', script='echo x >run; chmod 755 run; echo y >data; ln -s run link', artifacts=['*', 'gone']))['id']
    s.ended(modes)
    same({row['name']: row['mode'] for row in s.task(modes)['artifacts']}, {'run': '0755', 'data': '0644'}, 'the executable bit is kept, a link is not')
    ok(b"'link' isn't kept: it is a link" in s.log_bytes(modes), 'which the log says')
    same((s.task(modes)['state'], s.task(modes)['reason']), ('D', "artifact 'gone': there is no such file"), 'a promised file that is missing shows at the task')
    hog = s.enqueue(dict(name='hog', script='x=$(head -c 300000000 /dev/zero | tr "\\0" a); exit 137', limits=dict(memory='64MiB'), retry=dict(attempts=1)))['id']
    s.ended(hog)
    if b'address space' in s.log_bytes(hog):
        skip('a job over its memory limit', 'no cgroup here')
    else:
        ok(s.task(hog)['reason'].endswith('): over its memory limit of 64MiB'), 'a job over its memory limit: the reason says so', s.task(hog)['reason'])
        ok('raise limits.memory' in s.cli('why', str(hog)).out, 'and the remedy is another one', s.cli('why', str(hog)).out)
    s.cli('artifacts', str(modes), 'run', '-o', os.path.join(s.dir, 'got'))
    ok(os.access(os.path.join(s.dir, 'got'), os.X_OK), 'weir artifacts -o keeps it too')


refusals(4, 400)
refusals(1, 413)
restarted()
hostile()
end()
