#!/usr/bin/env python3
"""postgres: a PostgreSQL of the test's own: a cluster in a temporary folder, a unix socket and no port, ended by its pid.

usage: postgres.py COMMAND...   runs COMMAND with WEIR_TEST_POSTGRES=FOLDER-OF-THE-SOCKET and ends the database after it

In a test: `from postgres import Postgres`; Postgres().start(), .create('name') gives a URL, .stop(), .kill(), .restart(). PostgreSQL refuses to
run as root, so root becomes the user `postgres` of Debian's package for it. Nothing is synced unless fsync=True: a killed database process loses nothing
by that, only a machine that goes down would.

Two of them as primary and standby: Pair().start(), .url('name'), .promote() after .primary.kill(), .renew() makes the other one a standby again.
"""
import atexit
import os
import pathlib
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse

BIN = pathlib.Path(os.environ.get('WEIR_TEST_POSTGRES_BIN', '/usr/lib/postgresql/15/bin'))
USER = 'weir'


def available():
    return (BIN / 'postgres').exists()


def _as_other():
    """how to run the database's programs: as ourselves, or for root as somebody who has no rights"""
    if os.geteuid() != 0:
        return [], os.geteuid(), os.getegid()
    for name in ('postgres', 'nobody'):
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        return ['setpriv', f'--reuid={user.pw_uid}', f'--regid={user.pw_gid}', '--clear-groups', '--inh-caps=-all'], user.pw_uid, user.pw_gid
    raise SystemExit('postgres.py: there is no user for PostgreSQL: neither postgres nor nobody')


class Postgres:
    def __init__(self, fsync=False, settings=(), port=None, machine=None):
        """machine: of netns.Net: it runs there and listens on its address"""
        self.settings = [f'fsync={"on" if fsync else "off"}', 'unix_socket_permissions=0777', 'max_connections=200', 'shared_buffers=64MB',
                         'autovacuum_naptime=5s', 'logging_collector=off', 'log_min_messages=warning', 'lc_messages=C', *settings]
        self.settings.append(f'listen_addresses={machine.address if machine else "127.0.0.1" if port else ""}')
        self.port = port or 5432
        self.machine = machine
        self.become, uid, gid = _as_other()
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix='weir-pg.', dir='/tmp'))
        os.chmod(self.dir, 0o755)
        os.chown(self.dir, uid, gid)
        self.data = self.dir / 'data'
        self.process = None
        self.known = set()
        atexit.register(self.remove)

    def _run(self, *command):
        done = subprocess.run([*self.become, *map(str, command)], cwd=self.dir, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, env={'PATH': '/usr/bin:/bin', 'LC_ALL': 'C', 'TZ': 'UTC'})
        if done.returncode:
            raise RuntimeError(f'{command[0]}: {done.stdout}')
        return done.stdout

    def start(self, seconds=60):
        if not self.data.exists():
            self._run(BIN / 'initdb', '-D', self.data, '-U', USER, '-A', 'trust', '-E', 'UTF8', '--locale=C', '--no-sync', '--no-instructions')
            if self.machine:
                with open(self.data / 'pg_hba.conf', 'a') as f:
                    f.write('host all all 10.77.0.0/24 trust\nhost replication all 10.77.0.0/24 trust\n')
        options = [part for setting in self.settings for part in ('-c', setting)]
        with open(self.dir / 'log', 'ab') as log:
            become = [*(self.become or ['setpriv']), '--pdeathsig', 'QUIT'] # a test that is killed takes its database along
            become = self.machine.run(*become) if self.machine else become
            self.process = subprocess.Popen([*become, str(BIN / 'postgres'), '-D', str(self.data), '-k', str(self.dir), '-p', str(self.port), *options],
                                            cwd=self.dir, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={'PATH': '/usr/bin:/bin', 'LC_ALL': 'C', 'TZ': 'UTC'},
                                            start_new_session=True)
        deadline = time.monotonic() + seconds
        while subprocess.run([BIN / 'pg_isready', '-q', '-h', self.dir, '-p', str(self.port)], stdin=subprocess.DEVNULL).returncode:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError('PostgreSQL did not start: ' + (self.dir / 'log').read_text(errors='replace')[-2000:])
            time.sleep(0.02)
        return self

    def sql(self, text, database='postgres'):
        return subprocess.run([BIN / 'psql', '-X', '-q', '-A', '-t', '-v', 'ON_ERROR_STOP=1', '-h', self.dir, '-p', str(self.port), '-U', USER, '-d', database],
                              input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True).stdout.strip()

    def url(self, database, user=USER):
        return f'postgresql:///{database}?host={urllib.parse.quote(str(self.dir), safe="")}&port={self.port}&user={user}'

    def create(self, database):
        """a new, empty database; the URL of one that was created before"""
        if database not in self.known:
            self.sql(f'CREATE DATABASE "{database}" TEMPLATE template0 ENCODING \'UTF8\'')
            self.known.add(database)
        return self.url(database)

    def stop(self, how=signal.SIGINT):
        """SIGINT: at once, connections are ended; SIGTERM waits for them; SIGQUIT as if it had crashed"""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(how)
            self.process.wait()

    def kill(self):
        """the postmaster is killed; its children see that and go"""
        children = pathlib.Path(f'/proc/{self.process.pid}/task/{self.process.pid}/children').read_text().split()
        self.process.kill()
        self.process.wait()
        deadline = time.monotonic() + 20
        while any(os.path.exists(f'/proc/{pid}') for pid in children) and time.monotonic() < deadline:
            time.sleep(0.01)
        (self.data / 'postmaster.pid').unlink(missing_ok=True)

    def freeze(self, signo=signal.SIGSTOP):
        """all its processes stand still, or with SIGCONT go on"""
        children = pathlib.Path(f'/proc/{self.process.pid}/task/{self.process.pid}/children').read_text().split()
        for pid in [self.process.pid, *map(int, children)]:
            try:
                os.kill(pid, signo)
            except ProcessLookupError:
                pass

    def restart(self, how=signal.SIGINT):
        self.stop(how)
        return self.start()

    def remove(self):
        self.stop(signal.SIGQUIT)
        if not os.environ.get('WEIR_TEST_KEEP'):
            shutil.rmtree(self.dir, ignore_errors=True)


class Pair:
    """a primary and its standby, on two machines of a netns.Net or on two ports of this one"""

    def __init__(self, places, synchronous=True, settings=()):
        """places: two machines, or two port numbers"""
        self.synchronous = synchronous
        more = ['wal_keep_size=64MB', 'max_wal_senders=10', 'hot_standby=on', 'wal_retrieve_retry_interval=200ms', 'wal_receiver_timeout=5s', *settings]
        self.both = [Postgres(settings=more, **({'machine': p} if hasattr(p, 'address') else {'port': p})) for p in places]
        self.primary, self.standby = self.both

    def host(self, one):
        return f'{one.machine.address if one.machine else "127.0.0.1"}:{one.port}'

    def start(self):
        self.primary.start()
        self.renew()
        return self

    def url(self, database, turned=False):
        """both hosts, in the order they were made or the other way round: it doesn't say which one is the primary"""
        hosts = [self.host(one) for one in self.both]
        return f'postgresql://{USER}@{",".join(hosts[::-1] if turned else hosts)}/{database}?target_session_attrs=read-write'

    def create(self, database):
        self.primary.create(database)
        return self.url(database)

    def sql(self, text, database='postgres'):
        return self.primary.sql(text, database)

    def restart(self, how=signal.SIGINT):
        self.primary.restart(how)
        return self

    def names(self, text):
        self.primary.sql(f"ALTER SYSTEM SET synchronous_standby_names = '{text}'")
        self.primary.sql('SELECT pg_reload_conf()')

    def replicated(self):
        """the standby follows, and synchronously where that is wanted"""
        return self.primary.sql('SELECT sync_state FROM pg_stat_replication') == ('sync' if self.synchronous else 'async')

    def renew(self, seconds=60):
        """what isn't the primary becomes its standby, from a new copy; commits wait for it from then on"""
        one = self.standby
        one.stop(signal.SIGQUIT)
        shutil.rmtree(one.data, ignore_errors=True)
        host, port = self.host(self.primary).split(':')
        source = f'host={host} port={port} user={USER} application_name=other'
        command = [BIN / 'pg_basebackup', '-D', one.data, '-d', source, '-c', 'fast', '-X', 'stream', '-R', '--no-sync']
        done = subprocess.run([*(one.machine.run(*one.become) if one.machine else one.become), *map(str, command)], cwd=one.dir, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={'PATH': '/usr/bin:/bin', 'LC_ALL': 'C', 'TZ': 'UTC'})
        if done.returncode:
            raise RuntimeError(f'pg_basebackup: {done.stdout}')
        auto = one.data / 'postgresql.auto.conf' # the copy has been told whom it waits for: nobody
        auto.write_text(''.join(line + '\n' for line in auto.read_text().splitlines() if 'synchronous_standby_names' not in line))
        one.start()
        if self.synchronous:
            self.names('*')
        deadline = time.monotonic() + seconds
        while not self.replicated():
            if time.monotonic() > deadline:
                raise RuntimeError('the standby does not follow: ' + (one.dir / 'log').read_text(errors='replace')[-2000:])
            time.sleep(0.02)

    def promote(self):
        """the standby is the primary from now on"""
        self.standby._run(BIN / 'pg_ctl', 'promote', '-D', self.standby.data, '-w', '-t', '60')
        self.primary, self.standby = self.standby, self.primary

    def remove(self):
        for one in self.both:
            one.remove()


def fresh(folder, name):
    """the URL of a database for this name on the server whose socket is in the folder; made when it isn't there"""
    server = Postgres.__new__(Postgres)
    server.dir, server.port, server.known = pathlib.Path(folder), 5432, set()
    database = re.sub(r'[^a-z0-9]+', '_', str(name).lower()).strip('_')[-60:]
    if server.sql(f"SELECT 1 FROM pg_database WHERE datname = '{database}'") != '1':
        server.create(database)
    return server.url(database)


def main():
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    if not available():
        print(f'1..0 # skip there is no {BIN}/postgres')
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    server = Postgres().start()
    env = dict(os.environ, WEIR_TEST_STORE='postgres', WEIR_TEST_POSTGRES=str(server.dir))
    done = subprocess.run(sys.argv[1:], env=env)
    server.remove()
    return done.returncode if done.returncode >= 0 else 128 - done.returncode


if __name__ == '__main__':
    sys.exit(main())
