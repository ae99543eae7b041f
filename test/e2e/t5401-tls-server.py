#!/usr/bin/env python3
"""weir serve speaks TLS: bad files are refused at the start, certificates are read again by SIGHUP, and every wrong certificate is refused with what to do."""
import os
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import TMP, WEIR, clean_env, end, ok, run, same, until  # noqa: E402
from papers import FOLDER, TlsHouse, authority, curl, issue, openssl, said  # noqa: E402

ca, other_ca = authority('ca'), authority('other-ca')
for name in ('server', 'second'):
    issue(name, 'ca')
issue('stranger', 'ca', names='DNS:weir.example')
issue('expired', 'ca', days=-1)
issue('foreign', 'other-ca')
openssl('ec', '-in', 'server.key', '-aes256', '-passout', 'pass:secret', '-out', 'locked.key')
os.chmod(FOLDER / 'locked.key', 0o600)
shutil.copy(FOLDER / 'server.key', FOLDER / 'open.key')
os.chmod(FOLDER / 'open.key', 0o644)
(FOLDER / 'junk').write_text('nothing\n')
os.chmod(FOLDER / 'junk', 0o600)

# -- what can't be used is refused before anything is opened
for certificate, key, code, words in (
        ('none.pem', 'server.key', 66, 'none.pem'), ('server.pem', 'none.key', 66, 'none.key'), ('junk', 'server.key', 65, 'junk'),
        ('server.pem', 'junk', 65, 'PEM'), ('server.pem', 'second.key', 65, "isn't the one of the certificate"), ('server.pem', 'locked.key', 65, 'passphrase'),
        ('server.pem', 'open.key', 77, 'chmod 0600')):
    done = run('serve', '--data', TMP / 'refused', '--listen', '127.0.0.1:0', '--slots', '0', '--tls-certificate', FOLDER / certificate, '--tls-key', FOLDER / key)
    ok(done.code == code and words in done.err and 'listening' not in done.out, f'{certificate} with {key}: {code}, and it is said', done.code, done.err)
done = run('serve', '--data', TMP / 'refused', '--listen', '127.0.0.1:0', '--tls-certificate', FOLDER / 'server.pem')
ok(done.code in (2, 65) and 'needs both' in done.err, 'a certificate without its key', done.code, done.err)
ok(not (TMP / 'refused' / 'weir.db').exists(), 'no store was made meanwhile')

# -- a good one, by file, environment and option
(TMP / 'weir.yaml').write_text(f'tls:\n  certificate: {FOLDER}/server.pem\n')
shown = run('serve', '--config', TMP / 'weir.yaml', '--show-config', WEIR_TLS_KEY=str(FOLDER / 'server.key')).out
ok(f'certificate: {FOLDER}/server.pem  # {TMP}/weir.yaml:2' in shown and 'key: ' in shown and 'WEIR_TLS_KEY' in shown, 'show-config tells where each file comes from', shown)
shutil.copy(FOLDER / 'server.pem', FOLDER / 'live.pem')
shutil.copy(FOLDER / 'server.key', FOLDER / 'live.key')
s = TlsHouse('data', 'live', slots=1)
ok(s.line == f'listening on https://127.0.0.1:{s.port}\n' and (s.dir / 'address').read_text() == s.url + '\n', 'listening on https://HOST:PORT', s.line)

# -- curl
same(curl(f'{s.url}/healthz', '--cacert', ca), (0, '{"status":"ok"}'), 'curl with the CA')
same(curl(f'https://localhost:{s.port}/healthz', '--cacert', ca, '--tls-max', '1.2')[0], 0, 'by the other name, with TLS 1.2')
same(curl(f'{s.url}/healthz')[0], 60, 'curl without it refuses')
for version in ('--tlsv1.0 --tls-max 1.0', '--tlsv1.1 --tls-max 1.1'):
    same(curl(f'{s.url}/healthz', '--cacert', ca, '--ciphers', 'DEFAULT@SECLEVEL=0', *version.split())[0], 35, f'not by {version}')
code, text = curl(f'http://127.0.0.1:{s.port}/healthz')
ok(code == 0 and '"code":"bad_request"' in text and 'https://' in text, 'plain HTTP gets a 400 that says what to write', text)

# -- weir: good ones
same(s.over('status', '--ca', ca).code, 0, 'weir with --ca')
task = s.over('enqueue', '-', stdin='{"name": "one", "script": "seq 100000"}', WEIR_CA=str(ca), WEIR_TOKEN='').out.strip().splitlines()[-1]
listed = s.over('wait', '--timeout', '40s', 'default:1', WEIR_CA=str(ca))
ok(listed.code == 0, 'weir with WEIR_CA enqueues and waits', task, listed.out, listed.err)
same(s.over('log', 'default:1', WEIR_CA=str(ca)).out, ''.join(f'{i}\n' for i in range(1, 100001)), 'a log of half a megabyte comes through')
follow = subprocess.Popen([WEIR, 'events', '-f', '--json', '--since', '0', '--server', s.url, '--ca', str(ca)], stdout=subprocess.PIPE, env=clean_env())
ok(b'"' in follow.stdout.readline(), 'events are followed')
follow.terminate()
follow.wait()

# -- weir: bad ones
done = s.over('status')
ok(done.code == 77 and '--ca' in done.err and 'WEIR_CA' in done.err, 'no CA: 77, and what to do', done.code, done.err)
done = s.over('status', '--ca', other_ca)
ok(done.code == 77 and '--ca' in done.err, 'a wrong CA: 77', done.code, done.err)
done = s.over('status', '--ca', FOLDER / 'none')
ok(done.code == 66 and str(FOLDER / 'none') in done.err, 'a CA file that is not there: 66', done.code, done.err)
done = s.over('status', '--ca', FOLDER / 'junk')
ok(done.code == 77 and 'PEM' in done.err, 'a CA file that is none: 77', done.code, done.err)
done = run('status', '--server', s.url.replace('https', 'http'))
ok(done.code == 65 and 'https://' in done.err, 'http:// to it: told', done.code, done.err)
same(run('status', '--server', s.socket).code, 0, 'the socket stays plain')
for name, words in (('stranger', 'another name'), ('expired', 'has expired'), ('foreign', '--ca')):
    one = TlsHouse(f'data-{name}', name, slots=0)
    began = time.monotonic()
    done = one.over('status', '--ca', ca)
    ok(done.code == 77 and words in done.err and time.monotonic() - began < 20, f'{name}: 77, {words}', done.code, done.err)
    if name == 'expired':
        ok('level=warn' in said(one) and 'has expired' in said(one), 'the server itself warns of it', said(one))
    same(one.stop(), 0, 'ends')

# -- slow and silly handshakes keep nobody waiting
silent = [socket.create_connection(('127.0.0.1', s.port)) for _ in range(60)]
for i, one in enumerate(silent):
    one.sendall((b'', b'\x16', b'\x16\x03\x01\x02\x00\x01', b'\x16\x03\x01' + os.urandom(500))[i % 4])
began = time.monotonic()
same([curl(f'{s.url}/healthz', '--cacert', ca)[0] for _ in range(5)], [0] * 5, 'others are served meanwhile')
ok(time.monotonic() - began < 20, 'at once', time.monotonic() - began)


def closed(one):
    one.settimeout(0.01)
    try:
        return one.recv(100) == b'' or closed(one)
    except TimeoutError:
        return False
    except OSError:
        return True


until(lambda: all(closed(one) for one in silent), 'and the silent ones are shown out', seconds=40)
for one in silent:
    one.close()


# -- SIGHUP
def name_served():
    context = ssl.create_default_context(cafile=str(ca))
    with context.wrap_socket(socket.create_connection(('127.0.0.1', s.port)), server_hostname='localhost') as one:
        return dict(part[0] for part in one.getpeercert()['subject'])['commonName']


same(name_served(), 'server', 'the certificate as it was')
(FOLDER / 'live.key').write_text((FOLDER / 'second.key').read_text())
s.process.send_signal(signal.SIGHUP)
ok(until(lambda: 'config.refused' in said(s)), 'a key that does not fit is refused', said(s))
ok('stay in force' in said(s) and "isn't the one of the certificate" in said(s), 'with the reason', said(s))
same(name_served(), 'server', 'and the old ones are in force')
(FOLDER / 'live.pem').write_text((FOLDER / 'second.pem').read_text())
s.process.send_signal(signal.SIGHUP)
ok(until(lambda: 'tls.loaded' in said(s)), 'both: taken', said(s))
same(name_served(), 'second', 'new connections get the new one')
same(s.over('status', '--ca', ca).code, 0, 'and are served')
end()
