#!/usr/bin/env python3
"""RQ9 RQ25 RQ34: `changesets` and `targets` of the configuration: applied and shown, faults with their places and suggestions, what counts at the next intake, a reload, a
restart; a target without an archive, the name of another archive, an archive that is removed while change sets wait."""
import json
import os
import pathlib
import signal
import sys

sys.path.insert(0, os.environ.get('WEIR_TEST_LIB') or str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import TMP, House, end, ok, refused, run, same, until
from tarballs import tarball
from voices import Voice


def write(name, text):
    (TMP / name).write_text(text)
    return str(TMP / name)


def keys(server):
    return {k['name']: k for k in Voice(server).get('/v1/config').json['keys']}


conf = write('weir.yaml', f'changesets:\n  base: {TMP}/base\n  rollback_limit: 70\n')
s = House('data', '--config', conf, slots=0)
C = '/v1/changesets'
same(s.post('/v1/archives', dict(name='docs', kind='external')).status, 201, 'an archive')
same((keys(s)['changesets']['value'], keys(s)['targets']['value'], keys(s)['targets']['version']), ({'rollback_limit': 70}, {}, 0), 'the file is taken; base is not the site\'s')
ok('key=changesets.rollback_limit' not in s.log.read_text() and 'key=targets' not in s.log.read_text(), 'and nothing of the site\'s is unused', s.log.read_text())
shown = run('serve', '--config', conf, '--data', TMP / 'never', '--show-config')
ok(shown.code == 0 and f'  base: {TMP}/base' in shown.out and '  rollback_limit: 70' in shown.out and '  self_approval: true  # default' in shown.out
   and '  stop: 30s  # default' in shown.out and 'targets: null' in shown.out, '--show-config prints them', shown)

# ---- applied ----
site = write('site.yaml', """changesets:
  approval: [EM]
  self_approval: false
  stop: 10s
  limits: {files: 2, unpacked: 1MiB}
targets:
  web: {archive: docs, path: site/www, apply: [deploy, --quiet], independent: true, timeout: 10m}
""")
told = s.cli('config', 'apply', site, '--dry-run')
ok(told.code == 0 and 'changesets.approval: none -> ["EM"]' in told.out and 'changesets.rollback_limit: 70 -> none' in told.out and 'targets.web: none -> ' in told.out,
   'a dry run says what would change', told)
same(keys(s)['targets']['version'], 0, 'and changes nothing')
same(s.cli('config', 'apply', site).code, 0, 'applied')
same(keys(s)['changesets']['value'], dict(approval=['EM'], self_approval=False, stop='10s', limits=dict(unpacked='1MiB', files=2)), 'what is not the default is kept')
same(keys(s)['targets']['value'], dict(web=dict(archive='docs', path='site/www', apply=['deploy', '--quiet'], independent=True, timeout='10m')), 'and the target')
told = s.cli('config', 'show')
ok(told.code == 0 and 'approval: ["EM"]' in told.out.replace('"approval"', 'approval') and 'web' in told.out, 'weir config show', told)
again = s.cli('config', 'apply', write('shown.yaml', told.out))
same((again.code, again.out), (0, ''), 'what it shows can be applied, and changes nothing')

# ---- faults ----
bad = write('bad.yaml', """changesets:
  base: /x
  approval: [em]
  stop: 30
  limits: {depth: 0}
  aproval: [EM]
targets:
  a: {archive: docs, path: /trunk}
  b: {archive: docs, apply: [./inside]}
  c: {archive: docs, timeout: 5}
""")
before = keys(s)
told = s.cli('config', 'apply', bad)
same(told.code, 65, 'a file with faults is refused')
lines = told.err.splitlines()
for place, words in [('2:9', "'changesets.base' is one server's"), ('3:14', 'a move type is DC, BF, EM or RB'), ('4:9', "'changesets.stop' must be a duration"),
                     ('5:19', "'changesets.limits.depth' must be from 1 to 1024"), ('6:3', "unknown key 'aproval'"), ('8:28', "the path '/trunk' begins with '/'"),
                     ('9:30', "'apply' begins with a program"), ('10:31', "'timeout' must be a duration")]:
    ok(any(line.startswith(f'{bad}:{place}: error:') and words in line for line in lines), f'{place}: {words}', told.err)
for words in ("'EM'", "'30s'", "'approval'", "'trunk'", "'5s'"):
    ok(f'did you mean {words}?' in told.err, f'it suggests {words}', told.err)
unknown = write('unknown.yaml', 'targets:\n  web: {archive: dogs}\n  lone: {independent: true}\n')
told = s.cli('config', 'apply', unknown, '--dry-run')
ok(told.code == 65 and f'{unknown}:2:18: ' in told.err and "did you mean 'docs'?" in told.err and f'{unknown}:3:3: ' in told.err and 'weir archive add' in told.err,
   'targets without an archive: their places, and what to do, also of a dry run', told)
same(s.post('/v1/archives', dict(name='code', kind='external')).status, 201, 'another archive')
told = s.cli('config', 'apply', write('other.yaml', 'targets:\n  code: {archive: docs}\n'))
ok(told.code == 65 and ':2:19: ' in told.err and 'the name of another archive' in told.err, 'a target with the name of another archive', told)
refused(s.post('/v1/archives', dict(name='web', kind='external')), 409, 'name_taken', text='nor can an archive take the name of a target')
same(keys(s), before, 'nothing was changed by all that')

# ---- at the next intake ----
refused(s.post(C, tarball(files={'a': b'1', 'b': b'2', 'c': b'3'}, target='web')), 413, 'body_too_large', text='the limits are in force')
refused(s.post(C, tarball(files={'a': b'1'}, target='wbe')), 422, 'invalid', text='an unknown target')
one = s.post(C, tarball(files={'a': b'1'}, target='web'))
held = s.post(C, tarball(files={'b': b'2'}, target='web', movetype='EM'))
cited = s.post(C, tarball(files={'c': b'3'}, target='web', movetype='EM', approval='T-1'))
same((one.status, one.json['state'], held.json['state']), (202, 'P', 'S'), 'RQ34: a move type that needs a ticket waits')
same(cited.json['state'], 'S', 'and where nobody may approve its own, so does one that cites its ticket')
beside = s.post(C, tarball(files={'a': b'4'}, target='docs'))
same((beside.status, beside.json['state']), (202, 'P'), 'the archive is a target, too, with a queue of its own')
kept = s.post(C, tarball(files={'a': b'5'}, target='code'))
same(kept.json['state'], 'P', 'and so is the other')

# ---- an archive is removed while change sets wait ----
same(s.cli('archive', 'remove', 'docs').code, 0, 'the archive is removed')
for change in (one, held, cited, beside):
    task = until(lambda: (lambda t: t if t['state'] == 'A' else None)(s.get(f'/v1/tasks/{change.json["task"]}').json), 'its change sets are A')
    ok('archive was removed' in task['reason'], 'the reason says so', task)
same(s.get(f'/v1/tasks/{kept.json["task"]}').json['state'], 'P', 'those of others wait on')
answer = refused(s.post(C, tarball(files={'a': b'6'}, target='web')), 422, 'invalid', text='no more are taken')
ok('archive was removed' in json.dumps(s.post(C, tarball(files={'a': b'6'}, target='web')).json), 'and it is said why')
same(s.cli('config', 'apply', site).code, 0, 'what is in force can still be applied')
same(s.cli('config', 'apply', write('moved.yaml', 'targets:\n  web: {archive: code}\n')).code, 0, 'the target gets another archive')
same(s.post(C, tarball(files={'a': b'7'}, target='web')).json['state'], 'P', 'and takes change sets again')

# ---- a restart, a reload ----
s.stop()
s.start()
same((keys(s)['targets']['value'], keys(s)['changesets']['value']['stop']), ({'web': {'archive': 'code'}}, '10s'), 'what was applied outlives a restart')
ok('config.differs' in s.log.read_text(), 'the log says that the file differs')
write('weir.yaml', 'changesets: {rollback_limit: 9}\ntargets: {web: {archive: gone}}\n')
s.process.send_signal(signal.SIGHUP)
until(lambda: 'config.refused' in s.log.read_text(), 'a reload with a target that has no archive is refused')
same(keys(s)['targets']['value'], {'web': {'archive': 'code'}}, 'and the old configuration stays in force')
write('weir.yaml', 'changesets: {rollback_limit: 9}\ntargets: {web: {archive: code, path: x}}\n')
s.process.send_signal(signal.SIGHUP)
until(lambda: keys(s)['targets']['value'] == {'web': {'archive': 'code', 'path': 'x'}}, 'a good one is taken')
same(keys(s)['changesets']['value'], {'rollback_limit': 9}, 'with all that the file names')
live = [line for line in s.log.read_text().splitlines() if line.startswith('config.changed') and ('rollback_limit' in line or 'key=targets' in line)]
ok(len(live) == 4 and not any('after a restart' in line for line in live), 'and counts at once', live)
same(s.stop(), 0, 'it ends')
end()
