"""tarballs: change sets as people send them, and as nobody should; made by Python's tarfile, which shares no code with Weir."""
import io
import tarfile

LROOT = 'lroot/'


def meta(target='docs', movetype='DC', files=(), **sections):
    """the text of a meta file; a section is a text or a list of lines, None: not there; removed, message, base, ... likewise"""
    parts = dict(movetype=movetype, target=target, files=list(files) or None, **sections)
    text = ''
    for name, body in parts.items():
        if body is not None:
            lines = [body] if isinstance(body, str) else body
            text += f'##{name}\n' + ''.join(line + '\n' for line in lines)
    return text


def entry(name, data=b'', **fields):
    """(TarInfo, bytes); fields: mode, type, linkname, ..."""
    info = tarfile.TarInfo(name)
    info.size = len(data)
    info.mode = 0o644
    for field, value in fields.items():
        setattr(info, field, value)
    return info, data


def pack(*entries, mode='w', form=tarfile.PAX_FORMAT):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode, format=form) as tar:
        for info, data in entries:
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def tarball(text=None, files=None, mode='w', **sections):
    """a change set with these files ({path: bytes}); text: its meta, made if it isn't given"""
    files = {} if files is None else files
    text = meta(files=files, **sections) if text is None else text
    return pack(entry('meta', text.encode() if isinstance(text, str) else text), *(entry(LROOT + path, data) for path, data in files.items()), mode=mode)
