"""pgbouncer: a pgbouncer of the test's own in front of a Postgres of postgres.py: a unix socket in the database's folder, no port, ended by its pid.

    bouncer = Pgbouncer(pg, pool_mode='session').start()
    bouncer.url('weir'), bouncer.admin('SHOW POOLS'), bouncer.set(default_pool_size=5), bouncer.restart()
"""
import atexit
import shutil
import signal
import subprocess
import time
import urllib.parse

import postgres

PROGRAM = shutil.which('pgbouncer') or '/usr/sbin/pgbouncer'
PORT = 6432


def available():
    return shutil.which(PROGRAM) is not None


class Pgbouncer:
    def __init__(self, pg, **settings):
        self.pg, self.settings, self.process = pg, dict(pool_mode='session', default_pool_size=50, max_client_conn=200), None
        self.settings.update(settings)
        self.dir = pg.dir / 'bouncer'
        self.dir.mkdir(mode=0o777, exist_ok=True)
        self.dir.chmod(0o777)
        atexit.register(self.stop)

    def write(self):
        fixed = dict(listen_port=PORT, unix_socket_dir=self.dir, unix_socket_mode='0777', auth_type='any', admin_users=postgres.USER, logfile=self.dir / 'log',
                     pidfile=self.dir / 'pid', server_login_retry=1)
        lines = ['[databases]', f'* = host={self.pg.dir} port={self.pg.port} user={postgres.USER}', '[pgbouncer]']
        (self.dir / 'ini').write_text('\n'.join(lines + [f'{name} = {value}' for name, value in {**fixed, **self.settings}.items()]) + '\n')

    def start(self, seconds=20):
        self.write()
        self.process = subprocess.Popen([*(self.pg.become or ['setpriv']), '--pdeathsig', 'KILL', PROGRAM, '-q', str(self.dir / 'ini')], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        deadline = time.monotonic() + seconds
        while not self.admin('SHOW VERSION', check=False):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError('pgbouncer did not start: ' + (self.dir / 'log').read_text(errors='replace')[-2000:])
            time.sleep(0.02)
        return self

    def admin(self, text, check=True):
        done = subprocess.run([postgres.BIN / 'psql', '-X', '-q', '-A', '-t', '-h', self.dir, '-p', str(PORT), '-U', postgres.USER, '-d', 'pgbouncer', '-c', text],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT if check else subprocess.DEVNULL, text=True, check=check)
        return done.stdout.strip()

    def set(self, **settings):
        """other settings, without a restart"""
        self.settings.update(settings)
        self.write()
        self.admin('RELOAD')

    def url(self, database, user=postgres.USER):
        return f'postgresql:///{database}?host={urllib.parse.quote(str(self.dir), safe="")}&port={PORT}&user={user}'

    def stop(self, how=signal.SIGTERM):
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(how)
            self.process.wait()

    def restart(self, how=signal.SIGTERM):
        self.stop(how)
        return self.start()
