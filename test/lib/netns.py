"""netns: several machines for a test: network namespaces of its own, joined by a bridge, whose links can be cut so that TCP hangs.

`netns.enter()`, first thing in a script, starts the script again in private network, mount and pid namespaces. Whatever it starts in there ends with it, however
it ends: the first process of a pid namespace takes all others along, and the namespaces go with their last process. Where the kernel refuses, enter() gives
its words and the test is skipped with them.

    why = netns.enter()
    net = netns.Net()
    a, b = net.machine('a'), net.machine('b')     # .address, .run(command...) gives the words before a command that make it run there
    net.cut('a', 'b'), net.heal('a', 'b')         # packets between the two vanish, both ways; net.cut('a') from everybody
    net.down('a'), net.up('a')                    # its cable is pulled, and back

Far is a server on such a machine (port 8420 of its address; its unix socket is the test's way in, which no cut concerns), FarAgent an executor.
The test itself is a machine too (10.77.0.1, Net.HERE). A machine's processes see the test's file system: only the network is apart.
"""
import http.client
import os
import pathlib
import signal
import subprocess
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1] / 'promises')]
import house  # noqa: E402
import promise  # noqa: E402

MARK = 'WEIR_TEST_NETNS'
SPACES = ['unshare', '--net', '--mount', '--pid', '--fork', '--kill-child', '--mount-proc']
PROBE = '''mkdir -p /run/netns && mount -t tmpfs none /run/netns && ip link set lo up && ip link add p0 type veth peer name p1 && ip link add q0 type bridge && ip netns add probe &&
nsenter --net=/run/netns/probe iptables -w -A INPUT -s 10.77.0.99 -j DROP'''


def enter():
    """None: we are inside. Else why that can't be: in the words of who refused it"""
    if os.environ.get(MARK) == '1':
        return None
    for program in ('unshare', 'nsenter', 'ip', 'iptables'):
        if subprocess.run(['sh', '-c', f'command -v {program}'], stdout=subprocess.DEVNULL).returncode:
            raise SystemExit(f'Bail out! there is no {program}: tools/setup installs it')
    probe = subprocess.run([*SPACES, 'sh', '-c', PROBE], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if probe.returncode:
        return ('network namespaces need root: ' if os.geteuid() else 'the kernel refuses network namespaces: ') + ' '.join(probe.stdout.split())[:300]
    sys.stdout.flush()
    os.execvpe('unshare', [*SPACES, sys.executable, __file__, *sys.argv], dict(os.environ, **{MARK: '1'}))


def _first():
    """the first process in there: orphans come to it, and it takes them away; it ends with the script"""
    script = os.fork()
    if script == 0:
        os.execvp(sys.executable, [sys.executable, *sys.argv[1:]])
    signal.signal(signal.SIGTERM, lambda *_: os.kill(script, signal.SIGTERM))
    while True:
        pid, status = os.wait()
        if pid == script:
            os._exit(os.waitstatus_to_exitcode(status) & 0xff)


def _ip(*words):
    done = subprocess.run(['ip', *map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise RuntimeError(f'ip {" ".join(map(str, words))}: {done.stdout}')


class Machine:
    def __init__(self, name, number):
        self.name, self.address, self.space = name, f'10.77.0.{number}', f'/run/netns/{name}'

    def run(self, *command):
        return ['nsenter', f'--net={self.space}', *map(str, command)]

    def rules(self, *words):
        subprocess.run(self.run('iptables', '-w', *words), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)


class Net:
    HERE = '10.77.0.1'

    def __init__(self):
        os.makedirs('/run/netns', exist_ok=True)
        subprocess.run(['mount', '-t', 'tmpfs', 'none', '/run/netns'], check=True)
        pathlib.Path('/proc/sys/net/ipv4/tcp_fin_timeout').write_text('5')
        _ip('link', 'set', 'lo', 'up')
        _ip('link', 'add', 'wires', 'type', 'bridge')
        _ip('address', 'add', f'{self.HERE}/24', 'dev', 'wires')
        _ip('link', 'set', 'wires', 'up')
        self.machines, self.cuts = {}, set()

    def machine(self, name):
        m = self.machines[name] = Machine(name, 10 + len(self.machines))
        _ip('netns', 'add', name)
        _ip('link', 'add', f'w-{name}', 'type', 'veth', 'peer', 'name', 'eth0', 'netns', name)
        _ip('link', 'set', f'w-{name}', 'master', 'wires', 'up')
        for words in (['link', 'set', 'lo', 'up'], ['address', 'add', f'{m.address}/24', 'dev', 'eth0'], ['link', 'set', 'eth0', 'up']):
            _ip('-netns', name, *words)
        return m

    def _drop(self, how, name, other):
        peer = ['-s', self.machines[other].address] if other else []
        target = ['-d', self.machines[other].address] if other else []
        kept = [] if other else ['!', '-i', 'lo']
        self.machines[name].rules(how, 'INPUT', *kept, *peer, '-j', 'DROP')
        self.machines[name].rules(how, 'OUTPUT', *(['!', '-o', 'lo'] if kept else []), *target, '-j', 'DROP')

    def cut(self, name, other=None):
        """what goes between the two vanishes without a word; other None: what goes between this one and everybody"""
        if (name, other) not in self.cuts:
            self.cuts.add((name, other))
            self._drop('-A', name, other)

    def heal(self, name=None, other=None):
        for pair in list(self.cuts):
            if name is None or pair == (name, other):
                self.cuts.discard(pair)
                self._drop('-D', *pair)

    def down(self, name):
        _ip('link', 'set', f'w-{name}', 'down')

    def up(self, name):
        _ip('link', 'set', f'w-{name}', 'up')


class Far(house.House):
    """weir serve on a machine"""

    def __init__(self, machine, *options, **more):
        self.machine, self.listen = machine, f'{machine.address}:8420'
        wrapper = house.TMP / f'weir-{machine.name}'
        wrapper.write_text('#!/bin/sh\nexec ' + ' '.join(machine.run(os.path.abspath(house.WEIR))) + ' "$@"\n')
        wrapper.chmod(0o755)
        self.binary = str(wrapper)
        super().__init__(machine.name, '--name', machine.name, *options, **more)

    def start(self, wait=True, seconds=30):
        """A machine whose cable was just plugged in may not know its neighbours for a second or two, and a server that can't reach its store refuses to
        start: it is started again, as a supervisor would do it."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                return super().start(wait)
            except SystemExit as refusal:
                if 'connection to server at' not in str(refusal) or time.monotonic() > deadline:
                    raise
                self.process.wait()
                time.sleep(0.1)

    def connection(self, local=False, timeout=60):
        if local or not self.token:
            return super().connection(True, timeout)
        return http.client.HTTPConnection(self.machine.address, 8420, timeout=timeout)


class FarAgent(promise.Agent):
    """weir executor on a machine, with the addresses of several servers"""

    def __init__(self, machine, servers, token, slots=2):
        self.machine = machine
        urls = [f'http://{s.machine.address}:8420' for s in servers]
        super().__init__(servers[0], machine.name, slots=slots, url=urls[0], options=[*(part for u in urls[1:] for part in ('--server', u)), '--token-file', str(token)])

    def start(self):
        if self.command[0] != 'nsenter':
            self.command = self.machine.run(*self.command)
        super().start()


if __name__ == '__main__':
    _first()
