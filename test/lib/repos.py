"""repos: real Subversion and git repositories for tests, made quickly (svnadmin load, git fast-import), and archives of them."""
import os
import subprocess

from house import TMP, clean_env

WORKFLOW = 'tasks:\n - name: step\n   depends: [PREV]\n'


def sh(script, check=True, **env):
    """a shell script in TMP; its standard output"""
    done = subprocess.run(['sh', '-e', '-c', script], cwd=TMP, capture_output=True, timeout=120, env=clean_env(
        GIT_CONFIG_NOSYSTEM='1', GIT_AUTHOR_NAME='Ann', GIT_AUTHOR_EMAIL='ann@example.org', GIT_COMMITTER_NAME='Ann',
        GIT_COMMITTER_EMAIL='ann@example.org', LC_ALL='C.UTF-8', **env))
    if check and done.returncode:
        raise SystemExit(f'Bail out! {script!r}: {done.returncode} {done.stderr.decode(errors="replace")}')
    return done.stdout.decode(errors='replace').strip() if check else done


def svn_make(name, revisions, workflow=WORKFLOW):
    """a repository TMP/name of so many revisions, one file each, fifty in a folder; the first has the workflow"""
    def node(path, kind, text=None):
        head = f'Node-path: {path}\nNode-kind: {kind}\nNode-action: add\n'
        return head + (f'Text-content-length: {len(text)}\nContent-length: {len(text)}\n\n{text}\n\n' if text is not None else '\n\n')
    dump = ['SVN-fs-dump-format-version: 2\n\n']
    for rev in range(1, revisions + 1):
        message = f'change {rev}'
        props = f'K 7\nsvn:log\nV {len(message)}\n{message}\nK 10\nsvn:author\nV 3\nann\nPROPS-END\n'
        dump.append(f'Revision-number: {rev}\nProp-content-length: {len(props)}\nContent-length: {len(props)}\n\n{props}\n')
        if rev == 1:
            dump += [node('_workflows', 'dir'), node('_workflows/w.yaml', 'file', workflow)]
        if rev % 50 == 1:
            dump.append(node(f'd{rev // 50}', 'dir'))
        dump.append(node(f'd{(rev - 1) // 50}/file{rev}', 'file', message))
    sh(f'svnadmin create {name}')
    subprocess.run(['svnadmin', 'load', '-q', '--no-flush-to-disk', '--bypass-prop-validation', str(TMP / name)], input=''.join(dump).encode(), check=True)
    return str(TMP / name)


def git_make(name, commits, workflow=WORKFLOW):
    """a bare repository TMP/name, branch main, of so many commits"""
    out = []
    for i in range(1, commits + 1):
        message = f'change {i}'
        out.append(f'commit refs/heads/main\ncommitter Ann <ann@example.org> {1700000000 + i} +0000\ndata {len(message)}\n{message}\n')
        if i == 1:
            out.append(f'M 100644 inline _workflows/w.yaml\ndata {len(workflow)}\n{workflow}\n')
        out.append(f'M 100644 inline d{(i - 1) // 50}/file{i}\ndata {len(message)}\n{message}\n\n')
    sh(f'git init -q --bare -b main {name}')
    subprocess.run(['git', '-C', str(TMP / name), 'fast-import', '--quiet'], input=''.join(out).encode(), check=True)
    return str(TMP / name)


def svn_commit(name, path, message='m', **env):
    sh(f'svn mkdir -q --parents -m "{message}" "file://{TMP}/{name}/{path}"', **env)


def git_commit(wc, path, message='m', push=True, **env):
    sh(f'cd {wc}; mkdir -p "$(dirname {path})"; echo {os.urandom(4).hex()} >{path}; git add {path}; git commit -q -m "{message}"'
       + ('; git push -q origin HEAD' if push else ''), **env)


def archive(server, name):
    return server.patient(f'/v1/archives/{name}').json


def next_of(server, name):
    return archive(server, name)['next']


def revision_events(server, name):
    """revisions of the archive in the order in which they became known"""
    return [int(e['subject'].rpartition('@')[2]) for e in all_events(server) if e['kind'] == 'revision' and e['subject'].startswith(f'{name}@')]


def all_events(server):
    """every event, page by page"""
    found, since = [], 0
    while True:
        page = server.events(f'since={since}&limit=1000')
        if not page:
            return found
        found += page
        since = page[-1]['seq']


def starts(server, name, task):
    """[(rev, 'X' or ending letter), ...] of the task's starts and ends, in order"""
    moves = []
    for e in all_events(server):
        key = e.get('key', '')
        if e['kind'] == 'move' and key.startswith(f'{name}@') and key.endswith(f':{task}') and e['to'] in 'XDFTA':
            moves.append((int(key[len(name) + 1:].split(':')[0]), e['to']))
    return moves
