#!/usr/bin/env python3
"""Certificates that expire while connections are open: what is connected goes on, new connections are refused with words that name the expiry, the server warns ahead and when it is so (log, status,
metrics), jobs run on, and a renewed file is taken without a restart: by SIGHUP at the server, at the next connection by executors and towards PostgreSQL."""
# time limit: 150
# store: sqlite (it starts its own PostgreSQL)
import http.client
import os
import pathlib
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
import postgres  # noqa: E402
from house import TMP, WEIR, House, clean_env, end, ok, same, skip, until  # noqa: E402
from papers import FOLDER, TlsHouse, authority, free_port, issue, openssl, said  # noqa: E402

LIVES = 9
ca = authority('ca')
server_until = time.time() + LIVES
issue('server', 'ca', seconds=LIVES)
issue('client', 'ca', names='', seconds=LIVES)
TlsHouse.listen = f'127.0.0.1:{free_port()}'
s = TlsHouse('data', 'server', client_ca='ca', slots=0, lease='60s')
token = TMP / 'token'
token.write_text(s.cli('token', 'create', '--name', 'agents', '--scope', 'execute', '--scope', 'read').out)
token.chmod(0o600)
papers = ['--ca', str(ca), '--client-cert', str(FOLDER / 'client.pem'), '--client-key', str(FOLDER / 'client.key')]
far = subprocess.Popen([WEIR, 'executor', '--data', str(TMP / 'far'), '--name', 'far', '--server', s.url, '--slots', '4', '--token-file', str(token), *papers], env=clean_env(),
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=(TMP / 'far.err').open('wb'))


def ends_at(name):
    return ssl.cert_time_to_seconds(openssl('x509', '-in', f'{name}.pem', '-noout', '-enddate').strip().split('=')[1])


def job(name):
    return s.enqueue(dict(name=name, script=f'echo begun; while [ ! -e {TMP}/go-{name} ]; do sleep 0.05; done; echo done {name}', retry=dict(attempts=1)))['id']


one, two = job('one'), job('two')
until(lambda: s.state(one) == 'X' and s.state(two) == 'X', 'two jobs run')
context = ssl.create_default_context(cafile=str(ca))
context.load_cert_chain(FOLDER / 'client.pem', FOLDER / 'client.key')
held = http.client.HTTPSConnection('127.0.0.1', s.port, context=context, timeout=30)


def over(path='/healthz'):
    held.request('GET', path)
    answer = held.getresponse()
    answer.read()
    return answer.status


same(over(), 200, 'a connection is open')
ok('expires at' in said(s), 'the log warns ahead', said(s))
got = s.cli('status')
ok('certificate' in got.err + got.out and 'expires at' in got.err + got.out, 'and status', got.out, got.err)
expiry = re.search(r'^weir_certificate_expiry_timestamp_seconds (\d+)', s.get('/metrics').body.decode(), re.M)
ok(expiry and abs(int(expiry.group(1)) - server_until) < 5, 'metrics say when', expiry)

# -- it expires
until(lambda: 'has expired at' in said(s), 'the log says that it has expired, by itself', LIVES + 10)
got = [s.cli('status'), s.cli('nodes')]
ok(all('has expired' in g.err + g.out and 'SIGHUP' in g.err + g.out for g in got), 'status and nodes say it, and what to do', [g.err for g in got])
same(over(), 200, 'what is connected goes on')
got = s.over('status', *papers)
ok(got.code == 77 and 'expired' in got.err, 'a new connection is refused, and the words name the expiry', got.code, got.err)
(TMP / 'go-one').touch()
same(s.ended(one)[0]['state'], 'D', 'an executor that is connected tells the end of its job')

# -- the server is restarted with it: executors have to connect anew, and can't; jobs run on
s.stop()
s.start()
until(lambda: 'expired' in (TMP / 'far.err').read_text(), 'an executor that has to connect says why it can\'t')
(TMP / 'go-two').touch()
issue('server', 'ca')
s.process.send_signal(signal.SIGHUP)
until(lambda: 'tls.loaded' in said(s), 'the renewed one is taken by SIGHUP')
ok('certificate' not in s.cli('status').err, 'no warning is left', s.cli('status').err)

# -- a session of a connection that was good isn't taken for the certificate
issue('brief', 'ca', names='', seconds=4)
sessions = []


def resumed(version, session=None, context=None):
    """(what was answered, session, context); of a connection with the certificate `brief`"""
    if context is None:
        context = ssl.create_default_context(cafile=str(ca))
        context.load_cert_chain(FOLDER / 'brief.pem', FOLDER / 'brief.key')
        context.maximum_version = version
    try:
        with context.wrap_socket(socket.create_connection(('127.0.0.1', s.port), 30), server_hostname='localhost', session=session) as wire:
            wire.sendall(b'GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n')
            return wire.recv(1000).decode()[:12], wire.session, context
    except ssl.SSLError as why:
        return why.reason, None, None


for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
    sessions.append((version, *resumed(version)))
same([answer for _, answer, _, _ in sessions], ['HTTP/1.1 200'] * 2, 'two connections with a client certificate that will expire')
until(lambda: time.time() > max(ends_at('brief'), ends_at('client')) + 1, seconds=LIVES)  # the client's was made after the server's, and may live a second longer
for version, _, session, context in sessions:
    same(resumed(version, session, context)[0], 'SSLV3_ALERT_CERTIFICATE_EXPIRED', f'it has: {version.name} with the session of then is refused')
got = s.over('status', *papers)
ok(got.code == 77 and 'client certificate has expired' in got.err, 'now the client\'s own is the one that has expired', got.code, got.err)
same(far.poll(), None, 'the executor is still there')
issue('client', 'ca', names='')
same(s.over('status', '--token-file', token, *papers).code, 0, 'a renewed client certificate')
same([(t['state'], len(t['attempts'])) for t in s.ended(two, seconds=40)], [('D', 1)], 'and is taken by the running executor too, which tells the end of its job')
far.terminate()
far.wait(20)

# -- towards PostgreSQL: its certificate, then ours
if not postgres.available():
    skip('PostgreSQL', f'there is no {postgres.BIN}')
    end()
port = free_port()
pg = postgres.Postgres(port=port, settings=['ssl=on', f'ssl_ca_file={ca}', 'ssl_cert_file=server.crt', 'ssl_key_file=server.key'])
pg._run(postgres.BIN / 'initdb', '-D', pg.data, '-U', postgres.USER, '-A', 'trust', '-E', 'UTF8', '--locale=C', '--no-sync', '--no-instructions')
(pg.data / 'pg_hba.conf').write_text('local all all trust\nhostssl all all 127.0.0.1/32 trust clientcert=verify-ca\n')
for folder in (TMP, FOLDER):
    os.chmod(folder, 0o755)


def install(**more):
    issue('database', 'ca', **more)
    for end_, name in (('pem', 'server.crt'), ('key', 'server.key')):
        shutil.copy(FOLDER / f'database.{end_}', pg.data / name)
        shutil.chown(pg.data / name, pg.data.stat().st_uid, pg.data.stat().st_gid)
        os.chmod(pg.data / name, 0o600)
    if pg.process:
        pg.sql('SELECT pg_reload_conf()')


def ends():
    pg.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'weir' AND pid <> pg_backend_pid()")


install()
pg.start()
pg.create('weir')
install(seconds=LIVES)
issue('ours', 'ca', names='', seconds=2 * LIVES)
url = f'postgresql://{postgres.USER}@127.0.0.1:{port}/weir?sslmode=verify-full&sslrootcert={ca}&sslcert={FOLDER}/ours.pem&sslkey={FOLDER}/ours.key'
t = House('store', '--store', url, slots=0)
same(t.enqueue(dict(name='a', queue='q', data=1))['state'], 'P', 'a store in PostgreSQL, over TLS with certificates on both sides')
until(lambda: time.time() > ends_at('database') + 1, seconds=LIVES + 10)
same((t.enqueue(dict(name='b', queue='q', data=1))['state'], t.get('/readyz').status), ('P', 200), 'its certificate has expired: what is connected goes on')
ends()
until(lambda: t.get('/readyz').status == 503, 'new connections aren\'t made: not ready', 20)
until(lambda: 'store.away' in said(t) and 'expired' in said(t), 'and the log names the expiry')
install()
until(lambda: t.get('/readyz').status == 200, 'renewed and reloaded there: ready again by itself', 20)
until(lambda: time.time() > ends_at('ours') + 1, seconds=2 * LIVES + 10)
before = len(said(t))
ends()
until(lambda: t.get('/readyz').status == 503, 'our own certificate has expired: not ready', 20)
until(lambda: 'client certificate of this server' in said(t)[before:], 'and the log says that it is ours')
print('#', said(t)[before:][:600].replace('\n', ' '), flush=True)
issue('ours', 'ca', names='')
until(lambda: t.get('/readyz').status == 200, 'renewed: taken at the next connection, without a restart', 20)
end()
