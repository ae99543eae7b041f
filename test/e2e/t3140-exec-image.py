#!/usr/bin/env python3
"""image: through the real podman: working directory, environment, files, ends, cancels; nothing is left behind. Where this kernel refuses
containers the script says what it refused and skips."""
# time limit: 240
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../unit/exec'))
from crew import TMP, Crew, Tap, poll, processes  # noqa: E402

tap = Tap()
IMAGE = 'localhost/weir-test:1'


def skip_all(why):
    print(f'ok 1 - containers # SKIP {why}\n1..1')
    sys.exit(0)


def podman(*args, check=True):
    return subprocess.run(['podman', *args], check=check, capture_output=True, text=True)


def prepare():
    """A store of our own, settings that fit most kernels, and an image of one program, made without a network."""
    root = pathlib.Path(TMP, 'root')
    busybox = shutil.which('busybox')
    if not shutil.which('podman') or not busybox:
        skip_all('podman or busybox-static is not installed')
    (root / 'bin').mkdir(parents=True)
    for folder in ('tmp', 'proc', 'dev', 'etc', 'work', 'weir'):
        (root / folder).mkdir()
    shutil.copy(busybox, root / 'bin/busybox')
    for name in ('sh', 'cat', 'echo', 'sleep', 'env', 'ls', 'id', 'true', 'kill', 'wc', 'hostname', 'cut', 'tail'):
        (root / 'bin' / name).symlink_to('busybox')
    (root / 'etc/passwd').write_text('root:x:0:0::/:/bin/sh\n')
    subprocess.run(['tar', '-C', root, '-cf', f'{TMP}/image.tar', '.'], check=True)
    runtime = 'runc' if shutil.which('runc') else 'crun'
    pathlib.Path(TMP, 'containers.conf').write_text(f'''[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
netns = "none"
log_driver = "k8s-file"
[engine]
runtime = "{runtime}"
cgroup_manager = "cgroupfs"
events_logger = "file"
''')
    pathlib.Path(TMP, 'storage.conf').write_text(f'''[storage]
driver = "vfs"
graphroot = "{TMP}/store"
runroot = "{TMP}/run"
''')
    pathlib.Path(TMP, 'registries.conf').write_text('unqualified-search-registries = []\n')
    os.environ.update(CONTAINERS_CONF=f'{TMP}/containers.conf', CONTAINERS_STORAGE_CONF=f'{TMP}/storage.conf',
                      CONTAINERS_REGISTRIES_CONF=f'{TMP}/registries.conf')
    done = podman('import', f'{TMP}/image.tar', IMAGE, check=False)
    if done.returncode == 0:
        done = podman('run', '--rm', IMAGE, '/bin/true', check=False)
    if done.returncode != 0:
        skip_all('podman: ' + done.stderr.strip().replace('\n', '; ')[-300:])


def containers():
    return [c for c in json.loads(podman('ps', '--all', '--format', 'json').stdout or '[]')]


def text(task):
    return bytes(task.log).decode(errors='replace')


prepare()
subprocess.run(['sh', '-ec', 'svnadmin create r; mkdir i; echo hello >i/readme; svn import -qm x i "file://$PWD/r"'], cwd=TMP, check=True)
source = {'archive': 'ark', 'kind': 'svn', 'url': f'{TMP}/r', 'rev': 1, 'prev': 0}

with Crew(slots=2, options=['--container', 'podman']) as crew:
    fake = crew.fake
    first = fake.add(image=IMAGE, source=source, archive='ark', rev=1, name='build', env={'OWN': 'a b'}, data={'x': 1}, needs={'dep': {'outputs': {'v': '9'}}},
                     script='cat readme; pwd; echo "$HOME|$OWN|$WEIR_REV|$WEIR_OUTPUT_DEP_V|$WEIR_TOKEN"; cat "$WEIR_INPUT" "$WEIR_NEEDS"; echo; '
                            'echo a=1 >"$WEIR_OUTPUT"; echo changed >readme; echo made >made; exit 4', token='secret', artifacts=['made', 'readme'])
    fake.wait_ended(first, seconds=60)
    tap.equal(text(first), 'hello\n/work\n/work|a b|1|9|secret\n{"x":1}\n{"dep":{"outputs":{"v":"9"}}}\n', 'checkout, environment, input and needs')
    tap.equal((first.finish.get('exit'), first.finish.get('outputs'), bytes(first.files['made']), bytes(first.files['readme'])),
              (4, {'a': '1'}, b'made\n', b'changed\n'), 'exit status, outputs and artifacts')
    words = fake.add(image=IMAGE, command=['echo', 'two  words', '$HOME'])
    fresh = fake.add(image=IMAGE, source=source, command=['cat', 'readme'])
    fake.wait_ended(words, fresh, seconds=60)
    tap.equal((text(words), text(fresh)), ('two  words $HOME\n', 'hello\n'), 'a command is not given to a shell; each job has its own files')

    podman('import', '--change', 'USER 1000:1000', f'{TMP}/image.tar', 'localhost/weir-user:1')
    user = fake.add(image='localhost/weir-user:1', source=source, artifacts=['made'], data={'x': 1}, needs={'dep': {'outputs': {'v': '9'}}},
                    script='id -u; cat "$WEIR_INPUT" "$WEIR_NEEDS"; echo; echo a=1 >"$WEIR_OUTPUT"; echo changed >readme; cat readme; echo made >made')
    fake.wait_ended(user, seconds=60)
    tap.equal((text(user), user.finish.get('outputs'), bytes(user.files.get('made', b''))), ('1000\n{"x":1}\n{"dep":{"outputs":{"v":"9"}}}\nchanged\n', {'a': '1'}, b'made\n'),
              'an image whose user is not root reads, works and reports as another does')
    plain = [fake.add(script='stat -c %a . "$WEIR_OUTPUT" "$(dirname "$WEIR_OUTPUT")" "$0" | tr "\\n" " "') for _ in range(2)]
    fake.wait_ended(*plain)
    tap.equal({text(t).strip() for t in plain}, {'700 600 700 600'}, 'and plain jobs after it have files that only they can read')

    ends = [(fake.add(image=IMAGE, script='exit 99'), 'exit', 99), (fake.add(image=IMAGE, command=['/nothing']), 'exit', 127),
            (fake.add(image=IMAGE, command=['sh', '-c', 'kill -9 $$; sleep 1; exec sh -c "exit 137"']), 'signal', 9)]
    fake.wait_ended(*[t for t, _, _ in ends], seconds=90)
    tap.equal([t.finish.get(k) for t, k, _ in ends], [w for _, _, w in ends], 'how a container ends')

    missing = fake.add(image='localhost/no-such-image:7', script='true')
    fake.wait_ended(missing, seconds=60)
    tap.ok(missing.finish.get('outcome') == 'temporary' and 'no-such-image' in text(missing) and 'there was no container' in text(missing),
           'an image that can\'t be had: temporary, and the log says why', (missing.finish, text(missing)))
    tap.equal(containers(), [], 'no container is left')

    slow = fake.add(image=IMAGE, script='trap "echo bye; exit 5" TERM; echo up; while :; do sleep 0.1; done')
    poll(lambda: b'up' in slow.log, 30)
    fake.cancel(slow)
    fake.wait_ended(slow, seconds=60)
    tap.ok('bye' in text(slow) and poll(lambda: not containers(), 20), 'a cancel is heard inside', (slow.finish, text(slow)))
    deaf = fake.add(image=IMAGE, script='trap "" TERM; echo up; while :; do sleep 1; done', grace_ms=300)
    poll(lambda: b'up' in deaf.log, 30)
    fake.cancel(deaf)
    fake.wait_ended(deaf, seconds=60)
    tap.ok(poll(lambda: not containers(), 20) and not processes(deaf.fence), 'who doesn\'t hear it is killed, the container removed', containers())
    late = fake.add(image=IMAGE, script='echo up; sleep 1000', timeout_ms=2000, grace_ms=300)
    fake.wait_ended(late, seconds=60)
    tap.ok(late.finish.get('outcome') == 'timeout' and poll(lambda: not containers(), 20), 'a time-out', late.finish)

    live = fake.add(image=IMAGE, script='echo one; sleep 3; echo two')
    poll(lambda: b'one' in live.log, 30)
    tap.ok(b'two' not in live.log, 'the log comes while it runs')
    crew.kill()
    crew.start()
    fake.wait_ended(live, seconds=60)
    tap.equal((live.finish.get('exit'), text(live)), (0, 'one\ntwo\n'), 'the next executor adopts a running container')

    lost = fake.add(image=IMAGE, script='echo up; sleep 1000')
    poll(lambda: b'up' in lost.log, 30)
    for number, pid in crew.shims().items():
        if b'up' in pathlib.Path(crew.data, 'shims', str(number), 'log').read_bytes():
            os.kill(pid, signal.SIGKILL)
    fake.wait_ended(lost, seconds=60)
    tap.ok(lost.finish.get('outcome') == 'lost' and poll(lambda: not containers(), 30), 'a shim that is killed leaves no container behind', containers())

    both = fake.add(image=IMAGE, script='echo up; sleep 1000')
    poll(lambda: b'up' in both.log, 30)
    shims = crew.shims()
    crew.kill()
    for pid in shims.values():
        os.kill(pid, signal.SIGKILL)
    crew.start()
    fake.wait_ended(both, seconds=60)
    tap.ok(both.finish.get('outcome') == 'lost' and poll(lambda: not containers(), 30), 'nor does an executor that was killed with its shims', containers())

    strict = fake.add(image=IMAGE, sandbox='strict', script='tail -n +3 /proc/net/dev | cut -d: -f1; echo "$(cat /proc/self/status)" | while read a b; do '
                                                            'test "$a" = CapEff: && echo $b; done')
    fake.wait_ended(strict, seconds=60)
    tap.equal(text(strict).split(), ['lo', '0000000000000000'], 'sandbox: strict in a container: no network, no capability')

podman('rmi', '--all', '--force', check=False)
tap.end()
