#!/usr/bin/env python3
"""Artifacts: what a job's patterns match is sent before the end is told, whole, whatever happens between; and nothing else is."""
# time limit: 150
import hashlib
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../unit/exec'))
from crew import TMP, Crew, Tap, poll  # noqa: E402

tap = Tap()


def text(task):
    return bytes(task.log).decode(errors='replace')


def kept(task):
    return {row['name']: (row['bytes'], row['sha256']) for row in task.finish.get('artifacts', [])}


def facts(data):
    return len(data), hashlib.sha256(data).hexdigest()


with Crew(slots=4) as crew:
    fake = crew.fake
    some = fake.add(script='echo report >report.pdf; mkdir -p out/deep; echo 1 >out/a.log; echo 2 >out/deep/b.log; : >out/empty.log; echo no >other; exit 3',
                    artifacts=['report.pdf', 'out/**/*.log', 'out/*.log'])
    plain = fake.add(script='mkdir d; printf x >d/y', artifacts=['d/y', 'missing.txt'])
    none = fake.add(script='echo x >a')
    fake.wait_ended(some, plain, none)
    tap.equal(kept(some), {'report.pdf': facts(b'report\n'), 'out/a.log': facts(b'1\n'), 'out/deep/b.log': facts(b'2\n'), 'out/empty.log': facts(b'')},
              'patterns, also of a job that failed')
    tap.equal((some.finish['exit'], bytes(some.files['report.pdf'])), (3, b'report\n'), 'the bytes came before the end, which is the job\'s own')
    tap.equal((kept(plain), plain.finish['exit']), ({'d/y': facts(b'x')}, 0), 'a file that is not there is no failure')
    tap.ok("artifact 'missing.txt': there is no such file" in text(plain), 'but the log says so', text(plain))
    tap.equal((plain.finish.get('reason'), some.finish.get('reason')), ("artifact 'missing.txt': there is no such file", None), 'and so does the end')
    tap.ok('artifacts' not in none.finish, 'who wants nothing kept says nothing of it')

    nasty = fake.add(script='ln -s /etc/passwd a.txt; ln -s /etc d; mkdir real; ln -s ../a.txt real/b.txt; mkfifo c.txt; printf "x" >"$(printf "n\\nl.txt")"; echo fine >d.txt',
                     artifacts=['*.txt', '**/*.txt', 'd/passwd'])
    named = fake.add(script='ln -s /etc d; ln -s /etc/passwd p', artifacts=['d/passwd', 'p'])
    fake.wait_ended(nasty, named)
    tap.equal((set(kept(nasty)), set(kept(named))), ({'d.txt'}, set()), 'links, fifos and strange names are not followed or sent')
    big = fake.add(script='head -c 7000001 /dev/urandom >big; sha256sum big | cut -d" " -f1', artifacts=['big'])
    fake.wait_ended(big)
    tap.equal(kept(big), {'big': (7000001, text(big).strip())}, 'a file of many pieces')
    wild = fake.add(script='for i in $(seq 1100); do echo $i >f$i; done', artifacts=['f*'])
    fake.wait_ended(wild, seconds=60)
    tap.ok(len(kept(wild)) == 1000 and 'at most 1000 files' in text(wild), 'there is a limit, and it is said', text(wild))

    # the checkout's own files can be kept too, from inside the view
    subprocess.run(['sh', '-ec', 'svnadmin create r; mkdir i; echo hello >i/readme; svn import -qm x i "file://$PWD/r"'], cwd=TMP, check=True)
    tree = fake.add(source={'archive': 'a', 'kind': 'svn', 'url': f'{TMP}/r', 'rev': 1, 'prev': 0}, script='echo made >made', artifacts=['*'])
    fake.wait_ended(tree)
    tap.equal(kept(tree), {'readme': facts(b'hello\n'), 'made': facts(b'made\n')}, 'from a checkout: what was there and what was made')

    # the executor dies when the files are there and the end isn't told
    fake.fail_finishes = 1000
    late = fake.add(script='echo late >late', artifacts=['late'])
    poll(lambda: late.finishes)
    crew.kill()
    fake.fail_finishes = 0
    crew.start()
    fake.wait_ended(late)
    tap.equal((kept(late), bytes(late.files['late'])), ({'late': facts(b'late\n')}, b'late\n'), 'the next executor sends them')

    # the server has forgotten what it took: sent again, once; then the end alone is told
    fake.forgets = 1
    again = fake.add(script='echo again >again; echo k=v >$WEIR_OUTPUT', artifacts=['again'])
    fake.wait_ended(again)
    tap.equal((kept(again), bytes(again.files['again']), again.finish['outputs']), ({'again': facts(b'again\n')}, b'again\n', {'k': 'v'}),
              'what the server knows nothing of is sent again, and outputs are kept')
    fake.forgets = 2
    never = fake.add(script='echo never >never; exit 7', artifacts=['never'])
    fake.wait_ended(never)
    tap.equal((kept(never), never.finish['exit']), ({}, 7), 'refused twice: the end is told without')
    fake.forgets = 0

    # pieces that never stay, and no room: the file is left out, the log says so, the job ends
    fake.loses, fake.full = ('large',), ('over',)
    large = fake.add(script='head -c 3000000 /dev/zero >large; echo small >small; echo over >over', artifacts=['large', 'small', 'over'])
    fake.wait_ended(large, seconds=60)
    tap.equal(kept(large), {'small': facts(b'small\n')}, 'a file whose pieces are lost again and again is left out, and so is one that there is no room for')
    tap.ok("artifact 'large' isn't kept" in text(large) and "artifact 'over' isn't kept: no more room" in text(large), 'and the job\'s log says so', text(large))
    fake.loses = fake.full = ()

    # the server goes away in the middle
    fake.stop()
    fake.start()
    after = fake.add(script='echo after >after', artifacts=['after'])
    fake.wait_ended(after)
    tap.equal(kept(after), {'after': facts(b'after\n')}, 'a server that came back')
    tap.ok(poll(lambda: not list(pathlib.Path(crew.data, 'shims').glob('*/work/*'))), 'nothing stays in a working directory')

tap.end()
