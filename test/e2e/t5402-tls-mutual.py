#!/usr/bin/env python3
"""Mutual TLS: only clients with a certificate of the site's CA get in; an executor with one runs jobs, which reach the server with it; operators order it about."""
import pathlib
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import TMP, WEIR, clean_env, end, ok, same, until  # noqa: E402
from papers import TlsHouse, authority, curl, issue  # noqa: E402

ca, other_ca = authority('ca'), authority('other-ca')
issue('server', 'ca')
certificate, key = issue('client', 'ca', names='')
late = issue('late', 'ca', names='', days=-1)
foreign = issue('foreign', 'other-ca', names='')
s = TlsHouse('data', client_ca='ca', slots=0)
papers = ('--ca', ca, '--client-cert', certificate, '--client-key', key)

# -- who gets in
same(curl(f'{s.url}/healthz', '--cacert', ca, '--cert', certificate, '--key', key), (0, '{"status":"ok"}'), 'curl with a certificate of the CA')
for version in ('1.2', '1.3'):
    ok(curl(f'{s.url}/healthz', '--cacert', ca, '--tls-max', version)[0] != 0, f'without one: refused ({version})')
    ok(curl(f'{s.url}/healthz', '--cacert', ca, '--tls-max', version, '--cert', foreign[0], '--key', foreign[1])[0] != 0, f'with a foreign one: refused ({version})')
same(s.over('status', *papers).code, 0, 'weir with a certificate')
same(s.over('status', WEIR_CA=str(ca), WEIR_CLIENT_CERT=str(certificate), WEIR_CLIENT_KEY=str(key)).code, 0, 'by the environment')
for name, options, words in (('none', (), '--client-cert'), ('a foreign one', ('--client-cert', foreign[0], '--client-key', foreign[1]), 'CA of the client certificate'),
                             ('an expired one', ('--client-cert', late[0], '--client-key', late[1]), 'client certificate has expired'),
                             ('one with another key', ('--client-cert', certificate, '--client-key', late[1]), 'client certificate and key')):
    done = s.over('status', '--ca', ca, *options)
    ok(done.code == 77 and words in done.err, f'weir with {name}: 77, {words}', done.code, done.err)
done = s.over('status', '--ca', ca, '--client-cert', TMP / 'none.pem')
ok(done.code == 66 and 'none.pem' in done.err, 'a file that is not there: 66', done.code, done.err)


# -- executors
def executor(name, *options, wait=None):
    error = TMP / f'{name}.err'
    process = subprocess.Popen([WEIR, 'executor', '--data', str(TMP / f'data-{name}'), '--name', name, '--server', s.url, *map(str, options)],
                               env=clean_env(), cwd=TMP, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=error.open('wb'))
    if wait is None:
        return process
    try:
        code = process.wait(wait)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        code = None
    return code, error.read_text()


token = TMP / 'token'
token.write_text(s.cli('token', 'create', '--name', 'crew', '--scope', 'execute').out)
mine = s.cli('token', 'create', '--name', 'me', '--scope', 'read', '--scope', 'enqueue', '--scope', 'admin').out.strip()  # the executor is another token's
s.token = mine
for name, options, words in (('bare', (), '--ca'), ('naked', ('--ca', ca), '--client-cert'), ('astray', ('--ca', other_ca), '--ca'),
                             ('alien', ('--ca', ca, '--client-cert', foreign[0], '--client-key', foreign[1]), 'CA of the client certificate')):
    code, text = executor(name, '--token-file', token, *options, wait=30)
    ok(code == 77 and words in text, f'an executor that is {name}: 77 at once, {words}', code, text)

relative = [str(pathlib.Path(part).relative_to(TMP)) if isinstance(part, pathlib.Path) else part for part in papers] # as a person types them
far = executor('far', '--token-file', token, '--slots', '2', *relative)
task = s.enqueue(dict(name='there', script='echo "colour=blue" >>$WEIR_OUTPUT; seq 50000; weir show $WEIR_TASK_ID --json | grep -c there',
                      env=dict(PATH=f'{pathlib.Path(WEIR).resolve().parent}:/usr/bin:/bin')))['id']
ended = s.ended(task)[0]
log = s.log_bytes(task).decode()
same((ended['state'], ended['attempts'][0]['executor'], ended.get('outputs')), ('D', 'far', {'colour': 'blue'}), 'a job runs there from end to end')
ok(log.startswith('1\n2\n') and log.endswith('50000\n1\n'), 'its log is whole, and it reached the server with the papers of its executor', log[-300:])

# -- orders, over TLS
order = dict(WEIR_CA=str(ca), WEIR_CLIENT_CERT=str(certificate), WEIR_CLIENT_KEY=str(key), WEIR_TOKEN=mine)
done = s.over('executor', 'pause', 'far', **order)
same((done.code, done.out), (0, 'far is paused\n'), 'pause')
held = s.enqueue(dict(name='held', command='true'))['id']
ok(s.state(held) == 'P', 'nothing new starts')
same(s.over('executor', 'resume', 'far', **order).code, 0, 'resume')
same(s.ended(held)[0]['state'], 'D', 'it starts')
same(s.over('executor', 'drain', 'far', **order).code, 0, 'drain')
same(far.wait(60), 0, 'a drained executor ends')
ok(until(lambda: not [e for e in s.get('/v1/executors').json['executors'] if e['name'] == 'far' and e.get('state') == 'active']), 'and is gone', s.get('/v1/executors'))
same(s.stop(signal.SIGINT), 0, 'the server ends')
end()
