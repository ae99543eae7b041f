#!/usr/bin/env python3
"""graph: small graphs against golden files (test/golden/graph-*), in all formats. `t2103-cli-graph.py --write` writes them anew."""
import json
import os
import pathlib
import subprocess
import sys
import xml.etree.ElementTree as xml

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'test/unit/cli'))
from fake_server import Fake
from tap import Terminal, clean_env, end, has, ok, same, skip, weir

GOLDEN = ROOT / 'test/golden'
WRITE = '--write' in sys.argv
# name: tasks as "name state", edges as "waiter kind other"
GRAPHS = {
    'single': (['alone P'], []),
    'chain': (['fetch D', 'build X', 'ship S'], ['build depends fetch', 'ship depends build']),
    'diamond': (['fetch D', 'left D', 'right F', 'join F'], ['left depends fetch', 'right depends fetch', 'join depends left', 'join depends right']),
    'long': (['a D', 'b D', 'c X', 'd S'], ['b depends a', 'c depends b', 'd depends c', 'd depends a']),
    'fan': (['root D', 'one D', 'two X', 'three P', 'four S', 'all S'],
            ['one depends root', 'two depends root', 'three depends root', 'four depends root', 'all depends one', 'all depends two', 'all depends three', 'all depends four']),
    'cross': (['a D', 'b D', 'c X', 'd P'], ['c depends a', 'c depends b', 'd depends a', 'd depends b']),
    'kinds': (['old X', 'new P', 'later S'], ['new cancels old', 'later after new', 'later depends old']),
    'apart': (['a D', 'b D', 'c P'], ['b depends a']),
    'names': (['wide-\u4e2d\u6587 D', 'quote"<&> T', '\u00fcber A'], ['quote"<&> depends wide-\u4e2d\u6587', '\u00fcber depends wide-\u4e2d\u6587']),
}
FORMATS = {'utf8': ('ascii', 'C.UTF-8'), 'ascii': ('ascii', 'C'), 'dot': ('dot', 'C.UTF-8'), 'svg': ('svg', 'C.UTF-8')}


def load(tasks, edges):
    fake = Fake()
    number = {}
    for text in tasks:
        name, state = text.rsplit(' ', 1)
        number[name] = fake.add(name, state)
    for text in edges:
        for kind in ('depends', 'after', 'cancels'):
            waiter, found, other = text.partition(f' {kind} ')
            if found:
                fake.edge(number[waiter], number[other], kind)
    return fake


for name, (tasks, edges) in GRAPHS.items():
    fake = load(tasks, edges)
    for suffix, (form, locale) in FORMATS.items():
        done = weir('graph', '--server', fake.url, '1', '--format', form, env=dict(clean_env(), LC_ALL=locale))
        file = GOLDEN / f'graph-{name}.{suffix}'
        if WRITE:
            file.write_bytes(done.stdout)
            continue
        ok(done.returncode == 0 and done.stdout == file.read_bytes(), f'{name} as {suffix}', done.err, 'got', done.out, 'wanted', file.read_text())
        if suffix == 'svg':
            root = xml.fromstring(done.stdout)
            same(len([g for g in root.iter() if g.tag.endswith('}g')]), len(tasks), f'{name}: SVG is XML with a group a task')
        if suffix == 'ascii' and name != 'names':
            ok(all(byte < 128 for byte in done.stdout), f'{name}: plain ASCII without UTF-8')
    document = json.loads(weir('graph', '--server', fake.url, '1', '--format', 'json').out)
    same((len(document['tasks']), document['edges']), (len(tasks), fake.edges), f'{name} as json')
    same(json.loads(weir('graph', '--server', fake.url, '1', '--json').out), document, f'{name}: --json is the same')
    fake.close()

fake = load(*GRAPHS['fan'])
term = Terminal('graph', '--server', fake.url, '1', columns=40)
code = term.exit()
ok(code == 0 and 'default:6  all  depends default:2' in term.text, 'too wide for the terminal: a list', term.text)
fake.close()
fake = load([f't{i} P' for i in range(1200)], [f't{i} depends t{i // 2}' for i in range(1, 1200)])
done = weir('graph', '--server', fake.url, '1')
ok(done.returncode == 0 and len(done.out.splitlines()) == 1200, 'a graph of 1,200 tasks: a list', done.err)
done = weir('graph', '--server', fake.url, '1', '--format', 'svg')
ok(done.returncode == 0 and done.out.endswith('</svg>\n'), 'and as SVG a drawing', done.err)
fake.close()
try:
    fake = load(*GRAPHS['kinds'])
    dot = weir('graph', '--server', fake.url, '1', '--format', 'dot').stdout
    picture = subprocess.run(['dot', '-Tplain'], input=dot, capture_output=True)
    ok(picture.returncode == 0, 'Graphviz takes the dot file', picture.stderr)
except FileNotFoundError:
    skip('Graphviz takes the dot file', 'no dot')
fake.close()
end()
