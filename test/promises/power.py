"""power: what could be on a disk after a power cut, made from the record of power.c.

What was synced is there. Of what wasn't, any part may be: writes are dropped, torn at sectors of 512 bytes, and reordered; names, renames and removals
in a folder that wasn't synced since are there up to some moment, folder by folder. (As strict as POSIX allows: a synced file has no name before its folder
is synced.) A file that grew has zeros where a write was dropped and a later one was not.
"""
import os
import struct

SECTOR = 512


def records(path):
    """[(end position in the record, kind, inode, number, a, b)]"""
    data, at, found = open(path, 'rb').read(), 0, []
    while at + 25 <= len(data):
        kind, inode, number, na, nb = struct.unpack_from('<cQQII', data, at)
        a, b = data[at + 25:at + 25 + na], data[at + 25 + na:at + 25 + na + nb]
        at += 25 + na + nb
        found.append((at, kind.decode(), inode, number, a, b))
    return found


def write(image, offset, data):
    if len(image) < offset:
        image.extend(bytes(offset - len(image)))
    image[offset:offset + len(data)] = data


def truncate(image, size):
    if size < len(image):
        del image[size:]
    else:
        image.extend(bytes(size - len(image)))


class Disk:
    """the durable part, and what is pending since"""

    def __init__(self):
        self.images, self.pending = {}, {}  # inode -> bytes; inode -> [(kind, number, data)]
        self.names, self.unsynced = {}, {}  # path -> inode, or None for a folder; folder -> [(kind, ...)]
        self.now = {}  # path -> inode as the running system sees it

        self.ids = {}  # inode -> number of the file that has it now: inodes are used again

    def feed(self, record):
        _, kind, inode, number, a, b = record
        inode = self.ids.get(inode, 0) if kind != 'C' else inode
        path, other = a.decode(errors='replace') if kind in 'CDRUMS' else '', b.decode(errors='replace')
        if kind == 'C':
            if path not in self.now or self.now[path] != self.ids.get(inode):
                self.ids[inode] = len(self.images) + 1
                inode = self.ids[inode]
                self.now[path] = inode
                self.images[inode], self.pending[inode] = bytearray(), []
                self.unsynced.setdefault(os.path.dirname(path), []).append(('name', path, inode))
        elif kind in 'WT':
            if inode in self.images:
                self.pending[inode].append((kind, number, a))
        elif kind == 'S':
            if inode in self.images:
                for op in self.pending[inode]:
                    self.apply(self.images[inode], op)
                self.pending[inode] = []
        elif kind == 'M':
            self.now[path] = None
            self.unsynced.setdefault(os.path.dirname(path), []).append(('name', path, None))
        elif kind == 'R':
            self.now[other] = self.now.pop(path, None)
            self.unsynced.setdefault(os.path.dirname(other), []).append(('rename', path, other, self.now[other]))
        elif kind == 'U':
            self.now.pop(path, None)
            self.unsynced.setdefault(os.path.dirname(path), []).append(('gone', path))
        elif kind == 'D':
            for op in self.unsynced.pop(path, []):
                self.rename(self.names, op)

    @staticmethod
    def apply(image, op):
        kind, number, data = op
        write(image, number, data) if kind == 'W' else truncate(image, number)

    @staticmethod
    def rename(names, op):
        if op[0] == 'name':
            names[op[1]] = op[2]
        elif op[0] == 'rename':
            names.pop(op[1], None)
            names[op[2]] = op[3]
        else:
            names.pop(op[1], None)

    def cut(self, rng, holes=False):
        """one state after a cut now: ({path: bytes, or None for a folder}, how many pending writes were lost or torn); holes: of each log's unsynced end
        only the last bytes are there"""
        names, lost = dict(self.names), 0
        for ops in self.unsynced.values():
            for op in ops[:rng.randint(0, len(ops))]:
                self.rename(names, op)
        files = {}
        for path, inode in names.items():
            if inode is None:
                files[path] = None
                continue
            image, pending = bytearray(self.images[inode]), list(self.pending[inode])
            mode = rng.choice(['none', 'all', 'some', 'some', 'prefix', 'torn'])
            if holes and path.endswith('.log') and pending and pending[-1][0] == 'W':
                kind, number, data = pending[-1]
                at = max(len(data) - SECTOR, len(data) // 2)
                mode, pending = 'all', [(kind, number + at, data[at:])]
                lost += 1
            kept = pending
            if mode == 'none':
                kept = []
            elif mode == 'prefix':
                kept = pending[:rng.randint(0, len(pending))]
            elif mode in ('some', 'torn'):
                kept = [op for op in pending if rng.random() < 0.6]
                rng.shuffle(kept)
            lost += len(pending) - len(kept)
            for op in kept:
                if mode == 'torn' and op[0] == 'W' and rng.random() < 0.5:
                    lost += 1
                    for at in range(0, len(op[2]), SECTOR):
                        if rng.random() < 0.5:
                            write(image, op[1] + at, op[2][at:at + SECTOR])
                else:
                    self.apply(image, op)
            files[path] = bytes(image)
        return files, lost


def marks_of_another_boot(marks):
    """after a power cut the machine starts anew"""
    head = marks[:SECTOR]
    boot = open('/proc/sys/kernel/random/boot_id', 'rb').read().strip()
    assert not marks or boot in head, head
    return head.replace(boot, boot[::-1]) + marks[SECTOR:]


def lay(files, old, new):
    """writes a state recorded below the folder `old` to the folder `new`, as the next boot finds it"""
    os.makedirs(new, 0o700)  # the folder itself is older
    for path in sorted(files):
        target = new + path[len(old):]
        parent = os.path.dirname(target)
        if not os.path.isdir(parent):
            continue  # its folder didn't survive
        if files[path] is None:
            os.makedirs(target, 0o700, exist_ok=True)
        elif not os.path.isdir(target):
            with open(target, 'wb') as f:
                f.write(marks_of_another_boot(files[path]) if path.endswith('/logs/marks') else files[path])
            os.chmod(target, 0o600)
