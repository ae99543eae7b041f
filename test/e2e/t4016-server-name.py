#!/usr/bin/env python3
# store: sqlite (it starts its own PostgreSQL)
"""A server without --name is called as its host is, and is so called again after a restart; a second one of the host on the same store is HOST-2, and stays
it, whichever of the two starts first the next time."""
import pathlib
import re
import socket
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import TMP, House, database, end, ok, same, until  # noqa: E402

HOST = re.sub('[^A-Za-z0-9.]', '-', socket.gethostname())


def servers(house):
    return sorted(n['name'] for n in house.get('/v1/nodes').json['nodes'] if n['role'] == 'server' and n['state'] == 'active')


def told(house):
    """the name as DATA keeps it"""
    return (house.dir / 'name').read_text().strip()


alone = House('alone', slots=0)
same(servers(alone), [HOST], 'a server is called as its host is')
alone.stop()
alone = House('alone', slots=0)
same((servers(alone), told(alone)), ([HOST], HOST), 'and so it is after a restart')
alone.stop()
(TMP / 'alone' / 'name').write_text('not a name\n')
alone = House('alone', slots=0)
same((servers(alone), told(alone)), ([HOST], HOST), 'a spoilt file is written anew')
alone.stop()
alone = House('alone', '--name', 'given', slots=0)
same((servers(alone), told(alone)), (['given'], HOST), 'a name that is given goes before it')
alone.stop()

pg, url = database()
one, two = (House(name, '--store', url, slots=0) for name in ('one', 'two'))
same([told(one), told(two)], [HOST, f'{HOST}-2'], 'two of one host on a store have two names')
ok(until(lambda: servers(one) == [HOST, f'{HOST}-2']), 'and both are there', servers(one))
one.stop()
two.stop()
two = House('two', '--store', url, slots=0)
one = House('one', '--store', url, slots=0)
same([told(one), told(two)], [HOST, f'{HOST}-2'], 'each keeps its own, whoever starts first')
third = one.cli('nodes')
ok(third.code == 0 and HOST in third.out, 'weir nodes has them', third.out, third.err)
one.stop()
two.stop()
pg.stop()
end()
