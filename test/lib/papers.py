"""papers: certificates as an operator makes them, with openssl, in the test's folder: a private CA and what it signs, for servers and clients."""
import os
import pathlib
import subprocess

from house import TMP, House, run
from ports import free_port  # noqa: F401
import serving

FOLDER = TMP / 'papers'


def openssl(*args, ahead=None):
    """ahead: by a clock that is so many seconds off"""
    FOLDER.mkdir(exist_ok=True)
    done = subprocess.run([*([] if ahead is None else ['faketime', '-f', f'{ahead:+d}s']), 'openssl', *map(str, args)], cwd=FOLDER, capture_output=True)
    if done.returncode:
        raise SystemExit(f'Bail out! openssl {args}: {done.stderr.decode()}')
    return done.stdout.decode()


def authority(name):
    """NAME.pem, NAME.key"""
    openssl('req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', f'{name}.key', '-out', f'{name}.pem', '-subj', f'/CN={name}', '-days', '30')
    return FOLDER / f'{name}.pem'


def issue(name, by, names='DNS:localhost,IP:127.0.0.1', days=30, seconds=None):
    """NAME.pem and NAME.key (mode 0600), signed by the authority `by`; names '' for a client; days may be negative: expired; seconds: it lives so long"""
    openssl('req', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', f'{name}.key', '-out', f'{name}.csr', '-subj', f'/CN={name}')
    (FOLDER / f'{name}.ext').write_text((f'subjectAltName={names}\n' if names else '') + f'extendedKeyUsage={"serverAuth" if names else "clientAuth"}\n')
    sign = ['x509', '-req', '-in', f'{name}.csr', '-CA', f'{by}.pem', '-CAkey', f'{by}.key', '-CAcreateserial', '-out', f'{name}.pem', '-extfile', f'{name}.ext']
    openssl(*sign, '-days', days if seconds is None else 1, ahead=None if seconds is None else seconds - 86400)
    os.chmod(FOLDER / f'{name}.key', 0o600)
    return FOLDER / f'{name}.pem', FOLDER / f'{name}.key'


class TlsHouse(House):
    """a server that speaks TLS; the test itself asks it through its socket, which stays plain"""

    def __init__(self, name='data', certificate='server', *options, client_ca=None, **more):
        files = ['--tls-certificate', str(FOLDER / f'{certificate}.pem'), '--tls-key', str(FOLDER / f'{certificate}.key')]
        super().__init__(name, *files, *(['--tls-client-ca', str(FOLDER / f'{client_ca}.pem')] if client_ca else []), *options, **more)

    def connection(self, local=False, timeout=60):
        return serving.UnixConnection(str(self.dir / 'weir.sock'), timeout)

    def over(self, *args, **env):
        """weir over TLS: WEIR_CA and the like in env"""
        return run(*args[:1], '--server', self.url, *args[1:], **env)


def curl(url, *options):
    """(exit code, what it printed)"""
    done = subprocess.run(['curl', '-sS', '--max-time', '20', *map(str, options), url], capture_output=True, env={'PATH': os.environ['PATH']})
    return done.returncode, done.stdout.decode() + done.stderr.decode()


def said(server):
    return pathlib.Path(server.log).read_text()
